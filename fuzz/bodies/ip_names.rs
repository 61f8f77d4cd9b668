//! Body of the fuzz target `ip_names`: any bytes as a name, and as the answer of a name server. Also run by the tests of `linerate-ip`.
//!
//! The first byte is the length of the name, which follows; the rest is the answer, whose number is made right.

use linerate_ip::{Datagram, Ip, IpConfig, Output, ResolveError, Resolver, Udp};
use linerate_mem::{Batch, Checksum, Pool, PoolConfig};
use linerate_wire::MacAddress;

/// Looks a name up and is given an answer; the lookup ends, and believes nothing but addresses for the name.
pub fn run(data: &[u8]) {
    let Some((len, rest)) = data.split_first() else { return };
    let (name, answer) = rest.split_at(usize::from(*len).min(rest.len()));
    let name = String::from_utf8_lossy(name);
    let mut pool = Pool::new(PoolConfig { frames: 64, frame_size: 2048 }).expect("memory");
    let mut out = Batch::new(&pool, 32);
    let mut ip = host();
    let mut udp = Udp::new(8, [0; 16]);
    let server = "10.0.0.53".parse().expect("an address");
    let mut resolver = Resolver::new(&[server], [0; 16]);
    let lookup = match resolver.resolve(&name, 0) {
        Ok(lookup) => lookup,
        Err(error) => return assert_eq!(error, ResolveError::Name),
    };
    // The server is a neighbour that is known, so that both questions leave.
    ip.receive(&announcement(), Checksum::Unknown, 1, &mut out, &mut pool);
    let mut now_ns = 2;
    let mut answered = 0;
    while resolver.next_deadline_ns() != u64::MAX {
        now_ns = resolver.next_deadline_ns().max(now_ns);
        pool.free(&mut out);
        resolver.tick(&mut udp, &mut ip, &mut Output { now_ns, batch: &mut out, pool: &mut pool });
        let questions: Vec<Vec<u8>> = out.iter().map(<[u8]>::to_vec).collect();
        for question in questions.iter().filter(|question| question.len() > 44 && question[12..14] == [8, 0]) {
            let to = [question[34], question[35]];
            let mut answer = answer.to_vec();
            answer.iter_mut().zip(&question[42..44]).for_each(|(place, byte)| *place = *byte);
            let local = u16::from_be_bytes(to);
            if let Some(socket) = socket(&mut udp, local) {
                let from = "10.0.0.53:53".parse().expect("an address");
                let to = format!("10.0.0.1:{local}").parse().expect("an address");
                let datagram = Datagram { socket, from, to, data: 0..answer.len() };
                assert!(resolver.owns(socket));
                resolver.receive(&datagram, &answer, &mut udp, now_ns);
                answered += 1;
            }
        }
        assert!(answered < 20, "a lookup ends");
    }
    if let Some((id, result)) = resolver.next_answer() {
        assert_eq!(id, lookup);
        assert!(result.is_err() || result.is_ok_and(|found| !found.is_empty() && found.len() <= 64));
    }
    assert!(udp.is_empty() && resolver.next_answer().is_none());
}

fn host() -> Ip {
    let config = IpConfig {
        addresses: vec!["10.0.0.1/24".parse().expect("an address")],
        duplicate_detection: false,
        ipv6: false,
        ..IpConfig::default()
    };
    Ip::new(config).expect("a configuration")
}

/// An ARP request of the server for us.
fn announcement() -> Vec<u8> {
    let server = MacAddress([2, 0, 0, 0, 0, 53]);
    let arp = linerate_wire::arp::Header {
        sender_mac: server,
        sender_ip: [10, 0, 0, 53].into(),
        target_ip: [10, 0, 0, 1].into(),
        ..Default::default()
    };
    let ethernet = linerate_wire::ethernet::Header { src: server, dst: MacAddress::BROADCAST, ..Default::default() };
    linerate_wire::Stack::new().with(ethernet).with(arp).build(60).expect("a frame").bytes
}

/// The socket of a question, found as a datagram of the server finds it.
fn socket(udp: &mut Udp, local: u16) -> Option<linerate_ip::UdpId> {
    let packet = linerate_ip::Packet {
        src: [10, 0, 0, 53].into(),
        dst: [10, 0, 0, 1].into(),
        payload: 0..8,
        network: 0,
        ecn: 0,
        ttl: 64,
        reassembled: false,
    };
    let [high, low] = local.to_be_bytes();
    udp.receive(&packet, &[0, 53, high, low, 0, 8, 0, 0]).map(|datagram| datagram.socket)
}
