//! The contract of ports, on veth pairs with each end in a namespace of its own.

mod common;

use std::time::{Duration, Instant};

use common::Wire;
use linerate_mem::Pool;
use linerate_port::Port;
use linerate_sys::veth;
use linerate_testkit::child::{self, Child, Signal};
use linerate_testkit::{Disturbance, Facts, Harness, Hit, Link, check_all};

struct Veth {
    options: &'static str,
    mtu: u32,
    wire: Option<Wire>,
}

impl Veth {
    fn wire(&self) -> Result<&Wire, String> {
        self.wire.as_ref().ok_or_else(|| "no link was opened".into())
    }

    /// Kills a process that holds a port and looks whether the interface is still promiscuous.
    fn kill_a_holder(&mut self) -> Result<Vec<String>, String> {
        let wire = Wire::new(1).ok_or("no wire")?;
        let start = || Child::start("child_port", self.options);
        let child = wire.left.namespace.run(start).map_err(|error| error.to_string())?.map_err(|e| e.to_string())?;
        let during = common::promiscuous(&wire.left);
        child.end(Signal::Kill).map_err(|error| error.to_string())?;
        if during == Some(false) {
            return Err("the child's port is not promiscuous".into());
        }
        // The kernel takes the process apart after its parent has been told.
        let deadline = Instant::now() + Duration::from_secs(60);
        while common::promiscuous(&wire.left) == Some(true) {
            if Instant::now() > deadline {
                return Ok(vec!["promiscuous mode".into()]);
            }
        }
        Ok(vec![])
    }
}

impl Harness for Veth {
    fn name(&self) -> String {
        format!("packet over veth, MTU {}, options \"{}\"", self.mtu, self.options)
    }

    fn facts(&self) -> Facts {
        Facts { wrap_packets: 16_000, window: 128, ..Facts::default() }
    }

    fn open(&mut self, pool: &Pool, _start: u32) -> Result<Link, String> {
        let wire = Wire::new(1).ok_or("no wire")?;
        wire.set_mtu(self.mtu);
        let open = |end: &common::End| {
            let port = end.try_open(self.options, pool).map_err(|error| error.to_string())?;
            Ok::<Box<dyn Port>, String>(Box::new(port))
        };
        let link = Link::Pair { sender: open(&wire.left)?, receiver: open(&wire.right)? };
        self.wire = Some(wire);
        Ok(link)
    }

    fn disturb(&mut self, what: Disturbance) -> Result<Option<Hit>, String> {
        let left = &self.wire()?.left;
        match what {
            Disturbance::Down => left.device.set_up(false),
            Disturbance::Up => left.device.set_up(true),
            Disturbance::Delete => veth::delete(&left.namespace, common::INTERFACE),
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
    let Some(options) = child::task() else { return };
    let spec = format!("packet:{}{options}", common::INTERFACE).parse().unwrap();
    let _port = linerate_port_packet::open(spec, &common::pool(64)).unwrap();
    child::ready_and_wait();
}

fn check(options: &'static str, mtu: u32) {
    if Wire::new(1).is_some() {
        check_all(&mut Veth { options, mtu, wire: None });
    }
}

#[test]
fn with_a_ring_that_turns_over() {
    check(",ring=1048576", 1500);
}

#[test]
fn with_each_packet_at_once() {
    check(",ring=1048576,prompt", 1500);
}

#[test]
fn through_the_qdisc() {
    check(",ring=1048576,qdisc", 1500);
}

#[test]
fn as_a_group_of_one() {
    check(",ring=1048576,fanout=1", 1500);
}

#[test]
fn over_several_frames() {
    check(",ring=4194304", 9000);
}
