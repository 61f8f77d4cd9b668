//! A run from checked options to totals: ports, threads, reports.
//!
//! ```text
//!   main thread    opens the ports -> waits for the link -> starts the threads -> reports -> totals
//!   thread I       its port, its share of -n and -R, its CPU:   transmit | replay | receive | ping | pong
//! ```
//! On `pipe:` the counterpart runs on the other side of the pipe, in a thread of its own.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use linerate_lab::run::Control;
use linerate_mem::Pool;
use linerate_port::{Caps, OpenError, Port};
use linerate_sys::{affinity, signal};
use linerate_wire::MacAddress;

use super::cpus::Cpus;
use super::dump::DumpPort;
use super::format;
use super::fragment::{self, FragmentPort};
use super::log::{diag, out};
use super::options::{Function, Options, UsageError};
use super::pace;
use super::packet;
use super::ping::ping;
use super::pong::pong;
use super::ports::{self, Opened};
use super::quota::Quota;
use super::receive::receive;
use super::replay::{Source, replay};
use super::report;
use super::sequence::Numbers;
use super::transmit::transmit;
use super::worker::{Outcome, Task};

/// Why a run did not start.
#[derive(Debug)]
pub struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl From<UsageError> for StartError {
    fn from(error: UsageError) -> StartError {
        StartError(error.to_string())
    }
}

impl From<OpenError> for StartError {
    fn from(error: OpenError) -> StartError {
        StartError(error.to_string())
    }
}

impl From<std::io::Error> for StartError {
    fn from(error: std::io::Error) -> StartError {
        StartError(error.to_string())
    }
}

/// Runs to the end. True when nothing went wrong on the way.
///
/// # Errors
/// When the run could not start.
pub fn run(options: Options) -> Result<bool, StartError> {
    signal::catch_stop_signals()?;
    let cpus = announce(&options)?;
    let mut opened = ports::open(&options)?;
    for note in &opened.notes {
        diag!("main", "{note}");
    }
    let other_side = other_side(&options, &opened.pool)?;
    let caps = opened.ports.first().map(|port| port.caps().clone()).unwrap_or_default();
    let source_mac = options.source_mac.unwrap_or(MacAddress(caps.mac.unwrap_or_default()));
    check_port(&options, &caps, &opened.pool)?;
    check_packets(&options, source_mac)?;
    let files = files(&options, &opened.pool)?;
    start_lines(&options, &caps, &opened, &cpus, source_mac);
    wait_for_link(&options);

    let options = Arc::new(options);
    let ports = std::mem::take(&mut opened.ports);
    let mut crew = Crew::new(&options, &opened.pool, source_mac, cpus);
    for (port, file) in ports.into_iter().zip(files) {
        crew.start(options.function, port, file)?;
    }
    let counterpart = other_side.map(|port| crew.start_counterpart(port)).transpose()?;
    report::watch(&options, &crew.controls, &crew.done);
    Ok(crew.finish(&options, counterpart))
}

/// The lines before anything is opened.
fn announce(options: &Options) -> Result<Cpus, StartError> {
    diag!("main", "interface is {}", options.interface.text);
    options.warnings.iter().for_each(|warning| diag!("main", "{warning}"));
    let online = thread::available_parallelism().map_or(1, usize::from).max(affinity::allowed_cores().len());
    let (cpus, warning) = Cpus::new(options.affinity, options.cpus, online)?;
    if let Some(warning) = warning {
        diag!("main", "{warning}");
    }
    diag!("main", "running on {} cpus (have {online})", cpus.shown);
    diag!("extract_ip_range", "range is {}", options.source);
    diag!("extract_ip_range", "range is {}", options.destination);
    Ok(cpus)
}

/// The far side of a pipe, which its counterpart gets.
fn other_side(options: &Options, pool: &Pool) -> Result<Option<Box<dyn Port>>, StartError> {
    if options.interface.backend() != Some("pipe") {
        return Ok(None);
    }
    Ok(Some(linerate_ports::open(&options.interface.spec.to_string(), pool)?))
}

