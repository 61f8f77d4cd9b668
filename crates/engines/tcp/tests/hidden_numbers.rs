//! Numbers that nobody outside may guess: initial sequence numbers (RFC 6528), ports (RFC 6056), clocks of timestamps (RFC 7323 section 5.4).

use super::support;

use core::net::SocketAddr;

use linerate_ip::{AddressRange, IpConfig};
use linerate_mem::PoolConfig;
use linerate_tcp::{ConnectOptions, StackConfig};
use linerate_wire::{Parsed, tcp};
use support::Machine;
use support::program::Program;

/// What a first SYN shows.
#[derive(Clone, Copy, Debug)]
struct Shown {
    port: u16,
    isn: u32,
    clock: u32,
}

const START_NS: u64 = 1_000_000_000_000;

/// The SYN to host `to` of a stack with this secret, from `port` (0: its own choice), sent `after_ns` after the start.
fn syn(secret: u8, to: u8, port: u16, after_ns: u64) -> Shown {
    let ip = IpConfig {
        addresses: vec![AddressRange::one([192, 0, 2, 1].into(), 24)],
        ipv6: false,
        duplicate_detection: false,
        ..IpConfig::default()
    };
    let config = StackConfig { ip, connections_max: 16, secret: [secret; 16], ..StackConfig::default() };
    let mut machine = Machine::new(
        config,
        PoolConfig { frames: 512, ..PoolConfig::default() },
        START_NS + after_ns,
        Program::default(),
    )
    .expect("a stack");
    let remote = SocketAddr::from(([192, 0, 2, to], 80));
    machine
        .with(|_, io| io.connect(ConnectOptions { local_port: port, ..ConnectOptions::new(remote) }))
        .expect("connecting");
    let frame = loop {
        let frame = machine.next_frame(machine.now_ns).expect("a question for the address, or the SYN");
        if Parsed::parse(&frame).unwrap().ip.is_some() {
            break frame;
        }
        let is_announcement = frame[28..32] == frame[38..42];
        if !is_announcement {
            machine.deliver([arp_reply(&frame).as_slice()]);
        }
    };
    let at = Parsed::parse(&frame).unwrap().ip.unwrap().payload_offset;
    let header = tcp::Packet::new_checked(&frame[at..]).unwrap();
    let options = header.options();
    let clock = options.windows(10).find(|option| option[..2] == [8, 10]).expect("a timestamp");
    Shown {
        port: header.src_port(),
        isn: header.sequence(),
        clock: u32::from_be_bytes(clock[2..6].try_into().unwrap()),
    }
}

fn arp_reply(question: &[u8]) -> Vec<u8> {
    let mut reply = question.to_vec();
    reply[0..6].copy_from_slice(&question[6..12]);
    reply[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    reply[21] = 2;
    reply[22..28].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    reply[28..32].copy_from_slice(&question[38..42]);
    reply[32..38].copy_from_slice(&question[22..28]);
    reply[38..42].copy_from_slice(&question[28..32]);
    reply
}

/// True if the numbers are as far apart as chance has them, and in no order.
fn is_scattered(numbers: &[u32]) -> bool {
    let steps: Vec<u32> = numbers.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
    let near = steps.iter().filter(|step| (**step as i32).unsigned_abs() < 1 << 20).count();
    let mut unique = steps.clone();
    unique.sort_unstable();
    unique.dedup();
    near <= 1 && unique.len() == steps.len()
}

#[test]
fn initial_numbers_follow_a_clock_and_a_secret() {
    let first = syn(1, 2, 5000, 0);
    assert_eq!(first.isn, syn(1, 2, 5000, 0).isn, "the function of addresses and ports is one");
    // The clock of RFC 793 and 6528 counts every four microseconds.
    let later = syn(1, 2, 5000, 4_000_000);
    assert_eq!(later.isn.wrapping_sub(first.isn), 1000);
    let by_secret: Vec<u32> = (1..20).map(|secret| syn(secret, 2, 5000, 0).isn).collect();
    let by_port: Vec<u32> = (5000..5020).map(|port| syn(1, 2, port, 0).isn).collect();
    let by_host: Vec<u32> = (2..22).map(|host| syn(1, host, 5000, 0).isn).collect();
    for numbers in [by_secret, by_port, by_host] {
        assert!(is_scattered(&numbers), "{numbers:?}");
    }
}

#[test]
fn clocks_of_connections_differ() {
    let clocks: Vec<u32> = (5000..5020).map(|port| syn(1, 2, port, 0).clock).collect();
    assert!(is_scattered(&clocks), "{clocks:?}");
    assert_eq!(
        syn(1, 2, 5000, 0).clock,
        syn(1, 2, 5000, 0).clock,
        "a new incarnation goes on, so that PAWS and TIME-WAIT can tell it"
    );
    assert_eq!(syn(1, 2, 5000, 7_000_000).clock.wrapping_sub(syn(1, 2, 5000, 0).clock), 7);
}

#[test]
fn ports_cannot_be_guessed() {
    let by_secret: Vec<u32> = (1..20).map(|secret| u32::from(syn(secret, 2, 0, 0).port) << 16).collect();
    let by_host: Vec<u32> = (2..22).map(|host| u32::from(syn(1, host, 0, 0).port) << 16).collect();
    for ports in [by_secret, by_host] {
        assert!(ports.iter().all(|port| port >> 16 >= 1024), "{ports:?}");
        assert!(is_scattered(&ports), "{ports:?}");
    }
}
