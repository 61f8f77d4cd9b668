//! The contract of ports: both ends of a tunnel on the loopback interface of a namespace.

use linerate_mem::Pool;
use linerate_port::{OpenError, Port, PortSpec};
use linerate_port_tunnel::{TunnelPort, open_gre, open_vxlan, probe};
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_testkit::{Facts, Harness, Link, check_all, or_skip};

fn open(spec: &str, pool: &Pool) -> Result<TunnelPort, OpenError> {
    let spec: PortSpec = spec.parse().unwrap();
    let opened = if spec.backend.as_deref() == Some("gre") { open_gre(spec, pool) } else { open_vxlan(spec, pool) };
    opened.map(|device| device.into_port())
}

/// A namespace whose loopback interface is up; `None`, and a line that says why, where there is none.
fn namespace() -> Option<NetNs> {
    or_skip("no raw sockets", probe())?;
    let namespace = or_skip("no network namespace", NetNs::anonymous())?;
    namespace.run(|| Netdev::open("lo").unwrap().set_up(true).unwrap()).unwrap();
    Some(namespace)
}

struct Tunnel {
    kind: &'static str,
    options: &'static str,
    namespace: NetNs,
}

impl Harness for Tunnel {
    fn name(&self) -> String {
        format!("{}{}", self.kind, self.options)
    }

    fn facts(&self) -> Facts {
        Facts { wrap_packets: 3000, window: 128, ..Facts::default() }
    }

    fn open(&mut self, pool: &Pool, _start: u32) -> Result<Link, String> {
        let (kind, options) = (self.kind, self.options);
        let end = |local: &str, remote: &str| {
            let spec = format!("{kind}:{remote},local={local}{options}");
            self.namespace.run(|| open(&spec, pool)).unwrap().map_err(|error| error.to_string())
        };
        let (sender, receiver) = (end("127.0.0.1", "127.0.0.2")?, end("127.0.0.2", "127.0.0.1")?);
        Ok(Link::Pair { sender: Box::new(sender), receiver: Box::new(receiver) })
    }
}

fn check(kind: &'static str, options: &'static str) {
    if let Some(namespace) = namespace() {
        check_all(&mut Tunnel { kind, options, namespace });
    }
}

#[test]
fn vxlan() {
    check("vxlan", ",key=42");
}

#[test]
fn vxlan_over_several_frames() {
    check("vxlan", ",mtu=9000,port=4790");
}

#[test]
fn gre() {
    check("gre", "");
}

#[test]
fn gre_with_a_key_over_several_frames() {
    check("gre", ",key=4294967295,mtu=9000");
}

/// Tunnels to one host, with other keys: each gets its own packets.
#[test]
fn packets_come_out_of_the_tunnel_of_their_key() {
    let Some(namespace) = namespace() else { return };
    for kind in ["vxlan", "gre"] {
        let mut pool = Pool::new(Default::default()).unwrap();
        let end = |spec: String| namespace.run(|| open(&spec, &pool)).unwrap().unwrap();
        let mut ones: Vec<TunnelPort> =
            [5, 6].map(|key| end(format!("{kind}:127.0.0.2,local=127.0.0.1,key={key}"))).into();
        let mut flow = end(format!("{kind}:127.0.0.1,local=127.0.0.2,key=flow"));
        assert!(flow.caps().tunnel_keys && !ones[0].caps().tunnel_keys);
        let mut batch = linerate_mem::Batch::new(&pool, 8);
        for key in [5u64, 6, 7, 6] {
            let packet = [&key.to_be_bytes()[..], &[key as u8; 60]].concat();
            assert!(pool.append(&mut batch, &packet, 0));
        }
        assert_eq!(flow.transmit(&mut batch).unwrap(), 4);
        for (end, marks) in ones.iter_mut().zip([&[5u8][..], &[6, 6]]) {
            // What was sent over the loopback interface is there.
            assert_eq!(end.receive(&mut batch).unwrap(), marks.len(), "{kind}");
            assert!(batch.iter().zip(marks).all(|(packet, mark)| packet == [*mark; 60]));
            // Back, with the key in front.
            assert_eq!(end.transmit(&mut batch).unwrap(), marks.len());
        }
        assert_eq!(flow.receive(&mut batch).unwrap(), 3);
        let keys: Vec<u64> = batch.iter().map(|packet| u64::from_be_bytes(*packet.first_chunk().unwrap())).collect();
        assert_eq!(keys, [5, 6, 6], "{kind}");
        assert!(batch.iter().all(|packet| packet.len() == 68));
        pool.free(&mut batch);
    }
}

#[test]
fn what_is_wrong_is_said() {
    let Some(namespace) = namespace() else { return };
    let pool = Pool::new(Default::default()).unwrap();
    for (spec, words) in [
        ("vxlan:", "IPv4 address"),
        ("vxlan:224.0.0.1", "IPv4 address"),
        ("vxlan:127.0.0.2,key=16777216", "16777215"),
        ("gre:127.0.0.2,port=1", "unknown option port"),
        ("gre:127.0.0.2,local=192.0.2.77", "does not have the address"),
        ("gre:198.51.100.1", "no route"),
    ] {
        let error = namespace.run(|| open(spec, &pool)).unwrap().err().unwrap().to_string();
        assert!(error.contains(words), "{spec}: {error}");
    }
    let other = namespace.run(|| std::net::UdpSocket::bind("127.0.0.1:4789").unwrap()).unwrap();
    let error = namespace.run(|| open("vxlan:127.0.0.2,local=127.0.0.1", &pool)).unwrap().err().unwrap().to_string();
    assert!(error.contains("has the UDP port") && error.contains("port=N"), "{error}");
    drop(other);
}
