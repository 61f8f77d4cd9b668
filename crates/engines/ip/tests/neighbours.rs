//! ARP and neighbour discovery: questions, answers, probes, duplicate addresses, floods.

use super::support;

use linerate_ip::{AddressState, Event, Inbound, IpConfig, NoRoute};
use linerate_mem::Checksum;
use linerate_wire::{EtherType, MacAddress, Stack, arp, ethernet};
use support::*;

const NET: &[&str] = &["10.0.0.1/24", "fd00::1/64"];
const OTHER: &[&str] = &["10.0.0.2/24", "fd00::2/64"];

fn arp_frame(from: u8, to: MacAddress, header: arp::Header) -> Vec<u8> {
    let ethernet = ethernet::Header { src: mac(from), dst: to, ..Default::default() };
    Stack::new().with(ethernet).with(header).build(42).unwrap().bytes
}

fn arp_request(from: u8, sender: &str, target: &str) -> Vec<u8> {
    let header =
        arp::Header { sender_mac: mac(from), sender_ip: v4(sender), target_ip: v4(target), ..Default::default() };
    arp_frame(from, MacAddress::BROADCAST, header)
}

fn read_arp(frame: &[u8]) -> Option<arp::Header> {
    let packet = ethernet::Packet::new_checked(frame).ok()?;
    (packet.ethertype() == EtherType::ARP).then(|| arp::Header::parse(packet.payload()).unwrap())
}

#[test]
fn parked_datagrams_leave_in_order_when_the_neighbour_answers() {
    for to in ["10.0.0.2:7", "[fd00::2]:7"] {
        let mut a = Host::quiet(config(1, NET));
        let mut b = Host::quiet(config(2, OTHER));
        let any = if to.starts_with('[') { "[::]:7" } else { "0.0.0.0:7" };
        let server = b.bind(any);
        let client = a.bind(if to.starts_with('[') { "[::]:999" } else { "0.0.0.0:999" });
        for number in 0..100 {
            a.send(client, to, &[number]).unwrap();
        }
        let [_, received] = exchange(&mut a, &mut b);
        assert_eq!(received.len(), 100, "{to}");
        for (number, (datagram, data)) in received.iter().enumerate() {
            assert_eq!((datagram.socket, &data[..]), (server, &[number as u8][..]));
        }
        let counters = a.ip.counters();
        assert_eq!((counters.parked, counters.parked_sent, counters.parked_dropped), (100, 100, 0));
        // The next one goes at once, and the answer needs no question, because the asker was heard.
        a.send(client, to, b"again").unwrap();
        let frames = a.sent();
        assert_eq!(frames.len(), 1);
        let (datagram, _) = b.take(&frames[0]).unwrap();
        b.send(server, &datagram.from.to_string(), b"answer").unwrap();
        let frames = b.sent();
        assert_eq!(frames.len(), 1);
        assert_eq!(a.take(&frames[0]).unwrap().1, b"answer");
    }
}

#[test]
fn the_oldest_of_too_many_parked_packets_go_and_half_of_the_room_is_left_for_other_neighbours() {
    let mut limits = config(1, NET);
    limits.limits.parked = 8;
    let (mut a, mut b) = (Host::quiet(limits), Host::quiet(config(2, OTHER)));
    b.bind("0.0.0.0:7");
    let client = a.bind("0.0.0.0:999");
    for number in 0..20 {
        a.send(client, "10.0.0.2:7", &[number]).unwrap();
    }
    for neighbour in 10..15 {
        let sent = a.send(client, &format!("10.0.0.{neighbour}:7"), b"x");
        assert_eq!((neighbour, sent.is_ok()), (neighbour, neighbour < 14));
    }
    let [_, received] = exchange(&mut a, &mut b);
    let numbers: Vec<u8> = received.iter().map(|(_, data)| data[0]).collect();
    assert_eq!(numbers, [16, 17, 18, 19]);
    let counters = a.ip.counters();
    // 16 made room, and the fifth other neighbour found none.
    assert_eq!((counters.parked, counters.parked_sent, counters.parked_dropped), (24, 4, 17));
}

