//! The stack, its clock and its sockets behind one mutex, and calls that wait.
//!
//! packetdrill has two threads: the one that plays the script, by which alone time passes, and one for calls that block. Time is virtual:
//! it passes while the first thread sleeps or waits for a packet, up to what happens next, and by a microsecond for each look at the clock,
//! because packetdrill waits for moments by looking. Whenever something has happened, the first thread goes on only after the second one has
//! seen it, so that a script ends the same way each time.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use linerate_mem::PoolConfig;
use linerate_tcp::Io;
use linerate_tcp::machine::Machine;

use crate::link::{self, Left};
use crate::settings::Settings;
use crate::sockets::Sockets;

/// The clock when a script begins; not 0, which would be a special time to test at.
const START_NS: u64 = 1_000_000_000_000;
/// Frames of a stack. Scripts send segments of several kilobytes, as a network card that merges them would.
const FRAMES: PoolConfig = PoolConfig { frames: 1024, frame_size: 16_384 };
/// Virtual time after which a packet that does not come is missing, and a call that nobody ends returns.
const PATIENCE_NS: u64 = 600_000_000_000;
/// Real time that the other thread has to see what happened.
const TURN: Duration = Duration::from_secs(1);
/// Time that a look at the clock takes.
const LOOK_NS: u64 = 1000;

/// Where the thread is that makes blocking calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiter {
    /// Outside, or in a call that does not wait.
    Outside,
    /// It waits, and has seen what happened up to here.
    Waiting(u64),
    /// Its call is done; it will look at the clock once.
    Returning(ThreadId),
}

/// What the mutex is around.
pub struct State {
    settings: Settings,
    machine: Option<Machine<Sockets>>,
    /// Time while there is no machine.
    clock_ns: u64,
    /// Packets that left, and when.
    left: VecDeque<(u64, Vec<u8>)>,
    happened: u64,
    waiter: Waiter,
    wake_ns: Option<u64>,
}

impl State {
    /// The time in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.machine.as_ref().map_or(self.clock_ns, |machine| machine.now_ns)
    }

    /// The stack's address.
    pub fn own_address(&self) -> std::net::IpAddr {
        self.settings.local.0
    }

    /// Calls the stack; `None` if it cannot be made.
    pub fn with<R>(&mut self, work: impl FnOnce(&mut Sockets, &mut Io<'_>) -> R) -> Option<R> {
        if self.machine.is_none() {
            // As late as the first socket: scripts set sysctls by a command at their beginning.
            match Machine::new(self.settings.config(), FRAMES, self.clock_ns, Sockets::default()) {
                Ok(machine) => self.machine = Some(machine),
                Err(error) => {
                    eprintln!("the stack cannot be made: {error}");
                    return None;
                }
            }
        }
        let result = self.machine.as_mut().map(|machine| machine.with(work));
        self.pump();
        result
    }

    /// A packet arrives. False if it is none.
    pub fn deliver(&mut self, packet: &[u8]) -> bool {
        let Some(frame) = link::frame(packet) else { return false };
        if let Some(machine) = &mut self.machine {
            machine.deliver([frame.as_slice()]);
            self.pump();
        }
        true
    }

    /// Sorts what left the stack, and answers what it asks the link.
    fn pump(&mut self) {
        let Some(machine) = &mut self.machine else { return };
        while let Some(frame) = machine.take_left() {
            match link::take(&frame) {
                Left::Packet(packet) => self.left.push_back((machine.now_ns, packet)),
                Left::Answer(answer) => machine.deliver([answer.as_slice()]),
                Left::Other => {}
            }
        }
    }

    /// Lets time pass up to `until_ns`, but not beyond the next thing that happens. True if that is there.
    fn step(&mut self, until_ns: u64) -> bool {
        let Some(machine) = &mut self.machine else {
            self.clock_ns = self.clock_ns.max(until_ns);
            return true;
        };
        let next_ns = machine.next_deadline_ns().min(self.wake_ns.unwrap_or(u64::MAX)).min(until_ns);
        machine.advance_to(next_ns.max(machine.now_ns));
        self.pump();
        self.now_ns() >= until_ns
    }
}

