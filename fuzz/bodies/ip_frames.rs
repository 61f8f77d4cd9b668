//! Body of the fuzz target `ip_frames`: any frames at any times into the layer below TCP, by the short ways and the long one, which must come to
//! the same. Also run by the tests of `linerate-ip`.
//!
//! The first byte chooses a configuration. Then come records: a time step in tenths of a second (its top bit: make the checksums right
//! first), the length of the frame in two bytes, the frame.

use linerate_ip::{
    Datagram, DhcpMode, DropReason, ErrorOut, Fast4, Fast6, Inbound, Ip, IpConfig, Limits, Output, Packet, Redirects,
    Shard, Steering, Udp, Usual4, UsualSyn4, steering,
};
use linerate_mem::{Batch, Checksum, Pool, PoolConfig};
use linerate_wire::{EtherType, Protocol, Sum, ethernet, icmpv4, icmpv6, ipv4, ipv6, tcp, udp, verify_checksums};

/// Frames that one input may hold, so that an input takes a moment only.
const FRAMES_MAX: usize = 200;

/// The configuration of a first byte.
pub fn config(choice: u8) -> IpConfig {
    let dhcp = if choice & 1 != 0 { DhcpMode::On { host_name: "fuzz".into() } } else { DhcpMode::Off };
    IpConfig {
        addresses: ["10.0.0.1-10.0.0.3/24", "fd00::1/64"].map(|text| text.parse().expect("an address")).to_vec(),
        gateways: vec!["10.0.0.254".parse().expect("an address")],
        dhcp,
        slaac: choice & 2 != 0,
        duplicate_detection: choice & 4 != 0,
        redirects: if choice & 8 != 0 { Redirects::Follow } else { Redirects::Refuse },
        vlan: (choice & 16 != 0).then_some(7),
        limits: Limits { neighbours: 16, parked: 4, paths: 4, reassemblies: 3, icmp_errors_per_second: 1000 },
        ..IpConfig::default()
    }
}

/// Lives through the frames; whatever they are, every one is accounted for, and all that is sent is right.
pub fn run(data: &[u8]) {
    let Some((choice, mut rest)) = data.split_first() else { return };
    let mut pool = Pool::new(PoolConfig { frames: 256, frame_size: 2048 }).expect("memory");
    let mut out = Batch::new(&pool, 128);
    let mut ip = Ip::new(config(*choice)).expect("a configuration");
    let mut udp = sockets(*choice, &mut ip, &mut out, &mut pool);
    let checksum = if choice & 64 != 0 { Checksum::Verified } else { Checksum::Unknown };
    let mut now_ns = 1;
    for _ in 0..FRAMES_MAX {
        let Some(([step, high, low], behind)) = rest.split_first_chunk::<3>() else { break };
        let len = usize::from(u16::from_be_bytes([*high, *low])).min(behind.len());
        let (frame, behind) = behind.split_at(len);
        rest = behind;
        now_ns += u64::from(step & 0x7f) * 100_000_000;
        ticks(&mut ip, now_ns, &mut out, &mut pool);
        let mut frame = frame.to_vec();
        if step & 0x80 != 0 {
            repair(&mut frame);
        }
        let before = out.len();
        let short = Short::of(&frame, checksum, &ip, &mut udp);
        let inbound = ip.receive(&frame, checksum, now_ns, &mut out, &mut pool);
        short.check(&frame, checksum, &inbound);
        let mut datagram = None;
        match inbound {
            Inbound::Udp(packet) => {
                let bytes = ip.bytes(&packet, &frame).to_vec();
                check_steering(&frame, &packet, &bytes[packet.payload.clone()]);
                datagram = udp.receive(&packet, &bytes);
                match &datagram {
                    Some(datagram) => {
                        let data = &bytes[datagram.data.clone()];
                        let (from, to) = (Some(datagram.to.ip()), Some(datagram.from));
                        let mut output = Output { now_ns, batch: &mut out, pool: &mut pool };
                        let _ = udp.send(datagram.socket, from, to, data, false, &mut ip, &mut output);
                    }
                    None => {
                        ip.send_error(ErrorOut::PortUnreachable, &bytes[packet.network..], now_ns, &mut out, &mut pool)
                    }
                }
            }
            Inbound::Tcp(packet) => {
                let bytes = ip.bytes(&packet, &frame).to_vec();
                assert!(packet.payload.len() >= 20 && packet.payload.end <= bytes.len());
                check_steering(&frame, &packet, &bytes[packet.payload.clone()]);
                ip.send_error(ErrorOut::Prohibited, &bytes[packet.network..], now_ns, &mut out, &mut pool);
            }
            Inbound::Error(error) => {
                udp.error(&error, &mut ip, now_ns);
                ip.packet_too_big(error.original.remote.ip(), 1300, now_ns);
            }
            Inbound::Handled | Inbound::Dropped(_) => {}
        }
        if !short.is_refused_elsewhere {
            let by_compares = short.datagram.clone().or(short.plain_datagram.clone());
            assert!(by_compares == datagram || !short.is_datagram(), "{by_compares:?} {datagram:?} {frame:02x?}");
        }
        // An answer, a question, and the fragments of the longest packet.
        assert!(out.len() <= before + 50, "{} frames for one", out.len() - before);
        send(&mut out, &mut pool);
    }
    assert!(ip.counters().balance());
    assert!(ip.neighbours().count() <= 16);
    ticks(&mut ip, now_ns + 100_000_000_000, &mut out, &mut pool);
    drop(out);
    pool.flush();
    assert!(pool.is_whole());
}

