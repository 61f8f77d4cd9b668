//! The text syntax beside ovs-ofctl's own reader and printer, where it is installed.

use std::process::Command;

use linerate_openflow::{FlowCommand, FlowFlags};
use linerate_openflow_text::{flow_text, instructions_text, match_text, parse_flow};

/// Flows that both know.
const FLOWS: [&str; 33] = [
    "actions=drop",
    "priority=0,actions=CONTROLLER:128",
    "table=3,priority=10,tcp,nw_dst=192.0.2.0/24,actions=set_field:192.0.2.9->nw_src,output:2,goto_table:4",
    "cookie=7,table=3,idle_timeout=5,hard_timeout=6,send_flow_rem,check_overlap,no_packet_counts,no_byte_counts,actions=2",
    "dl_vlan=5,dl_vlan_pcp=3,actions=push_vlan:0x88a8,set_field:4102->vlan_vid,mod_vlan_vid:5,output:controller",
    "dl_vlan_pcp=3,actions=strip_vlan,2",
    "vlan_tci=0x1000/0x1000,actions=2",
    "vlan_tci=0,actions=2",
    "dl_vlan=0xffff,actions=2",
    "vlan_vid=0x1005/0x100f,actions=2",
    "vlan_tci=0x7005,actions=2",
    "ip,actions=mod_vlan_vid:8,mod_vlan_pcp:3,2",
    "ip,ip_dscp=4,nw_ecn=2,actions=mod_nw_tos:32,mod_nw_ecn:1,mod_dl_dst:00:00:00:00:00:01,dec_ttl,in_port,normal,local,all,flood",
    "ip,nw_tos=16,nw_proto=47,nw_src=192.0.2.4/255.0.255.0,actions=mod_nw_ttl:5,table",
    "mplsm,dl_vlan=5,mpls_label=5,mpls_tc=1,mpls_bos=1,actions=set_mpls_label:7,set_mpls_tc:2,set_mpls_ttl:5,dec_mpls_ttl,3",
    "mpls,actions=pop_mpls:0x800,set_queue:4,group:5,output:3",
    "ip,actions=push_mpls:0x8847,set_field:5->mpls_label,2",
    "arp,arp_op=1,arp_spa=192.0.2.3,arp_tpa=192.0.2.0/24,arp_sha=00:00:00:00:00:01,actions=set_field:2->arp_op,set_field:192.0.2.4->arp_spa",
    "arp,nw_src=192.0.2.3,nw_proto=2,actions=2",
    "icmp6,ipv6_label=0x5,icmp_type=136,nd_target=2001:db8::1,nd_tll=00:00:00:00:00:01,icmp_code=0,actions=set_field:5->ipv6_label,set_field:2->icmpv6_type,2",
    "icmp6,icmp_type=135,nd_target=fe80::1,nd_sll=00:00:00:00:00:01,actions=set_field:fe80::2->nd_target,2",
    "icmp,icmp_type=8,icmp_code=0,actions=set_field:3->icmp_type,set_field:3->icmp_code,2",
    "sctp,tp_src=5,tp_dst=6,actions=set_field:5->sctp_src,mod_tp_dst:7,2",
    "udp6,ipv6_src=fe80::/10,ipv6_dst=::1/ffff::,ipv6_label=0x5/0xff,tp_dst=7,actions=mod_tp_src:9,2",
    "dl_type=0x800,nw_proto=6,tcp_src=80,actions=2",
    "dl_src=01:00:00:00:00:00/01:00:00:00:00:00,dl_dst=00:01:02:03:04:05,dl_type=0x88cc,actions=output:65279",
    "metadata=5/0xff,tun_id=0x5/7,in_port=LOCAL,actions=set_field:5->tun_id,set_tunnel:9,2",
    "metadata=5,tun_id=0,in_port=4,actions=write_metadata:5/0xff,goto_table:9",
    "actions=meter:1,output:2,clear_actions,write_actions(output:3,group:4),write_metadata:7,goto_table:9",
    "ip,actions=controller(max_len=64),2",
    "rarp,actions=2",
    "ipv6,nw_proto=44,actions=2",
    "tcp6,actions=set_field:2001:db8::1->ipv6_dst,set_field:02:00:00:00:00:01->eth_src,2",
];

/// What ovs-ofctl prints of a flow, behind the number of the message; `None` if it is not installed.
fn parsed_by_ovs(text: &str) -> Option<String> {
    let ran = Command::new("ovs-ofctl").args(["-O", "OpenFlow13", "--no-stats", "parse-flow", text]).output();
    let output = linerate_testkit::program_or_skip("ovs-ofctl", ran)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().find_map(|line| line.split_once("ADD ").map(|(_, flow)| flow.to_string()));
    Some(line.unwrap_or_else(|| panic!("{text}: {said}{}", String::from_utf8_lossy(&output.stderr))))
}

#[test]
fn flows_are_read_and_printed_as_ovs_ofctl_does() {
    for text in FLOWS {
        let Some(theirs) = parsed_by_ovs(text) else { return };
        let flow = parse_flow(text, FlowCommand::Add).unwrap_or_else(|error| panic!("{text}: {error}"));
        // It reads what is printed here as it reads what was written first.
        assert_eq!(
            parsed_by_ovs(&flow_text(&flow)).as_deref(),
            Some(theirs.as_str()),
            "{text} became {}",
            flow_text(&flow)
        );
        // Match and instructions are printed alike, word for word.
        let matching = match_text(&flow.matching);
        let ours = format!(
            "{matching}{}actions={}",
            if matching.is_empty() { "" } else { " " },
            instructions_text(&flow.instructions)
        );
        let has_no_options =
            flow.priority == 0x8000 && flow.table == 0 && flow.flags == FlowFlags(0) && flow.cookie == 0;
        if has_no_options {
            assert_eq!(ours, theirs, "{text}");
        }
    }
}
