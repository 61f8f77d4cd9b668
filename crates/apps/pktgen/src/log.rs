//! Where the lines go: totals to stdout, diagnostics to stderr. A reader that is gone ends a run that prints packets, and no other.

use linerate_sys::{clock, signal};

use super::format;
use linerate_console::{err, out as write_out};

/// Prints a line of results on stdout.
pub fn out(text: &str) {
    write_out(text);
}

/// Prints a packet on stdout. That is the work, so a reader that is gone ends it, as SIGPIPE would.
pub fn dump(text: &str) {
    if !write_out(text) {
        signal::request_stop();
    }
}

/// Prints a diagnostic of `function` at `line` on stderr; see [`format::diagnostic`].
pub fn diagnose(function: &str, line: u32, text: &str) {
    err(&format::diagnostic(clock::realtime_ns(), function, line, text));
}

/// `diag!("main_thread", "Wait {} secs", 2)`: a diagnostic with the line number of its place.
macro_rules! diag {
    ($function:expr, $($text:tt)+) => {
        $crate::log::diagnose($function, line!(), &format!($($text)+))
    };
}
pub(crate) use diag;