/// Can the port do what the run needs?
fn check_port(options: &Options, caps: &Caps, pool: &Pool) -> Result<(), StartError> {
    let refuse = |text: String| Err(StartError(format!("{}: {text}", caps.name)));
    let Options { function, len, fragments, .. } = options;
    if !caps.transmits && !function.receives() {
        return refuse(format!("this port does not send; {function} needs one that does"));
    }
    if !caps.receives && !function.sends() {
        return refuse(format!("this port does not receive; {function} needs one that does"));
    }
    let made = function.makes_packets() && options.packet_file.is_none();
    if made && *len > caps.frame_len_max {
        return refuse(format!("pkt_size ({len}) must be <= {} here; use a shorter -l", caps.frame_len_max));
    }
    if made && len.div_ceil(pool.packet_len_max()) > caps.segments_max {
        return refuse(format!("packets of {len} bytes need several slots, and this port takes {}", caps.segments_max));
    }
    if *fragments > 1 {
        let len_max = options.fragment_len.unwrap_or(usize::MAX).min(pool.packet_len_max());
        let (slots, _) = fragment::shape(*len, *fragments, len_max);
        let most = caps.segments_max.min(fragment::FRAGMENTS_MAX);
        if slots > most {
            return refuse(format!("-F: packets of {slots} slots, and this port takes {most}; leave -F and -M away"));
        }
    }
    Ok(())
}

/// Can the packets be made? In the threads it would be too late for an error.
fn check_packets(options: &Options, source_mac: MacAddress) -> Result<(), StartError> {
    let made = options.function.makes_packets() && options.packet_file.is_none() && !options.rubbish;
    match made.then(|| packet::stream(options, source_mac, 0)) {
        Some(Err(error)) => Err(StartError(error.to_string())),
        _ => Ok(()),
    }
}

/// `-P`: the file is a port, too; its packets go on in the frames that they were read into. Each thread reads it for itself.
fn files(options: &Options, pool: &Pool) -> Result<Vec<Option<Box<dyn Port>>>, StartError> {
    let open = |_| {
        let Some(path) = &options.packet_file else { return Ok(None) };
        let port = linerate_ports::open(&file_spec(path), pool);
        port.map(Some).map_err(|error| StartError(format!("-P {path}: {}", error.cause)))
    };
    (0..options.threads).map(open).collect()
}

/// The port name that reads a file over and over.
fn file_spec(path: &str) -> String {
    let mut spec = String::from("file:");
    for letter in path.chars() {
        if matches!(letter, ',' | '@' | '\\') {
            spec.push('\\');
        }
        spec.push(letter);
    }
    spec + ",loop"
}

fn start_lines(options: &Options, caps: &Caps, opened: &Opened, cpus: &Cpus, source_mac: MacAddress) {
    let doing = match options.function {
        Function::Tx | Function::TxSeq => "Sending on",
        Function::Rx | Function::RxSeq => "Receiving from",
        Function::Ping | Function::Pong => "Working on",
    };
    // "null:" would read "null::".
    let name = caps.name.trim_end_matches(':');
    out(&format::start(doing, name, opened.queues, options.threads, cpus.shown));
    diag!("main", "{name}: {}", caps.detail);
    if options.verbose > 0 {
        let copied = caps.copies;
        diag!("main", "frames of up to {} bytes in {} slots, {copied}", caps.frame_len_max, caps.segments_max);
    }
    if options.function.sends() {
        let (source, destination) = &options.range_texts;
        let macs = (source_mac.to_string(), options.destination_mac.to_string());
        out(&format::addresses(source, destination, &macs.0, &macs.1));
        let rate_pps = options.rate_pps as f64 / options.threads as f64;
        let burst = pace::burst(options.burst, rate_pps);
        diag!("main", "{}", format::pacing(burst, pace::gap_ns(burst, rate_pps)));
    }
}

/// A link that comes up needs some time.
fn wait_for_link(options: &Options) {
    diag!("start_threads", "Wait {} secs for phy reset", options.wait_s);
    let end_ns = linerate_sys::clock::now_ns() + options.wait_s * 1_000_000_000;
    while linerate_sys::clock::now_ns() < end_ns && !signal::stop_requested() {
        let left_ns = end_ns.saturating_sub(linerate_sys::clock::now_ns());
        thread::sleep(Duration::from_nanos(left_ns.min(50_000_000)));
    }
    diag!("start_threads", "Ready...");
}

