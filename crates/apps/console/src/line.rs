//! Results go to stdout, and everything else that people read to stderr. Either may be closed while the program works
//! (`linerate bench 2>&1 | head -2`): what is written then is lost, the work goes on, its result is stored, and the exit status is that of
//! the work. The macros of the standard library panic instead, so clippy keeps them out of the crates of commands.

use std::io::Write;

/// Prints a line, or several, on stdout. False if nobody reads it.
pub fn out(text: &str) -> bool {
    write_line(&mut std::io::stdout().lock(), text)
}

/// Prints a line, or several, on stderr. False if nobody reads it.
pub fn err(text: &str) -> bool {
    write_line(&mut std::io::stderr().lock(), text)
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
fn write_line(target: &mut dyn Write, text: &str) -> bool {
    let line = format!("{text}\n");
    target.write_all(line.as_bytes()).and_then(|()| target.flush()).is_ok()
}

/// `tell!("stored in {folder}")`: a formatted line on stderr.
#[macro_export]
macro_rules! tell {
    ($($text:tt)+) => {
        _ = $crate::err(&format!($($text)+))
    };
}
