//! Several queue pairs as one port, for programs that want one stream of packets.

use std::os::fd::BorrowedFd;

use linerate_mem::Batch;
use linerate_port::{Caps, Device, Interest, LinkState, Port, PortError, Readiness, Stats, TxGenerator};
use linerate_sys::clock;
use linerate_sys::poll::PollSet;

/// A receiver that found so many packets since it last waited naps before it lets the kernel wake it, which costs more.
const BUSY_PACKETS: usize = 64;
/// How long it naps; also the time until a port without a descriptor is looked at again.
const NAP_NS: u64 = 50_000;
/// A sleeper asks the ports at least this often whether they broke.
const CHECK_NS: u64 = 50_000_000;

/// All ports of a device as one: it receives from each in turn, and sends on the first. A device of one queue pair is its port.
pub fn merge(device: Device) -> Box<dyn Port> {
    if device.queues() == 1 {
        return device.into_port();
    }
    let name = device.name().to_owned();
    merge_ports(name, device.into_ports())
}

/// Divides the ports of a device among `shares` threads, neighbours together, and makes one port of each share.
///
/// There are at least as many ports as shares ([`crate::open_device`] sees to that); without ports there are no shares.
pub fn share_out(device: Device, shares: usize) -> Vec<Box<dyn Port>> {
    let merged = |own: Vec<Box<dyn Port>>| {
        let name = own.first().map(|port| port.caps().name.clone()).unwrap_or_default();
        merge_ports(name, own)
    };
    divide(device, shares).into_iter().map(merged).collect()
}

/// As [`share_out`], with the ports of each share by themselves.
pub fn divide(device: Device, shares: usize) -> Vec<Vec<Box<dyn Port>>> {
    let (queues, shares) = (device.queues(), shares.clamp(1, device.queues()));
    let mut ports = device.into_ports().into_iter();
    let count = |share: usize| (share + 1) * queues / shares - share * queues / shares;
    (0..shares).map(|share| ports.by_ref().take(count(share)).collect()).collect()
}

/// `ports` is not empty.
fn merge_ports(name: String, mut ports: Vec<Box<dyn Port>>) -> Box<dyn Port> {
    if ports.len() == 1 {
        return ports.remove(0);
    }
    let first = ports[0].caps();
    let mut caps = Caps { name, detail: format!("{} queues, each: {}", ports.len(), first.detail), ..first.clone() };
    if let Some(ring) = &mut caps.rx_ring {
        ring.bytes *= ports.len() as u64;
    }
    Box::new(Merged { caps, ports, turn: 0, since_wait: 0, sleeping: PollSet::default() })
}

struct Merged {
    caps: Caps,
    ports: Vec<Box<dyn Port>>,
    /// The port that is asked first.
    turn: usize,
    /// Packets received since the last `wait`.
    since_wait: usize,
    /// Kept from one sleep to the next.
    sleeping: PollSet,
}

impl Merged {
    /// What a look at each port for packets finds.
    fn look(&mut self) -> Result<Readiness, PortError> {
        let mut found = Readiness::Closed;
        for port in &mut self.ports {
            match port.wait(Interest::Receive, 0)? {
                Readiness::Ready => return Ok(Readiness::Ready),
                Readiness::TimedOut => found = Readiness::TimedOut,
                Readiness::Closed => {}
            }
        }
        Ok(found)
    }

