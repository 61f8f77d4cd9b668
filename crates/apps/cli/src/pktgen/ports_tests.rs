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
fn a_bare_name_is_tried_as_xdp_then_as_packet() {
    assert_eq!(specs("-i e -f tx", 1), [["xdp:e@0,tx"], ["packet:e,tx_only"]]);
    assert_eq!(specs("-i e", 1), [["xdp:e@0"], ["packet:e,rx_only"]]);
    assert_eq!(specs("-i e", 4), [["xdp:e@0,queues=4"], ["packet:e,rx_only"]]);
    assert_eq!(specs("-i e@2", 4), [["xdp:e@2"], ["packet:e@2,rx_only"]]);
    assert_eq!(specs("-i netmap:e-3 -f tx", 4), [["xdp:e@3,tx"], ["packet:e,tx_only"]]);
    assert_eq!(specs("-i e -f ping", 1), [["xdp:e@0"], ["packet:e"]]);
    assert_eq!(specs("-i e,ring=4096 -f tx", 1)[0], ["xdp:e@0,tx,ring=4096"]);
}

#[test]
fn threads_have_queues_or_share_flows() {
    assert_eq!(specs("-i e -f tx -p 2", 2)[0], ["xdp:e@0,tx", "xdp:e@1,tx"]);
    assert_eq!(specs("-i e -p 2", 5)[0], ["xdp:e@0,queues=2", "xdp:e@2,queues=3"]);
    // More threads than queues: senders have sockets of their own, receivers share the flows.
    assert_eq!(specs("-i e -f tx -p 2", 1), [["packet:e,tx_only", "packet:e,tx_only"]]);
    let shared = format!("packet:e,rx_only,{}", fanout());
    assert_eq!(specs("-i e -p 2", 1), [[shared.clone(), shared]]);
    assert_eq!(specs("-i packet:e,fanout=7:lb -p 2", 1), [["packet:e,rx_only,fanout=7:lb"; 2]]);
    assert_eq!(specs("-i null -f tx -p 3", 1), [["null:"; 3]]);
}

#[test]
fn a_host_keeps_the_interface_that_it_routes_through() {
    let device = Device { queues: 1, mtu: 1500, in_use: true };
    let chosen = |line: &str| candidates(&options(line), &device).swap_remove(0).specs;
    assert_eq!(chosen("-i e"), ["packet:e,rx_only"]);
    assert_eq!(chosen("-i e -f tx"), ["xdp:e@0,tx"]);
    assert_eq!(chosen("-i xdp:e"), ["xdp:e@0"]);
}

#[test]
fn what_is_named_is_what_is_opened() {
    assert_eq!(specs("-i xdp:e@1,native -f tx", 4), [["xdp:e@1,tx,native=yes"]]);
    assert_eq!(specs("-i xdp:e,queues=2", 4), [["xdp:e@0,queues=2"]]);
    assert_eq!(specs("-i packet:e,qdisc -f tx", 1), [["packet:e,tx_only,qdisc=yes"]]);
    assert_eq!(specs("-i tap:x -f tx", 1), [["tap:x"]]);
    assert_eq!(specs("-i file:out.pcap -f tx", 1), [["file:out.pcap,write"]]);
    assert_eq!(specs("-i file:in.pcap", 1), [["file:in.pcap"]]);
    // Names keep what is special in them.
    assert_eq!(specs("-i packet:a\\@b -f tx", 1), [["packet:a\\@b,tx_only"]]);
}

#[test]
fn frames_hold_the_longest_packet() {
    let sizes = |line: &str, mtu: usize| {
        let device = Device { queues: 1, mtu, in_use: false };
        candidates(&options(line), &device).iter().map(|candidate| candidate.frame_size).collect::<Vec<_>>()
    };
    assert_eq!(sizes("-i e -f tx", 1500), [2048, 2048]);
    assert_eq!(sizes("-i e", 9000), [4096, 16_384]);
    assert_eq!(specs("-i e -f tx -l 9000", 1)[0], ["xdp:e@0,tx,frags"]);
    assert_eq!(sizes("-i null -f tx -l 9000", 0), [16_384]);
    assert_eq!(sizes("-i null -f tx -l 65535", 0), [32_768]);
}
