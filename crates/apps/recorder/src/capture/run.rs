//! All rings, to their end, and the accounts.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use linerate_capture::{Account, Counted, FileHead, RotationPolicy};
use linerate_pcapng::{SectionHead, Statistics};
use linerate_port::RxRing;
use linerate_recorder_loop::{Recorder, Settings};
use linerate_sys::{clock, signal, timestamping};

use super::line::{Line, Scope, Writer, timestamps_words};
use super::open::{CaptureRequest, Interface, Opened, newcomers, open_port};
use super::tally::{Moment, Part, fullest, timestamped_by_nic};
use super::timestamps::Clock;
use linerate_console::cores::{self, Cores};
use linerate_console::note;
use linerate_console::print;
use linerate_console::shares::uneven;
use linerate_console::tables::{CoreRow, QueueRow};
use linerate_recorder_loop::control::{Control, Counts};
use linerate_recorder_loop::thread::{RingEnd, RingRun, Sink};

/// Time between two looks at whether something ends the capture. Each costs what some hundred packets do.
const LOOK_NS: u64 = 50_000_000;

/// Time between two looks for interfaces that have come up.
const NEWCOMERS_NS: u64 = 500_000_000;

/// What is said of an interface that came up too late for `-i any`.
fn not_captured(name: &str) -> String {
    format!(
        "{name} has come up and is not captured: -i any stands for the interfaces that are up at the start; start the capture again"
    )
}

/// What is asked for.
pub struct Plan {
    /// Ports, as `-i` names them.
    pub ports: Vec<String>,
    /// How to capture on each.
    pub request: CaptureRequest,
    /// Where packets go; `None` = they are counted.
    pub path: Option<String>,
    /// When files end.
    pub policy: RotationPolicy,
    /// Ends after this time, nanoseconds.
    pub duration_ns: Option<u64>,
    /// Ends after so many packets, of all ports together, and takes no more than these.
    pub packets_max: Option<u64>,
    /// Time between two lines, nanoseconds.
    pub interval_ns: u64,
    /// Lines of JSON instead of text.
    pub json: bool,
    /// Cores of the rings' threads; `None` = where the kernel puts them.
    pub cores: Option<String>,
    /// The rings' threads never sleep.
    pub polls: bool,
    /// The ports are all interfaces, so a line is to tell of those that come up later and are not captured.
    pub is_any: bool,
}

/// A port while it is captured.
struct Port<'a> {
    name: &'a str,
    /// Numbers of its rings.
    rings: std::ops::Range<usize>,
    /// Of one ring.
    room: Option<RxRing>,
    interface: RefCell<Option<Interface>>,
    timestamps: Clock,
}

/// Captures. False when a port ended early, the disk failed, or an account does not close.
///
/// # Errors
/// What keeps it from starting.
pub fn run(plan: &Plan) -> Result<bool, String> {
    for interface in timestamping::restore_left_behind() {
        note(&format!(
            "{interface}: the NIC's timestamps, which a killed capture had left on, are as they were before it"
        ));
    }
    let mut opened = plan.ports.iter().map(|name| open_port(name, &plan.request)).collect::<Result<Vec<_>, _>>()?;
    let ports = ports(plan, &mut opened);
    let rings: usize = opened.iter().map(|port| port.sources.len()).sum();
    let cores = Cores::choose(Some(plan.cores.as_deref().unwrap_or("none")), rings)?;
    cores.note.iter().for_each(|line| note(line));
    let (recorder, mut intakes) = match &plan.path {
        None => (None, Vec::new()),
        Some(path) => {
            let settings = Settings { policy: plan.policy, ..Settings::new(path.as_str(), head(&opened)) };
            let (recorder, intakes) = Recorder::start(settings, rings).map_err(|error| error.to_string())?;
            (Some(recorder), intakes)
        }
    };
    signal::catch_stop_signals().map_err(|error| format!("cannot catch signals: {error}"))?;
    let controls: Vec<Control> = (0..rings).map(|_| Control::default()).collect();
    let quota = plan.packets_max.map(|packets| Arc::new(AtomicU64::new(packets)));
    opened.iter().for_each(|port| note(&port.note));
    let mut runs = Vec::with_capacity(rings);
    let mut intakes = intakes.drain(..);
    for (number, port) in opened.drain(..).enumerate() {
        for source in port.sources {
            let sink = Sink::new(intakes.next(), number as u32, quota.clone());
            let (control, core) = (&controls[runs.len()], cores.of(runs.len()));
            runs.push((RingRun { source, sink, control, polls: plan.polls }, core));
        }
    }
    let (start_ns, start_unix_ns) = (clock::now_ns(), clock::realtime_ns());
    let watch = Watch { plan, ports, cores: &cores, controls: &controls, start_ns, start_unix_ns };
    let ends: Vec<RingEnd> = std::thread::scope(|scope| {
        let threads: Vec<_> = runs.into_iter().map(|(run, core)| scope.spawn(move || on_core(core, run))).collect();
        watch.until_end(recorder.as_ref());
        controls.iter().for_each(|control| control.stop.store(true, Ordering::Release));
        let join = |thread: std::thread::ScopedJoinHandle<'_, RingEnd>| match thread.join() {
            Ok(end) => end,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect()
    });
    Ok(watch.finish(recorder, &ends))
}

