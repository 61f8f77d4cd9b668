//! Where locks of cores are on Linux, and who holds one (/proc/locks, proc(5)).

use std::fs::{self, File};
use std::os::linux::fs::MetadataExt;

/// Sticky, writable for all, and gone with the machine: POSIX wants it for shared memory.
pub(crate) const FOLDER: &str = "/dev/shm";

/// How often the list of locks is read for a holder that it does not name.
const READINGS_MAX: u32 = 5;

/// The process that holds the lock of a file; none where that cannot be told. The kernel hands out a long list page by page, and a lock that others
/// let go between two pages moves the next ones up: a line can be missed, so the list is read a few times.
pub(crate) fn holding_pid(file: &File) -> Option<u32> {
    let facts = file.metadata().ok()?;
    let read = |_| holder_in(&fs::read_to_string("/proc/locks").ok()?, facts.st_dev(), facts.st_ino());
    (0..READINGS_MAX).find_map(read)
}

/// The process in a line of /proc/locks (proc(5)) like `1: FLOCK  ADVISORY  WRITE 709 00:19:53 0 EOF`. Locks of processes in other
/// namespaces have no number.
fn holder_in(locks: &str, device: u64, inode: u64) -> Option<u32> {
    // As the kernel packs numbers of devices for stat(2).
    let (major, minor) = ((device >> 8) & 0xfff, device & 0xff | (device >> 12) & 0xf_ff00);
    let wanted = format!("{major:02x}:{minor:02x}:{inode}");
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[_, "FLOCK", _, _, pid, place, ..] = words.as_slice() else { return None };
        (place == wanted).then(|| pid.parse().ok()).flatten().filter(|pid| *pid > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_read_from_the_kernels_list() {
        let locks = "1: POSIX  ADVISORY  WRITE 5 00:19:53 0 EOF\n2: FLOCK  ADVISORY  WRITE 709 00:19:53 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 0 00:19:54 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 8 08:01:9 0 EOF\n";
        assert_eq!(holder_in(locks, 0x19, 53), Some(709));
        assert_eq!((holder_in(locks, 0x19, 54), holder_in(locks, 0x801, 9), holder_in("", 0, 0)), (None, None, None));
    }
}
