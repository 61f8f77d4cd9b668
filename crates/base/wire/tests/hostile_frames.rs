//! The body of the fuzz target `headers`, on mutations that are the same on every run.

#[path = "../../../../fuzz/bodies/headers.rs"]
mod headers;
#[path = "../../../../fuzz/bodies/mutate.rs"]
mod mutate;

use linerate_wire::*;

/// A frame of each kind.
fn frames() -> Vec<Vec<u8>> {
    let link = || Stack::new().with(ethernet::Header::default());
    let (v4, v6, udp) = (ipv4::Header::default(), ipv6::Header::default(), udp::Header::default());
    let tag = |vid| vlan::Header { pcp: 3, dei: false, vid, ethertype: EtherType(0) };
    let label = mpls::Header { label: 99, tc: 1, ttl: 64, bottom: false };
    let arp = arp::Header {
        operation: 1,
        sender_mac: [2, 0, 0, 0, 0, 1].into(),
        sender_ip: [192, 0, 2, 1].into(),
        target_mac: [0; 6].into(),
        target_ip: [192, 0, 2, 2].into(),
    };
    let tunnel = || link().with(v4).with(udp).with(vxlan::Header { vni: 7 });
    let stacks = [
        link().with(v4).with(udp),
        link().with(v6).with(udp),
        link().with(tag(5)).with(v4).with(tcp::Header::default()),
        link().with(Layer::qinq(tag(6))).with(tag(7)).with(v6).with(tcp::Header::default()),
        link().with(label).with(label).with(v4).with(udp),
        link().with(v4).with(icmpv4::Header::default()),
        link().with(v6).with(icmpv6::Header::default()),
        link().with(arp),
        tunnel().with(ethernet::Header::default()).with(v6).with(udp),
    ];
    stacks.into_iter().map(|stack| stack.build(stack.headers_len() + 16).expect("a stack that builds").bytes).collect()
}

#[test]
fn no_frame_breaks_the_views() {
    let mut seeds = frames();
    // Headers alone, too: the views take them without what is in front.
    seeds.extend(frames().iter().map(|frame| frame[14..].to_vec()));
    seeds.extend(frames().iter().map(|frame| frame[34.min(frame.len())..].to_vec()));
    mutate::check_seeds("headers", &seeds);
    mutate::each(&seeds, 50_000, headers::run);
}
