//! Which ports are chosen, without opening any.

use super::super::options::{Request, parse};
use super::*;

fn options(line: &str) -> Options {
    let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
    match parse(&words) {
        Ok(Request::Run(options)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

fn specs(line: &str, queues: usize) -> Vec<Vec<String>> {
    let device = Device { queues, mtu: 1500, in_use: false };
    candidates(&options(line), &device).into_iter().map(|candidate| candidate.specs).collect()
}

fn fanout() -> String {
    format!("fanout={}:hash", std::process::id() as u16)
}

#[test]
fn one_thread_opens_what_is_named() {
    assert_eq!(specs("-i e -f tx", 1), [["e"]]);
    assert_eq!(specs("-i netmap:e-3", 4), [["e@3"]]);
    assert_eq!(specs("-i packet:e,qdisc -f tx", 1), [["packet:e,qdisc=yes"]]);
    assert_eq!(specs("-i tap:x -f tx", 1), [["tap:x"]]);
    assert_eq!(specs("-i file:out.pcap -f tx", 1), [["file:out.pcap,write"]]);
    assert_eq!(specs("-i file:in.pcap", 1), [["file:in.pcap"]]);
    // Names keep what is special in them.
    assert_eq!(specs("-i packet:a\\@b -f tx", 1), [["packet:a\\@b"]]);
}

#[test]
fn an_xdp_port_receives_from_all_queues() {
    assert_eq!(specs("-i xdp:e", 4), [["xdp:e@0,queues=4"]]);
    assert_eq!(specs("-i xdp:e -f ping", 4), [["xdp:e@0,queues=4"]]);
    assert_eq!(specs("-i xdp:e -f tx", 4), [["xdp:e@0"]]);
    assert_eq!(specs("-i xdp:e@1,native", 4), [["xdp:e@1,native=yes"]]);
    assert_eq!(specs("-i xdp:e,queues=2", 4), [["xdp:e@0,queues=2"]]);
}

#[test]
fn threads_have_queues_or_share_flows() {
    assert_eq!(specs("-i e -f tx -p 2", 2), [["xdp:e@0", "xdp:e@1"], ["packet:e", "packet:e"]]);
    assert_eq!(specs("-i e -p 2", 5)[0], ["xdp:e@0,queues=2,native", "xdp:e@2,queues=3,native"]);
    // More threads than queues: senders have sockets of their own, receivers share the flows.
    assert_eq!(specs("-i e -f tx -p 2", 1), [["packet:e", "packet:e"]]);
    let shared = format!("packet:e,{}", fanout());
    assert_eq!(specs("-i e -p 2", 1), [[shared.clone(), shared]]);
    assert_eq!(specs("-i packet:e,fanout=7:lb -p 2", 1), [["packet:e,fanout=7:lb"; 2]]);
    assert_eq!(specs("-i null -f tx -p 3", 1), [["null:"; 3]]);
}

#[test]
fn who_times_or_answers_packets_sees_them_at_once() {
    for (function, wanted) in [
        ("ping", Usage::LowLatency),
        ("pong", Usage::LowLatency),
        ("tx", Usage::Sending),
        ("txseq", Usage::Sending),
        ("rx", Usage::Receiving),
        ("rxseq", Usage::Receiving),
    ] {
        assert_eq!(usage(&options(&format!("-i packet:e -f {function}"))), wanted, "{function}");
    }
}

#[test]
fn a_host_keeps_the_packets_of_its_addresses() {
    let device = Device { queues: 2, mtu: 1500, in_use: true };
    let chosen = |line: &str| candidates(&options(line), &device).swap_remove(0).specs;
    assert!(chosen("-i e -p 2")[0].starts_with("packet:e,"));
    assert_eq!(chosen("-i e -f tx -p 2"), ["xdp:e@0", "xdp:e@1"]);
    assert_eq!(chosen("-i xdp:e -p 2"), ["xdp:e@0", "xdp:e@1"]);
}

#[test]
fn frames_hold_the_longest_packet_or_what_the_backend_takes() {
    let size = |line: &str, mtu: usize| {
        let device = Device { queues: 1, mtu, in_use: false };
        candidates(&options(line), &device)[0].frame_size
    };
    assert_eq!((size("-i e -f tx", 1500), size("-i e", 9000)), (2048, 4096));
    assert_eq!((size("-i packet:e", 9000), size("-i null -f tx -l 9000", 0)), (16_384, 16_384));
    assert_eq!(size("-i null -f tx -l 65535", 0), 32_768);
    assert_eq!(specs("-i xdp:e -f tx -l 9000", 1)[0], ["xdp:e@0,frags"]);
}