/// The threads of a run.
struct Crew {
    options: Arc<Options>,
    pool: Pool,
    source_mac: MacAddress,
    cpus: Cpus,
    quota: Arc<Quota>,
    controls: Vec<Control>,
    threads: Vec<JoinHandle<Outcome>>,
    /// Kept, so that the channel lives as long as the crew.
    tell_done: mpsc::Sender<()>,
    done: mpsc::Receiver<()>,
}

/// The counterpart on the other side of a pipe.
struct Counterpart {
    function: Function,
    control: Control,
    thread: JoinHandle<Outcome>,
}

impl Crew {
    fn new(options: &Arc<Options>, pool: &Pool, source_mac: MacAddress, cpus: Cpus) -> Crew {
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
    fn start(
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
        let task = Task { file, ..self.task(thread, count, port, control, Arc::clone(&self.quota)) };
        let tell_done = self.tell_done.clone();
        let work = move || {
            let outcome = if idle { Outcome::default() } else { perform(function, task) };
            // The receiver is gone only when the process is about to end.
            let _ = tell_done.send(());
            outcome
        };
        self.threads.push(self.spawn(thread, work)?);
        Ok(())
    }

    /// Starts what belongs to the function on the other side of a pipe; it ends when the run does.
    fn start_counterpart(&mut self, port: Box<dyn Port>) -> Result<Counterpart, StartError> {
        let function = match self.options.function {
            Function::Tx => Function::Rx,
            Function::TxSeq => Function::RxSeq,
            _ => Function::Pong,
        };
        let thread = self.threads.len();
        let control = Control::default();
        let task = self.task(thread, 0, port, control.clone(), Arc::new(Quota::new(0)));
        let thread = self.spawn(thread, move || perform(function, task))?;
        Ok(Counterpart { function, control, thread })
    }

    fn task(&self, thread: usize, count: u64, port: Box<dyn Port>, control: Control, quota: Arc<Quota>) -> Task {
        Task {
            options: Arc::clone(&self.options),
            thread,
            count,
            quota,
            port,
            file: None,
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
    fn finish(self, options: &Options, counterpart: Option<Counterpart>) -> bool {
        let outcomes: Vec<Outcome> = self.threads.into_iter().map(join).collect();
        let mut well = report::totals(options, did(options.function), &outcomes);
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

/// What one thread does, from start to end.
fn perform(function: Function, mut task: Task) -> Outcome {
    let (options, thread) = (Arc::clone(&task.options), task.thread);
    if options.fragments > 1 {
        task.port = Box::new(FragmentPort::new(task.port, &task.pool, options.fragments, options.fragment_len));
    }
    if options.dump && function.sends() {
        task.port = Box::new(DumpPort::new(task.port, thread));
    }
    let rate_pps = options.rate_pps as f64 / options.threads as f64;
    let outcome = match (function, task.file.take()) {
        (Function::Tx, Some(file)) => replay(task, Source::File(file), rate_pps),
        (Function::Tx, None) if options.rubbish => replay(task, Source::Rubbish(options.len), rate_pps),
        (Function::Tx | Function::TxSeq, _) => transmit(task, rate_pps).unwrap_or_else(not_made),
        (Function::Rx, _) => receive(task, &mut |_| {}),
        (Function::RxSeq, _) => receive_numbers(task),
        (Function::Ping, _) => ping(task).unwrap_or_else(not_made),
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

fn receive_numbers(task: Task) -> Outcome {
    let mut numbers = Numbers::default();
    let mut outcome = receive(task, &mut |batch| numbers.record(batch));
    outcome.results.push(numbers.totals());
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_port::PortSpec;

    #[test]
    fn shares_add_up() {
        for (count, threads) in [(0, 3), (1, 3), (2, 3), (3, 3), (1_000_003, 7), (u64::MAX, 2)] {
            let shares = (0..threads).map(|thread| share(count, threads, thread));
            assert_eq!(shares.fold(0, u64::wrapping_add), count);
        }
    }

    #[test]
    fn a_files_name_keeps_what_is_special_in_it() {
        let spec: PortSpec = file_spec("/a,b@c:d\\e").parse().expect("spec");
        assert_eq!((spec.backend.as_deref(), spec.target.as_str()), (Some("file"), "/a,b@c:d\\e"));
    }
}
