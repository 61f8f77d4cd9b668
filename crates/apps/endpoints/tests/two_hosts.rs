//! Programs over two stacks of this process, which a memif joins: a load and its server, sockets for threads.

use super::link;

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate_control::Connection;
use linerate_endpoints::document::CaptureDocument;
use linerate_endpoints::request::Request;
use linerate_endpoints::{Ended, NetworkConfig};
use linerate_programs::Reports;
use linerate_programs::load::{Cause, Client, Config};
use linerate_programs::serve::{Addresses, Echo, HttpServer, Server, Site};
use link::{LONG, Link, any, frames_of};

/// Runs a load, whose frames are captured, against a server until its end.
fn load<S: Reports + Server>(text: &str, server: S) -> (Ended<Client>, Ended<S>) {
    let link = Link::new();
    let server = link.start(1, server);
    let plan = Config::parse(text).unwrap().plan().unwrap();
    let client = link.start(2, Client::new(Arc::new(plan)));
    let began = Instant::now();
    while !client.has_ended() {
        assert!(
            began.elapsed() < LONG,
            "the load does not end: {:?}",
            client.snapshot().map(|snapshot| snapshot.program)
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let ended = (client.stop().unwrap(), server.stop().unwrap());
    let captured = std::fs::metadata(link.0.path().join("frames.pcapng")).unwrap().len();
    let packets = &ended.0.snapshot.packets;
    assert!(captured > packets.sent_bytes + packets.received_bytes, "{captured} bytes: {packets:?}");
    ended
}

#[test]
fn a_load_is_answered_and_accounted_for() {
    for host in ["198.18.5.1", "[fd00:5::1]"] {
        let text = format!(
            "connections = 50\npipeline = 2\ncount = 3000\n[[request]]\nurl = \"http://{host}/\"\nexpect-bytes = 3000\n\
             [[request]]\nurl = \"http://{host}/x\"\nbody = \"hello\"\n"
        );
        let (client, server) = load(&text, HttpServer::new(any(80), Site::of_len(3000), 0));
        let load = &client.snapshot.program;
        assert_eq!((load.requests.intended, load.requests.completed), (3000, 3000), "{load:?}");
        assert_eq!((load.connections.begun, load.connections.completed), (50, 50), "{load:?}");
        assert!(load.is_well() && load.requests.balances() && load.connections.balances(), "{load:?}");
        assert_eq!((client.frames_missing, server.frames_missing), (0, 0));
        assert!(client.snapshot.packets.sent > 100 && client.snapshot.counters["TcpActiveOpens"] == 50);
    }
}

#[test]
fn what_the_stack_drops_is_in_the_account_by_reason() {
    let link = Link::new();
    let network = NetworkConfig { vlan: Some(5), ..link.network(1) };
    let server = Echo::new(Addresses { tcp: any(7), udp: any(7) });
    let server = linerate_endpoints::start(server, &network, link.options("end1")).unwrap();
    // The client is in no VLAN: it asks for the server's address, and nobody hears it.
    let text = "count = 1\n[[request]]\nurl = \"tcp://198.18.5.1:7\"\n";
    let client = link.start(2, Client::new(Arc::new(Config::parse(text).unwrap().plan().unwrap())));
    let (began, mut packets) = (Instant::now(), server.snapshot().unwrap().packets);
    while packets.stack_drops.is_empty() {
        assert!(began.elapsed() < LONG, "{packets:?}");
        std::thread::sleep(Duration::from_millis(5));
        packets = server.snapshot().unwrap().packets;
    }
    client.stop().unwrap();
    let packets = server.stop().unwrap().snapshot.packets;
    let [drops] = &packets.stack_drops[..] else { panic!("{packets:?}") };
    assert_eq!((drops.place.as_str(), drops.cause.as_str()), ("the stack", "other-vlan"));
    assert_eq!(drops.packets, packets.received);
}

#[test]
fn a_capture_begins_and_ends_while_a_program_runs() {
    let link = Link::new();
    let server = link.start(1, Echo::new(Addresses { tcp: any(7), udp: any(7) }));
    let text = "connections = 2\nthink = \"1ms\"\nduration = \"600s\"\n[[request]]\nurl = \"tcp://198.18.5.1:7\"\n";
    let client = link.start(2, Client::new(Arc::new(Config::parse(text).unwrap().plan().unwrap())));
    let mut control = Connection::to(server.dir()).unwrap();
    let mut capture = |file: Option<&std::path::Path>| -> Result<CaptureDocument, _> {
        let request = Request::Capture { file: file.map(Into::into) };
        control.ask(&request).map(|value| serde_json::from_value(value).unwrap())
    };
    assert!(capture(None).is_err(), "nothing is captured yet");
    for number in 0..2 {
        let path = link.0.path().join(format!("{number}.pcapng"));
        assert_eq!(capture(Some(&path)).unwrap().file, path.display().to_string());
        assert!(capture(Some(&path)).is_err(), "one capture at a time");
        let passed = || server.snapshot().unwrap().packets;
        let (began, before) = (Instant::now(), passed());
        while passed().sent < before.sent + 100 {
            assert!(began.elapsed() < LONG, "no packets pass");
            std::thread::sleep(Duration::from_millis(5));
        }
        let after = passed();
        let ended = capture(None).unwrap();
        let least = after.sent + after.received - before.sent - before.received;
        assert!(ended.written >= least && (ended.missed, ended.causes.len()) == (0, 0), "{least}: {ended:?}");
        assert_eq!(frames_of(&path), ended.written);
    }
    client.stop().unwrap();
    assert_eq!(server.stop().unwrap().frames_missing, 0);
}

#[test]
fn connections_come_and_go() {
    let text =
        "connections = 20\nrequests-per-connection = 1\ncount = 2000\n[[request]]\nurl = \"http://198.18.5.1/\"\n";
    let (client, _) = load(text, HttpServer::new(any(80), Site::of_len(10), 0));
    let load = &client.snapshot.program;
    assert!(load.is_well(), "{load:?}");
    assert!(load.connections.completed >= 2000, "{load:?}");
}

#[test]
fn long_echoes_are_compared() {
    let text = "connections = 3\ncount = 12\n[[request]]\nurl = \"tcp://198.18.5.1:7\"\nrequest = \"1M\"\n";
    let (client, server) = load(text, Echo::new(Addresses { tcp: any(7), udp: any(7) }));
    assert!(client.snapshot.program.is_well(), "{:?}", client.snapshot.program);
    assert_eq!(client.snapshot.program.rx_bytes, 12_000_000);
    assert_eq!(server.frames_missing, 0);
}

#[test]
fn datagrams_of_both_families_are_echoed() {
    for host in ["198.18.5.1", "[fd00:5::1]"] {
        // The long ones leave in fragments.
        let text = format!(
            "connections = 20\ncount = 2000\n[[request]]\nurl = \"udp://{host}:7\"\n[[request]]\nurl = \"udp://{host}:7\"\nrequest = 4000\n"
        );
        let (client, server) = load(&text, Echo::new(Addresses { tcp: any(7), udp: any(7) }));
        let load = &client.snapshot.program;
        assert!(load.is_well() && load.requests.completed == 2000, "{load:?}");
        assert_eq!((load.connections.begun, load.connections.completed), (20, 20), "{load:?}");
        assert_eq!(server.snapshot.program.served.datagrams, 2000);
        assert_eq!((client.frames_missing, server.frames_missing), (0, 0));
    }
}

#[test]
fn a_port_without_a_service_refuses_datagrams() {
    let text = "connections = 2\ncount = 3\n[[request]]\nurl = \"udp://198.18.5.1:8\"\n";
    let (client, _) = load(text, Echo::new(Addresses { tcp: any(7), udp: any(7) }));
    let load = &client.snapshot.program;
    assert!(load.requests.balances() && load.requests.begun == 3 && load.requests.lost_total() == 3, "{load:?}");
    assert_eq!(load.requests.lost[0].cause, Cause::Refused, "{load:?}");
}

#[test]
fn a_port_without_a_server_refuses() {
    let text = "connections = 2\nduration = \"300ms\"\n[[request]]\nurl = \"tcp://198.18.5.1:8\"\n";
    let (client, _) = load(text, Echo::new(Addresses { tcp: any(7), udp: any(7) }));
    let load = &client.snapshot.program;
    assert!(load.connections.balances() && load.connections.begun > 1 && load.requests.intended == 0, "{load:?}");
    assert_eq!(load.connections.lost_total(), load.connections.begun);
    assert!(!load.is_well());
}

#[test]
fn threads_read_and_write() {
    let link = Link::new();
    let (one, two) = (link.host(1), link.host(2));
    let listener = one.listen("198.18.5.1:1000".parse().unwrap()).unwrap();
    assert!(one.listen("198.18.5.1:1000".parse().unwrap()).is_err(), "it is in use");
    assert!(one.listen("198.18.5.9:1000".parse().unwrap()).is_err(), "it is not one of this host");
    let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at % 253) as u8).collect();
    let expected = bytes.clone();
    let server = std::thread::spawn(move || {
        let (mut stream, peer) = listener.accept_blocking().unwrap();
        assert_eq!(peer.ip().to_string(), "198.18.5.2");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert!(all == expected);
        stream.write_all(b"done").unwrap();
        // The connection is closed after these bytes.
    });
    let mut stream = two.connect_blocking("198.18.5.1:1000".parse().unwrap()).unwrap();
    stream.write_all(&bytes).unwrap();
    stream.shut_down_write();
    assert!(stream.write(b"x").is_err());
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"done");
    server.join().unwrap();
    let refused = two.connect_blocking("198.18.5.1:1001".parse().unwrap()).map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_host_that_ends_ends_its_streams() {
    let link = Link::new();
    let (one, two) = (link.host(1), link.host(2));
    let listener = one.listen("198.18.5.1:1000".parse().unwrap()).unwrap();
    let stream = two.connect_blocking("198.18.5.1:1000".parse().unwrap()).unwrap();
    let (accepted, _) = listener.accept_blocking().unwrap();
    drop(one);
    let mut byte = [0];
    assert!((&accepted).read(&mut byte).is_err());
    assert!(listener.accept_blocking().is_err());
    // The peer of a host that ends is told by a reset.
    assert_eq!((&stream).read(&mut byte).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}
