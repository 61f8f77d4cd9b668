//! What a process takes.

use std::io;

/// Bytes of this process's memory that are there, what it shares with others included (`/proc/self/smaps_rollup`).
///
/// # Errors
/// The kernel does not tell.
pub fn resident_bytes() -> io::Result<u64> {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.map(|count| count * 1024).ok_or_else(|| io::Error::other("no line of Rss in /proc/self/smaps_rollup"))
}
