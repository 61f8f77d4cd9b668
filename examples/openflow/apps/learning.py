"""A learning switch: packets of unknown addresses come to the controller, which floods them and installs flows for those it knows."""

from os_ken.base import app_manager
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib.packet import ethernet, packet
from os_ken.ofproto import ofproto_v1_3

# Seconds without a packet after which a flow ends, so that a host may move.
IDLE_S = 60


class Learning(app_manager.OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        self.ports = {}

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def connected(self, event):
        switch = event.msg.datapath
        protocol, parser = switch.ofproto, switch.ofproto_parser
        self.ports[switch.id] = {}
        to_controller = [parser.OFPActionOutput(protocol.OFPP_CONTROLLER, protocol.OFPCML_NO_BUFFER)]
        self.add(switch, 0, parser.OFPMatch(), to_controller, 0)
        print(f"switch {switch.id:#x} is connected", flush=True)

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def arrived(self, event):
        message = event.msg
        switch, in_port = message.datapath, message.match["in_port"]
        protocol, parser = switch.ofproto, switch.ofproto_parser
        header = packet.Packet(message.data).get_protocol(ethernet.ethernet)
        ports = self.ports.setdefault(switch.id, {})
        ports[header.src] = in_port
        out_port = ports.get(header.dst, protocol.OFPP_FLOOD)
        actions = [parser.OFPActionOutput(out_port)]
        if out_port != protocol.OFPP_FLOOD:
            match = parser.OFPMatch(in_port=in_port, eth_dst=header.dst, eth_src=header.src)
            self.add(switch, 10, match, actions, IDLE_S)
        data = message.data if message.buffer_id == protocol.OFP_NO_BUFFER else None
        switch.send_msg(
            parser.OFPPacketOut(datapath=switch, buffer_id=message.buffer_id, in_port=in_port, actions=actions, data=data)
        )

    def add(self, switch, priority, match, actions, idle_s):
        protocol, parser = switch.ofproto, switch.ofproto_parser
        apply = [parser.OFPInstructionActions(protocol.OFPIT_APPLY_ACTIONS, actions)]
        switch.send_msg(
            parser.OFPFlowMod(datapath=switch, priority=priority, match=match, instructions=apply, idle_timeout=idle_s)
        )
