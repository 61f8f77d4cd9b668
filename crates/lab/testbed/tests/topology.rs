//! Topologies in real namespaces: what is built, and that nothing in them speaks unasked.

mod support;

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};

use linerate_testbed::napi;
use linerate_testbed::netlink::Netlink;
use linerate_testbed::placement::{Mode, Placement};
use linerate_testbed::topology::{Topology, TopologySpec};
use linerate_testkit::or_skip;
use support::{Datagram, RawSocket, built, wait_until};

#[test]
fn a_frame_of_each_corner_flow_crosses_the_router_and_the_receivers_stack_drops_it_as_other_host() {
    let Some(topology) = built(Topology::router(&TopologySpec::default())) else { return };
    let receiver = RawSocket::open(&topology.receiver);
    let generator = RawSocket::open(&topology.generator);
    let corners = [(1, 101), (100, 200), (1, 200), (100, 101), (64, 128)];
    for (source, destination) in corners {
        let datagram = Datagram { source: host(source), destination: host(destination), ..Datagram::default() };
        generator.send(&datagram.frame(&topology)).expect("send");
    }
    for (source, destination) in corners {
        let frame = receiver.receive_ipv4().expect("the frame arrives");
        assert_eq!(frame[26..30], host(source).octets());
        assert_eq!(frame[30..34], host(destination).octets());
        assert_ne!(frame[0..6], topology.receiver.interface.mac, "no stack may take it");
    }
    let mut netlink = Netlink::open_in(&topology.receiver.namespace).expect("netlink");
    let mut counted = || netlink.link_statistics(topology.receiver.interface.index).expect("statistics").counters;
    // The socket gets a frame before the stack drops it.
    wait_until(|| counted().rx_otherhost_dropped >= corners.len() as u64);
    assert_eq!(counted().rx_packets, corners.len() as u64);
    assert_eq!(counted().rx_otherhost_dropped, corners.len() as u64);
}

#[test]
fn nothing_moves_on_a_topology_that_is_left_alone() {
    let Some(topology) = built(Topology::router(&TopologySpec::default())) else { return };
    std::thread::sleep(std::time::Duration::from_millis(1500));
    for side in [&topology.generator, &topology.receiver] {
        let mut netlink = Netlink::open_in(&side.namespace).expect("netlink");
        let statistics = netlink.link_statistics(side.interface.index).expect("statistics").counters;
        assert_eq!((statistics.rx_packets, statistics.tx_packets), (0, 0), "{}", side.interface.name);
    }
}

#[test]
fn the_direct_path_carries_frames_too() {
    let Some(topology) = built(Topology::direct(&TopologySpec::default())) else { return };
    assert!(topology.dut.is_none());
    let receiver = RawSocket::open(&topology.receiver);
    let generator = RawSocket::open(&topology.generator);
    let datagram = Datagram::default();
    generator.send(&datagram.frame(&topology)).expect("send");
    assert_eq!(receiver.receive_ipv4().expect("arrives"), datagram.frame(&topology));
    let mut netlink = Netlink::open_in(&topology.receiver.namespace).expect("netlink");
    let mut dropped = || {
        netlink.link_statistics(topology.receiver.interface.index).expect("statistics").counters.rx_otherhost_dropped
    };
    wait_until(|| dropped() > 0);
    assert_eq!(dropped(), 1);
}

#[test]
fn napi_of_the_first_hop_runs_in_a_pinned_thread_or_says_why_not() {
    let core = *linerate_sys::affinity::allowed_cores().last().expect("a core");
    let spec = TopologySpec { placement: Placement::Thread { core: Some(core) }, ..TopologySpec::default() };
    for build in [Topology::router, Topology::direct] {
        let Some(topology) = built(build(&spec)) else { return };
        let (namespace, interface) = topology.first_hop();
        assert!(topology.mode_text().contains(&topology.mode().to_string()), "{}", topology.mode_text());
        match topology.mode() {
            Mode::Pinned { core: on, threads } => {
                assert_eq!((*on, threads.len()), (core, 1));
                let instances = napi::instances(namespace, interface.index).expect("instances");
                assert_eq!(instances[0].thread, Some(threads[0]));
                let status = std::fs::read_to_string(format!("/proc/{}/status", threads[0])).expect("thread");
                assert!(status.contains(&format!("Cpus_allowed_list:\t{core}\n")), "{status}");
            }
            mode => eprintln!("skipped in part: {mode}"),
        }
        let receiver = RawSocket::open(&topology.receiver);
        let generator = RawSocket::open(&topology.generator);
        generator.send(&Datagram::default().frame(&topology)).expect("send");
        receiver.receive_ipv4().expect("arrives through the thread");
    }
}