#[test]
fn nobody_answers_three_questions_a_second_apart() {
    for dst in ["10.0.0.9", "fd00::9"] {
        let mut a = Host::quiet(config(1, NET));
        let start = a.now_ns;
        let (hop, _) = a.hop(dst).unwrap();
        assert_eq!(a.sent().len(), 1);
        assert!(a.ip.park(hop, &[0x45; 40], Checksum::Unknown));
        assert_eq!(a.hop(dst).unwrap().0, hop);
        assert_eq!(a.sent().len(), 0, "one question at a time");
        a.run_until(start + SECOND - 1);
        assert_eq!(a.sent().len(), 0);
        a.run_until(start + SECOND + SECOND / 50);
        assert_eq!(a.sent().len(), 1);
        a.run_until(start + 2 * SECOND + SECOND / 20);
        assert_eq!(a.sent().len(), 1);
        a.run_until(start + 3 * SECOND + SECOND / 10);
        assert_eq!((a.sent().len(), a.ip.counters().parked_dropped), (0, 1));
        assert!(a.events().contains(&Event::NeighbourUnreachable(hop, ip(dst))));
        assert!(a.ip.header(hop).is_none() && !a.ip.park(hop, &[0x45; 40], Checksum::Unknown));
        // Later it is asked for again.
        a.run_until(start + 10 * SECOND);
        assert_eq!(a.hop(dst).unwrap().0, hop);
        assert_eq!(a.sent().len(), 1);
    }
}

#[test]
fn a_neighbour_in_use_is_probed_at_its_own_address_and_given_up() {
    for dst in ["10.0.0.2", "fd00::2"] {
        let mut a = Host::quiet(config(1, NET));
        let mut b = Host::quiet(config(2, OTHER));
        let (hop, _) = a.hop(dst).unwrap();
        exchange(&mut a, &mut b);
        assert_eq!(a.ip.header(hop).unwrap().dst(), mac(2));
        // Progress of a transport keeps it reachable, without a frame.
        for _ in 0..60 {
            a.ip.header(hop).unwrap();
            a.ip.confirm(hop);
            a.run_until(a.now_ns + 5 * SECOND);
        }
        assert_eq!(a.sent().len(), 0);
        // Without progress it is probed.
        for _ in 0..70 {
            a.ip.header(hop);
            a.run_until(a.now_ns + SECOND);
        }
        let probes = a.sent();
        assert!(!probes.is_empty());
        assert_eq!(
            ethernet::Packet::new_checked(&probes[0][..]).unwrap().dst(),
            mac(2),
            "a probe is for the neighbour alone"
        );
        for _ in 0..100 {
            a.ip.header(hop);
            a.run_until(a.now_ns + SECOND);
        }
        assert!(a.events().contains(&Event::NeighbourUnreachable(hop, ip(dst))));
        assert!(a.ip.header(hop).is_none());
        assert!(a.sent().len() <= 3);
    }
}

#[test]
fn a_probe_that_is_answered_keeps_the_neighbour() {
    for dst in ["10.0.0.2", "fd00::2"] {
        let mut a = Host::quiet(config(1, NET));
        let mut b = Host::quiet(config(2, OTHER));
        let (hop, _) = a.hop(dst).unwrap();
        exchange(&mut a, &mut b);
        let mut frames = 0;
        for _ in 0..300 {
            assert!(a.ip.header(hop).is_some());
            let until = a.now_ns + SECOND;
            a.run_until(until);
            b.run_until(until);
            frames += a.out.len();
            exchange(&mut a, &mut b);
        }
        assert!((5..30).contains(&frames), "{frames} probes in 300 s");
    }
}

