//! The DHCP client and the resolver inside a host, against a server that the test plays.

use super::support;

use linerate_ip::{
    AddressState, BindError, DhcpMode, Event, Inbound, IpConfig, Output, ResolveError, Resolver, Shard, SharedLease,
};
use linerate_wire::{EtherType, MacAddress, Stack, arp, ethernet, ipv4, udp};
use smoltcp::wire::{DhcpMessageType, DhcpPacket, DhcpRepr};
use support::*;

/// The DHCP message in a frame.
fn dhcp_of(frame: &[u8]) -> Option<(ipv4::Header, Vec<u8>)> {
    let packet = ethernet::Packet::new_checked(frame).ok()?;
    if packet.ethertype() != EtherType::IPV4 {
        return None;
    }
    let ip = ipv4::Packet::new_checked(packet.payload()).ok()?;
    let datagram = udp::Packet::new_checked(ip.payload()).ok()?;
    (datagram.dst_port() == 67).then(|| (ip.header(), datagram.payload().to_vec()))
}

/// What a server answers to a message.
fn served(message: &[u8]) -> Option<Vec<u8>> {
    let packet = DhcpPacket::new_checked(message).unwrap();
    let question = DhcpRepr::parse(&packet).unwrap();
    let message_type = match question.message_type {
        DhcpMessageType::Discover => DhcpMessageType::Offer,
        DhcpMessageType::Request => DhcpMessageType::Ack,
        _ => return None,
    };
    let reply = DhcpRepr {
        message_type,
        your_ip: v4("10.0.0.77"),
        server_identifier: Some(v4("10.0.0.254")),
        subnet_mask: Some(v4("255.255.255.0")),
        router: Some(v4("10.0.0.254")),
        lease_duration: Some(600),
        client_identifier: None,
        requested_ip: None,
        parameter_request_list: None,
        max_size: None,
        ..question
    };
    let mut bytes = vec![0; reply.buffer_len()];
    reply.emit(&mut DhcpPacket::new_unchecked(&mut bytes[..])).unwrap();
    Some(bytes)
}

/// A frame of the server with a datagram for the client.
fn to_client(dst: &str, to: MacAddress, payload: &[u8]) -> Vec<u8> {
    let stack = Stack::new()
        .with(ethernet::Header { src: mac(254), dst: to, ..Default::default() })
        .with(ipv4::Header { src: v4("10.0.0.254"), dst: v4(dst), ..Default::default() })
        .with(udp::Header { src_port: 67, dst_port: 68, ..Default::default() });
    let mut frame = stack.build(42 + payload.len()).unwrap().bytes;
    frame[42..].copy_from_slice(payload);
    let pseudo = linerate_wire::Sum::pseudo_ipv4(v4("10.0.0.254"), v4(dst), 17, (8 + payload.len()) as u16);
    udp::Packet::new_checked(&mut frame[34..]).unwrap().fill_checksum(pseudo);
    frame
}

/// Runs the host for `seconds` beside a server that answers if `is_there`.
fn serve(a: &mut Host, seconds: u64, is_there: bool) {
    for _ in 0..seconds * 10 {
        a.run_until(a.now_ns + SECOND / 10);
        for frame in a.sent() {
            if let Some(answer) = dhcp_of(&frame).and_then(|(_, message)| served(&message)).filter(|_| is_there) {
                assert_eq!(a.receive(&to_client("255.255.255.255", MacAddress::BROADCAST, &answer)), Inbound::Handled);
            }
        }
    }
}

/// Runs the host for `seconds` beside a server that renews its lease: requests go to the server alone, which is asked for by ARP, and answers
/// to the address that is leased, where the fast paths look first.
fn renew(a: &mut Host, seconds: u64) {
    let server_arp = arp::Header {
        operation: arp::REPLY,
        sender_mac: mac(254),
        sender_ip: v4("10.0.0.254"),
        target_mac: mac(1),
        target_ip: v4("10.0.0.77"),
    };
    a.run_until(a.now_ns + seconds * SECOND);
    for _ in 0..3 {
        for frame in a.sent() {
            match dhcp_of(&frame).and_then(|(_, message)| served(&message)) {
                Some(answer) => assert!(a.take(&to_client("10.0.0.77", mac(1), &answer)).is_none()),
                None => {
                    let ethernet = ethernet::Header { src: mac(254), dst: mac(1), ..Default::default() };
                    a.receive(&Stack::new().with(ethernet).with(server_arp).build(42).unwrap().bytes);
                }
            }
        }
    }
}

