//! The port around a port.

use std::os::fd::BorrowedFd;

use linerate_mem::{Batch, Pool, Totals};
use linerate_port::{Caps, Fitting, Interest, LinkState, Port, PortError, Readiness, Stats, TxGenerator};

use crate::clock::{Clock, Monotonic};
use crate::direction::Direction;
use crate::settings::Settings;

/// A port whose packets are impaired on their way in, on their way out, or both.
///
/// Packets that wait are slots of the pool, at most `limit` in each direction. When they are due they leave in `receive`, `transmit`,
/// `flush` or `wait`, so one of these is to be called at [`Port::next_deadline_ns`]. A port behind that is full is full here, too.
pub struct Impaired<C = Monotonic> {
    port: Box<dyn Port>,
    caps: Caps,
    pool: Pool,
    clock: C,
    rx: Option<Incoming>,
    tx: Option<Outgoing>,
}

/// Slots that pass between the port behind and a queue at once.
pub(crate) const SLOTS: usize = 256;
/// Pause before another attempt where the port behind is full or down.
const RETRY_NS: u64 = 50_000;

/// What arrives at the port behind.
struct Incoming {
    direction: Direction,
    arrived: Batch,
    returned: Totals,
}

/// What goes to the port behind.
struct Outgoing {
    direction: Direction,
    /// Packets that are due, and that the port behind has not taken yet.
    due: Batch,
    /// When to try again to send those.
    retry_ns: u64,
    /// What broke the port behind after packets were taken.
    failure: Option<PortError>,
}

impl Impaired<Monotonic> {
    /// Impairs what `port`, which is open on `pool`, receives and sends; `None` for a direction that passes as it is.
    pub fn new(port: Box<dyn Port>, rx: Option<&Settings>, tx: Option<&Settings>, pool: &Pool) -> Impaired {
        Impaired::with_clock(port, rx, tx, pool, Monotonic)
    }
}

impl<C: Clock> Impaired<C> {
    /// As [`Impaired::new`], by another clock.
    pub fn with_clock(
        port: Box<dyn Port>,
        rx: Option<&Settings>,
        tx: Option<&Settings>,
        pool: &Pool,
        clock: C,
    ) -> Impaired<C> {
        // It may hold back packets that the port has handed out, of which a sleep on the port knows nothing.
        let mut caps = Caps { sleep_syncs: false, rx_syscalls: false, ..port.caps().clone() };
        for (name, settings) in [("receives", rx), ("sends", tx)] {
            if let Some(settings) = settings {
                caps.detail.push_str(&format!("; {name} with {settings}"));
            }
        }
        let least_limit = rx.into_iter().chain(tx).map(|settings| settings.limit).min();
        caps.frags_max = caps.frags_max.min(least_limit.unwrap_or(usize::MAX));
        let slots = caps.frags_max.max(SLOTS);
        let direction = |settings, number| Direction::new(settings, number, pool, slots);
        let rx = rx.map(|settings| Incoming {
            direction: direction(settings, 0),
            arrived: Batch::with_times(pool, slots),
            returned: Totals::default(),
        });
        let tx = tx.map(|settings| Outgoing {
            direction: direction(settings, 1),
            due: Batch::with_times(pool, slots),
            retry_ns: 0,
            failure: None,
        });
        Impaired { port, caps, pool: pool.clone(), clock, rx, tx }
    }

    /// Sends what is due; without a look at the clock where nothing waits.
    #[inline]
    fn push(&mut self) -> Result<(), PortError> {
        match &mut self.tx {
            Some(tx) if tx.waiting() > 0 || tx.failure.is_some() => tx.push(&mut *self.port, self.clock.now_ns()),
            _ => Ok(()),
        }
    }

    fn wait_to_transmit(&mut self, timeout_ns: u64) -> Result<Readiness, PortError> {
        let waiting = self.tx.as_ref().map_or(0, Outgoing::waiting);
        self.push()?;
        let Some(tx) = &self.tx else { return self.port.wait(Interest::Transmit, timeout_ns) };
        if tx.waiting() < waiting {
            return Ok(Readiness::Ready);
        }
        let Some(due_ns) = tx.direction.next_due_ns().filter(|_| tx.due.is_empty()) else {
            return self.port.wait(Interest::Transmit, timeout_ns);
        };
        let end_ns = self.clock.now_ns().saturating_add(timeout_ns);
        self.clock.sleep_until_ns(end_ns.min(due_ns));
        self.push()?;
        Ok(if due_ns <= end_ns { Readiness::Ready } else { Readiness::TimedOut })
    }

