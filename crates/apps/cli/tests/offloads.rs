//! Hosts that leave checksums and the cutting of packets to a network card, as every namespace with a veth does: what they send
//! over TCP and UDP gets through `linerate switch` and `linerate bridge`, on ports of each kind, with all offloads as they are.

use super::common;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{INTERFACE, Run};
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::veth::{self, VethEnd};
use serde_json::Value;

/// Bytes that go each way over a connection, and at a time: more than the kernel puts into one packet.
const BYTES: usize = 6 << 20;
const WRITE_BYTES: usize = 256 << 10;
/// Longer than anything here takes; reaching it is a failure.
const PATIENCE: Duration = Duration::from_secs(120);

const LEFT: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1)), v6(1)];
const RIGHT: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2)), v6(2)];

const fn v6(host: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, host))
}

/// Two hosts, and between them the namespace in which Linerate works.
struct Hosts {
    left: NetNs,
    middle: NetNs,
    right: NetNs,
}

impl Hosts {
    /// `None`, and a line that says why, where this machine does not allow it.
    fn new() -> Option<Hosts> {
        match (NetNs::anonymous(), NetNs::anonymous(), NetNs::anonymous()) {
            (Ok(left), Ok(middle), Ok(right)) => Some(Hosts { left, middle, right }),
            (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
                eprintln!("skipped: no network namespaces: {error}");
                None
            }
        }
    }

    fn each(&self) -> [(&NetNs, &'static str, [IpAddr; 2]); 2] {
        [(&self.left, "near", LEFT), (&self.right, "far", RIGHT)]
    }

    /// Cables for ports on interfaces: `near` and `far` in the middle.
    fn cable(&self) {
        for (host, inner, _) in self.each() {
            let inside = VethEnd { name: inner, namespace: &self.middle };
            veth::create(VethEnd { name: INTERFACE, namespace: host }, inside, 1).expect("a veth pair");
            self.middle.run(|| Netdev::open(inner)?.set_up(true)).expect("enter").expect("up");
        }
    }

    /// Moves the TAP devices that Linerate has opened, `near` and `far`, to the hosts, as is done for containers.
    fn hand_over(&self) {
        for (host, inner, _) in self.each() {
            veth::move_to(&self.middle, inner, VethEnd { name: INTERFACE, namespace: host }).expect("moved");
        }
    }

    /// Gives the hosts their addresses; false where there is no ip(8).
    fn address(&self) -> bool {
        for (host, _, addresses) in self.each() {
            host.run(|| Netdev::open(INTERFACE)?.set_up(true)).expect("enter").expect("up");
            for address in addresses {
                let bits = if address.is_ipv4() { 24 } else { 64 };
                let line = format!("address add {address}/{bits} dev {INTERFACE}");
                let mut command = Command::new("ip");
                command.args(line.split_whitespace()).args(address.is_ipv6().then_some("nodad"));
                match host.run(|| command.status()).expect("enter") {
                    Ok(status) => assert!(status.success(), "ip {line}"),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                        eprintln!("skipped: there is no ip(8)");
                        return false;
                    }
                    Err(error) => panic!("ip: {error}"),
                }
            }
        }
        true
    }