#[test]
fn a_host_gets_keeps_and_loses_a_lease() {
    let dhcp = DhcpMode::On { host_name: "tester".into() };
    let mut a = Host::new(IpConfig { dhcp, duplicate_detection: true, ..config(1, &[]) });
    serve(&mut a, 20, true);
    let ours = ip("10.0.0.77");
    assert!(a.ip.is_ours(ours) && a.events().contains(&Event::AddressReady(ours)));
    assert_eq!(a.hop("192.0.2.1").unwrap().1, ours, "by the gateway of the lease");
    a.sent();
    // It is renewed as long as somebody answers.
    for _ in 0..30 {
        renew(&mut a, 100);
        assert!(a.ip.is_ours(ours));
    }
    serve(&mut a, 700, false);
    assert!(!a.ip.is_ours(ours) && a.events().contains(&Event::AddressLost(ours)));
    // The server comes back.
    serve(&mut a, 120, true);
    assert!(a.ip.is_ours(ours));
    assert_eq!(a.udp.counters().no_port, 0);
}

/// No socket has the port of the DHCP client, whose leases it would be given.
#[test]
fn the_port_of_the_dhcp_client_is_in_use() {
    let dhcp = DhcpMode::On { host_name: String::new() };
    for (mode, expected) in [(dhcp, Err(BindError::InUse)), (DhcpMode::Off, Ok(()))] {
        let mut a = Host::quiet(IpConfig { dhcp: mode, ..config(1, NET) });
        for local in ["0.0.0.0:68", "10.0.0.1:68"] {
            assert_eq!(a.udp.bind(local.parse().unwrap(), &a.ip).map(drop), expected);
        }
        let mut out = Output { now_ns: a.now_ns, batch: &mut a.out, pool: &mut a.pool };
        let (local, remote) = ("10.0.0.1:68".parse().ok(), "10.0.0.9:67".parse().unwrap());
        assert_eq!(a.udp.connect(local, remote, &mut a.ip, &mut out).map(drop), expected);
        for local in ["0.0.0.0:67", "[::]:68"] {
            a.bind(local);
        }
    }
}

/// The first of two shards asks; the other one says nothing, and has the address as soon as the first one may use it, and as long.
#[test]
fn a_lease_is_for_all_shards() {
    let lease = SharedLease::default();
    let shard = |number, detects| {
        let dhcp = DhcpMode::On { host_name: String::new() };
        let shard = Shard::new(number, 2).unwrap();
        let config = IpConfig { dhcp, shard, lease: lease.clone(), ipv6: false, ..config(1, &[]) };
        Host::new(IpConfig { duplicate_detection: detects, ..config })
    };
    let (mut first, mut other) = (shard(0, true), shard(1, false));
    let ours = ip("10.0.0.77");
    let silent = |other: &mut Host, now_ns| {
        other.run_until(now_ns);
        assert_eq!(other.sent().len(), 0, "the first shard speaks for both");
        other.ip.is_ours(ours)
    };
    // Nobody uses the address before it has been probed for.
    let mut tentative = 0;
    while !first.ip.addresses().any(|(address, _, state)| address == ours && state == AddressState::Ready) {
        serve(&mut first, 1, true);
        let is_there = first.ip.addresses().any(|(address, ..)| address == ours);
        tentative += u32::from(is_there);
        assert!(first.now_ns < 30 * SECOND);
        let is_ready = first.ip.addresses().any(|(address, _, state)| address == ours && state == AddressState::Ready);
        assert!(!silent(&mut other, first.now_ns) || is_ready);
    }
    assert!(tentative >= 2 && silent(&mut other, first.now_ns + SECOND));
    assert_eq!(other.hop("192.0.2.1").unwrap().1, ours, "by the gateway of the lease");
    other.sent();
    other.events();
    // It is renewed for both (600 s), and lost for both when nobody answers any more.
    let began_ns = first.now_ns;
    while first.now_ns < began_ns + 2000 * SECOND {
        renew(&mut first, 100);
        other.run_until(first.now_ns);
        other.sent();
        assert!(first.ip.is_ours(ours) && other.ip.is_ours(ours));
    }
    assert!(!other.events().contains(&Event::AddressLost(ours)));
    serve(&mut first, 700, false);
    other.run_until(first.now_ns + 2 * SECOND);
    assert!(!first.ip.is_ours(ours) && !other.ip.is_ours(ours));
    assert!(other.events().contains(&Event::AddressLost(ours)));
    serve(&mut first, 120, true);
    other.run_until(first.now_ns + 2 * SECOND);
    assert!(first.ip.is_ours(ours) && other.ip.is_ours(ours));
}