/// Sockets at port 7, one of them or three, and at port 8, where one of them is connected if its address may be used by now.
fn sockets(choice: u8, ip: &mut Ip, out: &mut Batch, pool: &mut Pool) -> Udp {
    let mut udp = Udp::new(8, [0; 16]);
    let several = ["0.0.0.0:7", "10.0.0.1:7", "[::]:7"];
    for local in &several[..if choice & 32 != 0 { 3 } else { 1 }] {
        // An address may not be used before it was probed for.
        let _ = udp.bind(local.parse().expect("an address"), ip);
    }
    let mut output = Output { now_ns: 1, batch: out, pool };
    let (local, remote) = ("10.0.0.1:8".parse().ok(), "10.0.0.9:999".parse().expect("an address"));
    let _ = udp.connect(local, remote, ip, &mut output);
    udp
}

/// What the short ways make of a frame, as a stack asks them.
struct Short {
    usual: Option<u16>,
    is_syn: bool,
    datagram: Option<Datagram>,
    fast4: Option<Fast4>,
    fast6: Option<Fast6>,
    /// By the way of all plain datagrams.
    plain_datagram: Option<Datagram>,
    may_send4: bool,
    /// The long way refuses the frame for a reason that the short ways do not ask for.
    is_refused_elsewhere: bool,
}

impl Short {
    fn of(frame: &[u8], checksum: Checksum, ip: &Ip, udp: &mut Udp) -> Short {
        let (fast4, fast6) = (ip.fast4(frame, checksum), ip.fast6(frame));
        assert!(fast4.is_none() || fast6.is_none());
        let is_udp = |protocol| protocol == Protocol::UDP;
        let plain_datagram = match (&fast4, &fast6) {
            (Some(fast), _) if is_udp(fast.protocol) => udp.receive4(fast, frame, checksum),
            (_, Some(fast)) if is_udp(fast.protocol) => udp.receive6(fast, frame, checksum),
            _ => None,
        };
        let datagram = udp.receive_usual4(ip, frame, checksum);
        assert!(datagram.is_none() || ip.may_be_datagram4(frame) && datagram == plain_datagram, "{frame:02x?}");
        let src = frame.get(26..).and_then(|bytes| bytes.first_chunk()).map_or(0, |src| u32::from_be_bytes(*src));
        Short {
            usual: ip.usual4(frame, checksum),
            is_syn: ip.is_usual_syn4(frame, checksum),
            datagram,
            fast4,
            fast6,
            plain_datagram,
            may_send4: ip.may_send4(src),
            // Frames that this host sent do not come back, and what the kernel or this process made is not summed again.
            is_refused_elsewhere: frame.get(6..12) == Some(&IpConfig::default().mac.0[..])
                || checksum != Checksum::Unknown && !has_right_header(frame),
        }
    }

    fn is_datagram(&self) -> bool {
        let protocol = self.fast4.map(|fast| fast.protocol).or(self.fast6.map(|fast| fast.protocol));
        protocol == Some(Protocol::UDP)
    }

