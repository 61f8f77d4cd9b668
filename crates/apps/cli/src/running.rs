//! What programs share that run until they are stopped: their file, their documents, and the wait for their end.

use std::fmt::Display;
use std::path::Path;

use linerate_console::{note, print};
use linerate_sys::{clock, signal};

const SECOND_NS: u64 = 1_000_000_000;

/// The configuration in a file; the default one without a file.
///
/// # Errors
/// The file cannot be read, or `parse` refuses what is in it.
pub fn configuration<C: Default, E: Display>(
    file: Option<&Path>,
    parse: impl FnOnce(&str) -> Result<C, E>,
) -> Result<C, String> {
    let Some(path) = file else { return Ok(C::default()) };
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Prints a document as one line of JSON.
pub fn print_json(document: &impl serde::Serialize) {
    match serde_json::to_string(document) {
        Ok(line) => print(&line),
        Err(error) => note(&error.to_string()),
    }
}

/// Calls `each_second` until a signal comes, `run_ns` are over, or the program has ended. `sleep` sleeps for so many nanoseconds at most.
pub fn wait_for_end(
    run_ns: Option<u64>,
    has_ended: impl Fn() -> bool,
    sleep: impl Fn(u64),
    mut each_second: impl FnMut(),
) {
    let start_ns = clock::now_ns();
    let end_ns = run_ns.map_or(u64::MAX, |run_ns| start_ns.saturating_add(run_ns));
    let mut next_ns = start_ns + SECOND_NS;
    while !signal::stop_requested() && !has_ended() {
        let now_ns = clock::now_ns();
        if now_ns >= end_ns {
            return;
        }
        if now_ns >= next_ns {
            next_ns = now_ns + SECOND_NS;
            each_second();
        }
        sleep(next_ns.min(end_ns) - now_ns);
    }
}
