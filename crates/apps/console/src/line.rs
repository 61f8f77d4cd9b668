//! Results go to stdout, and everything else that people read to stderr. Either may be closed while the program works
//! (`linerate bench 2>&1 | head -2`): what is written then is lost, the work goes on, its result is stored, and the exit status is that of
//! the work. Results that were meant for a file, and did not get there (a full disk), are an error at the end ([`lost_output`]).
//! The macros of the standard library panic instead, so clippy keeps them out of the crates of commands.

use std::io::{Error, ErrorKind, Result, Write};
use std::sync::OnceLock;

/// Why results that were written to stdout did not get there.
static LOST: OnceLock<Error> = OnceLock::new();

/// Prints a line, or several, on stdout. False if nobody reads it, or it could not be written.
pub fn out(text: &str) -> bool {
    let written = write_line(&mut std::io::stdout().lock(), text);
    written.map_err(note_lost).is_ok()
}

/// Prints a line, or several, on stderr. False if nobody reads it.
pub fn err(text: &str) -> bool {
    write_line(&mut std::io::stderr().lock(), text).is_ok()
}

/// Why results did not get to where stdout goes: the first error of [`out`], unless it was that nobody reads any more (`| head`), or that
/// stdout was closed from the beginning (`>&-`).
pub fn lost_output() -> Option<&'static Error> {
    LOST.get()
}

fn note_lost(error: Error) {
    if error.kind() != ErrorKind::BrokenPipe {
        _ = LOST.set(error);
    }
}

/// Prints results on stdout, whether anybody reads them or not.
pub fn print(text: &str) {
    out(text);
}

/// Writes a line for people to stderr, whether anybody reads it or not.
pub fn note(line: &str) {
    err(line);
}

/// One write call a line, so that lines of several threads and processes do not mix.
fn write_line(target: &mut dyn Write, text: &str) -> Result<()> {
    let line = format!("{text}\n");
    target.write_all(line.as_bytes()).and_then(|()| target.flush())
}

/// `tell!("stored in {folder}")`: a formatted line on stderr.
#[macro_export]
macro_rules! tell {
    ($($text:tt)+) => {
        _ = $crate::err(&format!($($text)+))
    };
}
