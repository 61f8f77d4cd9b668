//! The loop of a worker, from its start to the request to stop, and its pauses.

use std::os::fd::AsFd;

use linerate_port::{Datapath, PortIndex};
use linerate_sys::clock;
use linerate_sys::poll::PollSet;

use crate::idle::{Eagerness, Idle, NAP_NS, Pause, Stuck};
use crate::worker::{Round, Served};
use crate::{Control, End, Worker};

/// How long a port that takes no packets is tried often.
const STUCK_LATELY_NS: u64 = 20_000_000;
/// Slots that are received by one reading of the clock where a sleep is what looks at ports: some microseconds of work.
const DRAINED_MAX: usize = 4096;

/// A sleep for which it pays that descriptors are registered before.
const LONG_NS: u64 = 1_000_000;

/// What a worker sleeps on. Its memory is kept from one sleep to the next.
#[derive(Default)]
struct Bed {
    /// The worker's own descriptor, that of the ports that rest if some do, then those of the other ports.
    set: PollSet,
    /// Where the descriptors of the ports begin.
    first: usize,
    /// The ports, each with the end of its descriptors in the set.
    ends: Vec<(PortIndex, usize)>,
}

impl<D: Datapath> Worker<D> {
    /// Moves packets until a stop is asked for, the datapath is done, nothing will ever come again, or a port breaks that ends the run.
    /// The timer slack of the calling thread is 1 ns afterwards. A worker can run again, unless it handed packets over to another one.
    pub fn run(&mut self, control: &Control) -> End {
        let began_ns = clock::thread_cpu_ns();
        clock::sleep_exactly();
        control.wakes(&self.notifier);
        self.exhausted = false;
        self.ports.close_outside(false);
        let mut idle = Idle::new(self.config.eagerness, self.config.sleep_max_ns, clock::now_ns());
        let mut bed = Bed::default();
        // When a round began that moved packets: the time until the next one is its own.
        let mut busy_since_ns = None;
        while !control.stopping() && !self.is_over() {
            let now_ns = clock::now_ns();
            if let Some(since_ns) = busy_since_ns.take() {
                self.turns.busy_ns += now_ns.saturating_sub(since_ns);
            }
            let mut round = self.round(now_ns);
            let drained = self.polls() && self.drain(now_ns, &mut round);
            let worked = self.do_job();
            if round.moved() {
                idle.moved(now_ns, round.received);
                // Between a round and the sleep that follows it at once the clock is not read.
                busy_since_ns = (!worked && !drained).then_some(now_ns);
            }
            if !worked && (drained || !round.moved()) {
                self.pause(now_ns, &mut idle, &mut bed);
            }
        }
        self.finish(began_ns)
    }

    /// Does the job that has waited longest.
    fn do_job(&mut self) -> bool {
        let Ok(job) = self.jobs.try_recv() else { return false };
        job(self);
        true
    }
}

impl<D: Datapath> Served<D> {
    fn polls(&self) -> bool {
        self.config.eagerness == Eagerness::Polls
    }

    /// More rounds while batches come full, by one reading of the clock, until so many packets are in. Returns true if nothing is left to
    /// do before a sleep.
    fn drain(&mut self, now_ns: u64, round: &mut Round) -> bool {
        let mut received = round.received;
        while received >= self.config.batch && round.received < DRAINED_MAX && !self.is_over() {
            let more = self.round(now_ns);
            received = more.received;
            round.received += more.received;
            round.sent += more.sent;
        }
        received < self.config.batch && !self.erased().waits()
    }

    fn is_over(&self) -> bool {
        self.error.is_some() || self.exhausted || self.datapath.is_done()
    }

    fn pause(&mut self, now_ns: u64, idle: &mut Idle, bed: &mut Bed) {
        match idle.pause(now_ns) {
            Pause::Spin => std::hint::spin_loop(),
            Pause::Yield => std::thread::yield_now(),
            Pause::Nap(nap_ns) => {
                self.erased().nap(now_ns, nap_ns);
                idle.napped();
            }
            Pause::Doze(doze_ns) => {
                // A port that takes no packets does not say when it has room again.
                if self.erased().stuck_ports(now_ns) == Stuck::Not {
                    self.sleep(now_ns, Some(doze_ns), idle, bed);
                } else {
                    self.erased().nap(now_ns, NAP_NS);
                }
            }
            Pause::Sleep => self.sleep(now_ns, None, idle, bed),
        }
    }

