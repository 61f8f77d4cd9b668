//! A stack with a program, driven as the worker does, under a virtual clock: frames in, frames out. For tests, and for tools that play
//! scenarios with time to spare.

use std::collections::VecDeque;

use crate::{App, Io, Stack, StackConfig, StackError};
use linerate_mem::{Batch, MapError, Pool, PoolConfig};
use linerate_port::{Context, Datapath, PortIndex};

/// The one port of a stack.
const PORT: PortIndex = PortIndex(0);
/// Ticks without progress after which a deadline counts as one that never passes.
const TICKS_MAX: u32 = 10_000;

/// Why a machine could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// There is no memory for its frames.
    #[error(transparent)]
    Pool(#[from] MapError),
    /// The stack refuses its configuration.
    #[error(transparent)]
    Stack(#[from] StackError),
}

/// A stack, its pool, and the frames that left.
pub struct Machine<A: App> {
    /// The stack.
    pub stack: Stack<A>,
    pool: Pool,
    arrived: Batch,
    /// The time in nanoseconds.
    pub now_ns: u64,
    left: VecDeque<Vec<u8>>,
    ticks: u32,
}

impl<A: App> Machine<A> {
    /// A machine at time `now_ns`. Packets that are longer than a frame of `pool` do not arrive.
    ///
    /// # Errors
    /// There is no memory for it, or the configuration makes no sense.
    pub fn new(config: StackConfig, pool: PoolConfig, now_ns: u64, app: A) -> Result<Machine<A>, MachineError> {
        let pool = Pool::new(pool)?;
        let arrived = Batch::new(&pool, 1024);
        let stack = Stack::new(config, &pool, app)?;
        let mut machine = Machine { stack, pool, arrived, now_ns, left: VecDeque::new(), ticks: 0 };
        machine.tick();
        machine.collect();
        Ok(machine)
    }

    /// Frames arrive in batches of as many as there are frames for; those that find none are lost, as on a port.
    pub fn deliver<'a>(&mut self, frames: impl IntoIterator<Item = &'a [u8]>) {
        for bytes in frames {
            let at = self.arrived.len();
            if at == self.arrived.capacity() || bytes.len() > self.pool.packet_len_max() {
                continue;
            }
            if self.pool.alloc(&mut self.arrived, 1, bytes.len()) == 1 {
                self.arrived.packet_mut(at).copy_from_slice(bytes);
            }
        }
        while !self.arrived.is_empty() {
            let before = self.arrived.len();
            let mut ports = ();
            let mut context = Context { now_ns: self.now_ns, pool: &mut self.pool, ports: &mut ports };
            self.stack.input(PORT, &mut self.arrived, &mut context);
            self.collect();
            if self.arrived.len() == before {
                // Back pressure with an output that is empty would last for ever.
                debug_assert!(false, "the stack takes nothing although all that it sent has left");
                self.pool.free(&mut self.arrived);
            }
        }
        self.tick_if_due();
        self.collect();
    }

    /// Calls the program, and takes what leaves.
    pub fn with<R>(&mut self, work: impl FnOnce(&mut A, &mut Io<'_>) -> R) -> R {
        let result = self.stack.with(self.now_ns, work);
        self.collect();
        result
    }

    /// The next frame that leaves up to `until_ns`; time passes until then.
    pub fn next_frame(&mut self, until_ns: u64) -> Option<Vec<u8>> {
        loop {
            if let Some(frame) = self.left.pop_front() {
                return Some(frame);
            }
            let deadline_ns = self.stack.next_deadline_ns();
            if deadline_ns > until_ns {
                self.pass_to(until_ns);
                return None;
            }
            self.pass_to(deadline_ns);
            self.tick();
            self.collect();
        }
    }

    /// A frame that has left already.
    pub fn take_left(&mut self) -> Option<Vec<u8>> {
        self.left.pop_front()
    }

    fn pass_to(&mut self, time_ns: u64) {
        if time_ns > self.now_ns {
            self.now_ns = time_ns;
            self.ticks = 0;
        }
    }

    /// Does what is due, at a time that somebody else keeps.
    pub fn advance_to(&mut self, time_ns: u64) {
        self.pass_to(time_ns);
        self.tick_if_due();
        self.collect();
    }

    fn tick_if_due(&mut self) {
        if self.stack.next_deadline_ns() <= self.now_ns {
            self.tick();
        }
    }

    fn tick(&mut self) {
        self.ticks += 1;
        debug_assert!(self.ticks < TICKS_MAX, "the deadline {} never passes", self.stack.next_deadline_ns());
        let mut ports = ();
        let mut context = Context { now_ns: self.now_ns, pool: &mut self.pool, ports: &mut ports };
        self.stack.tick(&mut context);
    }

    /// Takes what leaves.
    fn collect(&mut self) {
        while let Some(batch) = self.stack.output(PORT) {
            let count = batch.len();
            if count == 0 {
                break;
            }
            self.left.extend(batch.iter().map(<[u8]>::to_vec));
            self.pool.free(batch);
            self.stack.tx_done(PORT, count, self.now_ns);
        }
    }

    /// When the stack has something to do next, in nanoseconds; `u64::MAX` for never.
    pub fn next_deadline_ns(&self) -> u64 {
        self.stack.next_deadline_ns()
    }

    /// Ends the stack; every frame must be free afterwards.
    ///
    /// # Errors
    /// Frames are missing.
    pub fn end(self) -> Result<(), String> {
        let Machine { stack, mut pool, arrived, .. } = self;
        drop(stack);
        drop(arrived);
        pool.flush();
        if pool.is_whole() {
            Ok(())
        } else {
            Err(format!("{} frames came back, fewer than there are", pool.available()))
        }
    }
}
