//! The threads of a run: each gets its port, its share of `-n` and `-R` and its CPU, does its work, and is joined.
//!
//! On `pipe:` the counterpart of the function runs on the other side of the pipe, in a thread of its own.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use linerate_mem::Pool;
use linerate_pktgen_loop::diag;
use linerate_pktgen_loop::dump::DumpPort;
use linerate_pktgen_loop::fragment::FragmentPort;
use linerate_pktgen_loop::ping::ping;
use linerate_pktgen_loop::pong::pong;
use linerate_pktgen_loop::quota::Quota;
use linerate_pktgen_loop::receive::{receive, receive_numbers};
use linerate_pktgen_loop::replay::{Source, replay};
use linerate_pktgen_loop::transmit::transmit;
use linerate_pktgen_loop::worker::{Outcome, Task};
use linerate_port::Port;
use linerate_sys::affinity;
use linerate_wire::MacAddress;
use linerate_worker::Control;

use super::checks::payload_offset;
use super::cpus::Cpus;
use super::options::{Function, Options};
use super::pace;
use super::packet;
use super::report;
use super::start_error::StartError;

/// The threads of a run.
pub struct Crew {
    options: Arc<Options>,
    pool: Pool,
    source_mac: MacAddress,
    cpus: Cpus,
    quota: Arc<Quota>,
    /// Stop requests and live counts of the threads.
    pub controls: Vec<Control>,
    threads: Vec<JoinHandle<Outcome>>,
    /// Kept, so that the channel lives as long as the crew.
    tell_done: mpsc::Sender<()>,
    /// A message from each thread at its end.
    pub done: mpsc::Receiver<()>,
}

/// The counterpart on the other side of a pipe.
pub struct Counterpart {
    function: Function,
    control: Control,
    thread: JoinHandle<Outcome>,
}

impl Crew {
    /// A crew without threads.
    pub fn new(options: &Arc<Options>, pool: &Pool, source_mac: MacAddress, cpus: Cpus) -> Crew {
        let (tell_done, done) = mpsc::channel();
        Crew {
            options: Arc::clone(options),
            pool: pool.clone(),
            source_mac,
            cpus,
            quota: Arc::new(Quota::new(options.count)),
            controls: Vec::new(),
            threads: Vec::new(),
            tell_done,
            done,
        }
    }

    /// Starts the next thread on its port.
    pub fn start(
        &mut self,
        function: Function,
        port: Box<dyn Port>,
        file: Option<Box<dyn Port>>,
    ) -> Result<(), StartError> {
        let thread = self.threads.len();
        let control = Control::default();
        self.controls.push(control.clone());
        let count = share(self.options.count, self.options.threads, thread);
        // A share of 0 packets would mean "without end".
        let idle = self.options.count > 0 && count == 0 && !function.receives();
        let task = self.task(function, thread, count, port, control, Arc::clone(&self.quota));
        let (options, tell_done) = (Arc::clone(&self.options), self.tell_done.clone());
        let work = move || {
            let outcome = if idle { Outcome::default() } else { perform(&options, function, file, task) };
            // The receiver is gone only when the process is about to end.
            let _ = tell_done.send(());
            outcome
        };
        self.threads.push(self.spawn(thread, work)?);
        Ok(())
    }

    /// Starts what belongs to the function on the other side of a pipe; it ends when the run does.
    pub fn start_counterpart(&mut self, port: Box<dyn Port>) -> Result<Counterpart, StartError> {
        let function = match self.options.function {
            Function::Tx => Function::Rx,
            Function::TxSeq => Function::RxSeq,
            _ => Function::Pong,
        };
        let thread = self.threads.len();
        let control = Control::default();
        let task = self.task(function, thread, 0, port, control.clone(), Arc::new(Quota::new(0)));
        let options = Arc::clone(&self.options);
        let thread = self.spawn(thread, move || perform(&options, function, None, task))?;
        Ok(Counterpart { function, control, thread })
    }

