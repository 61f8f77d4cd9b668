//! The loop of a balancer: receives, spreads, sends, and lets what does not go wait within a bound.

use linerate_mem::{Batch, Pool};
use linerate_port::{Interest, Port, PortError, Readiness, Stats};
use linerate_sys::clock;
use linerate_worker::Control;

use super::output::Output;
use super::spread::{flow_hash, output_of};
use crate::bridge::forward::complete;

/// Empty turns before the clock is looked at, and the time without a packet that is spun through.
const TURNS: u32 = 64;
const SPIN_NS: u64 = 50_000;
/// Sleep while packets wait for room, shortest and longest.
const NAP_NS: std::ops::RangeInclusive<u64> = 50_000..=1_000_000;
/// Turns between two calls of every output's `flush`, under load.
const FLUSH_EVERY: u32 = 1024;
/// Longest sleep, so that a request to stop is seen.
const SLEEP_NS: u64 = 20_000_000;
/// How long outputs may take to take what waits, and to complete what they took, after the end.
const DRAIN_NS: u64 = 1_000_000_000;

/// A balancer: an input, and groups of outputs. Every group gets every packet.
pub struct Balancer {
    /// Where packets come from.
    pub input: Box<dyn Port>,
    /// All outputs, one group after the other.
    pub outputs: Vec<Output>,
    /// Outputs of each group.
    pub groups: Vec<usize>,
    /// Slots that may wait, over all outputs.
    pub extra: usize,
    /// The pool of the input's packets.
    pub pool: Pool,
    /// Packets that the input returned.
    pub received: u64,
    batch: Batch,
}

/// How it ended.
pub struct BalanceEnd {
    /// The input's totals.
    pub input: Stats,
    /// Each output's totals, and the packets that it took and had not finished.
    pub outputs: Vec<(Stats, u64)>,
    /// What broke a port, if something did.
    pub error: Option<PortError>,
    /// Time on a core, in nanoseconds.
    pub core_ns: u64,
}

impl Balancer {
    /// A balancer that takes `batch` slots at a time.
    pub fn new(
        input: Box<dyn Port>,
        outputs: Vec<Output>,
        groups: Vec<usize>,
        pool: &Pool,
        extra: usize,
        batch: usize,
    ) -> Balancer {
        let batch = Batch::with_times(pool, batch);
        Balancer { input, outputs, groups, extra, pool: pool.clone(), received: 0, batch }
    }

    /// Balances until a stop is asked for, nothing will ever come again, or a port breaks.
    pub fn run(&mut self, control: &Control) -> BalanceEnd {
        let began_ns = clock::thread_cpu_ns();
        let mut error = self.until_stopped(control).err();
        error = error.or(self.drain().err());
        let pool = &mut self.pool;
        self.outputs.iter_mut().for_each(|output| output.give_up(pool));
        control.meter.set(self.received, 0, 0);
        let outputs = self.outputs.iter_mut().map(|output| {
            let incomplete = complete(&mut *output.port);
            (output.port.stats().unwrap_or_default(), incomplete)
        });
        let outputs = outputs.collect();
        let input = self.input.stats().unwrap_or_default();
        BalanceEnd { input, outputs, error, core_ns: clock::thread_cpu_ns() - began_ns }
    }

    fn until_stopped(&mut self, control: &Control) -> Result<(), PortError> {
        let mut idle = Idle::default();
        let mut turns = 0u32;
        while !control.stopping() {
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(FLUSH_EVERY) {
                self.flush()?;
            }
            if self.turn()? {
                control.meter.set(self.received, 0, 0);
                idle = Idle::default();
            } else if !idle.rest(self)? {
                break;
            }
        }
        Ok(())
    }

    /// One batch; true when anything moved.
    pub fn turn(&mut self) -> Result<bool, PortError> {
        let received = match self.input.receive(&mut self.batch) {
            Err(PortError::Down { .. }) => 0,
            other => other?,
        };
        self.received += received as u64;
        if received > 0 {
            self.spread();
        }
        let mut moved = received > 0;
        let mut waiting = 0;
        for output in &mut self.outputs {
            moved |= output.send(&mut self.pool)?;
            waiting += output.backlog();
        }
        if waiting > self.extra {
            self.trim(waiting - self.extra);
        }
        Ok(moved)
    }