#[test]
fn a_flood_pushes_out_its_own_entries_only() {
    for family in [4, 6] {
        let mut a = Host::quiet(config(1, &["10.0.0.1/8", "fd00::1/64"]));
        let mut b = Host::quiet(config(2, &["10.0.0.2/8", "fd00::2/64"]));
        let (good, _) = a.hop(if family == 4 { "10.0.0.2" } else { "fd00::2" }).unwrap();
        exchange(&mut a, &mut b);
        for number in 0..20_000_u32 {
            a.ip.header(good).unwrap();
            let spoofed = if family == 4 {
                format!("10.9.{}.{}", number >> 8 & 255, number & 255)
            } else {
                format!("fd00::9:{number:x}")
            };
            // Our own packets to addresses that do not exist, and questions of hosts that do not exist.
            let _ = a.hop(&spoofed);
            a.pool.free(&mut a.out);
            if family == 4 {
                a.receive(&arp_request(9, &spoofed.replace("10.9", "10.7"), "10.0.0.1"));
                a.pool.free(&mut a.out);
            }
            if number % 100 == 0 {
                a.now_ns += SECOND / 10;
                a.tick();
                a.pool.free(&mut a.out);
            }
        }
        assert!(a.ip.header(good).is_some(), "the neighbour in use stays");
        let counters = a.ip.counters();
        assert!(counters.neighbours_evicted > 10_000, "{counters:?}");
        assert!(a.ip.neighbours().count() <= 1024);
        // A new neighbour gets in while the flood lasts.
        let (new, _) = a.hop(if family == 4 { "10.0.0.3" } else { "fd00::3" }).unwrap();
        let mut c = Host::quiet(config(3, &["10.0.0.3/8", "fd00::3/64"]));
        exchange(&mut a, &mut c);
        assert!(a.ip.header(new).is_some());
    }
}

#[test]
fn requests_are_answered_and_conflicts_are_defended() {
    let mut a = Host::quiet(config(1, NET));
    assert_eq!(a.receive(&arp_request(2, "10.0.0.2", "10.0.0.1")), Inbound::Handled);
    let frames = a.sent();
    let reply = read_arp(&frames[0]).unwrap();
    assert_eq!((reply.operation, reply.sender_mac, reply.sender_ip), (arp::REPLY, mac(1), v4("10.0.0.1")));
    assert_eq!((reply.target_mac, reply.target_ip), (mac(2), v4("10.0.0.2")));
    // A probe of somebody who wants our address is answered, too.
    assert_eq!(a.receive(&arp_request(2, "0.0.0.0", "10.0.0.1")), Inbound::Handled);
    assert_eq!(read_arp(&a.sent()[0]).unwrap().operation, arp::REPLY);
    // Others' business.
    assert!(matches!(a.receive(&arp_request(2, "10.0.0.3", "10.0.0.4")), Inbound::Dropped(_)));
    // Somebody uses our address: we say that it is ours, at most every ten seconds, and keep it.
    for _ in 0..5 {
        assert_eq!(a.receive(&arp_request(2, "10.0.0.1", "10.0.0.9")), Inbound::Handled);
    }
    let frames = a.sent();
    assert_eq!(frames.len(), 1);
    let announcement = read_arp(&frames[0]).unwrap();
    assert_eq!((announcement.sender_ip, announcement.target_ip), (v4("10.0.0.1"), v4("10.0.0.1")));
    assert!(a.ip.is_ours(ip("10.0.0.1")));
    for sender in ["127.0.0.1", "224.0.0.1", "10.0.0.255", "255.255.255.255"] {
        assert!(matches!(a.receive(&arp_request(2, sender, "10.0.0.1")), Inbound::Dropped(_)), "{sender}");
    }
    assert_eq!(a.sent().len(), 0);
}

fn detecting(last: u8, addresses: &[&str]) -> IpConfig {
    IpConfig { duplicate_detection: true, ..config(last, addresses) }
}

#[test]
fn addresses_that_are_not_probed_for_are_announced_once() {
    let mut a = Host::new(config(1, NET));
    a.run_until(30 * SECOND);
    let frames = a.sent();
    let arps: Vec<_> = frames.iter().filter_map(|frame| read_arp(frame)).collect();
    assert!(arps.len() == 1 && arps[0].sender_ip == v4("10.0.0.1") && arps[0].target_ip == v4("10.0.0.1"), "{arps:?}");
}

