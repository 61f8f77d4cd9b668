//! All ports, to their end, and the accounts.

use std::sync::atomic::Ordering;

use linerate_capture::{Account, Counted, FileHead, FillReport, Projection, RotationPolicy, holds_ns};
use linerate_pcapng::{InterfaceHead, SectionHead, Statistics};
use linerate_ports::capture::{CaptureOptions, RingCapture};
use linerate_recorder::{Recorder, Report, Settings};
use linerate_report::units::{bps, count, nanoseconds, percent, pps};
use linerate_sys::{clock, signal};
use serde::Serialize;

use super::port::{Control, PortCounts, PortEnd, PortRun};
use crate::pktgen::log;
use crate::traffic::note;

/// What is asked for.
pub struct Plan {
    /// Names of interfaces, and how to capture on each.
    pub ports: Vec<(String, CaptureOptions)>,
    /// The expression, for the file's head.
    pub filter: String,
    /// Bytes kept of each packet.
    pub snaplen: u32,
    /// Where packets go; `None` = they are counted.
    pub path: Option<String>,
    /// When files end.
    pub policy: RotationPolicy,
    /// Ends after this time, nanoseconds.
    pub duration_ns: Option<u64>,
    /// Ends after so many packets of any port.
    pub packets_max: Option<u64>,
    /// Time between two lines, nanoseconds.
    pub interval_ns: u64,
    /// Lines of JSON instead of text.
    pub json: bool,
}

/// A line about one port (`linerate.capture/1`).
#[derive(Serialize)]
struct Line<'a> {
    schema: &'static str,
    /// True for the last line of a port.
    end: bool,
    time_ns: u64,
    port: &'a str,
    /// Since the line before; at the end, since the start.
    seconds: f64,
    pps: f64,
    bps: f64,
    bytes: u64,
    account: Account,
    #[serde(skip_serializing_if = "Option::is_none")]
    ring: Option<FillReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ns: Option<u64>,
}

/// Captures. False when a port ended early, the disk failed, or an account does not close.
///
/// # Errors
/// What keeps it from starting.
pub fn run(plan: &Plan) -> Result<bool, String> {
    let open = |(name, options): &(String, CaptureOptions)| {
        RingCapture::open(name, options).map_err(|error| error.to_string())
    };
    let rings = plan.ports.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let (recorder, intakes) = match &plan.path {
        None => (None, Vec::new()),
        Some(path) => {
            let settings = Settings { policy: plan.policy, ..Settings::new(path.as_str(), head(plan, &rings)) };
            let (recorder, intakes) = Recorder::start(settings, rings.len()).map_err(|error| error.to_string())?;
            (Some(recorder), intakes)
        }
    };
    signal::catch_stop_signals().map_err(|error| format!("cannot catch signals: {error}"))?;
    let controls: Vec<Control> = rings.iter().map(|_| Control::default()).collect();
    let mut intakes = intakes.into_iter();
    let runs = rings.into_iter().zip(&plan.ports).zip(&controls).enumerate();
    let runs: Vec<PortRun<'_>> = runs
        .map(|(number, ((ring, (_, options)), control))| PortRun {
            ring,
            interface: number as u32,
            intake: intakes.next(),
            outgoing: options.outgoing,
            packets_max: plan.packets_max.unwrap_or(u64::MAX),
            control,
        })
        .collect();
    for (name, options) in &plan.ports {
        let whose = if options.outgoing { "received and sent" } else { "received" };
        note(&format!("capturing on {name}: packets {whose}, a ring of {} bytes", count(options.ring_bytes)));
    }
    let start_ns = clock::now_ns();
    let mut watch =
        Watch { plan, controls: &controls, recorder: recorder.as_ref(), start_ns, start_unix_ns: clock::realtime_ns() };
    let ends: Vec<PortEnd> = std::thread::scope(|scope| {
        let threads: Vec<_> = runs.into_iter().map(|run| scope.spawn(move || run.run())).collect();
        watch.until_end();
        controls.iter().for_each(|control| control.stop.store(true, Ordering::Release));
        let join = |thread: std::thread::ScopedJoinHandle<'_, PortEnd>| match thread.join() {
            Ok(end) => end,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect()
    });
    let fine = watch.finish(&ends);
    Ok(recorder.map(Recorder::finish).is_none_or(|report| tell(&report)) && fine)
}

