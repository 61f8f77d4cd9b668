//! A line a second on stderr: written over on a terminal, one below the other where there is none.

use std::io::{IsTerminal, Write};

/// Time between two lines.
const EVERY_NS: u64 = 1_000_000_000;

/// Shows a line a second.
pub struct Live {
    shown: bool,
    terminal: bool,
    start_ns: u64,
    before_ns: u64,
    next_ns: u64,
    /// A line without its end is on the terminal.
    open_line: bool,
}

impl Live {
    /// Lines from `start_ns` on; with `quiet`, none.
    pub fn new(quiet: bool, start_ns: u64) -> Live {
        let terminal = std::io::stderr().is_terminal();
        Live { shown: !quiet, terminal, start_ns, before_ns: start_ns, next_ns: start_ns + EVERY_NS, open_line: false }
    }

    /// Shows a line if one is due. Only then `line` is called, with the seconds since the one before, for what follows the time.
    pub fn tick(&mut self, now_ns: u64, line: impl FnOnce(f64) -> String) {
        if !self.shown || now_ns < self.next_ns {
            return;
        }
        let since = (now_ns - self.before_ns).max(1) as f64 / 1e9;
        let line = format!("{:5.1} s{}", (now_ns - self.start_ns) as f64 / 1e9, line(since));
        let text = if self.terminal { format!("\r{line}\x1b[K") } else { format!("{line}\n") };
        let mut stderr = std::io::stderr().lock();
        // A closed stderr is no reason to stop.
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
        self.open_line = self.terminal;
        self.before_ns = now_ns;
        while self.next_ns <= now_ns {
            self.next_ns += EVERY_NS;
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if self.open_line {
            super::note("");
        }
    }
}