/// The thread of a ring.
fn on_core(core: Option<usize>, run: RingRun<'_>) -> RingEnd {
    cores::pin(core);
    run.run()
}

fn ports<'a>(plan: &'a Plan, opened: &mut [Opened]) -> Vec<Port<'a>> {
    let mut next = 0;
    let port = |(name, opened): (&'a String, &mut Opened)| {
        let rings = next..next + opened.sources.len();
        next = rings.end;
        Port {
            name,
            rings,
            room: opened.room,
            interface: RefCell::new(opened.interface.take()),
            timestamps: std::mem::take(&mut opened.timestamps),
        }
    };
    plan.ports.iter().zip(opened.iter_mut()).map(port).collect()
}

/// What the file says of the capture.
fn head(opened: &[Opened]) -> FileHead {
    let section = SectionHead {
        os: "Linux".into(),
        application: format!("linerate {}", env!("CARGO_PKG_VERSION")),
        ..SectionHead::default()
    };
    FileHead { section, interfaces: opened.iter().map(|port| port.head.clone()).collect() }
}

struct Watch<'a> {
    plan: &'a Plan,
    ports: Vec<Port<'a>>,
    /// The cores of the rings' threads.
    cores: &'a Cores,
    controls: &'a [Control],
    start_ns: u64,
    start_unix_ns: u64,
}

