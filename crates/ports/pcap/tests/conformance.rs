//! The contract of ports, on veth pairs with each end in a namespace of its own.

mod common;

use common::{End, INTERFACE, Wire};
use linerate_mem::Pool;
use linerate_port::Port;
use linerate_sys::veth;
use linerate_testkit::child::{self, Child, Signal};
use linerate_testkit::{Disturbance, Facts, Harness, Hit, Link, check_all};

struct Veth {
    mtu: u32,
    wire: Option<Wire>,
}

impl Veth {
    fn kill_a_holder(&mut self) -> Result<Vec<String>, String> {
        let wire = Wire::new(1500).ok_or("no wire")?;
        let start = || Child::start("child_port", INTERFACE);
        let child = wire.left.namespace.run(start).map_err(|error| error.to_string())?.map_err(|e| e.to_string())?;
        let during = common::promiscuous(&wire.left);
        child.end(Signal::Kill).map_err(|error| error.to_string())?;
        match (during, common::promiscuous(&wire.left)) {
            (Some(false), _) => Err("the child's port is not promiscuous".into()),
            (_, Some(true)) => Ok(vec!["promiscuous mode".into()]),
            _ => Ok(vec![]),
        }
    }
}

impl Harness for Veth {
    fn name(&self) -> String {
        format!("pcap over veth, MTU {}", self.mtu)
    }

    fn facts(&self) -> Facts {
        Facts { wrap_packets: 16_000, window: 128, ..Facts::default() }
    }

    fn open(&mut self, pool: &Pool, _start: u32) -> Result<Link, String> {
        let wire = Wire::new(self.mtu).ok_or("no wire")?;
        let open = |end: &End| {
            let port = end.open(",buffer=4194304", pool).map_err(|error| error.to_string())?;
            Ok::<Box<dyn Port>, String>(Box::new(port))
        };
        let link = Link::Pair { sender: open(&wire.left)?, receiver: open(&wire.right)? };
        self.wire = Some(wire);
        Ok(link)
    }

    fn disturb(&mut self, what: Disturbance) -> Result<Option<Hit>, String> {
        let left = &self.wire.as_ref().ok_or("no link was opened")?.left;
        match what {
            Disturbance::Down => left.device.set_up(false),
            Disturbance::Up => left.device.set_up(true),
            Disturbance::Delete => veth::delete(&left.namespace, INTERFACE),
        }
        .map_err(|error| error.to_string())?;
        Ok(Some(Hit { sender: true, receiver: what == Disturbance::Delete }))
    }

    fn left_behind(&mut self) -> Option<Result<Vec<String>, String>> {
        Some(self.kill_a_holder())
    }
}

#[test]
fn child_port() {
    let Some(interface) = child::task() else { return };
    let spec = format!("pcap:{interface}").parse().unwrap();
    let _port = linerate_port_pcap::open(spec, &common::pool()).unwrap();
    child::ready_and_wait();
}

fn check(mtu: u32) {
    if Wire::new(mtu).is_some() {
        check_all(&mut Veth { mtu, wire: None });
    }
}

#[test]
fn over_a_veth_pair() {
    check(1500);
}

#[test]
fn over_several_frames() {
    check(9000);
}
