//! What the kernel counted on an interface (/proc/net/dev, proc_pid_net(5)). /sys/class/net shows the namespace of whoever mounted
//! it; the file that is opened here is of the calling thread's, and stays so.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;

/// Counts of an interface since it was made (or since its driver set them back).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets received, as the driver counts them.
    pub rx_packets: u64,
    /// Packets dropped on the way in: by the kernel before any protocol saw them, or by the device for want of room
    /// (`rx_dropped` and `rx_missed_errors` in one).
    pub rx_dropped: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets that were to be sent and dropped: of a TAP device, those for which its queue had no room.
    pub tx_dropped: u64,
}

/// Reads the counts of one interface, again and again.
#[derive(Debug)]
pub struct CounterReader {
    file: File,
    /// Its number in /proc, which is that of the namespace's file.
    inode: u64,
    name: String,
    text: String,
}

thread_local! {
    /// What was read in [`share`], by the number of the file.
    static SHARED: RefCell<Option<Vec<(u64, String)>>> = const { RefCell::new(None) };
}

/// In `work`, all readers of this thread share one reading of each network namespace. The kernel writes down the counts of all interfaces for
/// each reading, so that to read those of a thousand interfaces one by one is to write down a million.
pub fn share<T>(work: impl FnOnce() -> T) -> T {
    /// Forgets what was read, also when the work panics.
    struct Shared;
    impl Drop for Shared {
        fn drop(&mut self) {
            SHARED.set(None);
        }
    }
    SHARED.set(Some(Vec::new()));
    let _shared = Shared;
    work()
}

impl CounterReader {
    /// For interface `name` of the calling thread's network namespace.
    ///
    /// # Errors
    /// No /proc, no such interface.
    pub fn open(name: &str) -> io::Result<CounterReader> {
        let file = File::open("/proc/thread-self/net/dev")?;
        let inode = file.metadata()?.ino();
        let mut reader = CounterReader { file, inode, name: name.into(), text: String::new() };
        reader.read()?;
        Ok(reader)
    }

    /// The counts of this moment, or those of the moment at which another reader read them first in [`share`].
    ///
    /// # Errors
    /// `NotFound` when the interface is gone.
    pub fn read(&mut self) -> io::Result<Counters> {
        let found = SHARED.with_borrow_mut(|shared| match shared {
            None => self.read_text().map(|()| find(&self.text, &self.name)),
            Some(texts) => self.read_shared(texts),
        })?;
        found.ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("no counters of an interface {}", self.name))
        })
    }

    fn read_text(&mut self) -> io::Result<()> {
        self.text.clear();
        self.file.rewind()?;
        self.file.read_to_string(&mut self.text).map(drop)
    }

    fn read_shared(&mut self, texts: &mut Vec<(u64, String)>) -> io::Result<Option<Counters>> {
        if let Some((_, text)) = texts.iter().find(|(inode, _)| *inode == self.inode) {
            return Ok(find(text, &self.name));
        }
        self.read_text()?;
        texts.push((self.inode, self.text.clone()));
        Ok(find(&self.text, &self.name))
    }
}

impl Counters {
    /// What was counted since `before`; `None` when a count went back: the driver reset it, or it is another interface.
    pub fn since(&self, before: &Counters) -> Option<Counters> {
        Some(Counters {
            rx_packets: self.rx_packets.checked_sub(before.rx_packets)?,
            rx_dropped: self.rx_dropped.checked_sub(before.rx_dropped)?,
            tx_packets: self.tx_packets.checked_sub(before.tx_packets)?,
            tx_dropped: self.tx_dropped.checked_sub(before.tx_dropped)?,
        })
    }
}

/// The line of an interface: `  eth0: bytes packets errs drop fifo frame compressed multicast`, the same of sending.
fn find(text: &str, name: &str) -> Option<Counters> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    let mut numbers = line.split_ascii_whitespace().map(str::parse::<u64>);
    let mut number = |skip: usize| numbers.nth(skip)?.ok();
    Some(Counters { rx_packets: number(1)?, rx_dropped: number(1)?, tx_packets: number(5)?, tx_dropped: number(1)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       1       2    3    4    5     6          7         8        9      10   11   12   13    14      15         16
 eth01: 20 21 22 23 0 0 0 0 30 31 0 33 0 0 0 0
 eth0: 40 41 42 43 0 0 0 0 50 51 0 0 0 0 0 0
broken: 40 x
";

    #[test]
    fn an_interface_is_found_by_its_whole_name() {
        let counters = |rx_packets, rx_dropped, tx_packets, tx_dropped| {
            Some(Counters { rx_packets, rx_dropped, tx_packets, tx_dropped })
        };
        assert_eq!(find(TEXT, "lo"), counters(2, 4, 10, 12));
        assert_eq!(find(TEXT, "eth01"), counters(21, 23, 31, 33));
        assert_eq!(find(TEXT, "eth0"), counters(41, 43, 51, 0));
        assert!(find(TEXT, "eth").is_none() && find(TEXT, "broken").is_none() && find("", "lo").is_none());
    }

    #[test]
    fn what_went_back_is_not_known() {
        let before = Counters { rx_packets: 5, rx_dropped: 1, tx_packets: 2, tx_dropped: 0 };
        let after = Counters { rx_packets: 9, rx_dropped: 1, tx_packets: 4, tx_dropped: 3 };
        assert_eq!(after.since(&before), Some(Counters { rx_packets: 4, rx_dropped: 0, tx_packets: 2, tx_dropped: 3 }));
        assert_eq!(before.since(&after), None);
    }

    #[test]
    fn one_reading_is_shared_until_the_work_is_done() {
        let Ok(mut readers) = [(); 2].map(|()| CounterReader::open("lo")).into_iter().collect::<io::Result<Vec<_>>>()
        else {
            return eprintln!("skipped: no /proc");
        };
        let clear = |readers: &mut Vec<CounterReader>| readers.iter_mut().for_each(|reader| reader.text.clear());
        clear(&mut readers);
        let shared = share(|| {
            let counts = [readers[0].read().unwrap(), readers[1].read().unwrap()];
            assert!(readers[1].text.is_empty(), "it read by itself");
            readers[1].name = "no such".into();
            assert!(readers[1].read().is_err());
            counts
        });
        assert_eq!(shared[0], shared[1]);
        readers[1].name = "lo".into();
        readers[1].read().unwrap();
        assert!(!readers[1].text.is_empty(), "what was read before is told as the counts of now");
    }

    #[test]
    fn the_loopback_is_counted() {
        match CounterReader::open("lo") {
            Ok(mut reader) => assert!(reader.read().is_ok()),
            Err(error) => eprintln!("skipped: {error}"),
        }
        assert!(CounterReader::open("no such").is_err());
    }
}
