//! How a switch is asked for its account: Linerate's own over its control socket, Open vSwitch by a command.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use linerate_sys::clock;
use serde_json::{Value, json};

use super::counters::SwitchCounters;
use super::open_vswitch;

/// Longest wait for an answer. The worker answers between two rounds, if it has a core.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// Longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 4 << 20;
/// How exactly its age tells when it was started.
const AGE_NS: u64 = 10_000_000;

/// A switch that runs, and how it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwitchSource {
    /// One of Linerate's own, by its control socket.
    Control(PathBuf),
    /// Open vSwitch, by a command that prints what its ports counted.
    OpenVswitch(Vec<String>),
}

impl SwitchSource {
    /// Of Linerate's switch that has this control socket.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self::Control(socket.into())
    }

    /// The answer of Linerate's switch to `show WHAT`.
    ///
    /// # Errors
    /// It is not there, does not answer, or refuses.
    pub fn show(&self, what: &str) -> io::Result<Value> {
        let Self::Control(socket) = self else {
            return Err(io::Error::other("Open vSwitch has no such control socket"));
        };
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.set_write_timeout(Some(ANSWER_MAX))?;
        let request = json!({ "v": 1, "command": "show", "what": what });
        stream.write_all(format!("{request}\n").as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream.take(ANSWER_BYTES_MAX)).read_line(&mut line)?;
        let mut answer: Value = serde_json::from_str(&line)?;
        let answered = answer.get_mut("ok").map(Value::take);
        answered.ok_or_else(|| io::Error::other(format!("the switch answered {}", line.trim())))
    }

    /// Its totals now.
    ///
    /// # Errors
    /// As [`SwitchSource::show`].
    pub fn read(&self) -> io::Result<SwitchCounters> {
        if let Self::OpenVswitch(command) = self {
            return open_vswitch::read(command);
        }
        let asked_ns = clock::now_ns();
        let document = self.show("stats")?;
        let age_ns = (document["seconds"].as_f64().unwrap_or(0.0) * 1e9) as u64;
        let earliest_ns = asked_ns.saturating_sub(age_ns).saturating_sub(AGE_NS);
        let latest_ns = clock::now_ns().saturating_sub(age_ns).saturating_add(AGE_NS);
        Ok(SwitchCounters { started_ns: (earliest_ns, latest_ns), ..SwitchCounters::of(&document) })
    }

    /// Reads until nothing has moved for `quiet` and no packet waits, for `at_most` in all: the last reading, and whether it came to
    /// rest. Each answer comes between two rounds of the switch, in which it would have taken what was in a ring.
    ///
    /// # Errors
    /// It does not answer at the end of that time.
    pub fn read_at_rest(&self, quiet: Duration, at_most: Duration) -> io::Result<(SwitchCounters, bool)> {
        let start = Instant::now();
        let mut last = self.read();
        let mut since = Instant::now();
        loop {
            std::thread::sleep((quiet / 4).max(Duration::from_millis(1)));
            let next = self.read();
            let still = match (&last, &next) {
                (Ok(last), Ok(next)) => next.movement() == last.movement() && next.waiting == 0,
                _ => false,
            };
            if !still {
                since = Instant::now();
            }
            match next {
                Ok(next) if still && since.elapsed() >= quiet => return Ok((next, true)),
                next if start.elapsed() >= at_most => return next.map(|next| (next, false)),
                next => last = next,
            }
        }
    }
}