/// What the file says of the capture.
fn head(plan: &Plan, rings: &[RingCapture]) -> FileHead {
    let interface = |((name, options), ring): (&(String, CaptureOptions), &RingCapture)| InterfaceHead {
        name: name.clone(),
        filter: plan.filter.clone(),
        comment: format!(
            "time stamps: the kernel's receive path, CLOCK_REALTIME; captured: packets {}",
            if options.outgoing { "received and sent" } else { "received" }
        ),
        mac: ring.mac(),
        snaplen: plan.snaplen,
        ..InterfaceHead::default()
    };
    let section = SectionHead {
        os: "Linux".into(),
        application: format!("linerate {}", env!("CARGO_PKG_VERSION")),
        ..SectionHead::default()
    };
    FileHead { section, interfaces: plan.ports.iter().zip(rings).map(interface).collect() }
}

struct Watch<'a> {
    plan: &'a Plan,
    controls: &'a [Control],
    recorder: Option<&'a Recorder>,
    start_ns: u64,
    start_unix_ns: u64,
}

impl Watch<'_> {
    /// A line for each port at each interval, until something ends the capture.
    fn until_end(&mut self) {
        let end_ns = self.plan.duration_ns.map(|duration_ns| self.start_ns.saturating_add(duration_ns));
        let mut before = vec![PortCounts::default(); self.controls.len()];
        let mut before_ns = self.start_ns;
        loop {
            let now_ns = clock::now_ns();
            let over = signal::stop_requested()
                || end_ns.is_some_and(|end_ns| now_ns >= end_ns)
                || self.controls.iter().any(|control| control.ended.load(Ordering::Acquire))
                || self.recorder.is_some_and(|recorder| recorder.failure().is_some());
            if over {
                return;
            }
            if now_ns >= before_ns + self.plan.interval_ns {
                let seconds = (now_ns - before_ns) as f64 / 1e9;
                for (port, before) in before.iter_mut().enumerate() {
                    *before = self.show_running(port, before, seconds);
                }
                before_ns = now_ns;
            }
            clock::sleep_until_ns(now_ns + 10_000_000);
        }
    }

    fn show_running(&self, port: usize, before: &PortCounts, seconds: f64) -> PortCounts {
        let (counted, counts) = self.counted(port);
        match Account::running(counted) {
            Ok(account) => {
                self.statistics(port, &account, None);
                self.show(port, &account, (counts.taken - before.taken, counts.bytes - before.bytes), seconds, None);
            }
            Err(error) => note(&format!("linerate capture: {}: {error}", self.name(port))),
        }
        counts
    }

    /// Against the stream: what is written, then what was taken, then the ring's.
    fn counted(&self, port: usize) -> (Counted, PortCounts) {
        let (written, dropped_by_errors) = self.recorder.map_or((0, 0), |recorder| recorder.written(port));
        let counts = self.controls[port].counts();
        let counted_only = if self.recorder.is_none() { counts.taken } else { 0 };
        let PortCounts { taken, dropped_for_buffers, ring, .. } = counts;
        let (offered, dropped_by_ring) = (ring.offered, ring.dropped);
        let counted = Counted {
            received: None,
            offered,
            dropped_by_ring,
            taken,
            counted_only,
            dropped_for_buffers,
            dropped_by_errors,
            written,
        };
        (counted, counts)
    }

    fn finish(&self, ends: &[PortEnd]) -> bool {
        if let Some(recorder) = self.recorder {
            recorder.drain();
        }
        let seconds = (clock::now_ns() - self.start_ns).max(1) as f64 / 1e9;
        let mut fine = true;
        for (port, end) in ends.iter().enumerate() {
            let (counted, counts) = self.counted(port);
            match Account::closed(counted) {
                Ok(account) => {
                    self.statistics(port, &account, Some(clock::realtime_ns()));
                    self.show(port, &account, (counts.taken, counts.bytes), seconds, Some(end));
                }
                Err(error) => {
                    fine = false;
                    note(&format!("linerate capture: {}: {error}", self.name(port)));
                }
            }
            if let Some(error) = &end.error {
                fine = false;
                note(&format!("linerate capture: {}: {error}", self.name(port)));
            }
        }
        fine
    }

    fn statistics(&self, port: usize, account: &Account, end_ns: Option<u64>) {
        let Some(recorder) = self.recorder else { return };
        let counted = account.counted();
        recorder.statistics(Statistics {
            interface: port as u32,
            time_ns: clock::realtime_ns(),
            start_ns: Some(self.start_unix_ns),
            end_ns,
            accepted: Some(counted.offered),
            dropped_by_system: Some(counted.dropped_by_ring),
            delivered: Some(counted.taken),
            comment: account.to_string(),
            ..Statistics::default()
        });
    }

    fn show(&self, port: usize, account: &Account, (packets, bytes): (u64, u64), seconds: f64, end: Option<&PortEnd>) {
        let name = self.name(port);
        let (rate_pps, rate_bps) = (packets as f64 / seconds, bytes as f64 * 8.0 / seconds);
        if self.plan.json {
            let line = Line {
                schema: "linerate.capture/1",
                end: end.is_some(),
                time_ns: clock::realtime_ns(),
                port: name,
                seconds,
                pps: rate_pps,
                bps: rate_bps,
                bytes,
                account: *account,
                ring: end.map(|end| end.ring),
                cpu_ns: end.map(|end| end.cpu_ns),
            };
            // Numbers and texts always can be.
            self.out(&serde_json::to_string(&line).unwrap_or_default());
            return;
        }
        let text = format!(
            "{name}: {} packets, {} bytes, {}, {}; lost {} (ring {}, writer {})",
            count(packets),
            count(bytes),
            pps(rate_pps),
            bps(rate_bps),
            count(account.lost()),
            count(account.counted().dropped_by_ring),
            count(account.dropped_by_writer()),
        );
        let Some(end) = end else { return self.out(&text) };
        let holds = holds_ns(end.ring.capacity, bytes as f64 / seconds)
            .map_or("".into(), |ns| format!(", {} of packet bytes at this rate", nanoseconds(ns as f64)));
        self.out(&format!("in {seconds:.2} s {text}"));
        self.out(&format!("  account  {account}"));
        self.out(&format!(
            "  ring     {} bytes{holds}; at most {} full; {}",
            count(end.ring.capacity),
            percent(end.ring.highest_share()),
            projection(end.ring.projection)
        ));
    }

    /// Where a file goes to standard output, the lines do not.
    fn out(&self, line: &str) {
        match self.plan.path.as_deref() {
            Some("-") => note(line),
            _ => log::out(line),
        }
    }

    fn name(&self, port: usize) -> &str {
        &self.plan.ports[port].0
    }
}

fn projection(projection: Projection) -> String {
    match projection {
        Projection::TooShort => "too short a run to tell whether it lasts".into(),
        Projection::Steady => "the level fell back each time: the reader keeps up".into(),
        Projection::FullIn { ns } => {
            format!("the level rises: full in {}, then packets are lost", nanoseconds(ns as f64))
        }
        Projection::Overflowed => "it was full".into(),
        _ => String::new(),
    }
}

/// What became of the files; false when writing failed.
fn tell(report: &Report) -> bool {
    let way = if report.direct { "past the page cache" } else { "through the page cache" };
    note(&format!(
        "{} files ({} removed), {} bytes, {way}; the last: {}; queue at most {} full",
        report.files,
        report.removed,
        count(report.bytes),
        report.last_file,
        percent(report.queue.highest_share())
    ));
    if let Some(failure) = &report.failure {
        note(&format!("linerate capture: writing ended early: {failure}"));
    }
    report.failure.is_none()
}
