//! Where the lines go: totals to stdout, diagnostics to stderr. A reader that is gone ends the run, as SIGPIPE would.

use std::io::Write;

use linerate_sys::{clock, signal};

use super::format;

/// Prints a line of results on stdout.
pub fn out(text: &str) {
    write_line(&mut std::io::stdout().lock(), text);
}

/// Prints a diagnostic of `function` at `line` on stderr; see [`format::diagnostic`].
pub fn diagnose(function: &str, line: u32, text: &str) {
    let text = format::diagnostic(clock::realtime_ns(), function, line, text);
    write_line(&mut std::io::stderr().lock(), &text);
}

/// One write call a line, so that lines of several threads and processes do not mix.
fn write_line(target: &mut dyn Write, text: &str) {
    let line = format!("{text}\n");
    if target.write_all(line.as_bytes()).and_then(|()| target.flush()).is_err() {
        signal::request_stop();
    }
}
/// `diag!("main_thread", "Wait {} secs", 2)`: a diagnostic with the line number of its place.
macro_rules! diag {
    ($function:expr, $($text:tt)+) => {
        $crate::pktgen::log::diagnose($function, line!(), &format!($($text)+))
    };
}
pub(crate) use diag;