#[test]
fn addresses_are_probed_for_then_announced() {
    let mut a = Host::new(detecting(1, NET));
    assert!(!a.ip.is_ours(ip("10.0.0.1")) && !a.ip.is_ours(ip("fd00::1")));
    assert_eq!(a.hop("10.0.0.2").unwrap_err(), NoRoute::NoAddress);
    a.run_until(30 * SECOND);
    let frames = a.sent();
    let arps: Vec<_> = frames.iter().filter_map(|frame| read_arp(frame)).collect();
    let probes = arps.iter().filter(|arp| arp.sender_ip == v4("0.0.0.0") && arp.target_ip == v4("10.0.0.1")).count();
    let announcements =
        arps.iter().filter(|arp| arp.sender_ip == v4("10.0.0.1") && arp.target_ip == v4("10.0.0.1")).count();
    assert_eq!((arps.len(), probes, announcements), (5, 3, 2));
    assert!(a.ip.is_ours(ip("10.0.0.1")) && a.ip.is_ours(ip("fd00::1")) && a.ip.is_ours(ip("fe80::ff:fe00:1")));
    let events = a.events();
    assert!(
        events.contains(&Event::AddressReady(ip("10.0.0.1"))) && events.contains(&Event::AddressReady(ip("fd00::1")))
    );
}

#[test]
fn an_address_that_is_probed_for_is_silent() {
    let mut a = Host::new(detecting(1, NET));
    let mut b = Host::quiet(config(2, &["10.0.0.2/24", "fd00::2/64"]));
    let mut asked = [0, 0];
    for step in 0..100_u64 {
        a.run_until(step * SECOND / 10);
        b.run_until(30 * SECOND + step * SECOND / 10);
        // Whoever wants to send something to the addresses asks for them.
        let _ = (b.hop("10.0.0.1"), b.hop("fd00::1"));
        let is_ours = ["10.0.0.1", "fd00::1"].map(|address| a.ip.is_ours(ip(address)));
        for frame in b.sent().iter().chain([&arp_request(2, "10.0.0.2", "10.0.0.1")]) {
            asked[0] += u32::from(read_arp(frame).is_some() && !is_ours[0]);
            asked[1] += u32::from(frame[12..14] == [0x86, 0xdd] && !is_ours[1]);
            a.receive(frame);
        }
        for frame in a.sent() {
            if let Some(arp) = read_arp(&frame).filter(|_| !is_ours[0]) {
                assert_eq!((arp.operation, arp.sender_ip), (arp::REQUEST, v4("0.0.0.0")), "step {step}");
            }
            if frame[12..14] == [0x86, 0xdd] && !is_ours[1] {
                assert_ne!(frame[22..38], v6("fd00::1").octets(), "step {step}");
            }
        }
    }
    assert!(asked[0] > 30 && asked[1] > 0, "{asked:?}");
    assert!(a.ip.is_ours(ip("10.0.0.1")) && a.ip.is_ours(ip("fd00::1")));
    a.receive(&arp_request(2, "10.0.0.2", "10.0.0.1"));
    assert_eq!(read_arp(&a.sent()[0]).unwrap().sender_ip, v4("10.0.0.1"));
}

#[test]
fn a_duplicate_is_never_used() {
    // One host has the address already; then both want it at the same time.
    let mut owner = Host::quiet(config(2, NET));
    let mut late = Host::new(detecting(1, NET));
    for step in 0..300_u64 {
        late.run_until(step * SECOND / 10);
        owner.run_until(30 * SECOND + step * SECOND / 10);
        exchange(&mut late, &mut owner);
    }
    for address in ["10.0.0.1", "fd00::1"] {
        assert!(!late.ip.is_ours(ip(address)) && owner.ip.is_ours(ip(address)), "{address}");
        assert!(
            late.events().iter().any(|event| matches!(event, Event::AddressDuplicate(..))) || address != "10.0.0.1"
        );
    }
    let states: Vec<_> = late.ip.addresses().map(|(_, _, state)| state).collect();
    assert_eq!(states.iter().filter(|state| **state == AddressState::Duplicate).count(), 2);
    let (mut one, mut other) = (Host::new(detecting(1, &["10.0.0.5/24"])), Host::new(detecting(2, &["10.0.0.5/24"])));
    for step in 0..300_u64 {
        one.run_until(step * SECOND / 10);
        other.run_until(step * SECOND / 10);
        exchange(&mut one, &mut other);
    }
    assert!(!(one.ip.is_ours(ip("10.0.0.5")) && other.ip.is_ours(ip("10.0.0.5"))));
}