#[test]
fn segments_of_one_tcp_stream_are_not_merged() {
    let spec = TopologySpec { placement: Placement::Thread { core: None }, ..TopologySpec::default() };
    let Some(topology) = built(Topology::router(&spec)) else { return };
    let generator = RawSocket::open(&topology.generator);
    let segments = 64;
    let frames: Vec<Vec<u8>> = (0..segments).map(|number| support::tcp_segment(&topology, number, 100)).collect();
    generator.send_many(&frames).expect("send");
    let mut netlink = Netlink::open_in(&topology.receiver.namespace).expect("netlink");
    let index = topology.receiver.interface.index;
    let mut arrived = || netlink.link_statistics(index).expect("statistics").counters.rx_packets;
    wait_until(|| arrived() >= u64::from(segments));
    assert_eq!(arrived(), u64::from(segments));
    let in_receives = topology.dut.as_ref().expect("router").namespace.run(|| {
        let snmp = std::fs::read_to_string("/proc/thread-self/net/snmp").expect("snmp");
        let values = snmp.lines().filter(|line| line.starts_with("Ip: ")).nth(1).expect("values").to_owned();
        values.split_whitespace().nth(3).expect("InReceives").parse::<u64>().expect("number")
    });
    assert_eq!(in_receives.expect("enter"), u64::from(segments), "IP saw each segment by itself");
}

#[test]
fn named_namespaces_can_be_opened_by_name_and_go_with_the_topology() {
    let spec = TopologySpec { named: true, ..TopologySpec::default() };
    let Some(topology) = built(Topology::router(&spec)) else { return };
    let name = linerate_testbed::topology::namespace_name("dut");
    assert_eq!(topology.dut.as_ref().expect("router").namespace.name(), Some(name.as_str()));
    assert!(linerate_sys::netns::named().contains(&name));
    assert!(!linerate_testbed::cleanup::left_behind().contains(&name), "this process still runs");
    drop(topology);
    assert!(!linerate_sys::netns::named().contains(&name));
}

#[test]
fn named_namespaces_of_a_process_that_is_gone_are_found_and_removed() {
    // No system has a process of such a number (PID_MAX_LIMIT, include/linux/threads.h); another run of this test has another one.
    let name = format!("linerate-{}-dut", (4 << 20) + std::process::id());
    let namespace = linerate_sys::netns::NetNs::create_named(&name);
    let Some(namespace) = or_skip("no named network namespace", namespace) else { return };
    // What a killed process cannot do.
    std::mem::forget(namespace);
    assert!(linerate_testbed::cleanup::left_behind().contains(&name));
    let removed = linerate_testbed::cleanup::remove_left_behind();
    assert!(removed.iter().any(|(removed, error)| *removed == name && error.is_none()), "{removed:?}");
    assert!(!linerate_sys::netns::named().contains(&name));
}

#[test]
fn an_anonymous_namespace_is_gone_with_its_topology() {
    let Some(topology) = built(Topology::router(&TopologySpec::default())) else { return };
    // A descriptor is all that holds it: /run/netns has nothing of ours.
    let path = format!("/proc/self/fd/{}", topology.generator.namespace.as_fd().as_raw_fd());
    let link = std::fs::read_link(path).expect("own descriptor");
    assert!(link.to_string_lossy().starts_with("net:["), "{link:?}");
    assert_eq!(topology.generator.namespace.name(), None);
}

fn host(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, number)
}

#[test]
fn flows_are_spread_over_cores_where_that_is_allowed() {
    let Some(topology) = built(Topology::router(&TopologySpec::default())) else { return };
    let (namespace, interface) = topology.first_hop();
    let cores = linerate_sys::affinity::allowed_cores();
    let steered = linerate_testbed::placement::steer(namespace, interface.name, &cores);
    let Some(()) = or_skip("no steering", steered) else { return };
    let path = format!("/sys/class/net/{}/queues/rx-0/rps_cpus", interface.name);
    let written = namespace.run_with_sysfs(|| std::fs::read_to_string(path)).expect("sysfs").expect("a queue");
    let bits: u32 =
        written.trim().split(',').map(|group| u32::from_str_radix(group, 16).expect("hex").count_ones()).sum();
    assert_eq!(bits as usize, cores.len(), "{written}");
}
