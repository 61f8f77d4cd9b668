//! The hot paths by name: each is one function that moves a number of packets and says what that took.

use crate::bridge;
use crate::capture;
use crate::classify::{self, Headers, Priorities};
use crate::ends::{Reading, gen_null, impaired_null, pipe_one_core, pipe_two_cores, receive_check};
use crate::line;
use crate::measure::{Run, on_two_cores};
use crate::ofswitch;
use crate::opened;
use crate::openflow;
use crate::packet::{self, Kind, Rewrite};
use crate::switch::{self, Load};
use crate::traffic::Traffic;
use crate::udp;

/// A loop by its name.
pub struct Loop {
    /// What results call it.
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    /// Threads that it runs.
    pub threads: usize,
    /// Runs it on these cores (the first only, if it has one thread) with this many packets.
    pub run: fn([usize; 2], u64) -> Run,
}

/// All of them.
pub const LOOPS: [Loop; 68] = [
    Loop {
        name: "memif_opened",
        what: "memif client to server, opened by name as programs do it, both on one core, packets not read",
        threads: 1,
        run: |cores, packets| opened::memif(cores[0], packets),
    },
    Loop {
        name: "cache_one_flow",
        what: "cache of exact matches, one flow, and counting it",
        threads: 1,
        run: |cores, packets| classify::cache(cores[0], 1, packets),
    },
    Loop {
        name: "cache_10k_flows",
        what: "the same, 10,000 flows",
        threads: 1,
        run: |cores, packets| classify::cache(cores[0], 10_000, packets),
    },
    Loop {
        name: "rules_20_masks",
        what: "lookup among 10,000 rules with 20 masks and any priorities, headers that match",
        threads: 1,
        run: |cores, packets| classify::rules(cores[0], Priorities::Random, Headers::Known, packets),
    },
    Loop {
        name: "rules_20_masks_sorted",
        what: "the same, the more specific the more important",
        threads: 1,
        run: |cores, packets| classify::rules(cores[0], Priorities::Specific, Headers::Known, packets),
    },
    Loop {
        name: "rules_20_masks_unknown",
        what: "lookup among 10,000 rules with 20 masks and any priorities, headers that match no rule",
        threads: 1,
        run: |cores, packets| classify::rules(cores[0], Priorities::Random, Headers::Unknown, packets),
    },
    Loop {
        name: "rules_one_mask",
        what: "lookup among 10,000 rules with one mask",
        threads: 1,
        run: |cores, packets| classify::exact(cores[0], packets),
    },
    Loop {
        name: "key_udp",
        what: "headers and key of a packet for the flow tables, UDP over IPv4",
        threads: 1,
        run: |cores, packets| packet::keys(cores[0], Kind::Udp, packets),
    },
    Loop {
        name: "key_tagged_tcp6",
        what: "the same, TCP over IPv6 with a VLAN tag",
        threads: 1,
        run: |cores, packets| packet::keys(cores[0], Kind::TaggedTcp6, packets),
    },
    Loop {
        name: "key_arp",
        what: "the same, ARP",
        threads: 1,
        run: |cores, packets| packet::keys(cores[0], Kind::Arp, packets),
    },
    Loop {
        name: "actions_route",
        what: "header actions: two Ethernet addresses, TTL set and decremented",
        threads: 1,
        run: |cores, packets| packet::rewrite(cores[0], Rewrite::Route, packets),
    },
    Loop {
        name: "actions_translate",
        what: "header actions: IPv4 destination and UDP port",
        threads: 1,
        run: |cores, packets| packet::rewrite(cores[0], Rewrite::Translate, packets),
    },
    Loop {
        name: "actions_tag",
        what: "header actions: VLAN tag pushed, set and popped",
        threads: 1,
        run: |cores, packets| packet::rewrite(cores[0], Rewrite::Tag, packets),
    },
    Loop {
        name: "record",
        what: "packets into the buffers of a capture file, pcapng",
        threads: 1,
        run: |cores, packets| capture::record(cores[0], packets),
    },
    Loop {
        name: "filter",
        what: "the filter's interpreter, two conditions, both true",
        threads: 1,
        run: |cores, packets| capture::filter(cores[0], packets),
    },
    Loop {
        name: "bridge_looped",
        what: "bridge between two ports that loop back, both directions, packets not touched",
        threads: 1,
        run: |cores, packets| bridge::bridge_looped(cores[0], false, packets),
    },
    Loop {
        name: "bridge_looped_touched",
        what: "the same, MAC addresses swapped in each packet",
        threads: 1,
        run: |cores, packets| bridge::bridge_looped(cores[0], true, packets),
    },
    Loop {
        name: "pipes_circle_two_cores",
        what: "1,024 packets go round two pipes and two bridges, each on a core of its own, not touched (a packet is one that a bridge passed on)",
        threads: 2,
        run: bridge::pipes_circle,
    },
    Loop {
        name: "pipe_bridge_pipe",
        what: "packets written, pipe, bridge, pipe, read, all on one core",
        threads: 1,
        run: |cores, packets| bridge::pipe_bridge_pipe(cores[0], packets),
    },
    Loop {
        name: "balance",
        what: "a balancer over four outputs, 10,000 flows",
        threads: 1,
        run: |cores, packets| bridge::balance(cores[0], packets),
    },
    Loop {
        name: "impair_loss",
        what: "an impaired port: loss 1%",
        threads: 1,
        run: |cores, packets| impaired_null(cores[0], "loss 1%", packets),
    },
    Loop {
        name: "impair_delay",
        what: "an impaired port: loss 1%, delay 1 ms (1,000 packets wait)",
        threads: 1,
        run: |cores, packets| impaired_null(cores[0], "loss 1% delay 1ms limit 2k", packets),
    },
    Loop {
        name: "impair_jitter",
        what: "an impaired port: loss 1%, delay 1 ms with jitter, so that packets overtake each other",
        threads: 1,
        run: |cores, packets| impaired_null(cores[0], "loss 1% delay 1ms 500us limit 2k", packets),
    },
    Loop {
        name: "gen_null_fixed",
        what: "generator into null:, one packet over and over",
        threads: 1,
        run: |cores, packets| gen_null(cores[0], Traffic::Fixed, packets),
    },
    Loop {
        name: "gen_null_two_cores",
        what: "the same, a generator on each of two cores",
        threads: 2,
        run: |cores, packets| on_two_cores(cores, [(); 2], |core, ()| gen_null(core, Traffic::Fixed, packets / 2)),
    },
    Loop {
        name: "gen_null_flows",
        what: "generator into null:, 10,000 flows, IPv4 and UDP checksums",
        threads: 1,
        run: |cores, packets| gen_null(cores[0], Traffic::Flows, packets),
    },
    Loop {
        name: "gen_null_signed",
        what: "generator into null:, 10,000 flows, IPv4 and UDP checksums, signature",
        threads: 1,
        run: |cores, packets| gen_null(cores[0], Traffic::SignedFlows, packets),
    },
    Loop {
        name: "pipe_one_core_unread",
        what: "generator, pipe and receiver on one core, 10,000 signed flows, packets not read",
        threads: 1,
        run: |cores, packets| pipe_one_core(cores[0], Reading::Unread, packets),
    },
    Loop {
        name: "pipe_one_core_checked",
        what: "the same, every signature checked",
        threads: 1,
        run: |cores, packets| pipe_one_core(cores[0], Reading::Checked, packets),
    },
    Loop {
        name: "receive_check",
        what: "the receiver alone, every signature checked",
        threads: 1,
        run: |cores, packets| receive_check(cores[0], packets),
    },
    Loop {
        name: "pipe_two_cores_fixed",
        what: "generator on one core, pipe, receiver on another, one packet over and over, not read",
        threads: 2,
        run: |cores, packets| pipe_two_cores(cores, Traffic::Fixed, Reading::Unread, packets),
    },
    Loop {
        name: "pipe_two_cores_unread",
        what: "the same, 10,000 signed flows, not read",
        threads: 2,
        run: |cores, packets| pipe_two_cores(cores, Traffic::SignedFlows, Reading::Unread, packets),
    },
    Loop {
        name: "pipe_two_cores_checked_one_flow",
        what: "one signed flow, every signature checked",
        threads: 2,
        run: |cores, packets| pipe_two_cores(cores, Traffic::Signed, Reading::Checked, packets),
    },
    Loop {
        name: "gen_null_signed_one_flow",
        what: "generator into null:, one flow, signature",
        threads: 1,
        run: |cores, packets| gen_null(cores[0], Traffic::Signed, packets),
    },
    Loop {
        name: "pipe_two_cores_checked",
        what: "10,000 signed flows, every signature checked",
        threads: 2,
        run: |cores, packets| pipe_two_cores(cores, Traffic::SignedFlows, Reading::Checked, packets),
    },
    Loop {
        name: "switch_two_macs",
        what: "in-process switch, one core does everything, 64-byte frames, two stations",
        threads: 1,
        run: |cores, packets| switch::inline(cores[0], Load { len: switch::SHORT, macs: 2, ports: 1 }, packets),
    },
    Loop {
        name: "switch_10k_macs",
        what: "the same, 10,000 stations",
        threads: 1,
        run: |cores, packets| switch::inline(cores[0], Load { len: switch::SHORT, macs: 10_000, ports: 1 }, packets),
    },
    Loop {
        name: "switch_10k_macs_4_ports",
        what: "the same, to four ports in turn",
        threads: 1,
        run: |cores, packets| switch::inline(cores[0], Load { len: switch::SHORT, macs: 10_000, ports: 4 }, packets),
    },
    Loop {
        name: "switch_1514",
        what: "in-process switch, one core does everything, 1,514-byte packets, two stations",
        threads: 1,
        run: |cores, packets| switch::inline(cores[0], Load { len: switch::LONG, macs: 2, ports: 1 }, packets),
    },
    Loop {
        name: "switch_engine_10k_macs",
        what: "the engine of the switch alone, 10,000 stations",
        threads: 1,
        run: |cores, packets| switch::engine(cores[0], Load { len: switch::SHORT, macs: 10_000, ports: 1 }, packets),
    },
    Loop {
        name: "switch_engine_shared",
        what: "the same as one of two workers with one MAC table",
        threads: 1,
        run: |cores, packets| {
            switch::engine_shared(cores[0], Load { len: switch::SHORT, macs: 10_000, ports: 1 }, packets)
        },
    },
    Loop {
        name: "switch_engine_crossing",
        what: "the same, every packet from one worker to the other, both on this thread",
        threads: 1,
        run: |cores, packets| {
            switch::engine_crossing(cores[0], Load { len: switch::SHORT, macs: 10_000, ports: 1 }, packets)
        },
    },
    Loop {
        name: "switch_engine_two_cores",
        what: "two workers with one MAC table, a source, a sink and half of the 10,000 stations each",
        threads: 2,
        run: |cores, packets| {
            switch::engine_two_cores(cores, Load { len: switch::SHORT, macs: 5_000, ports: 1 }, packets, false)
        },
    },
    Loop {
        name: "switch_engine_two_cores_20k",
        what: "the same with 10,000 stations each",
        threads: 2,
        run: |cores, packets| {
            switch::engine_two_cores(cores, Load { len: switch::SHORT, macs: 10_000, ports: 1 }, packets, false)
        },
    },
    Loop {
        name: "switch_engine_two_alone",
        what: "two switches with 10,000 stations and a core each, and nothing in common",
        threads: 2,
        run: |cores, packets| {
            switch::engine_two_cores(cores, Load { len: switch::SHORT, macs: 10_000, ports: 1 }, packets, true)
        },
    },
    Loop {
        name: "ofswitch_engine_one_flow",
        what: "the engine of the OpenFlow switch alone, one entry of layer 4, one flow",
        threads: 1,
        run: |cores, packets| ofswitch::engine(cores[0], ofswitch::Load::ONE, packets),
    },
    Loop {
        name: "ofswitch_engine_10k_flows",
        what: "the same, 10,000 flows in turn",
        threads: 1,
        run: |cores, packets| {
            ofswitch::engine(cores[0], ofswitch::Load { flows: 10_000, burst: 1, ..ofswitch::Load::ONE }, packets)
        },
    },
    Loop {
        name: "ofswitch_engine_two_cores",
        what: "the same, two workers of one switch, a source and a sink each",
        threads: 2,
        run: |cores, packets| {
            let load = ofswitch::Load { flows: 10_000, burst: 1, ..ofswitch::Load::ONE };
            ofswitch::engine_two_cores(cores, load, packets, false)
        },
    },
    Loop {
        name: "ofswitch_engine_two_alone",
        what: "two such switches with a core each, and nothing in common",
        threads: 2,
        run: |cores, packets| {
            let load = ofswitch::Load { flows: 10_000, burst: 1, ..ofswitch::Load::ONE };
            ofswitch::engine_two_cores(cores, load, packets, true)
        },
    },
    Loop {
        name: "ofswitch_engine_steered",
        what: "the same, 10,000 flows, two workers of which one has both ports and steers",
        threads: 2,
        run: |cores, packets| {
            ofswitch::steered(cores, ofswitch::Load { flows: 10_000, burst: 1, ..ofswitch::Load::ONE }, packets)
        },
    },
    Loop {
        name: "ofswitch_engine_fresh_steered",
        what: "as ofswitch_engine_fresh, two workers of which one has both ports and steers",
        threads: 2,
        run: |cores, packets| ofswitch::steered(cores, ofswitch::row(None, false), packets),
    },
    Loop {
        name: "ofswitch_engine_10k_entries",
        what: "the same, and each flow has an entry of its own",
        threads: 1,
        run: |cores, packets| {
            let load = ofswitch::Load { flows: 10_000, burst: 1, entries: 10_000, ..ofswitch::Load::ONE };
            ofswitch::engine(cores[0], load, packets)
        },
    },
    Loop {
        name: "ofswitch_engine_packets",
        what: "what these loops do to make packets, 10,000 flows, and nothing else",
        threads: 1,
        run: |cores, packets| {
            ofswitch::make(cores[0], ofswitch::Load { flows: 10_000, burst: 1, ..ofswitch::Load::ONE }, packets)
        },
    },
    Loop {
        name: "ofswitch_engine_20_masks",
        what: "the same, 20 masks with 1,000 entries each, which match half of all packets, the first mask the most important; no flow comes twice",
        threads: 1,
        run: |cores, packets| {
            let load = ofswitch::Load { entries: 1_000, masks: 20, burst: 1, unknown: true, ..ofswitch::Load::ONE };
            ofswitch::engine(cores[0], load, packets)
        },
    },
    Loop {
        name: "ofswitch_engine_rules",
        what: "the same, 20 masks with 5,000 entries each, which match a third of all packets; 1,000,000 flows in turn",
        threads: 1,
        run: |cores, packets| ofswitch::rows(cores[0], Some(1_000_000), false, packets),
    },
    Loop {
        name: "ofswitch_engine_fresh",
        what: "the same entries, and no flow comes twice",
        threads: 1,
        run: |cores, packets| ofswitch::rows(cores[0], None, false, packets),
    },
    Loop {
        name: "ofswitch_engine_rules_in_row",
        what: "as ofswitch_engine_rules, but addresses follow one another, as in the row `rules` of ofswitch.sh",
        threads: 1,
        run: |cores, packets| ofswitch::rows(cores[0], Some(1_000_000), true, packets),
    },
    Loop {
        name: "ofswitch_engine_fresh_in_row",
        what: "as ofswitch_engine_fresh, but addresses follow one another, as in the row `fresh` of ofswitch.sh",
        threads: 1,
        run: |cores, packets| ofswitch::rows(cores[0], None, true, packets),
    },
    Loop {
        name: "ofswitch_engine_unknown",
        what: "the same, 100,000 entries, and no flow comes twice",
        threads: 1,
        run: |cores, packets| {
            let load = ofswitch::Load { entries: 100_000, burst: 1, unknown: true, ..ofswitch::Load::ONE };
            ofswitch::engine(cores[0], load, packets)
        },
    },
    Loop {
        name: "openflow_flow_mods",
        what: "flow-mods from bytes to checked requests (a packet is a message)",
        threads: 1,
        run: |cores, packets| openflow::flow_mods(cores[0], packets),
    },
    Loop {
        name: "openflow_flow_entries",
        what: "flow-mods from bytes to new entries of a switch",
        threads: 1,
        run: |cores, packets| openflow::flow_entries(cores[0], packets),
    },
    Loop {
        name: "openflow_flow_stats",
        what: "flow statistics to bytes (a packet is a flow)",
        threads: 1,
        run: |cores, packets| openflow::flow_stats(cores[0], packets),
    },
    Loop {
        name: "udp_loop",
        what: "two UDP stacks answer each other in one process, sockets connected (a packet is a receive and a send)",
        threads: 1,
        run: |cores, packets| udp::cycles(cores[0], udp::Sockets::Connected, true, packets),
    },
    Loop {
        name: "udp_loop_bound",
        what: "the same, one socket of all addresses on each side",
        threads: 1,
        run: |cores, packets| udp::cycles(cores[0], udp::Sockets::Bound, true, packets),
    },
    Loop {
        name: "udp_loop_checksums",
        what: "the same, with all checksums made and checked",
        threads: 1,
        run: |cores, packets| udp::cycles(cores[0], udp::Sockets::Bound, false, packets),
    },
    Loop {
        name: "line_contiguous",
        what: "yardstick: one cache line per packet from core to core, lines side by side",
        threads: 2,
        run: |cores, packets| line::stream(cores, line::Place::Contiguous, packets),
    },
    Loop {
        name: "line_frames",
        what: "yardstick: the same, lines placed as packets in frames",
        threads: 2,
        run: |cores, packets| line::stream(cores, line::Place::Frames, packets),
    },
    Loop {
        name: "line_round_trip",
        what: "yardstick: one line to the other core and back (a packet is a trip)",
        threads: 2,
        run: |cores, _| Run { packets: 1, wall_ns: line::round_trip_ns(cores) as u64, core_ns: 0 },
    },
];
