//! The worker: one thread that serves all ports in turn. This is the switch's main loop.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::time::Duration;

use linerate_sys::clock;
use linerate_sys::poll::PollSet;

use crate::bell::{Bell, Ear};
use crate::hub::Hub;
use crate::idle::{Idle, Pause};
use crate::protocol::Refusal;

/// Something to be done on the worker's thread, between two rounds.
pub(crate) type Job = Box<dyn FnOnce(&mut Hub) + Send>;

/// How long an answer of the worker may take; it comes after a round, that is, within microseconds of its core's time.
const ANSWER: Duration = Duration::from_secs(10);

/// Reaches the worker from other threads.
#[derive(Clone)]
pub(crate) struct Handle {
    pub jobs: Sender<Job>,
    pub bell: Bell,
}

impl Handle {
    /// Runs `work` on the worker's thread and returns its result.
    ///
    /// # Errors
    /// The worker has ended.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Hub) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (sender, answer) = mpsc::channel();
        let job: Job = Box::new(move |hub| {
            // Nobody waits any more: the answer is thrown away.
            let _ = sender.send(work(hub));
        });
        let gone = || Refusal::new("the switch is ending", "");
        self.jobs.send(job).map_err(|_| gone())?;
        self.bell.ring();
        answer.recv_timeout(ANSWER).map_err(|_| gone())
    }
}

/// Moves packets until `stop` is set.
pub(crate) fn run(hub: &mut Hub, jobs: &Receiver<Job>, ear: &Ear, stop: &Arc<AtomicBool>) {
    clock::sleep_exactly();
    let mut idle = Idle::new(clock::now_ns());
    let mut set = PollSet::default();
    // When a round began that moved packets: the time until the next one is its own.
    let mut busy_since_ns = None;
    while !stop.load(Ordering::Relaxed) {
        let now_ns = clock::now_ns();
        if let Some(since_ns) = busy_since_ns.take() {
            hub.turns.busy_ns += now_ns.saturating_sub(since_ns);
        }
        let round = hub.round(now_ns);
        let worked = do_job(hub, jobs);
        if round.moved > 0 {
            idle.moved(now_ns);
            busy_since_ns = (!worked).then_some(now_ns);
            continue;
        }
        if worked {
            continue;
        }
        match idle.pause(now_ns) {
            Pause::Spin => std::hint::spin_loop(),
            Pause::Nap(nap_ns) => {
                hub.tidy(now_ns);
                clock::sleep_until_ns(now_ns + nap_ns);
                idle.napped();
            }
            Pause::Sleep => {
                hub.tidy(now_ns);
                sleep(hub, ear, &mut set, &mut idle);
            }
        }
    }
}

fn do_job(hub: &mut Hub, jobs: &Receiver<Job>) -> bool {
    match jobs.try_recv() {
        Ok(job) => {
            job(hub);
            true
        }
        Err(TryRecvError::Empty | TryRecvError::Disconnected) => false,
    }
}

/// Sleeps until a port rings, or the control thread does.
fn sleep(hub: &mut Hub, ear: &Ear, set: &mut PollSet, idle: &mut Idle) {
    set.clear();
    set.add(ear.as_fd(), true, false);
    let mut blind = false;
    for line in hub.lines.iter_mut().filter(|line| line.down.is_none() && line.port.caps().receives) {
        blind |= !line.port.arm_wakeup(&mut |descriptor| {
            set.add(descriptor, true, false);
        });
    }
    // What came before the bells were on.
    let now_ns = clock::now_ns();
    let round = hub.round(now_ns);
    if round.moved > 0 {
        return idle.moved(now_ns);
    }
    hub.turns.sleeps += 1;
    // A descriptor that cannot be slept on is no reason to spin.
    let rung = set.wait(idle.sleep_ns(blind, round)).unwrap_or_else(|_| {
        clock::sleep_until_ns(clock::now_ns() + 1_000_000);
        0
    });
    let called = set.result(0).readable;
    if called {
        ear.hush();
    }
    idle.woken(rung > usize::from(called));
}