    /// Sleeps a while; false when a signal ended it.
    fn sleep(&mut self, left_ns: u64) -> Result<bool, PortError> {
        self.sleeping.clear();
        let (ports, sleeping) = (&mut self.ports, &mut self.sleeping);
        let armed = ports.iter_mut().all(|port| {
            port.arm_wakeup(&mut |fd| {
                sleeping.add(fd, true, false);
            })
        });
        let before_ns = clock::now_ns();
        if !armed {
            clock::sleep_until_ns(before_ns + left_ns.min(NAP_NS));
            return Ok(true);
        }
        // A packet that came before the wakeups were armed wakes nobody.
        if self.look()? == Readiness::Ready {
            return Ok(true);
        }
        // A look that is overdue is not the sleeper's matter: `receive` makes it.
        let due_ns = self.ports.iter().filter_map(|port| port.next_deadline_ns()).filter(|due_ns| *due_ns > before_ns);
        let nap_ns = due_ns.map(|due_ns| due_ns - before_ns).chain([left_ns, CHECK_NS]).min().unwrap_or(0);
        let woken = self.sleeping.wait(nap_ns).map_err(|source| {
            let port = self.caps.name.clone();
            PortError::Io { port, operation: "wait for packets", source }
        })?;
        Ok(woken > 0 || clock::now_ns().saturating_sub(before_ns) >= nap_ns)
    }
}

impl Port for Merged {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let mut packets = 0;
        for _ in 0..self.ports.len() {
            let turn = self.turn;
            self.turn = if turn + 1 < self.ports.len() { turn + 1 } else { 0 };
            match self.ports[turn].receive(batch) {
                Ok(count) => packets += count,
                // What came before is handed out first; the error comes again.
                Err(_) if packets > 0 => break,
                Err(error) => return Err(error),
            }
            if batch.room() == 0 {
                break;
            }
        }
        self.since_wait += packets;
        Ok(packets)
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.ports[0].transmit(batch)
    }

    fn transmit_ref(&mut self, batch: &Batch, from: usize) -> Result<usize, PortError> {
        self.ports[0].transmit_ref(batch, from)
    }

    /// Every port, because some clean up in it.
    fn flush(&mut self) -> Result<usize, PortError> {
        let mut pending = 0;
        for port in &mut self.ports {
            pending += port.flush()?;
        }
        Ok(pending)
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        if interest == Interest::Transmit {
            return self.ports[0].wait(interest, timeout_ns);
        }
        let deadline_ns = clock::now_ns().saturating_add(timeout_ns);
        let mut busy = std::mem::take(&mut self.since_wait) >= BUSY_PACKETS;
        loop {
            let found = self.look()?;
            let left_ns = deadline_ns.saturating_sub(clock::now_ns());
            if found != Readiness::TimedOut || left_ns == 0 {
                return Ok(found);
            }
            if std::mem::take(&mut busy) {
                clock::sleep_until_ns(clock::now_ns() + left_ns.min(NAP_NS));
            } else if !self.sleep(left_ns)? {
                return Ok(Readiness::TimedOut);
            }
        }
    }

    fn arm_wakeup(&mut self, add: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        self.ports.iter_mut().all(|port| port.arm_wakeup(add))
    }

    fn next_deadline_ns(&self) -> Option<u64> {
        self.ports.iter().filter_map(|port| port.next_deadline_ns()).min()
    }

    fn rx_occupancy(&self) -> Option<(u64, u64)> {
        let levels = self.ports.iter().filter_map(|port| port.rx_occupancy());
        levels.reduce(|one, other| (one.0 + other.0, one.1 + other.1))
    }

    fn link(&mut self) -> Result<LinkState, PortError> {
        for port in &mut self.ports {
            if port.link()? == LinkState::Up {
                return Ok(LinkState::Up);
            }
        }
        Ok(LinkState::Down)
    }

    fn current_frame_len_max(&mut self) -> usize {
        self.ports.iter_mut().map(|port| port.current_frame_len_max()).min().unwrap_or(0)
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        let mut all = Stats::default();
        for port in &mut self.ports {
            all.add(port.stats()?);
        }
        Ok(all)
    }

    fn queue_stats(&mut self) -> Result<Vec<Stats>, PortError> {
        self.ports.iter_mut().map(|port| port.stats()).collect()
    }

    fn tx_generator(&mut self) -> Option<&mut dyn TxGenerator> {
        self.ports[0].tx_generator()
    }
}