    /// Gives each packet of the batch to one output of each group: copies to all groups but the last.
    fn spread(&mut self) {
        while let Some(span) = self.batch.span(0) {
            let hash = flow_hash(self.batch.packet(0));
            let mut first = 0;
            let last = self.groups.len() - 1;
            for (group, count) in self.groups.iter().enumerate() {
                let output = &mut self.outputs[first + output_of(hash, *count)];
                if group == last {
                    output.assign(&mut self.batch, span.slots);
                } else {
                    output.assign_copy(&self.batch, &mut self.pool);
                }
                first += count;
            }
        }
    }

    /// Drops `excess` slots: the oldest of the longest queue, so that an output that stands still cannot take the room of the
    /// others, and new packets go before old ones.
    #[cold]
    fn trim(&mut self, mut excess: usize) {
        while excess > 0 {
            let lengths = self.outputs.iter().map(Output::backlog);
            let Some((longest, length)) = lengths.clone().enumerate().max_by_key(|(_, length)| *length) else { break };
            let others = lengths.enumerate().filter(|(index, _)| *index != longest).map(|(_, length)| length);
            let next = others.max().unwrap_or(0);
            if length == 0 {
                break;
            }
            let drop = excess.min(length - next + 1).min(length);
            self.outputs[longest].overflow(drop, &mut self.pool);
            let now = self.outputs[longest].backlog();
            excess = excess.saturating_sub(length - now);
        }
    }

    /// Lets outputs push on what they hold, and look after themselves, also those for which there is nothing.
    fn flush(&mut self) -> Result<(), PortError> {
        for output in &mut self.outputs {
            match output.port.flush() {
                Err(error) if !matches!(error, PortError::Down { .. }) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn waits(&self) -> bool {
        self.outputs.iter().any(|output| output.held() > 0)
    }

    /// Sends what waits, for a while.
    fn drain(&mut self) -> Result<(), PortError> {
        let give_up_ns = clock::now_ns() + DRAIN_NS;
        while self.waits() && clock::now_ns() < give_up_ns {
            let mut moved = false;
            for output in &mut self.outputs {
                moved |= output.send(&mut self.pool)?;
            }
            if !moved {
                clock::sleep_until_ns(clock::now_ns() + *NAP_NS.start());
            }
        }
        Ok(())
    }
}

/// What is done while nothing moves.
#[derive(Default)]
struct Idle {
    turns: u32,
    since_ns: u64,
    nap_ns: u64,
    in_vain: u32,
}

impl Idle {
    /// Spins for a while, then sleeps; false when nothing will ever come and nothing waits.
    fn rest(&mut self, balancer: &mut Balancer) -> Result<bool, PortError> {
        self.turns += 1;
        if self.turns < TURNS {
            std::hint::spin_loop();
            return Ok(true);
        }
        let now_ns = clock::now_ns();
        if self.since_ns == 0 {
            self.since_ns = now_ns;
        }
        if now_ns - self.since_ns < SPIN_NS {
            self.turns = 0;
            return Ok(true);
        }
        balancer.flush()?;
        self.nap_ns = (self.nap_ns * 2).clamp(*NAP_NS.start(), *NAP_NS.end());
        let waits = balancer.waits();
        let timeout_ns = if waits { self.nap_ns } else { SLEEP_NS };
        match balancer.input.wait(Interest::Receive, timeout_ns) {
            Ok(Readiness::TimedOut) => self.in_vain = 0,
            Ok(Readiness::Ready) | Err(PortError::Down { .. }) => {
                self.in_vain += 1;
                if self.in_vain > 2 {
                    clock::sleep_until_ns(clock::now_ns() + self.nap_ns);
                }
            }
            Ok(Readiness::Closed) => {
                // What came before the end is complete, but may have come since the last turn.
                let moved = balancer.turn()?;
                if !moved && waits {
                    clock::sleep_until_ns(clock::now_ns() + self.nap_ns);
                }
                return Ok(moved || balancer.waits());
            }
            Err(error) => return Err(error),
        }
        Ok(true)
    }
}