#[test]
fn a_leased_address_that_somebody_has_is_declined() {
    let dhcp = DhcpMode::On { host_name: String::new() };
    let mut a = Host::new(IpConfig { dhcp, duplicate_detection: true, ..config(1, &[]) });
    let mut b = Host::quiet(config(2, &["10.0.0.77/24"]));
    let mut declined = 0;
    for _ in 0..200 {
        a.run_until(a.now_ns + SECOND / 10);
        for frame in a.sent() {
            match dhcp_of(&frame) {
                Some((_, message)) => match served(&message) {
                    Some(answer) => drop(a.receive(&to_client("255.255.255.255", MacAddress::BROADCAST, &answer))),
                    None => declined += 1,
                },
                None => drop(b.receive(&frame)),
            }
        }
        for frame in b.sent() {
            a.receive(&frame);
        }
    }
    assert!(declined >= 1 && !a.ip.is_ours(ip("10.0.0.77")));
}

#[test]
fn names_are_looked_up_over_udp() {
    let mut a = Host::quiet(config(1, &["10.0.0.1/24"]));
    let mut b = Host::quiet(config(2, &["10.0.0.53/24"]));
    let server = b.bind("0.0.0.0:53");
    let mut resolver = Resolver::new(&[ip("10.0.0.53")], [9; 16]);
    let literal = resolver.resolve("2001:db8::1", a.now_ns).unwrap();
    assert_eq!(resolver.next_answer(), Some((literal, Ok(vec![ip("2001:db8::1")]))));
    assert_eq!(resolver.resolve("no name", a.now_ns), Err(ResolveError::Name));
    assert_eq!(Resolver::new(&[], [0; 16]).resolve("a.b", 0), Err(ResolveError::NoServer));
    let lookup = resolver.resolve("Web.Example.", a.now_ns).unwrap();
    let mut rounds = 0;
    let answer = loop {
        rounds += 1;
        assert!(rounds < 20);
        let mut out = Output { now_ns: a.now_ns, batch: &mut a.out, pool: &mut a.pool };
        resolver.tick(&mut a.udp, &mut a.ip, &mut out);
        // The neighbour is resolved, and both questions wait for it.
        let [_, questions] = exchange(&mut a, &mut b);
        for (question, data) in questions {
            let mut answer = data.clone();
            answer[2..4].copy_from_slice(&[0x81, 0x80]);
            let is_four = data[data.len() - 3] == 1;
            if is_four {
                answer[7] = 1;
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
            }
            b.send(server, &question.from.to_string(), &answer).unwrap();
        }
        let [answers, _] = exchange(&mut a, &mut b);
        for (datagram, data) in answers {
            assert!(resolver.owns(datagram.socket));
            resolver.receive(&datagram, &data, &mut a.udp, a.now_ns);
        }
        if let Some(answer) = resolver.next_answer() {
            break answer;
        }
        a.run_until(resolver.next_deadline_ns());
    };
    assert_eq!(answer, (lookup, Ok(vec![ip("192.0.2.7")])));
    assert!(a.udp.is_empty(), "the sockets of the questions are closed");
    // It is remembered.
    let again = resolver.resolve("web.example", a.now_ns + SECOND).unwrap();
    assert_eq!(resolver.next_answer(), Some((again, Ok(vec![ip("192.0.2.7")]))));
    // Nobody answers.
    let lookup = resolver.resolve("other.example", a.now_ns).unwrap();
    while resolver.next_deadline_ns() != u64::MAX {
        a.now_ns = a.now_ns.max(resolver.next_deadline_ns());
        let mut out = Output { now_ns: a.now_ns, batch: &mut a.out, pool: &mut a.pool };
        resolver.tick(&mut a.udp, &mut a.ip, &mut out);
        a.sent();
    }
    assert_eq!(resolver.next_answer(), Some((lookup, Err(ResolveError::TimedOut))));
    assert!(a.udp.is_empty());
}
