"""Installs flows in every switch that connects, and does nothing else."""

from os_ken.base import app_manager
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib import ofctl_v1_3
from os_ken.ofproto import ofproto_v1_3

import apps

# A blog's measurement of Lagopus in 2014: two ports joined with priority 0 and apply-actions.
LAGOPUS_2014 = [
    {"priority": 0, "match": {"in_port": 1}, "actions": [{"type": "OUTPUT", "port": 2}]},
    {"priority": 0, "match": {"in_port": 2}, "actions": [{"type": "OUTPUT", "port": 1}]},
]


class Flows(app_manager.OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def connected(self, event):
        switch = event.msg.datapath
        for flow in apps.FLOWS or LAGOPUS_2014:
            ofctl_v1_3.mod_flow_entry(switch, flow, switch.ofproto.OFPFC_ADD)
        switch.send_msg(switch.ofproto_parser.OFPBarrierRequest(switch))

    @set_ev_cls(ofp_event.EventOFPBarrierReply, [CONFIG_DISPATCHER, MAIN_DISPATCHER])
    def in_force(self, event):
        print(f"switch {event.msg.datapath.id:#x}: the flows are in force", flush=True)

    @set_ev_cls(ofp_event.EventOFPErrorMsg, [CONFIG_DISPATCHER, MAIN_DISPATCHER])
    def refused(self, event):
        print(f"switch {event.msg.datapath.id:#x} refused: type {event.msg.type}, code {event.msg.code}", flush=True)