#[test]
fn routes_go_by_prefix_then_gateway() {
    let mut a = Host::quiet(IpConfig { gateways: vec![ip("10.0.0.254"), ip("fd00::ff")], ..config(1, NET) });
    for (dst, asked) in [("10.0.0.9", "10.0.0.9"), ("192.0.2.1", "10.0.0.254")] {
        a.hop(dst).unwrap();
        assert_eq!(read_arp(&a.sent()[0]).unwrap().target_ip, v4(asked));
    }
    assert_eq!(a.hop("2001:db8::1").unwrap().1, ip("fd00::1"));
    for (dst, error) in [
        ("10.0.0.1", NoRoute::Destination),
        ("0.0.0.0", NoRoute::Destination),
        ("127.0.0.1", NoRoute::Destination),
        ("::1", NoRoute::Destination),
    ] {
        assert_eq!(a.hop(dst).unwrap_err(), error, "{dst}");
    }
    let mut alone = Host::quiet(config(1, NET));
    assert_eq!(alone.hop("192.0.2.1").unwrap_err(), NoRoute::NoGateway);
    let wrong = alone.ip.hop(Some(ip("10.0.0.9")), ip("10.0.0.2"), alone.now_ns, &mut alone.out, &mut alone.pool);
    assert_eq!(wrong.unwrap_err(), NoRoute::NotOurs);
    // Broadcasts and groups need no question.
    let (hop, _) = a.hop("255.255.255.255").unwrap();
    assert_eq!(a.ip.header(hop).unwrap().dst(), MacAddress::BROADCAST);
    let (hop, _) = a.hop("ff02::fb").unwrap();
    assert_eq!(a.ip.header(hop).unwrap().dst(), MacAddress([0x33, 0x33, 0, 0, 0, 0xfb]));
}

#[test]
fn a_pool_of_addresses_is_answered_for() {
    let mut a = Host::quiet(config(1, &["10.0.1.1-10.0.1.95/16"]));
    assert_eq!(a.ip.sources(ip("10.0.9.9")).count(), 95);
    for last in [1, 50, 95] {
        a.receive(&arp_request(2, "10.0.0.2", &format!("10.0.1.{last}")));
        assert_eq!(a.sent().len(), 1);
    }
    a.receive(&arp_request(2, "10.0.0.2", "10.0.1.96"));
    assert_eq!(a.sent().len(), 0);
}

#[test]
fn frames_of_a_vlan_have_its_tag() {
    let vlan = |last, addresses: &[&str]| IpConfig { vlan: Some(7), ..config(last, addresses) };
    let mut a = Host::quiet(vlan(1, NET));
    let mut b = Host::quiet(vlan(2, OTHER));
    let server = b.bind("0.0.0.0:7");
    let client = a.bind("0.0.0.0:9");
    a.send(client, "10.0.0.2:7", b"tagged").unwrap();
    let [_, received] = exchange(&mut a, &mut b);
    assert_eq!((received[0].0.socket, received.len()), (server, 1));
    a.send(client, "10.0.0.2:7", b"tagged").unwrap();
    let mut frame = a.sent().remove(0);
    assert_eq!(frame[12..18], [0x81, 0, 0, 7, 8, 0]);
    assert!(b.ip.fast4(&frame, Checksum::Unknown).is_some());
    let mut untagged = Host::quiet(config(2, OTHER));
    assert!(untagged.ip.fast4(&frame, Checksum::Unknown).is_none() && untagged.take(&frame).is_none());
    frame[15] = 8;
    assert!(b.ip.fast4(&frame, Checksum::Unknown).is_none() && b.take(&frame).is_none());
}

#[test]
fn a_silent_link_wakes_nobody_more_than_once_a_second() {
    let mut a = Host::quiet(config(1, NET));
    // Neighbours that were heard and that nobody uses.
    for last in 2..50 {
        a.receive(&arp_request(last, &format!("10.0.0.{last}"), "10.0.0.1"));
    }
    a.sent();
    let until = a.now_ns + 100 * SECOND;
    let mut ticks = 0;
    while a.ip.next_deadline_ns() <= until {
        a.now_ns = a.ip.next_deadline_ns();
        a.tick();
        ticks += 1;
    }
    assert!(ticks <= 105, "{ticks} in 100 s");
}