    fn task(
        &self,
        function: Function,
        thread: usize,
        count: u64,
        port: Box<dyn Port>,
        control: Control,
        quota: Arc<Quota>,
    ) -> Task {
        let Options { threads, burst, ends_in_silence, dump, .. } = *self.options;
        let rate_pps = self.options.rate_pps as f64 / threads as f64;
        Task {
            thread,
            threads,
            count,
            quota,
            burst: if function.receives() { burst } else { pace::burst(burst, rate_pps) },
            rate_pps,
            ends_in_silence,
            dump,
            port,
            pool: self.pool.clone(),
            source_mac: self.source_mac,
            control,
        }
    }

    fn spawn(
        &self,
        thread: usize,
        work: impl FnOnce() -> Outcome + Send + 'static,
    ) -> Result<JoinHandle<Outcome>, StartError> {
        let cpu = self.cpus.of_thread(thread);
        let pinned = move || {
            if let Some(cpu) = cpu
                && let Err(error) = affinity::pin_to_core(cpu)
            {
                diag!("setaffinity", "Unable to set affinity: {error}");
            }
            work()
        };
        thread::Builder::new()
            .name(format!("pkt-gen {thread}"))
            .spawn(pinned)
            .map_err(|error| StartError(format!("Unable to create thread {thread}: {error}")))
    }

    /// Joins the threads and prints the totals. True when nothing went wrong.
    pub fn finish(self, options: &Options, counterpart: Option<Counterpart>) -> bool {
        let outcomes: Vec<Outcome> = self.threads.into_iter().map(join).collect();
        let mut well = report::totals(options, did(options.function), &outcomes);
        report::threads(options, &self.cpus, &outcomes);
        if let Some(counterpart) = counterpart {
            counterpart.control.stop();
            well &= report::totals(options, did(counterpart.function), &[join(counterpart.thread)]);
        }
        well
    }
}

/// The first word of the totals; `ping` and `pong` have none.
fn did(function: Function) -> Option<&'static str> {
    match function {
        Function::Tx | Function::TxSeq => Some("Sent"),
        Function::Rx | Function::RxSeq => Some("Received"),
        Function::Ping | Function::Pong => None,
    }
}

/// Thread `thread`'s share of `count` packets: they add up to it.
fn share(count: u64, threads: usize, thread: usize) -> u64 {
    count / threads as u64 + u64::from((thread as u64) < count % threads as u64)
}

fn join(thread: JoinHandle<Outcome>) -> Outcome {
    match thread.join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// What one thread does, from start to end. `file` is where `-P` reads its packets.
fn perform(options: &Options, function: Function, file: Option<Box<dyn Port>>, mut task: Task) -> Outcome {
    let thread = task.thread;
    if options.fragments > 1 {
        task.port = FragmentPort::boxed(task.port, &task.pool, options.fragments, options.fragment_len);
    }
    if options.dump && function.sends() {
        task.port = DumpPort::boxed(task.port, thread);
    }
    let outcome = match (function, file) {
        (Function::Tx, Some(file)) => replay(task, Source::File(file)),
        (Function::Tx, None) if options.uninitialized => replay(task, Source::Uninitialized(options.len)),
        (Function::Tx | Function::TxSeq, _) => match packet::stream(options, task.source_mac, thread) {
            Ok(stream) => transmit(task, stream),
            Err(error) => not_made(error),
        },
        (Function::Rx, _) => receive(task),
        (Function::RxSeq, _) => receive_numbers(task),
        (Function::Ping, _) => match packet::stack(options, task.source_mac).build(options.len) {
            Ok(template) => ping(task, template, payload_offset(options.family)),
            Err(error) => not_made(error),
        },
        (Function::Pong, _) => pong(task),
    };
    if let Some(error) = &outcome.error {
        diag!("main_thread", "ouch, thread {thread} exited with error: {error}");
    }
    outcome
}

/// The packets could not be made; that was checked before the threads were started.
fn not_made(error: impl fmt::Display) -> Outcome {
    Outcome { error: Some(error.to_string()), ..Outcome::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for (count, threads) in [(0, 3), (1, 3), (2, 3), (3, 3), (1_000_003, 7), (u64::MAX, 2)] {
            let shares = (0..threads).map(|thread| share(count, threads, thread));
            assert_eq!(shares.fold(0, u64::wrapping_add), count);
        }
    }
}
