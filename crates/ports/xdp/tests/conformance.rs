//! The contract of ports, on veth pairs: each link in a namespace of its own.

mod common;

use std::time::{Duration, Instant};

use common::{device, open, open_device, pair, set_mtu, set_up};
use linerate_bpf::programs::drop_count::DropCount;
use linerate_bpf::{AttachMode, BpfError, XdpLink};
use linerate_mem::{Pool, PoolConfig};
use linerate_sys::netns::NetNs;
use linerate_sys::veth;
use linerate_testkit::child::{self, Child, Signal};
use linerate_testkit::{Disturbance, Facts, Harness, Hit, Link, check_all};

/// Links `near` - `far` whose ports have these options.
struct Veth {
    options: &'static str,
    /// The queue that is checked.
    queue: usize,
    mtu: u32,
    frame_size: usize,
    /// Where the link opened last lives.
    namespace: Option<NetNs>,
}

impl Veth {
    fn with(options: &'static str) -> Veth {
        Veth { options, queue: 0, mtu: 1500, frame_size: 2048, namespace: None }
    }

    fn inside<T: Send>(&self, work: impl FnOnce(&NetNs) -> T + Send) -> Result<T, String> {
        let namespace = self.namespace.as_ref().ok_or("no link was opened")?;
        namespace.run(|| work(namespace)).map_err(|error| error.to_string())
    }
}

impl Harness for Veth {
    fn name(&self) -> String {
        format!("xdp over veth, MTU {}, frames of {}, {}", self.mtu, self.frame_size, self.options)
    }

    fn facts(&self) -> Facts {
        Facts { window: 128, ..Facts::default() }
    }

    fn pool(&self) -> PoolConfig {
        PoolConfig { frames: 4096, frame_size: self.frame_size }
    }

    fn open(&mut self, pool: &Pool, _start: u32) -> Result<Link, String> {
        self.namespace = Some(pair(2).ok_or("no pair")?);
        let ports = |name: &str| {
            let opened = open_device(&format!("xdp:{name},{}", self.options), pool);
            opened.map(|device| device.boxed().into_ports()).map_err(|error| error.to_string())
        };
        let (senders, receivers) = self.inside(|_| {
            set_mtu(self.mtu);
            (ports("near"), ports("far"))
        })?;
        Ok(Link::Queues { senders: senders?, receivers: receivers?, queue: self.queue })
    }

    fn disturb(&mut self, what: Disturbance) -> Result<Option<Hit>, String> {
        self.inside(|namespace| match what {
            Disturbance::Down => set_up("near", false),
            Disturbance::Up => set_up("near", true),
            Disturbance::Delete => veth::delete(namespace, "near").unwrap(),
        })?;
        Ok(Some(Hit { sender: true, receiver: what == Disturbance::Delete }))
    }

    fn left_behind(&mut self) -> Option<Result<Vec<String>, String>> {
        Some(self.kill_a_holder())
    }
}

impl Veth {
    fn kill_a_holder(&mut self) -> Result<Vec<String>, String> {
        self.namespace = Some(pair(2).ok_or("no pair")?);
        let spec = format!("xdp:far,{}", self.options);
        let start = || Child::start("child_port", &spec).map_err(|error| error.to_string());
        let child = self.inside(|_| start())??;
        if !self.inside(|_| has_program("far", Duration::ZERO))? {
            return Err("the child holds its port, but there is no program on the interface".into());
        }
        let namespace = self.namespace.as_ref().ok_or("no pair")?;
        if common::promiscuous(namespace, "far") == Some(false) {
            return Err("the child's port is not promiscuous".into());
        }
        child.end(Signal::Kill).map_err(|error| error.to_string())?;
        // The kernel takes the process apart after its parent has been told.
        let deadline = Instant::now() + Duration::from_secs(60);
        while common::promiscuous(namespace, "far") == Some(true) {
            if Instant::now() > deadline {
                return Ok(vec!["promiscuous mode".into()]);
            }
        }
        let left = self.inside(|_| has_program("far", Duration::from_secs(60)))?;
        Ok(if left { vec!["a program on the interface".into()] } else { Vec::new() })
    }
}

/// Whether the interface has an XDP program, still after `patience`.
fn has_program(name: &str, patience: Duration) -> bool {
    let program = DropCount::load(true).unwrap();
    let ifindex = device(name).index().unwrap();
    let deadline = Instant::now() + patience;
    loop {
        match XdpLink::attach(program.program(), ifindex, AttachMode::Native) {
            Err(BpfError::Busy { .. }) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            // A program in generic mode is in the way of a native one, too, with another error.
            Err(_) => return true,
            Ok(_) => return false,
        }
    }
}

#[test]
fn child_port() {
    let Some(spec) = child::task() else { return };
    let _port = open(&spec, &common::small_pool()).unwrap();
    child::ready_and_wait();
}

fn check(mut veth: Veth) {
    if pair(1).is_some() {
        check_all(&mut veth);
    }
}

#[test]
fn in_the_driver() {
    check(Veth::with("native,ring=1024"));
}

#[test]
fn in_the_stack() {
    check(Veth::with("generic,ring=1024"));
}

#[test]
fn the_first_of_two_queues_as_opened_by_default() {
    check(Veth::with("queues=2"));
}

#[test]
fn the_second_of_two_queues() {
    check(Veth { queue: 1, ..Veth::with("queues=2,ring=1024") });
}

#[test]
fn over_several_frames() {
    check(Veth { mtu: 9000, ..Veth::with("frags,ring=1024") });
}

#[test]
fn over_several_frames_of_a_page_in_the_stack() {
    check(Veth { mtu: 9000, frame_size: 4096, ..Veth::with("frags,generic,ring=1024") });
}
