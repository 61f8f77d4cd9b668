//! Controllers that break the rules: packets of installed entries pass meanwhile, and sound controllers are served.

use super::common;

use std::io::{Read, Write};
use std::net::TcpStream;

use common::{Controller, LONG, Station, address, config, packet_out, show, snapshot, start_in, stop, wait_until};
use linerate_ofswitch::Running;
use linerate_ofswitch::request::What;
use linerate_openflow::{Message, encode};

fn silent(running: &Running) -> TcpStream {
    let stream = TcpStream::connect(address(running)).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// Reads until the switch closes the connection.
fn until_closed(mut stream: TcpStream) -> Vec<u8> {
    let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
    while let Ok(len @ 1..) = stream.read(&mut bytes) {
        all.extend_from_slice(&bytes[..len]);
    }
    all
}

/// Sends packets through the switch, and expects all of them at the other side.
fn forwards(a: &mut Station, b: &mut Station) {
    for mark in 0..10 {
        a.send_all(mark, 64);
        assert_eq!(b.expect(64), [mark; 64]);
    }
}

#[test]
fn broken_messages_close_their_own_connection_only() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_in(folder.path(), &config("broken", 2));
    let (mut a, mut b) = (Station::join(&running, "broken", 1), Station::join(&running, "broken", 2));
    Controller::connect(&running).add_flow("in_port=1,actions=output:2");
    let mut half = silent(&running);
    half.write_all(&[4, 0, 0, 16, 0]).unwrap();
    let hello = [4, 0, 0, 8, 0, 0, 0, 1];
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        &[1, 0, 0, 8, 0, 0, 0, 1],
        &[4, 5, 0, 8, 0, 0, 0, 1],
        &[[4, 0, 0, 8, 0, 0, 0, 1], [4, 2, 0, 4, 0, 0, 0, 1]].concat(),
        &[0xff; 200_000],
    ] {
        let mut stream = silent(&running);
        // It may be closed before all was written.
        let _ = stream.write_all(bytes);
        until_closed(stream);
        Controller::connect(&running).barrier();
    }
    // Messages that are whole and wrong have an error as an answer, and the connection stays.
    let mut stream = silent(&running);
    stream.write_all(&hello).unwrap();
    stream.write_all(&[4, 14, 0, 12, 0, 0, 0, 7, 1, 2, 3, 4]).unwrap();
    stream.write_all(&[4, 99, 0, 8, 0, 0, 0, 8]).unwrap();
    stream.write_all(&[4, 20, 0, 8, 0, 0, 0, 9]).unwrap();
    let mut answer = vec![0; 16 + 24 + 20 + 8];
    stream.read_exact(&mut answer).unwrap();
    assert!(answer.ends_with(&[4, 21, 0, 8, 0, 0, 0, 9]), "{answer:?}");
    forwards(&mut a, &mut b);
    drop((half, a, b));
    stop(running);
}

/// 64 connections that say nothing are all that there may be; a controller that comes then finds a place.
#[test]
fn connections_that_say_nothing_make_way() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_in(folder.path(), &config("many", 2));
    let (mut a, mut b) = (Station::join(&running, "many", 1), Station::join(&running, "many", 2));
    let mut early = Controller::connect(&running);
    early.add_flow("in_port=1,actions=output:2");
    let crowd: Vec<TcpStream> = (0..200).map(|_| silent(&running)).collect();
    forwards(&mut a, &mut b);
    let mut late = Controller::connect(&running);
    late.barrier();
    early.barrier();
    assert!(show(&running, What::Controller).as_array().unwrap().len() <= 64);
    forwards(&mut a, &mut b);
    // They are given up in the end, though none of them has ended.
    wait_until("only those that spoke are left", || show(&running, What::Controller).as_array().unwrap().len() <= 2);
    drop((crowd, a, b));
    stop(running);
}

/// Who does not read its answers, and who floods the switch with packets, waits; the memory for both is bounded.
#[test]
fn floods_are_held_back() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_in(folder.path(), &config("flood", 3));
    let [mut a, mut b, mut c] = [1, 2, 3].map(|number| Station::join(&running, "flood", number));
    let mut sound = Controller::connect(&running);
    sound.add_flow("in_port=1,actions=output:2");
    let stopping = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    let floods = std::thread::scope(|scope| {
        let flood = |message: Message| {
            let (mut stream, stopping) = (silent(&running), &stopping);
            scope.spawn(move || {
                let mut bytes = Vec::new();
                (0..500).for_each(|xid| encode(&mut bytes, xid, &message).unwrap());
                stream.write_all(&[4, 0, 0, 8, 0, 0, 0, 1]).unwrap();
                stream.set_write_timeout(Some(std::time::Duration::from_millis(100))).unwrap();
                let mut written = 0u64;
                while !stopping.load(relaxed) {
                    written += stream.write(&bytes).unwrap_or(0) as u64;
                }
                written
            })
        };
        // Nobody takes packets at the third port; echoes and statistics nobody reads.
        let floods = [flood(packet_out(1, "output:3")), flood(Message::EchoRequest(vec![7; 1000]))];
        for _ in 0..20 {
            forwards(&mut a, &mut b);
            sound.barrier();
        }
        stopping.store(true, relaxed);
        floods.map(|flood| flood.join().unwrap())
    });
    assert!(floods[1] < 64 << 20, "echoes are not taken without end: {floods:?}");
    sound.barrier();
    let totals = snapshot(&running).totals;
    assert!(!totals.drops.contains_key("packet-out-full"), "{totals:?}");
    assert!(totals.packet_outs > 100, "{totals:?}");
    wait_until("the third port is empty", || c.receive().is_empty() && snapshot(&running).totals.waiting == 0);
    drop((a, b, c));
    stop(running);
}

/// Connections to an encrypted port that never speak TLS, or half of it.
#[test]
fn handshakes_that_never_end_are_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["switch".to_string()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let [key_file, certificate] = ["switch.key", "switch.pem"].map(|name| folder.path().join(name));
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    std::fs::write(&certificate, params.self_signed(&key).unwrap().pem()).unwrap();
    let mut config = config("handshake", 2);
    config.listen.push("pssl:0:127.0.0.1".into());
    (config.private_key, config.certificate, config.ca_cert) =
        (Some(key_file), Some(certificate.clone()), Some(certificate));
    let running = start_in(folder.path(), &config);
    let (mut a, mut b) = (Station::join(&running, "handshake", 1), Station::join(&running, "handshake", 2));
    let mut sound = Controller::connect(&running);
    sound.add_flow("in_port=1,actions=output:2");
    let encrypted = running.listening()[1].address;
    // The beginning of a record with a handshake, and nothing more.
    let halves: Vec<TcpStream> = (0..30)
        .map(|number| {
            let mut stream = TcpStream::connect(encrypted).unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            stream.write_all(&[0x16, 3, 1, 2, 0, 1, 0][..number % 8]).unwrap();
            stream
        })
        .collect();
    forwards(&mut a, &mut b);
    sound.barrier();
    let before = snapshot(&running).seconds;
    halves.into_iter().for_each(|half| drop(until_closed(half)));
    let after = snapshot(&running);
    assert!(after.seconds - before < 50.0, "they are given up after ten seconds");
    assert_eq!(after.controllers.iter().filter(|one| one.connected).count(), after.controllers.len());
    drop((a, b));
    stop(running);
}