    /// The long way comes to the same, as far as a short one went.
    fn check(&self, frame: &[u8], checksum: Checksum, inbound: &Inbound) {
        if let Some(len) = self.usual {
            let usual = Usual4::of(frame, len).expect("a segment");
            match self.fast4 {
                Some(fast) => {
                    let header = tcp::Packet::new_checked(fast.payload(frame)).expect("a segment").header();
                    assert_eq!((usual.src(), usual.dst(), fast.protocol), (fast.src, fast.dst, Protocol::TCP));
                    assert_eq!(usual.ports(), u32::from(header.src_port) << 16 | u32::from(header.dst_port));
                    assert_eq!((usual.seq(), usual.ack()), (header.sequence, header.acknowledgment));
                    assert_eq!((usual.window(), usual.urgent()), (header.window, header.urgent));
                    assert_eq!((usual.ecn(), 32), (fast.tos & 3, fast.payload(frame).len() - usual.data.len()));
                }
                None => assert!(!self.may_send4, "only the source address is left to others: {frame:02x?}"),
            }
        }
        if self.is_syn {
            let (syn, fast) = (UsualSyn4::of(frame).expect("a SYN"), self.fast4.expect("it is plain"));
            let header = tcp::Packet::new_checked(fast.payload(frame)).expect("a segment").header();
            assert_eq!((syn.src, syn.dst, fast.protocol), (fast.src, fast.dst, Protocol::TCP));
            assert_eq!(syn.ports, u32::from(header.src_port) << 16 | u32::from(header.dst_port));
            assert_eq!((syn.seq, syn.ack, syn.window), (header.sequence, header.acknowledgment, header.window));
            assert_eq!((syn.ecn, syn.options.len() + 20), (fast.tos & 3, fast.payload(frame).len()));
        }
        let (found, ends) = match (self.fast4, self.fast6) {
            (Some(fast), _) => {
                let is_right = checksum != Checksum::Unknown || fast.checksum_is_right(frame);
                let ends = (u128::from(fast.src), u128::from(fast.dst), fast.offset, fast.end, fast.tos & 3, fast.ttl);
                ((fast.protocol, is_right), ends)
            }
            (_, Some(fast)) => {
                let is_right = checksum != Checksum::Unknown || fast.checksum_is_right(frame);
                (
                    (fast.protocol, is_right),
                    (fast.src, fast.dst, fast.offset, fast.end, fast.traffic_class & 3, fast.hop_limit),
                )
            }
            _ => return,
        };
        let bits = |address| match address {
            core::net::IpAddr::V4(address) => u128::from(core::net::Ipv4Addr::to_bits(address)),
            core::net::IpAddr::V6(address) => core::net::Ipv6Addr::to_bits(address),
        };
        match (found, inbound) {
            _ if self.is_refused_elsewhere => {}
            // A datagram may be shorter than its packet.
            ((Protocol::UDP, _), Inbound::Udp(packet)) => {
                assert!(!packet.reassembled && packet.payload.end <= usize::from(ends.3));
                let of_packet =
                    (bits(packet.src), bits(packet.dst), packet.payload.start as u16, packet.ecn, packet.ttl);
                assert_eq!(of_packet, (ends.0, ends.1, ends.2, ends.4, ends.5), "{frame:02x?}");
            }
            ((Protocol::TCP, is_right), Inbound::Tcp(packet)) => {
                assert!(is_right && !packet.reassembled, "{frame:02x?}");
                let Packet { payload, ecn, ttl, .. } = packet;
                let of_packet =
                    (bits(packet.src), bits(packet.dst), payload.start as u16, payload.end as u16, *ecn, *ttl);
                assert_eq!(of_packet, ends, "{frame:02x?}");
            }
            ((Protocol::TCP, false), Inbound::Dropped(DropReason::TransportChecksum)) => assert_eq!(self.usual, None),
            // The lengths of a datagram are looked at with its checksum.
            ((Protocol::UDP, _), Inbound::Dropped(why)) => {
                let of_transport = [DropReason::TransportChecksum, DropReason::Truncated, DropReason::Malformed];
                assert!(of_transport.contains(why) && self.plain_datagram.is_none(), "{why:?} {frame:02x?}");
            }
            (found, inbound) => panic!("{found:?} by a short way, {inbound:?} by the long one: {frame:02x?}"),
        }
    }
}

/// True if the checksum of the IPv4 header is right, or there is none.
fn has_right_header(frame: &[u8]) -> bool {
    let offset = if frame.get(12..14) == Some(&EtherType::VLAN.0.to_be_bytes()) { 18 } else { 14 };
    let packet = frame.get(offset..).unwrap_or_default();
    ipv4::Packet::new_checked(packet).map_or(true, |packet| packet.verify_checksum())
}

