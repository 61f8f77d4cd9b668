//! What the kernel could not put into the device's queue, from /proc/net/dev of the device's namespace.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// A reader that stays with the namespace in which it was opened.
pub(crate) struct QueueDrops {
    /// `None` without a /proc: nothing can be counted.
    file: Option<File>,
    interface: String,
    at_open: u64,
    last: u64,
}

impl QueueDrops {
    pub(crate) fn of(interface: &str) -> QueueDrops {
        let file = File::open("/proc/thread-self/net/dev").ok();
        let mut drops = QueueDrops { file, interface: interface.into(), at_open: 0, last: 0 };
        drops.at_open = drops.read();
        drops
    }

    /// Packets since the port was opened; of a device that is gone, the last count.
    pub(crate) fn since_open(&mut self) -> u64 {
        self.read().saturating_sub(self.at_open)
    }

    fn read(&mut self) -> u64 {
        let text = self.file.as_ref().and_then(read_whole);
        if let Some(drops) = text.as_deref().and_then(|text| transmit_drops(text, &self.interface)) {
            self.last = drops;
        }
        self.last
    }
}

/// The file gives what fits into each read, whole lines only.
fn read_whole(file: &File) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let mut part = [0; 8192];
        match file.read_at(&mut part, bytes.len() as u64).ok()? {
            0 => return String::from_utf8(bytes).ok(),
            len => bytes.extend_from_slice(&part[..len]),
        }
    }
}

/// Each line is `NAME: 8 numbers of receiving, 8 of sending`; the fourth of each is drops (proc(5)).
fn transmit_drops(text: &str, interface: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    line.split_whitespace().nth(8 + 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_interface_is_found() {
        let text = "Inter-|   Receive\n face |bytes\n  tap1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\
                    tap10: 1 2 3 4 5 6 7 8 9 10 11 99 13 14 15 16\n";
        assert_eq!(transmit_drops(text, "tap1"), Some(12));
        assert_eq!(transmit_drops(text, "tap10"), Some(99));
        assert_eq!(transmit_drops(text, "tap"), None);
        assert_eq!(transmit_drops("tap1: 1 2", "tap1"), None);
    }
}