    fn wait_to_receive(&mut self, timeout_ns: u64) -> Result<Readiness, PortError> {
        let mut now_ns = self.clock.now_ns();
        let end_ns = now_ns.saturating_add(timeout_ns);
        let mut told = false;
        loop {
            self.push()?;
            if let Some(rx) = &mut self.rx {
                let fetched = if rx.has_due(now_ns) { 0 } else { rx.fetch_to_wait(&mut *self.port, now_ns)? };
                // What the port behind had to tell was no packet: the caller's `receive` will see.
                if rx.has_due(now_ns) || told && fetched == 0 {
                    return Ok(Readiness::Ready);
                }
            }
            let until_ns = self.next_deadline_ns().map_or(end_ns, |due_ns| due_ns.min(end_ns)).max(now_ns);
            let readiness = self.port.wait(Interest::Receive, until_ns - now_ns)?;
            told = readiness == Readiness::Ready;
            match readiness {
                Readiness::Ready if !self.rx.as_ref().is_some_and(|rx| rx.direction.waits()) => {
                    return Ok(Readiness::Ready);
                }
                Readiness::Closed if self.rx.as_ref().is_none_or(|rx| rx.next_due_ns().is_none()) => {
                    return Ok(Readiness::Closed);
                }
                Readiness::Closed => self.clock.sleep_until_ns(until_ns),
                Readiness::Ready | Readiness::TimedOut => {}
            }
            now_ns = self.clock.now_ns();
            // Before that time, it was a signal that ended the sleep.
            if !told && (until_ns >= end_ns || now_ns < until_ns) {
                self.push()?;
                let is_due = self.rx.as_ref().is_some_and(|rx| rx.has_due(now_ns));
                return Ok(if is_due { Readiness::Ready } else { Readiness::TimedOut });
            }
        }
    }
}

impl<C: Clock> Port for Impaired<C> {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.push()?;
        self.caps.check_pool(batch, &self.pool)?;
        let Some(rx) = &mut self.rx else { return self.port.receive(batch) };
        let (held, now_ns) = (batch.len(), self.clock.now_ns());
        rx.direction.release(now_ns, batch);
        // Packets that the caller has no room for stay where they have their place: in the port behind.
        let fetched = if rx.has_due(now_ns) { Ok(0) } else { rx.fetch(&mut *self.port) };
        rx.take(now_ns, batch);
        let Totals { packets, bytes } = batch.totals_after(held);
        rx.returned.packets += packets;
        rx.returned.bytes += bytes;
        // An error that concerns the future comes again in the next call.
        if packets == 0 { fetched.map(|_| 0) } else { Ok(packets as usize) }
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        let Some(tx) = &mut self.tx else { return self.port.transmit(batch) };
        let now_ns = self.clock.now_ns();
        tx.push(&mut *self.port, now_ns)?;
        if !tx.due.is_empty() {
            return Ok(0);
        }
        let fitting = Fitting::new(batch, usize::MAX, self.caps.frame_len_max, self.caps.frags_max);
        let (before, mut slots) = (batch.totals().packets, fitting.slots);
        while slots > 0 && tx.due.is_empty() && tx.failure.is_none() {
            slots -= tx.direction.take(batch, slots, now_ns, &mut tx.due);
            tx.failure = tx.push(&mut *self.port, now_ns).err();
        }
        match fitting.too_long.filter(|_| slots == 0) {
            Some(len) => {
                let max = self.caps.frame_len_max;
                Err(PortError::FrameTooLong { port: self.caps.name.clone(), len, max })
            }
            None => Ok((before - batch.totals().packets) as usize),
        }
    }

    fn transmit_ref(&mut self, batch: &Batch, from: usize) -> Result<usize, PortError> {
        if self.tx.is_some() { Ok(0) } else { self.port.transmit_ref(batch, from) }
    }

    fn flush(&mut self) -> Result<usize, PortError> {
        self.push()?;
        Ok(self.port.flush()? + self.tx.as_ref().map_or(0, Outgoing::waiting))
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        match interest {
            Interest::Receive => self.wait_to_receive(timeout_ns),
            Interest::Transmit => self.wait_to_transmit(timeout_ns),
        }
    }

    fn arm_wakeup(&mut self, add: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        self.port.arm_wakeup(add)
    }

    fn next_deadline_ns(&self) -> Option<u64> {
        let tx = self.tx.as_ref().and_then(Outgoing::deadline_ns);
        let rx = self.rx.as_ref().and_then(Incoming::next_due_ns);
        [tx, rx, self.port.next_deadline_ns()].into_iter().flatten().min()
    }

    fn rx_occupancy(&self) -> Option<(u64, u64)> {
        self.port.rx_occupancy()
    }

    fn link(&mut self) -> Result<LinkState, PortError> {
        self.port.link()
    }

    fn current_frame_len_max(&mut self) -> usize {
        self.port.current_frame_len_max()
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        let mut stats = self.port.stats()?;
        let name = &self.caps.name;
        if let Some(rx) = &self.rx {
            (stats.rx_packets, stats.rx_bytes) = (rx.returned.packets, rx.returned.bytes);
            stats.rx_duplicated += rx.direction.counts.duplicated;
            stats.rx_corrupted += rx.direction.counts.corrupted;
            stats.rx_drops.extend(rx.direction.drops(&format!("impair-rx of {name}")));
        }
        if let Some(tx) = &self.tx {
            stats.tx_duplicated += tx.direction.counts.duplicated;
            stats.tx_corrupted += tx.direction.counts.corrupted;
            stats.tx_drops.extend(tx.direction.drops(&format!("impair-tx of {name}")));
        }
        Ok(stats)
    }

    fn tx_generator(&mut self) -> Option<&mut dyn TxGenerator> {
        // Packets that the port makes by itself do not pass here.
        if self.tx.is_some() { None } else { self.port.tx_generator() }
    }
}

