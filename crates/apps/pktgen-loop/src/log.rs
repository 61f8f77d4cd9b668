//! Where the lines go: totals to stdout, diagnostics to stderr. A reader that is gone ends a run that prints packets, and no other.

use linerate_sys::{clock, signal};

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

/// Prints a diagnostic of `function` at `line` on stderr; see [`diagnostic`].
pub fn diagnose(function: &str, line: u32, text: &str) {
    err(&diagnostic(clock::realtime_ns(), function, line, text));
}

/// A diagnostic: seconds modulo 1000 and microseconds of the day's clock, the function's name, a line number, the text.
pub fn diagnostic(realtime_ns: u64, function: &str, line: u32, text: &str) -> String {
    let seconds = realtime_ns / 1_000_000_000 % 1000;
    let microseconds = realtime_ns / 1000 % 1_000_000;
    format!("{seconds:03}.{microseconds:06} {function} [{line}] {text}")
}

/// `diag!("main_thread", "Wait {} secs", 2)`: a diagnostic with the line number of its place.
#[macro_export]
macro_rules! diag {
    ($function:expr, $($text:tt)+) => {
        $crate::log::diagnose($function, line!(), &format!($($text)+))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_has_its_time_and_its_place() {
        let noon = 1_700_000_123_004_567_891;
        assert_eq!(diagnostic(noon, "main_thread", 27, "Ready..."), "123.004567 main_thread [27] Ready...");
    }
}