/// The stack as packetdrill sees it.
pub struct Host {
    state: Mutex<State>,
    changed: Condvar,
    /// The thread that plays the script.
    player: ThreadId,
}

impl Host {
    /// A host with these settings, made by the thread that plays the script.
    pub fn new(settings: Settings) -> Host {
        let state = State {
            settings,
            machine: None,
            clock_ns: START_NS,
            left: VecDeque::new(),
            happened: 0,
            waiter: Waiter::Outside,
            wake_ns: None,
        };
        Host { state: Mutex::new(state), changed: Condvar::new(), player: thread::current().id() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the other thread, if there is one in a call, has seen what happened.
    fn settled<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if thread::current().id() != self.player {
            return state;
        }
        state.happened += 1;
        self.changed.notify_all();
        while state.waiter != Waiter::Outside && state.waiter != Waiter::Waiting(state.happened) {
            let (guard, timed) = self.changed.wait_timeout(state, TURN).unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if timed.timed_out() {
                break;
            }
        }
        state
    }

    /// Does something that waits for nothing.
    pub fn now<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = work(&mut state);
        drop(self.settled(state));
        result
    }

    /// Tries until there is a result, or for `time_ns` of virtual time; `Some(0)` tries once.
    pub fn until<R>(&self, time_ns: Option<u64>, mut attempt: impl FnMut(&mut State) -> Option<R>) -> Option<R> {
        let mut state = self.lock();
        let deadline_ns = state.now_ns().saturating_add(time_ns.unwrap_or(PATIENCE_NS));
        let is_player = thread::current().id() == self.player;
        loop {
            let result = attempt(&mut state);
            if result.is_some() || state.now_ns() >= deadline_ns {
                if !is_player && state.waiter != Waiter::Outside {
                    state.waiter = Waiter::Returning(thread::current().id());
                    state.wake_ns = None;
                }
                self.changed.notify_all();
                drop(self.settled(state));
                return result;
            }
            if is_player {
                // Nobody else lets time pass.
                state.step(deadline_ns);
                continue;
            }
            state.waiter = Waiter::Waiting(state.happened);
            state.wake_ns = Some(deadline_ns);
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// True while the other thread is in a call that waits.
    #[cfg(test)]
    pub fn has_waiter(&self) -> bool {
        matches!(self.lock().waiter, Waiter::Waiting(_))
    }

    /// A look at the clock: nanoseconds.
    pub fn look(&self) -> u64 {
        let mut state = self.lock();
        if state.waiter == Waiter::Returning(thread::current().id()) {
            state.waiter = Waiter::Outside;
            self.changed.notify_all();
        }
        let until_ns = state.now_ns() + LOOK_NS;
        while !state.step(until_ns) {}
        let now_ns = state.now_ns();
        drop(self.settled(state));
        now_ns
    }

    /// Time passes.
    pub fn sleep(&self, time_ns: u64) {
        let mut state = self.settled(self.lock());
        let until_ns = state.now_ns().saturating_add(time_ns);
        loop {
            let is_over = state.step(until_ns);
            state = self.settled(state);
            if is_over {
                return;
            }
        }
    }

    /// The next packet that leaves, and when; `None` if none does for ten minutes.
    pub fn next_packet(&self) -> Option<(u64, Vec<u8>)> {
        let mut state = self.settled(self.lock());
        let until_ns = state.now_ns().saturating_add(PATIENCE_NS);
        let mut is_over = false;
        loop {
            if let Some(packet) = state.left.pop_front() {
                return Some(packet);
            }
            if is_over {
                return None;
            }
            is_over = state.step(until_ns);
            state = self.settled(state);
        }
    }
}
