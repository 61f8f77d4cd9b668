//! Body of the fuzz target `ip_frames`: any frames at any times into the layer below TCP. Also run by the tests of `linerate-ip`.
//!
//! The first byte chooses a configuration. Then come records: a time step in tenths of a second (its top bit: make the checksums right
//! first), the length of the frame in two bytes, the frame.

use linerate_ip::{
    DhcpMode, ErrorOut, Inbound, Ip, IpConfig, Limits, Output, Packet, Redirects, Shard, Steering, Udp, steering,
};
use linerate_mem::{Batch, Checksum, Pool, PoolConfig};
use linerate_wire::{EtherType, Protocol, Sum, ethernet, icmpv4, icmpv6, ipv4, ipv6, udp, verify_checksums};

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
    let mut udp = Udp::new(8, [0; 16]);
    let echo = udp.bind("0.0.0.0:7".parse().expect("an address"), &ip).expect("a socket");
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
        let fast = ip.fast4(&frame, Checksum::Unknown).is_some() || ip.fast6(&frame).is_some();
        match ip.receive(&frame, Checksum::Unknown, now_ns, &mut out, &mut pool) {
            Inbound::Udp(packet) => {
                let bytes = ip.bytes(&packet, &frame).to_vec();
                check_steering(&frame, &packet, &bytes[packet.payload.clone()]);
                match udp.receive(&packet, &bytes) {
                    Some(datagram) => {
                        let data = &bytes[datagram.data.clone()];
                        let (from, to) = (Some(datagram.to.ip()), Some(datagram.from));
                        let mut output = Output { now_ns, batch: &mut out, pool: &mut pool };
                        let _ = udp.send(echo, from, to, data, false, &mut ip, &mut output);
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
            Inbound::Handled => {}
            Inbound::Dropped(_) => assert!(!fast || is_transports(&frame), "the fast path took what is refused"),
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

/// True if only the transport's checks, which the fast path leaves to others, can have refused the frame.
fn is_transports(frame: &[u8]) -> bool {
    frame.len() >= 34
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

/// Makes the checksums of a frame right, as far as it can be parsed, so that what lies behind them is reached.
fn repair(frame: &mut [u8]) {
    let Ok(packet) = ethernet::Packet::new_checked(&*frame) else { return };
    let ethertype = packet.ethertype();
    let bytes = &mut frame[ethernet::HEADER_LEN..];
    if ethertype == EtherType::IPV4
        && let Ok(mut packet) = ipv4::Packet::new_checked(&mut *bytes)
    {
        packet.fill_checksum();
        let (protocol, data) = (packet.protocol(), packet.header_len()..usize::from(packet.total_len()));
        let payload = &mut bytes[data];
        match protocol {
            Protocol::ICMPV4 if payload.len() >= 8 => icmpv4::Packet::new_unchecked(payload).fill_checksum(),
            Protocol::UDP if payload.len() >= 8 => udp::Packet::new_unchecked(payload).set_checksum(0),
            _ => {}
        }
    } else if ethertype == EtherType::IPV6
        && let Ok(packet) = ipv6::Packet::new_checked(&*bytes)
        && let Ok(upper) = packet.upper_layer()
    {
        let (src, dst, end) = (packet.src(), packet.dst(), packet.total_len());
        let Some(payload) = bytes.get_mut(ipv6::HEADER_LEN + upper.offset..end) else { return };
        let pseudo = Sum::pseudo_ipv6(src, dst, upper.protocol.0, payload.len() as u32);
        match upper.protocol {
            Protocol::ICMPV6 if payload.len() >= 8 => icmpv6::Packet::new_unchecked(payload).fill_checksum(pseudo),
            Protocol::UDP if udp::Packet::new_checked(&*payload).is_ok() => {
                udp::Packet::new_unchecked(payload).fill_checksum(pseudo);
            }
            _ => {}
        }
    }
}