    /// Sleeps until a port or another thread wakes the worker, or it is time for something, for at most `doze_ns` where that is given.
    fn sleep(&mut self, now_ns: u64, doze_ns: Option<u64>, idle: &mut Idle, bed: &mut Bed) {
        let served = self.erased();
        served.tidy(now_ns);
        let blind = served.arm_wakeups(bed);
        let mut now_ns = now_ns;
        if blind || !self.polls() {
            // Packets that came before wakeups were armed do not wake it, whosever they are.
            now_ns = clock::now_ns();
            let round = self.round_of_all(now_ns);
            if round.moved() {
                return idle.moved(now_ns, round.received);
            }
        }
        if self.is_over() {
            return;
        }
        if self.erased().lie(now_ns, doze_ns, idle, bed, blind) && !self.polls() {
            self.serve_woken(idle, bed);
        }
        if bed.set.result(0).readable {
            self.wakeup.clear();
        }
        bed.set.clear();
    }

    /// Serves the ports whose descriptors ended a sleep before all others, because a packet that comes after a silence finds nothing of the
    /// process in the caches: what is not done for it yet delays it least.
    fn serve_woken(&mut self, idle: &mut Idle, bed: &Bed) {
        let now_ns = clock::now_ns();
        let (mut received, mut first) = (0, bed.first);
        for (index, end) in &bed.ends {
            if (first..*end)
                .map(|place| bed.set.result(place))
                .any(|polled| polled.readable || polled.writable || polled.failed)
            {
                received += self.receive_from(*index, now_ns);
            }
            first = *end;
        }
        if received > 0 {
            self.transmit(now_ns);
            idle.moved(now_ns, received);
        }
    }
}

impl Served<dyn Datapath + '_> {
    fn nap(&mut self, now_ns: u64, nap_ns: u64) {
        self.tidy(now_ns);
        clock::sleep_until_ns((now_ns + nap_ns).min(self.next_deadline_ns(now_ns)));
    }

    /// The sleep itself. Returns true if a port ended it.
    fn lie(&mut self, now_ns: u64, doze_ns: Option<u64>, idle: &mut Idle, bed: &mut Bed, blind: bool) -> bool {
        self.turns.sleeps += 1;
        let left_ns = self.next_deadline_ns(now_ns).saturating_sub(now_ns);
        let sleep_ns = match doze_ns {
            Some(_) if blind => NAP_NS,
            Some(doze_ns) => doze_ns,
            None => {
                let (stuck, settled) = (self.stuck_ports(now_ns), self.ports.are_settled());
                idle.sleep_ns(blind, stuck, settled)
            }
        };
        let sleep_ns = sleep_ns.min(left_ns);
        // Whoever sleeps only after a while wakes up rarely.
        let rarely = doze_ns.is_none()
            && matches!(self.config.eagerness, Eagerness::Spins | Eagerness::Yields)
            && sleep_ns >= LONG_NS;
        let woken = if rarely { bed.set.wait_long(sleep_ns) } else { bed.set.wait(sleep_ns) };
        let woken = woken.unwrap_or_else(|_| {
            // A descriptor that cannot be slept on is no reason to spin.
            clock::sleep_until_ns(clock::now_ns() + 1_000_000);
            0
        });
        let by_port = woken > usize::from(bed.set.result(0).readable);
        idle.woken(by_port);
        by_port
    }

    /// Asks the ports for their descriptors. Returns true if some port has none.
    fn arm_wakeups(&mut self, bed: &mut Bed) -> bool {
        let Bed { set, first, ends } = bed;
        set.clear();
        ends.clear();
        set.add(self.wakeup.as_fd(), true, false);
        self.wake_ports();
        // One descriptor stands for all ports that rest; who is woken by it is looked at in the next round.
        if let Some(arrivals) = self.rest.descriptor() {
            set.add(arrivals, true, false);
        }
        *first = set.len();
        let mut blind = false;
        for (index, attached) in self.ports.iter_mut().filter(|(_, attached)| attached.open && !attached.rests) {
            // A port whose packets the datapath left would wake the worker for nothing.
            let reads = attached.held.is_empty();
            let writes = attached.port.caps().sleep_syncs && self.datapath.waiting(index) > 0;
            if reads || writes {
                blind |= !attached.port.arm_wakeup(&mut |descriptor| {
                    set.add(descriptor, reads, writes);
                });
            }
            ends.push((index, set.len()));
        }
        blind
    }

    fn next_deadline_ns(&self, now_ns: u64) -> u64 {
        self.datapath.next_deadline_ns().min(self.ports.next_deadline_ns(now_ns)).min(self.links_due_ns)
    }

    fn stuck_ports(&mut self, now_ns: u64) -> Stuck {
        let Served { datapath, ports, .. } = self;
        let mut stuck = Stuck::Not;
        for (index, attached) in ports.iter_mut() {
            if datapath.waiting(index) == 0 && attached.held.is_empty() {
                continue;
            }
            if now_ns.saturating_sub(attached.stuck_since_ns) < STUCK_LATELY_NS {
                return Stuck::Lately;
            }
            stuck = Stuck::Long;
        }
        stuck
    }
}