/// A packet that a transport gets was steered to the shard that owns its ends, or to all; what is for DHCP clients, to the first.
fn check_steering(frame: &[u8], packet: &Packet, transport: &[u8]) {
    let port = |at: usize| u16::from_be_bytes([transport[at], transport[at + 1]]);
    let (one, other) = ((packet.src, port(0)), (packet.dst, port(2)));
    let owners = |shard: u16| Shard::new(shard, 4).is_some_and(|shard| shard.owns(one, other));
    match steering(frame) {
        Steering::Owner(fold) => {
            let steered = |shard: u16| Shard::new(shard, 4).is_some_and(|of| of.owner(fold) == shard);
            assert!((0..4).all(|shard| steered(shard) == owners(shard)), "{frame:02x?}");
        }
        Steering::All => assert!(packet.reassembled, "{frame:02x?}"),
        Steering::First => assert_eq!(other.1, 68, "{frame:02x?}"),
    }
}

/// Does all that is due until a time; deadlines must move on.
fn ticks(ip: &mut Ip, until_ns: u64, out: &mut Batch, pool: &mut Pool) {
    for _ in 0..10_000 {
        let next_ns = ip.next_deadline_ns();
        if next_ns > until_ns {
            return;
        }
        let now_ns = next_ns.max(1);
        ip.tick(now_ns, out, pool);
        assert!(ip.next_deadline_ns() > now_ns, "a deadline stays");
        send(out, pool);
    }
    panic!("deadlines without end");
}

/// All that is sent is right.
fn send(out: &mut Batch, pool: &mut Pool) {
    for frame in out.iter() {
        assert!(verify_checksums(frame).is_ok(), "{frame:02x?}");
    }
    pool.free(out);
}

/// Makes the checksums of a frame right, as far as it can be parsed, so that what lies behind them is reached. A datagram over IPv4 without a
/// checksum keeps none.
fn repair(frame: &mut [u8]) {
    let Ok(packet) = ethernet::Packet::new_checked(&*frame) else { return };
    let (mut ethertype, mut offset) = (packet.ethertype(), ethernet::HEADER_LEN);
    if let (EtherType::VLAN, Some([_, _, high, low])) =
        (ethertype, frame.get(offset..).and_then(|tag| tag.first_chunk()))
    {
        (ethertype, offset) = (EtherType(u16::from_be_bytes([*high, *low])), offset + 4);
    }
    let bytes = &mut frame[offset..];
    if ethertype == EtherType::IPV4
        && let Ok(mut packet) = ipv4::Packet::new_checked(&mut *bytes)
    {
        packet.fill_checksum();
        let (src, dst, protocol) = (packet.src(), packet.dst(), packet.protocol());
        let payload = packet.header_len()..usize::from(packet.total_len());
        let pseudo = |len| Sum::pseudo_ipv4(src, dst, protocol.0, len);
        repair_transport(&mut bytes[payload], protocol, pseudo);
    } else if ethertype == EtherType::IPV6
        && let Ok(packet) = ipv6::Packet::new_checked(&*bytes)
        && let Ok(upper) = packet.upper_layer()
    {
        let (src, dst, end) = (packet.src(), packet.dst(), packet.total_len());
        let Some(payload) = bytes.get_mut(ipv6::HEADER_LEN + upper.offset..end) else { return };
        let pseudo = |len| Sum::pseudo_ipv6(src, dst, upper.protocol.0, u32::from(len));
        if let Ok(mut datagram) = udp::Packet::new_checked(&mut *payload)
            && upper.protocol == Protocol::UDP
        {
            datagram.set_checksum(1);
        }
        repair_transport(payload, upper.protocol, pseudo);
    }
}

fn repair_transport(payload: &mut [u8], protocol: Protocol, pseudo: impl Fn(u16) -> Sum) {
    let len = payload.len() as u16;
    match protocol {
        Protocol::ICMPV4 if payload.len() >= 8 => icmpv4::Packet::new_unchecked(payload).fill_checksum(),
        Protocol::ICMPV6 if payload.len() >= 8 => icmpv6::Packet::new_unchecked(payload).fill_checksum(pseudo(len)),
        Protocol::TCP if tcp::Packet::new_checked(&*payload).is_ok() => {
            tcp::Packet::new_unchecked(payload).fill_checksum(pseudo(len));
        }
        Protocol::UDP => {
            let Ok(mut datagram) = udp::Packet::new_checked(payload) else { return };
            if datagram.checksum() != 0 {
                let len = datagram.length();
                datagram.fill_checksum(pseudo(len));
            }
        }
        _ => {}
    }
}
