//! The loop of a worker, from its start to the request to stop, and its pauses.

use std::os::fd::AsFd;

use linerate_port::Datapath;
use linerate_sys::clock;
use linerate_sys::poll::PollSet;

use crate::idle::{Idle, Pause, Stuck};
use crate::{Control, End, Worker};

/// How long a port that takes no packets is tried often.
const STUCK_LATELY_NS: u64 = 20_000_000;

impl<D: Datapath> Worker<D> {
    /// Moves packets until a stop is asked for, the datapath is done, nothing will ever come again, or a port breaks that ends the run.
    /// The timer slack of the calling thread is 1 ns afterwards. A worker can run again, unless it handed packets over to another one.
    pub fn run(&mut self, control: &Control) -> End {
        let began_ns = clock::thread_cpu_ns();
        clock::sleep_exactly();
        control.wakes(&self.notifier);
        self.exhausted = false;
        self.ports.close_outside(false);
        let mut idle = Idle::new(self.config.eagerness, clock::now_ns());
        let mut set = PollSet::default();
        // When a round began that moved packets: the time until the next one is its own.
        let mut busy_since_ns = None;
        while !control.stopping() && !self.is_over() {
            let now_ns = clock::now_ns();
            if let Some(since_ns) = busy_since_ns.take() {
                self.turns.busy_ns += now_ns.saturating_sub(since_ns);
            }
            let round = self.round(now_ns);
            let worked = self.do_job();
            if round.moved() {
                idle.moved(now_ns, round.received);
                busy_since_ns = (!worked).then_some(now_ns);
            } else if !worked {
                self.pause(now_ns, &mut idle, &mut set);
            }
        }
        self.finish(began_ns)
    }

    fn is_over(&self) -> bool {
        self.error.is_some() || self.exhausted || self.datapath.is_done()
    }

    /// Does the job that has waited longest.
    fn do_job(&mut self) -> bool {
        let Ok(job) = self.jobs.try_recv() else { return false };
        job(self);
        true
    }

    fn pause(&mut self, now_ns: u64, idle: &mut Idle, set: &mut PollSet) {
        match idle.pause(now_ns) {
            Pause::Spin => std::hint::spin_loop(),
            Pause::Yield => std::thread::yield_now(),
            Pause::Nap(nap_ns) => {
                self.tidy(now_ns);
                clock::sleep_until_ns((now_ns + nap_ns).min(self.next_deadline_ns()));
                idle.napped();
            }
            Pause::Sleep => {
                self.tidy(now_ns);
                self.sleep(idle, set);
            }
        }
    }

    /// Sleeps until a port or another thread wakes the worker, or it is time for something.
    fn sleep(&mut self, idle: &mut Idle, set: &mut PollSet) {
        set.clear();
        set.add(self.wakeup.as_fd(), true, false);
        let mut blind = false;
        // A port whose packets the datapath left would wake the worker for nothing.
        for (_, attached) in self.ports.iter_mut().filter(|(_, attached)| attached.open && attached.held.is_empty()) {
            blind |= !attached.port.arm_wakeup(&mut |descriptor| {
                set.add(descriptor, true, false);
            });
        }
        // Packets that came before wakeups were armed do not wake it.
        let now_ns = clock::now_ns();
        let round = self.round(now_ns);
        if round.moved() {
            return idle.moved(now_ns, round.received);
        }
        if self.is_over() {
            return;
        }
        self.turns.sleeps += 1;
        let left_ns = self.next_deadline_ns().saturating_sub(now_ns);
        let woken = set.wait(idle.sleep_ns(blind, self.stuck_ports(now_ns)).min(left_ns)).unwrap_or_else(|_| {
            // A descriptor that cannot be slept on is no reason to spin.
            clock::sleep_until_ns(clock::now_ns() + 1_000_000);
            0
        });
        let called = set.result(0).readable;
        if called {
            self.wakeup.clear();
        }
        idle.woken(woken > usize::from(called));
    }

    fn next_deadline_ns(&self) -> u64 {
        self.datapath.next_deadline_ns().min(self.ports.next_deadline_ns())
    }

    fn stuck_ports(&mut self, now_ns: u64) -> Stuck {
        let Worker { datapath, ports, .. } = self;
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