impl Watch<'_> {
    /// Lines at each interval, until something ends the capture.
    fn until_end(&self, recorder: Option<&Recorder>) {
        let end_ns = self.plan.duration_ns.map(|duration_ns| self.start_ns.saturating_add(duration_ns));
        let mut before = vec![Moment::default(); self.controls.len()];
        let mut before_ns = self.start_ns;
        let mut known = self.plan.ports.clone();
        let mut looked_ns = self.start_ns;
        loop {
            let now_ns = clock::now_ns();
            if self.plan.is_any && now_ns >= looked_ns + NEWCOMERS_NS {
                looked_ns = now_ns;
                newcomers(&mut known).iter().for_each(|name| note(&not_captured(name)));
            }
            let over = signal::stop_requested()
                || end_ns.is_some_and(|end_ns| now_ns >= end_ns)
                || self.controls.iter().any(|control| control.ends_capture.load(Ordering::Acquire))
                || self.controls.iter().all(|control| control.ended.load(Ordering::Acquire))
                || recorder.is_some_and(|recorder| recorder.failure().is_some());
            if over {
                return;
            }
            if now_ns >= before_ns + self.plan.interval_ns {
                let moments = self.moments(recorder);
                self.show_running(&before, &moments, (now_ns - before_ns) as f64 / 1e9, recorder);
                (before, before_ns) = (moments, now_ns);
            }
            let next_ns = (before_ns + self.plan.interval_ns).min(end_ns.unwrap_or(u64::MAX));
            clock::sleep_until_ns(next_ns.clamp(now_ns + 1_000_000, now_ns + LOOK_NS));
        }
    }

    fn show_running(&self, before: &[Moment], moments: &[Moment], seconds: f64, recorder: Option<&Recorder>) {
        for part in self.parts(moments) {
            let before = Moment::sum(&before[part.rings.clone()]);
            match Account::running(part.now.counted) {
                Ok(account) => {
                    // Each is a write of its own, so they wait for packets, or for the end.
                    if Moment::sum(&moments[part.rings.clone()]).counted != before.counted {
                        self.statistics(recorder, &part, &account, None);
                    }
                    self.out(&self.line(&part, &before, account, seconds));
                }
                Err(error) => note(&format!("linerate capture: {}: {error}", part.name)),
            }
        }
    }

    /// The lines of a moment: of the rings of a port that has several, of each port, of all where there are several.
    fn parts(&self, moments: &[Moment]) -> Vec<Part<'_>> {
        let mut parts = Vec::new();
        let mut of_ports = Vec::new();
        for (number, port) in self.ports.iter().enumerate() {
            let Port { name, rings, room, interface, timestamps } = port;
            let part = |scope, queue, rings, now| Part {
                scope,
                name,
                port: Some(number),
                queue,
                rings,
                room: *room,
                by_nic: timestamps.is_nic(),
                now,
            };
            if rings.len() > 1 {
                let ring =
                    |(queue, ring): (usize, usize)| part(Scope::Queue, Some(queue), ring..ring + 1, moments[ring]);
                parts.extend(rings.clone().enumerate().map(ring));
            }
            let mut now = Moment::sum(&moments[rings.clone()]);
            let counts = interface.borrow_mut().as_mut().and_then(Interface::received_and_dropped);
            // A driver that counts less than it hands over is of no help: then it is not known what the interface received.
            if let Some((received, dropped)) = counts.filter(|(received, _)| *received >= now.counted.offered) {
                (now.counted.received, now.dropped_by_interface) = (Some(received), Some(dropped));
            }
            of_ports.push(now);
            parts.push(part(Scope::Port, None, rings.clone(), now));
        }
        if self.ports.len() > 1 {
            let (rings, now) = (0..self.controls.len(), Moment::sum(&of_ports));
            parts.push(Part {
                scope: Scope::Sum,
                name: "sum",
                port: None,
                queue: None,
                rings,
                room: None,
                by_nic: false,
                now,
            });
        }
        parts
    }

    /// Of each ring, against the stream: what is written, then what was taken, then the ring's.
    fn moments(&self, recorder: Option<&Recorder>) -> Vec<Moment> {
        let written = |ring| recorder.map_or((0, 0), |recorder: &Recorder| recorder.written(ring));
        let written: Vec<_> = (0..self.controls.len()).map(written).collect();
        let questions: Vec<_> = self.controls.iter().map(Control::ask).collect();
        let answers = self.controls.iter().zip(questions).map(|(control, question)| control.answer(question));
        answers
            .zip(written)
            .map(|(counts, (written, dropped_by_errors))| {
                let Counts { taken, bytes, timestamped_by_nic, dropped_for_buffers, ring, level_bytes, cpu_ns } =
                    counts;
                let counted = Counted {
                    received: None,
                    offered: ring.offered,
                    dropped_by_ring: ring.dropped,
                    taken,
                    counted_only: if recorder.is_none() { taken } else { 0 },
                    dropped_for_buffers,
                    dropped_by_errors,
                    written,
                };
                Moment { counted, dropped_by_interface: None, timestamped_by_nic, bytes, level_bytes, cpu_ns }
            })
            .collect()
    }

    /// The last lines; true when all is well.
    fn finish(&self, recorder: Option<Recorder>, ends: &[RingEnd]) -> bool {
        if let Some(recorder) = &recorder {
            recorder.drain();
        }
        let moments = self.moments(recorder.as_ref());
        let seconds = (clock::now_ns() - self.start_ns).max(1) as f64 / 1e9;
        let mut fine = true;
        let mut lines = Vec::new();
        let parts = self.parts(&moments);
        for part in &parts {
            match Account::closed(part.now.counted) {
                Ok(account) => {
                    self.statistics(recorder.as_ref(), part, &account, Some(clock::realtime_ns()));
                    let ring = fullest(&ends[part.rings.clone()]);
                    let line = self.line(part, &Moment::default(), account, seconds);
                    let (queues, cores) = self.tables(part, &moments);
                    lines.push(Line { end: true, ring, queues, cores, ..line });
                }
                Err(error) => {
                    fine = false;
                    note(&format!("linerate capture: {}: {error}", part.name));
                }
            }
        }
        let writer = recorder.map(Recorder::finish).as_ref().map(Writer::from);
        if let Some(last) = lines.last_mut() {
            last.writer = writer.clone();
        }
        for port in &self.ports {
            for error in ends[port.rings.clone()].iter().filter_map(|end| end.error.as_ref()) {
                fine = false;
                note(&format!("linerate capture: {}: {error}", port.name));
            }
        }
        for port in &self.ports {
            let offered: Vec<u64> = moments[port.rings.clone()].iter().map(|ring| ring.counted.offered).collect();
            if let Some(warning) = uneven("ring", &offered) {
                note(&format!("linerate capture: {}: {warning}", port.name));
            }
        }
        if let Some(writer) = &writer {
            note(&writer.text());
            if let Some(failure) = &writer.failure {
                fine = false;
                note(&format!("linerate capture: writing ended early: {failure}"));
            }
        }
        // Results come last, so that they stay on the screen.
        lines.iter().for_each(|line| self.out(line));
        fine
    }

    fn statistics(&self, recorder: Option<&Recorder>, part: &Part<'_>, account: &Account, end_ns: Option<u64>) {
        let (Some(recorder), Scope::Port, Some(port)) = (recorder, part.scope, part.port) else { return };
        let counted = account.counted();
        recorder.statistics(Statistics {
            interface: port as u32,
            time_ns: clock::realtime_ns(),
            start_ns: Some(self.start_unix_ns),
            end_ns,
            received: counted.received,
            dropped_by_interface: part.now.dropped_by_interface,
            accepted: Some(counted.offered),
            dropped_by_system: Some(counted.dropped_by_ring),
            delivered: Some(counted.taken),
            comment: match timestamped_by_nic(part) {
                None => account.to_string(),
                Some(by_nic) => format!("{account}; {}", timestamps_words(by_nic, counted.taken)),
            },
        });
    }

    /// What the rings of a port and their threads did; empty for what is no port.
    fn tables(&self, part: &Part<'_>, moments: &[Moment]) -> (Vec<QueueRow>, Vec<CoreRow>) {
        if part.scope != Scope::Port {
            return Default::default();
        }
        let rings = || part.rings.clone().zip(&moments[part.rings.clone()]).enumerate();
        let name = |queue: usize| format!("{} ring {queue}", part.name);
        let queue = |(queue, (ring, moment)): (usize, (usize, &Moment))| QueueRow {
            queue,
            port: name(queue),
            core: self.cores.of(ring),
            packets: moment.counted.taken,
            bytes: Some(moment.bytes),
            drops: moment.drops(&name(queue)),
        };
        let core = |(queue, (ring, moment)): (usize, (usize, &Moment))| {
            CoreRow::new(
                self.cores.of(ring),
                vec![name(queue)],
                moment.counted.taken,
                Some(moment.bytes),
                moment.cpu_ns,
            )
        };
        (rings().map(queue).collect(), rings().map(core).collect())
    }

    fn line<'a>(&self, part: &Part<'a>, before: &Moment, account: Account, seconds: f64) -> Line<'a> {
        let now = &part.now;
        let (packets, bytes) = (now.counted.taken - before.counted.taken, now.bytes - before.bytes);
        let (pps, bytes_ps) = (packets as f64 / seconds, bytes as f64 / seconds);
        let rings = part.rings.len() as u64;
        Line {
            schema: "linerate.capture/1",
            scope: part.scope,
            end: false,
            time_ns: clock::realtime_ns(),
            port: part.name,
            queue: part.queue,
            seconds,
            packets,
            bytes,
            pps,
            bps: bytes_ps * 8.0,
            capture_ratio: now.capture_ratio(before),
            account,
            dropped_by_interface: now.dropped_by_interface,
            timestamped_by_nic: timestamped_by_nic(part),
            ring_bytes: part.room.map(|room| room.bytes * rings),
            ring_level_bytes: now.level_bytes,
            ring_holds_ns: part.ring_holds_ns(rings, (pps, bytes_ps), self.plan.request.snaplen),
            ring: None,
            cpu_ns: now.cpu_ns,
            queues: Vec::new(),
            cores: Vec::new(),
            writer: None,
        }
    }

    /// Where a file goes to standard output, the lines do not.
    fn out(&self, line: &Line<'_>) {
        let text = if self.plan.json { line.json() } else { line.text() };
        match self.plan.path.as_deref() {
            Some("-") => note(&text),
            _ => print(&text),
        }
    }
}
