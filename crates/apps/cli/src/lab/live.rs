//! A few lines at the bottom of the terminal that update themselves; findings scroll by above them.
//!
//! The terminal's state is never changed: no other screen, no raw mode, no hidden cursor. So there is nothing to restore, however the
//! process ends; the lines of a killed run stay as they are.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate_report::units;
use linerate_runner::Event;

use super::words;

/// Places of loss that are shown of the last trial.
const LOSS_LINES: usize = 3;
/// The lines are written anew this often, besides whenever something happens: for the time left. Rarely, since the machine measures.
const TICK: Duration = Duration::from_secs(1);

/// Trials of this length show how far they are.
const LONG_NS: u64 = 5_000_000_000;

/// The view. Dropping it takes the updating lines away.
pub struct Live {
    state: Arc<Mutex<State>>,
    stop: Option<Sender<()>>,
    ticker: Option<JoinHandle<()>>,
}

/// What the lines say.
#[derive(Default)]
struct State {
    cell: String,
    cells: String,
    findings: usize,
    found: usize,
    left_ns: u64,
    left_since: Option<Instant>,
    doing: String,
    trial_since: Option<(Instant, u64)>,
    last: Vec<String>,
    /// Lines on the terminal now.
    shown: usize,
}

impl Live {
    /// `None` when stderr is no terminal.
    pub fn on_stderr() -> Option<Live> {
        if !std::io::stderr().is_terminal() {
            return None;
        }
        let state = Arc::new(Mutex::new(State::default()));
        let (stop, stopped) = channel();
        let ticking = Arc::clone(&state);
        let ticker = std::thread::Builder::new().name("live view".into()).spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(TICK) {
                draw(&mut lock(&ticking), None);
            }
        });
        Some(Live { state, stop: Some(stop), ticker: ticker.ok() })
    }

    /// Shows what happened.
    pub fn see(&mut self, event: &Event<'_>) {
        let mut state = lock(&self.state);
        let above = state.note(event);
        draw(&mut state, above.as_deref());
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(ticker) = self.ticker.take() {
            let _ = ticker.join();
        }
        let shown = std::mem::take(&mut lock(&self.state).shown);
        let _ = write!(std::io::stderr(), "{}", erase(shown));
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Back to the first of the lines, and nothing below.
fn erase(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!("\x1b[{lines}A\r\x1b[J") }
}

fn draw(state: &mut State, above: Option<&str>) {
    // A terminal that changes its width wraps lines; then a line may stay behind. It is text, nothing breaks.
    let columns = terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(width, _)| usize::from(width.0));
    let mut text = erase(state.shown);
    if let Some(above) = above {
        text += &format!("{above}\n");
    }
    let lines = state.lines(Instant::now());
    for line in &lines {
        text += &cut(line, columns);
        text.push('\n');
    }
    state.shown = lines.len();
    let mut stderr = std::io::stderr();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// The line in one row of the terminal, without the words that do not fit.
fn cut(line: &str, columns: usize) -> String {
    const MORE: &str = " ...";
    let room = columns.saturating_sub(1);
    if line.chars().count() <= room {
        return line.to_string();
    }
    let start: String = line.chars().take(room.saturating_sub(MORE.len()) + 1).collect();
    let end = start.rfind(' ').map_or("", |end| start[..end].trim_end());
    if end.is_empty() { line.chars().take(room).collect() } else { format!("{end}{MORE}") }
}

impl State {
    /// Takes an event in; returns a line that stays.
    fn note(&mut self, event: &Event<'_>) -> Option<String> {
        match event {
            Event::Begin { findings, found, left_ns } => {
                (self.findings, self.found) = (*findings, *found);
                self.leave(*left_ns);
            }
            Event::Cell { number, cells, id } => {
                self.cell = (*id).to_owned();
                self.cells = format!("cell {number} of {cells}");
                self.last.clear();
            }
            Event::Phase(phase) => {
                self.doing = words::printable(phase);
                self.trial_since = None;
            }
            Event::Trial { name, load_pps, duration_ns, bounds } => {
                let name = name.strip_prefix(&format!("{}: ", self.cell)).unwrap_or(name);
                let load = load_pps.map_or(String::new(), |pps| format!(": {}", units::pps(pps)));
                let bounds = bounds.map_or(String::new(), |bounds| format!("   bounds {bounds}"));
                self.doing = format!("{name}{load}{bounds}");
                self.trial_since = Some((Instant::now(), *duration_ns));
            }
            Event::Trialled(trial) => {
                self.last = vec![words::trial(trial)];
                self.last.extend(words::losses(trial, LOSS_LINES));
            }
            Event::Again(trial) => self.last = vec![words::not_used(trial)],
            Event::Found { cell, finding, found, left_ns } => {
                self.found = *found;
                self.leave(*left_ns);
                return Some(format!("{cell}  {}", words::finding(finding)));
            }
            Event::Warning(warning) => return Some(format!("warning: {}", words::printable(warning))),
        }
        None
    }

    fn leave(&mut self, left_ns: u64) {
        (self.left_ns, self.left_since) = (left_ns, Some(Instant::now()));
    }

    fn lines(&self, now: Instant) -> Vec<String> {
        let since = |start: Instant| now.saturating_duration_since(start).as_nanos() as u64;
        let passed_ns = self.left_since.map_or(0, since);
        let left = words::span(self.left_ns.saturating_sub(passed_ns));
        let head =
            format!("{}  {}   {} of {} findings, about {left} left", self.cells, self.cell, self.found, self.findings);
        let long = self.trial_since.filter(|(_, duration_ns)| *duration_ns >= LONG_NS);
        let running = long.map_or(String::new(), |(start, duration_ns)| {
            format!("   {} of {}", words::span(since(start).min(duration_ns)), words::span(duration_ns))
        });
        let mut lines = vec![head, format!("  now   {}{running}", self.doing)];
        for (number, line) in self.last.iter().enumerate() {
            lines.push(if number == 0 { format!("  last  {line}") } else { format!("        {line}") });
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_is_cut() {
        assert_eq!(cut("all of it", 10), "all of it");
        assert_eq!(cut("one two three", 12), "one two ...");
        assert_eq!(cut("one  two three", 9), "one ...");
        assert_eq!(cut("abcdefghij", 6), "abcde", "a word that fills the row has no other end");
    }

    #[test]
    fn the_lines_say_what_goes_on() {
        let mut state = State::default();
        state.note(&Event::Begin { findings: 4, found: 1, left_ns: 120_000_000_000 });
        state.note(&Event::Cell { number: 2, cells: 4, id: "plain/64/1/one-way" });
        let name = "plain/64/1/one-way: throughput 1, trial 3";
        let bounds = Some("400 kpps .. 500 kpps");
        state.note(&Event::Trial { name, load_pps: Some(450_000.0), duration_ns: 60_000_000_000, bounds });
        let lines = state.lines(Instant::now() + Duration::from_secs(30));
        assert_eq!(lines[0], "cell 2 of 4  plain/64/1/one-way   1 of 4 findings, about 90 s left");
        assert!(lines[1].starts_with("  now   throughput 1, trial 3: 450"), "{}", lines[1]);
        assert!(lines[1].ends_with("bounds 400 kpps .. 500 kpps   31 s of 60 s"), "{}", lines[1]);
    }

    #[test]
    fn a_line_never_fills_a_row_and_erasing_goes_back_to_the_first() {
        assert_eq!(cut("abcdef", 4), "abc");
        assert_eq!(erase(0), "");
        assert_eq!(erase(3), "\x1b[3A\r\x1b[J");
    }
}