    /// [`BYTES`] each way at the same time.
    fn exchange_tcp(&self, version: usize) {
        let address = SocketAddr::new(RIGHT[version], 5201);
        let listener = self.right.run(|| TcpListener::bind(address)).expect("enter").expect("bind");
        let connect = || {
            let deadline = Instant::now() + PATIENCE;
            loop {
                match TcpStream::connect_timeout(&address, Duration::from_secs(10)) {
                    Ok(stream) => return stream,
                    Err(error) => assert!(Instant::now() < deadline, "no connection to {address}: {error}"),
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        };
        let left = self.left.run(connect).expect("enter");
        let (right, _) = listener.accept().expect("a connection");
        std::thread::scope(|scope| {
            for (stream, seed) in [(&left, 1), (&right, 2)] {
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
                scope.spawn(move || send(stream, seed));
                scope.spawn(move || check(stream, 3 - seed));
            }
        });
    }

    /// Datagrams there and back, one after the other, some of them in fragments.
    fn exchange_udp(&self, version: usize) {
        let at = |namespace: &NetNs, address: IpAddr| {
            let socket = namespace.run(|| UdpSocket::bind((address, 5202))).expect("enter").expect("bind");
            socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
            socket
        };
        let (left, right) = (at(&self.left, LEFT[version]), at(&self.right, RIGHT[version]));
        right.connect((LEFT[version], 5202)).expect("connect");
        left.connect((RIGHT[version], 5202)).expect("connect");
        let mut buffer = vec![0; 10_000];
        for len in [1, 2, 3, 17, 18, 19, 100, 999, 1400, 1452, 1472, 3000, 8001] {
            let datagram: Vec<u8> = bytes(len as u64).take(len).collect();
            for (from, to) in [(&left, &right), (&right, &left)] {
                let arrived = (0..60).any(|_| {
                    from.send(&datagram).expect("send");
                    // One that was sent again may come twice.
                    std::iter::from_fn(|| to.recv(&mut buffer).ok()).any(|received| received == len)
                });
                assert!(arrived, "{len} bytes over UDP never arrive");
                assert!(buffer[..len] == datagram, "{len} bytes over UDP are others");
            }
        }
    }
}

/// Bytes that follow from a seed.
fn bytes(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    })
}

fn send(mut stream: &TcpStream, seed: u64) {
    let all: Vec<u8> = bytes(seed).take(BYTES).collect();
    for part in all.chunks(WRITE_BYTES) {
        stream.write_all(part).expect("TCP takes bytes");
    }
}

fn check(mut stream: &TcpStream, seed: u64) {
    let mut all = vec![0; BYTES];
    stream.read_exact(&mut all).expect("TCP brings bytes");
    assert!(all.iter().copied().eq(bytes(seed).take(BYTES)), "other bytes arrived than were sent");
}

/// Everything through one kind of port.
fn get_through(backend: &str) {
    for (command, ready) in
        [("switch --port near={} --port far={} --json", "is running"), ("bridge {} {} --json", "(TAP device far")]
    {
        let usable =
            linerate_ports::list().into_iter().find(|listed| listed.name == backend).expect("a backend").usable;
        if let Err(missing) = usable {
            return eprintln!("skipped: {backend}: {}", missing.cause);
        }
        let Some(hosts) = Hosts::new() else { return };
        let is_tap = backend == "tap";
        if !is_tap {
            hosts.cable();
        }
        let ports = ["near", "far"].map(|inner| format!("{backend}:{inner}"));
        let line = ports.iter().fold(command.to_owned(), |line, port| line.replacen("{}", port, 1));
        let folder = tempfile::tempdir().expect("a folder");
        let start = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
            Run::from(command.args(line.split_whitespace()).env("XDG_RUNTIME_DIR", folder.path()))
        };
        let linerate = hosts.middle.run(start).expect("enter");
        if is_tap {
            // Linerate finds a device by its name until it has opened the port.
            linerate.wait_for("ports", |text| text.contains(ready));
            hosts.hand_over();
        }
        if !hosts.address() {
            return;
        }
        for version in [0, 1] {
            hosts.exchange_tcp(version);
            hosts.exchange_udp(version);
        }
        linerate.signal("INT");
        let ended = linerate.end();
        ended.expect_code(0);
        let last = ended.stdout.lines().last().expect("a document");
        let document: Value =
            serde_json::from_str(last).or_else(|_| serde_json::from_str(&ended.stdout)).expect("JSON");
        check_account(&document);
    }
}

/// Every packet that came is forwarded, or lost for a reason.
fn check_account(document: &Value) {
    if document["schema"] == "linerate.switch/1" {
        assert!(document["totals"]["unbalanced"].is_null() && document["last"] == true, "{document}");
        assert!(document["totals"]["received"].as_u64().is_some_and(|packets| packets > 1000), "{document}");
        return;
    }
    let lanes = document["lanes"].as_array().expect("lanes");
    for lane in lanes {
        assert!(lane["unexplained"] == 0 && lane["received"].as_u64().is_some_and(|packets| packets > 1000), "{lane}");
    }
    assert_eq!(lanes.len(), 2);
}

#[test]
fn af_packet() {
    get_through("packet");
}

#[test]
fn af_xdp() {
    get_through("xdp");
}

#[test]
fn libpcap() {
    get_through("pcap");
}

#[test]
fn tap_devices_that_are_moved() {
    get_through("tap");
}
