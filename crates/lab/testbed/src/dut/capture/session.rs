//! The process of one trial after another.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use linerate_process::Process;
use linerate_report::CapturePort;

use super::super::DutError;
use super::super::captured::{Capture, Captured};
use super::super::folder::Folder;
use super::super::links::Links;
use super::super::tools::{Place, died};
use super::NAME;
use super::lines::PortLine;
use super::receiving::Receiving;

/// Time between two lines of a port: how late it is known that it has begun, and what it has taken in.
const INTERVAL: &str = "50ms";
/// Longest wait until it has begun.
const READY_MAX: Duration = Duration::from_secs(20);
/// Longest wait until it has ended, with all that was in its rings.
const STOP_MAX: Duration = Duration::from_secs(20);
/// Longest wait for packets between the interface and the ring: a soft interrupt may have to wait for its core.
const SETTLE_MAX: Duration = Duration::from_secs(2);
/// Without a change for so long, nothing more comes.
const SETTLED: Duration = Duration::from_millis(300);
const PROBE_GAP: Duration = Duration::from_millis(5);

/// A capture that can be started.
pub(super) struct Session {
    program: String,
    /// As `-i` takes them, and all other options.
    interfaces: [String; 2],
    options: Vec<String>,
    receiving: Receiving,
    links: Links,
    /// Of its files.
    _folder: Option<Folder>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    process: Option<Process>,
    /// Of the interfaces before it began.
    before: BTreeMap<String, u64>,
    /// Of the trial that ended last.
    last: Vec<CapturePort>,
    failure: Option<DutError>,
    mode: String,
}

impl Session {
    pub(super) fn new(
        program: String,
        (interfaces, options): ([String; 2], Vec<String>),
        receiving: Receiving,
        links: Links,
        folder: Option<Folder>,
    ) -> Self {
        let mode = receiving.words();
        let state = Mutex::new(State { mode, ..State::default() });
        Self { program, interfaces, options, receiving, links, _folder: folder, state }
    }

    /// Starts it and ends it: what it lacks is known before the first trial, and where it works.
    pub(super) fn probe(&self) -> Result<(), DutError> {
        let mut state = self.lock();
        let probed = self.launch(&mut state, 1).and_then(|()| self.end(&mut state, 1));
        (state.process, state.last) = (None, Vec::new());
        probed
    }

    /// What its ports said at the end of the last trial.
    pub(super) fn last(&self) -> Vec<CapturePort> {
        self.lock().last.clone()
    }

    pub(super) fn take_failure(&self) -> Option<DutError> {
        self.lock().failure.take()
    }

    /// Where it worked last, in words.
    pub(super) fn mode(&self) -> String {
        self.lock().mode.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its interfaces that are captured, as the kernel calls them.
    fn names(&self, ports: usize) -> Vec<&'static str> {
        self.links.interfaces().into_iter().take(ports).map(|interface| interface.name).collect()
    }

    fn launch(&self, state: &mut State, ports: usize) -> Result<(), DutError> {
        state.before = self.links.counters()?;
        let mut command = vec![self.program.clone(), "capture".into()];
        for interface in self.interfaces.iter().take(ports) {
            command.extend(["-i".into(), interface.clone()]);
        }
        command.extend(self.options.iter().cloned().chain(["--interval".into(), INTERVAL.into()]));
        let namespace = Some(&self.links.dut().namespace);
        let place = Place { namespace, cores: self.receiving.cores(), ..Place::default() };
        // One that never sleeps would leave nothing of its core to the kernel's soft interrupt threads if it went ahead of them.
        let process = if self.receiving.polls() { place.start(&command)? } else { place.start_ahead(&command)? };
        let process = state.process.insert(process);
        let deadline = Instant::now() + READY_MAX;
        loop {
            let printed = process.printed();
            if self.names(ports).iter().all(|name| PortLine::last(&printed, name).is_some()) {
                break;
            }
            if let Some(status) = process.ended() {
                return Err(died(NAME, status, process));
            }
            if Instant::now() >= deadline {
                let how = "printed no line about each of its ports".to_owned();
                return Err(DutError::Command { command: command.join(" "), how, output: process.output() });
            }
            std::thread::sleep(PROBE_GAP);
        }
        let mut modes = Vec::new();
        for interface in self.links.interfaces().into_iter().take(ports) {
            let mode = self.receiving.place(self.links.dut(), interface)?.to_string();
            if !modes.contains(&mode) {
                modes.push(mode);
            }
        }
        state.mode = format!("{}; its interfaces work {}", self.receiving.words(), modes.join(" and "));
        Ok(())
    }

    /// Waits until what the interfaces received has reached the rings.
    fn settle(&self, process: &Process, before: &BTreeMap<String, u64>, ports: usize) {
        let deadline = Instant::now() + SETTLE_MAX;
        let mut last = (u64::MAX, Instant::now());
        while Instant::now() < deadline && process.ended().is_none() {
            let Ok(after) = self.links.counters() else { return };
            let printed = process.printed();
            let added = |name: &str| {
                let added = |what: &str| {
                    let key = format!("{name} {what}");
                    after.get(&key).zip(before.get(&key)).map_or(0, |(after, before)| after.saturating_sub(*before))
                };
                added("rx_packets").saturating_sub(added("rx_dropped"))
            };
            let offered: Vec<(u64, u64)> = self
                .names(ports)
                .into_iter()
                .map(|name| (added(name), PortLine::last(&printed, name).map_or(0, |line| line.offered)))
                .collect();
            if offered.iter().all(|(received, offered)| offered >= received) {
                return;
            }
            let sum = offered.iter().map(|(_, offered)| offered).sum();
            if sum != last.0 {
                last = (sum, Instant::now());
            } else if last.1.elapsed() >= SETTLED {
                return;
            }
            std::thread::sleep(PROBE_GAP);
        }
    }

    /// Ends the process and reads what it counted.
    fn end(&self, state: &mut State, ports: usize) -> Result<(), DutError> {
        let Some(process) = state.process.take() else {
            return Err(DutError::Unsupported("the capture was not started".into()));
        };
        self.settle(&process, &state.before, ports);
        process.stop(STOP_MAX);
        let printed = process.printed();
        for name in self.names(ports) {
            match PortLine::last(&printed, name).filter(|line| line.end) {
                Some(line) => state.last.push(line.report(name)),
                None => {
                    let how = format!("did not say at its end what it captured on {name}");
                    return Err(DutError::Died { name: NAME.into(), how, output: process.output() });
                }
            }
        }
        Ok(())
    }
}

impl Capture for Session {
    fn start(&self, ports: usize) -> Result<(), String> {
        let mut state = self.lock();
        if state.process.is_some() {
            return Ok(());
        }
        (state.last, state.failure) = (Vec::new(), None);
        self.launch(&mut state, ports).map_err(|error| {
            state.process = None;
            error.to_string()
        })
    }

    fn finish(&self, ports: usize, port: usize) -> Captured {
        let mut state = self.lock();
        if state.last.is_empty()
            && state.failure.is_none()
            && let Err(error) = self.end(&mut state, ports)
        {
            state.last.clear();
            state.failure = Some(error);
        }
        let nothing = Captured::default();
        state.last.get(port).map_or(nothing, |port| Captured {
            captured: port.captured,
            dropped_by_ring: port.dropped_by_ring,
            dropped_by_writer: port.dropped_by_writer,
            interface: port.port.clone(),
        })
    }
}
