//! Probes keep the contract themselves, and children die when they are told to.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use linerate_mem::Pool;
use linerate_testkit::child::{self, Child, Signal};
use linerate_testkit::{Facts, Harness, Link, ProbePort, check_all};

struct Probes;

impl Harness for Probes {
    fn name(&self) -> String {
        "two probes with a queue between them".into()
    }

    fn facts(&self) -> Facts {
        Facts { lossless: true, ..Facts::default() }
    }

    fn open(&mut self, pool: &Pool, _start: u32) -> Result<Link, String> {
        let queue = Arc::new(Mutex::new(VecDeque::new()));
        let filled = Arc::clone(&queue);
        let send = move |packet: &[u8]| {
            let mut queue = filled.lock().map_err(|_| std::io::Error::other("poisoned"))?;
            let room = queue.len() < 1000;
            if room {
                queue.push_back(packet.to_vec());
            }
            Ok(room)
        };
        let receive = move || Ok(queue.lock().map_err(|_| std::io::Error::other("poisoned"))?.pop_front());
        let sender = Box::new(ProbePort::new("out", pool, 5000, Some(Box::new(send)), None));
        let receiver = Box::new(ProbePort::new("in", pool, 5000, None, Some(Box::new(receive))));
        Ok(Link::Pair { sender, receiver })
    }
}

#[test]
fn probes_pass() {
    check_all(&mut Probes);
}

#[test]
fn child_that_holds_something() {
    if child::task().is_some() {
        child::ready_and_wait();
    }
}

#[test]
fn children_end_by_either_signal() {
    for signal in [Signal::Interrupt, Signal::Kill] {
        let child = Child::start("child_that_holds_something", "anything").unwrap();
        let status = child.end(signal).unwrap();
        assert!(!status.success(), "{signal:?}: {status}");
    }
    assert!(Child::start("no_such_test", "anything").is_err());
}
