//! Names are looked up by the stack itself, at a name server that is a program over another stack.

use super::link;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate_endpoints::{NetworkConfig, start};
use linerate_programs::load::{Client, Config};
use linerate_programs::serve::ServeDocument;
use linerate_programs::{Network, Program, Reports};
use linerate_tcp::{CloseReason, Conn, UdpId};
use link::{LONG, Link};

/// Answers questions for A and AAAA of `known.example` at port 53, and sends back what comes to port 7.
struct NameServer {
    /// The addresses that it tells.
    v4: [u8; 4],
    v6: [u8; 16],
}

impl NameServer {
    fn answer(&self, question: &[u8]) -> Vec<u8> {
        let is_known = question[12..].starts_with(b"\x05known\x07example\x00");
        let is_v6 = question[question.len() - 3] == 28;
        let mut answer = question.to_vec();
        answer[2..4].copy_from_slice(&if is_known { [0x81, 0x80] } else { [0x81, 0x83] });
        if is_known {
            answer[7] = 1;
            answer.extend([0xc0, 12, 0, if is_v6 { 28 } else { 1 }, 0, 1, 0, 0, 0, 60, 0]);
            let address = if is_v6 { &self.v6[..] } else { &self.v4[..] };
            answer.push(address.len() as u8);
            answer.extend(address);
        }
        answer
    }
}

impl Program for NameServer {
    fn start<N: Network>(&mut self, network: &mut N) -> Result<(), String> {
        for address in ["0.0.0.0:53", "0.0.0.0:7", "[::]:7"] {
            network.udp_open(Some(address.parse().unwrap()), None).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn connected<N: Network>(&mut self, _: Conn, _: &mut N) {}

    fn received<N: Network>(&mut self, _: Conn, data: &[u8], _: &mut N) -> usize {
        data.len()
    }

    fn sendable<N: Network>(&mut self, _: Conn, _: &mut N) {}

    fn peer_closed<N: Network>(&mut self, _: Conn, _: &mut N) {}

    fn closed<N: Network>(&mut self, _: Conn, _: CloseReason, _: &mut N) {}

    fn datagram<N: Network>(&mut self, socket: UdpId, from: SocketAddr, to: SocketAddr, data: &[u8], network: &mut N) {
        let answer = if to.port() == 53 { self.answer(data) } else { data.to_vec() };
        network.udp_send(socket, Some(to.ip()), Some(from), &answer).unwrap();
    }
}

impl Reports for NameServer {
    type Document = ServeDocument;
    type Reading = ();
    const SCHEMA: &'static str = "test";
    const SAVES_CPU: bool = false;

    fn reading(&self, _: u64) {}

    fn document(_: &[()]) -> ServeDocument {
        ServeDocument::default()
    }
}

fn network(link: &Link, text: &str) -> (Client, NetworkConfig) {
    let plan = Config::parse(text).unwrap().plan().unwrap();
    let network =
        NetworkConfig { names: plan.names(), name_servers: vec!["198.18.5.1".parse().unwrap()], ..link.network(2) };
    (Client::new(Arc::new(plan)), network)
}

#[test]
fn a_load_goes_to_the_address_of_its_name() {
    let link = Link::new();
    let v6: std::net::Ipv6Addr = "fd00:5::1".parse().unwrap();
    let _server = link.start(1, NameServer { v4: [198, 18, 5, 1], v6: v6.octets() });
    let (client, network) = network(&link, "count = 10\n[[request]]\nurl = \"udp://known.example:7\"\n");
    let running = start(client, &network, link.options("end2")).unwrap();
    assert_eq!(running.address_of("known.example"), Some("198.18.5.1".parse().unwrap()));
    let began = Instant::now();
    while !running.has_ended() {
        assert!(began.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(5));
    }
    let ended = running.stop().unwrap();
    assert!(ended.snapshot.program.is_well(), "{:?}", ended.snapshot.program);
    assert_eq!(ended.frames_missing, 0);
}

#[test]
fn a_name_without_an_address_is_refused_with_words() {
    let link = Link::new();
    let _server = link.start(1, NameServer { v4: [198, 18, 5, 1], v6: [0; 16] });
    let (client, network) = network(&link, "[[request]]\nurl = \"udp://other.example:7\"\n");
    let error = start(client, &network, link.options("end2")).map(drop).unwrap_err().to_string();
    assert!(error.contains("other.example") && error.contains("no such name"), "{error}");
}

#[test]
fn a_name_wants_a_name_server() {
    let link = Link::new();
    let _server = link.start(1, NameServer { v4: [0; 4], v6: [0; 16] });
    let (client, network) = network(&link, "[[request]]\nurl = \"udp://other.example:7\"\n");
    let network = NetworkConfig { name_servers: Vec::new(), ..network };
    let error = start(client, &network, link.options("end2")).map(drop).unwrap_err().to_string();
    assert!(error.contains("name server"), "{error}");
}
