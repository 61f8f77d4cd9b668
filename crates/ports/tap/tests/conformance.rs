//! The contract of ports: a TAP device, with an AF_PACKET port on the kernel's side of it.

mod common;

use std::time::{Duration, Instant};

use common::{DEVICE, namespace, open_packet, open_tap};
use linerate_mem::Pool;
use linerate_port::Port;
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::veth;
use linerate_testkit::child::{self, Child, Signal};
use linerate_testkit::{Disturbance, Facts, Harness, Hit, Link, check_all};

struct Tap {
    /// Which port sends.
    tap_sends: bool,
    mtu: u32,
    /// Where the link opened last lives.
    namespace: Option<NetNs>,
}

impl Tap {
    fn inside<T: Send>(&self, work: impl FnOnce(&NetNs) -> T + Send) -> Result<T, String> {
        let namespace = self.namespace.as_ref().ok_or("no link was opened")?;
        namespace.run(|| work(namespace)).map_err(|error| error.to_string())
    }

    fn kill_a_holder(&mut self) -> Result<Vec<String>, String> {
        self.namespace = Some(namespace().ok_or("no namespace")?);
        let child = self.inside(|_| Child::start("child_port", "held"))?.map_err(|error| error.to_string())?;
        let there = || Netdev::open(DEVICE).is_ok();
        if !self.inside(|_| there())? {
            return Err("the child holds its port, but there is no device".into());
        }
        child.end(Signal::Kill).map_err(|error| error.to_string())?;
        // The kernel takes the process apart after its parent has been told.
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.inside(|_| there())? {
            if Instant::now() > deadline {
                return Ok(vec!["the TAP device".into()]);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(vec![])
    }
}

impl Harness for Tap {
    fn name(&self) -> String {
        let (from, to) = if self.tap_sends { ("tap", "packet") } else { ("packet", "tap") };
        format!("{from} to {to}, MTU {}", self.mtu)
    }

    fn facts(&self) -> Facts {
        Facts { wrap_packets: 3000, window: 128, ..Facts::default() }
    }

    fn open(&mut self, pool: &Pool, _start: u32) -> Result<Link, String> {
        let namespace = namespace().ok_or("no namespace")?;
        let tap = open_tap(&namespace, &format!(",mtu={}", self.mtu), pool).map_err(|error| error.to_string())?;
        let packet = open_packet(&namespace, pool).map_err(|error| error.to_string())?;
        self.namespace = Some(namespace);
        let (tap, packet): (Box<dyn Port>, Box<dyn Port>) = (Box::new(tap), Box::new(packet));
        let (sender, receiver) = if self.tap_sends { (tap, packet) } else { (packet, tap) };
        Ok(Link::Pair { sender, receiver })
    }

    fn disturb(&mut self, what: Disturbance) -> Result<Option<Hit>, String> {
        self.inside(|namespace| match what {
            Disturbance::Down => Netdev::open(DEVICE)?.set_up(false),
            Disturbance::Up => Netdev::open(DEVICE)?.set_up(true),
            Disturbance::Delete => veth::delete(namespace, DEVICE),
        })?
        .map_err(|error| error.to_string())?;
        Ok(Some(Hit { sender: true, receiver: true }))
    }

    fn left_behind(&mut self) -> Option<Result<Vec<String>, String>> {
        Some(self.kill_a_holder())
    }
}

#[test]
fn child_port() {
    if child::task().is_none() {
        return;
    }
    let spec = format!("tap:{DEVICE}").parse().unwrap();
    let _port = linerate_port_tap::open(spec, &common::pool()).unwrap();
    child::ready_and_wait();
}

fn check(tap_sends: bool, mtu: u32) {
    if common::allowed() {
        check_all(&mut Tap { tap_sends, mtu, namespace: None });
    }
}

#[test]
fn into_the_kernel() {
    check(true, 1500);
}

#[test]
fn out_of_the_kernel() {
    check(false, 1500);
}

#[test]
fn into_the_kernel_over_several_frames() {
    check(true, 9000);
}

#[test]
fn out_of_the_kernel_over_several_frames() {
    check(false, 9000);
}