impl Incoming {
    /// Fetches what has arrived, and returns how many packets.
    fn fetch(&mut self, port: &mut dyn Port) -> Result<usize, PortError> {
        port.receive(&mut self.arrived)
    }

    /// Gives packets that have arrived their fates, and those that are due to the caller.
    fn take(&mut self, now_ns: u64, out: &mut Batch) {
        let slots = self.arrived.len();
        self.direction.take(&mut self.arrived, slots, now_ns, out);
        self.direction.release(now_ns, out);
    }

    /// Fetches what has arrived and has to wait for its time.
    fn fetch_to_wait(&mut self, port: &mut dyn Port, now_ns: u64) -> Result<usize, PortError> {
        if !self.direction.waits() {
            return Ok(0);
        }
        let fetched = self.fetch(port)?;
        self.direction.take_to_wait(&mut self.arrived, now_ns);
        Ok(fetched)
    }

    fn next_due_ns(&self) -> Option<u64> {
        if self.arrived.is_empty() { self.direction.next_due_ns() } else { Some(0) }
    }

    fn has_due(&self, now_ns: u64) -> bool {
        self.next_due_ns().is_some_and(|due_ns| due_ns <= now_ns)
    }
}

impl Outgoing {
    /// Packets that were taken and that the port behind does not have yet.
    fn waiting(&self) -> usize {
        self.direction.waiting() + self.due.totals().packets as usize
    }

    fn deadline_ns(&self) -> Option<u64> {
        if self.due.is_empty() { self.direction.next_due_ns() } else { Some(self.retry_ns) }
    }

    /// Sends what is due, as far as the port behind takes it.
    fn push(&mut self, port: &mut dyn Port, now_ns: u64) -> Result<(), PortError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        loop {
            self.direction.release(now_ns, &mut self.due);
            if self.due.is_empty() {
                return Ok(());
            }
            self.retry_ns = now_ns.saturating_add(RETRY_NS);
            match port.transmit(&mut self.due) {
                Ok(_) if self.due.is_empty() => {}
                Ok(_) => return Ok(()),
                Err(PortError::FrameTooLong { .. }) => self.direction.refuse_first(&mut self.due),
                Err(error) => return Err(error),
            }
        }
    }
}
