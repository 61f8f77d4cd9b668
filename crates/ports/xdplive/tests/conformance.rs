//! The contract of ports, on veth pairs whose far end has GRO on and a packet socket that looks.

mod common;

use common::{device, open, pair, set_up, sink, small_pool, stack};
use linerate_bpf::programs::drop_count::DropCount;
use linerate_bpf::{AttachMode, XdpLink};
use linerate_mem::{Batch, Pool};
use linerate_port::Port;
use linerate_sys::netns::NetNs;
use linerate_sys::veth;
use linerate_testkit::child::{self, Child, Signal};
use linerate_testkit::{Disturbance, Facts, Harness, Hit, Link, ProbePort, check_all};

struct Veth {
    mtu: u32,
    options: &'static str,
    /// Where the link opened last lives.
    namespace: Option<NetNs>,
}

impl Veth {
    fn inside<T: Send>(&self, work: impl FnOnce(&NetNs) -> T + Send) -> Result<T, String> {
        let namespace = self.namespace.as_ref().ok_or("no link was opened")?;
        namespace.run(|| work(namespace)).map_err(|error| error.to_string())
    }
}

impl Harness for Veth {
    fn name(&self) -> String {
        format!("xdplive over veth, MTU {}{}", self.mtu, self.options)
    }

    fn facts(&self) -> Facts {
        // The stack of the far end takes tags out of the packets.
        Facts { vlan: false, ..Facts::default() }
    }

    fn open(&mut self, pool: &Pool, _start: u32) -> Result<Link, String> {
        self.namespace = Some(pair().ok_or("no pair")?);
        let (sender, socket) = self.inside(|_| {
            device("near").set_mtu(self.mtu).unwrap();
            device("far").set_mtu(self.mtu).unwrap();
            let socket = stack();
            (open(&format!("xdplive:near{}", self.options), pool), socket)
        })?;
        // Used from here on outside of the namespace in which it was opened.
        let sender = Box::new(sender.map_err(|error| error.to_string())?);
        let receive = Box::new(move || socket.receive());
        let receiver = ProbePort::new("packet socket", pool, 9014, None, Some(receive));
        Ok(Link::Pair { sender, receiver: Box::new(receiver) })
    }

    fn disturb(&mut self, what: Disturbance) -> Result<Option<Hit>, String> {
        self.inside(|namespace| match what {
            Disturbance::Down => set_up("near", false),
            Disturbance::Up => set_up("near", true),
            Disturbance::Delete => veth::delete(namespace, "near").unwrap(),
        })?;
        Ok(Some(Hit { sender: true, receiver: false }))
    }

    fn left_behind(&mut self) -> Option<Result<Vec<String>, String>> {
        Some(self.kill_a_sender())
    }
}

impl Veth {
    /// The port attaches nothing to its interface, while it sends or after.
    fn kill_a_sender(&mut self) -> Result<Vec<String>, String> {
        self.namespace = Some(pair().ok_or("no pair")?);
        let spec = format!("xdplive:near{}", self.options);
        let start = || Child::start("child_port", &spec).map_err(|error| error.to_string());
        let child = self.inside(|_| start())??;
        let programs = || self.inside(|_| ["near", "far", "lo"].map(has_program));
        let during = programs()?;
        child.end(Signal::Kill).map_err(|error| error.to_string())?;
        let names = ["near", "far", "lo"].into_iter().zip(during.into_iter().zip(programs()?));
        let left = names.filter(|(_, (during, after))| *during || *after);
        Ok(left.map(|(name, _)| format!("a program on {name}")).collect())
    }
}

/// Whether the interface has an XDP program.
fn has_program(name: &str) -> bool {
    let program = DropCount::load(false).unwrap();
    XdpLink::attach(program.program(), device(name).index().unwrap(), AttachMode::Any).is_err()
}

#[test]
fn child_port() {
    let Some(spec) = child::task() else { return };
    let mut pool = small_pool();
    let mut port = open(&spec, &pool).unwrap();
    let (_sink, link) = sink();
    let mut batch = Batch::new(&pool, 64);
    pool.alloc(&mut batch, 64, 60);
    port.transmit(&mut batch).unwrap();
    drop(link);
    child::ready_and_wait();
}

#[test]
fn over_veth() {
    if pair().is_some() {
        check_all(&mut Veth { mtu: 1500, options: "", namespace: None });
        check_all(&mut Veth { mtu: 3000, options: ",batch=16", namespace: None });
    }
}
