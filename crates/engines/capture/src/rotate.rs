//! When a file ends, what the next one is called, and which of the old ones go.

use std::collections::VecDeque;

/// When to begin a new file, and what to keep. `None` = no such limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RotationPolicy {
    /// Most bytes of a file, its head among them.
    pub file_bytes: Option<u64>,
    /// Longest time that a file is open, nanoseconds.
    pub file_ns: Option<u64>,
    /// Most packets of a file.
    pub file_packets: Option<u64>,
    /// Most bytes of all files of the capture; the oldest go.
    pub total_bytes: Option<u64>,
    /// Most files of the capture; the oldest go.
    pub files: Option<u64>,
}

/// Limits that do not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// Nothing says when a file ends.
    #[error("a limit of all files needs one of each file, too: its size, its time or its packets")]
    NoFileLimit,
    /// The total cannot hold two files.
    #[error(
        "a total of {total} bytes does not hold two files of {file} bytes; the oldest file goes when the newest is begun"
    )]
    TotalTooSmall {
        /// Of all files.
        total: u64,
        /// Of one.
        file: u64,
    },
    /// A limit of nothing.
    #[error("a limit of 0 would keep nothing")]
    Zero,
}

/// Why a file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It has as many bytes as it may.
    Bytes,
    /// It was open as long as it may.
    Time,
    /// It has as many packets as it may.
    Packets,
}

/// A file that is complete.
struct Kept {
    name: String,
    bytes: u64,
}

/// The files of one capture. It names them and says what is to be done; it touches none.
pub struct Rotation {
    policy: RotationPolicy,
    stem: String,
    extension: String,
    number: u64,
    opened_ns: u64,
    bytes: u64,
    packets: u64,
    kept: VecDeque<Kept>,
    kept_bytes: u64,
    current: String,
}

impl RotationPolicy {
    /// True when there is more than one file.
    pub fn rotates(&self) -> bool {
        self.file_bytes.is_some() || self.file_ns.is_some() || self.file_packets.is_some()
    }

    fn check(&self) -> Result<(), PolicyError> {
        let RotationPolicy { file_bytes, file_ns, file_packets, total_bytes, files } = *self;
        if [file_bytes, file_ns, file_packets, total_bytes, files].contains(&Some(0)) {
            return Err(PolicyError::Zero);
        }
        if !self.rotates() && (total_bytes.is_some() || files.is_some()) {
            return Err(PolicyError::NoFileLimit);
        }
        match (total_bytes, file_bytes) {
            (Some(total), Some(file)) if total / 2 < file => Err(PolicyError::TotalTooSmall { total, file }),
            _ => Ok(()),
        }
    }
}

impl Rotation {
    /// Files called `path` (one), or, when they rotate, the path with a number and a time before its ending:
    /// `dir/name_00000001_20261121T105903Z.pcapng`. The numbers make the names sort as the files came.
    ///
    /// # Errors
    /// Limits that do not go together.
    pub fn new(policy: RotationPolicy, path: &str) -> Result<Rotation, PolicyError> {
        policy.check()?;
        let (stem, extension) = split(path);
        Ok(Rotation {
            policy,
            stem: stem.into(),
            extension: extension.into(),
            number: 0,
            opened_ns: 0,
            bytes: 0,
            packets: 0,
            kept: VecDeque::new(),
            kept_bytes: 0,
            current: String::new(),
        })
    }

    /// Begins the next file, whose head has `head_bytes`, and gives its name. `now_ns` is since 1970. The file before it is
    /// complete.
    pub fn begin(&mut self, now_ns: u64, head_bytes: u64) -> &str {
        if self.number > 0 {
            self.kept_bytes += self.bytes;
            self.kept.push_back(Kept { name: std::mem::take(&mut self.current), bytes: self.bytes });
        }
        self.number += 1;
        (self.opened_ns, self.bytes, self.packets) = (now_ns, head_bytes, 0);
        self.current = match self.policy.rotates() {
            true => format!("{}_{:08}_{}{}", self.stem, self.number, compact(now_ns), self.extension),
            false => format!("{}{}", self.stem, self.extension),
        };
        &self.current
    }

    /// Whether the file is to be ended before more is written into it, and why.
    pub fn due(&self, now_ns: u64) -> Option<Reason> {
        let RotationPolicy { file_bytes, file_ns, file_packets, .. } = self.policy;
        let reached = |limit: Option<u64>, value: u64| limit.is_some_and(|limit| value >= limit);
        // A file without a packet goes on: there would be no end of them.
        if self.packets == 0 {
            return None;
        }
        if reached(file_packets, self.packets) {
            Some(Reason::Packets)
        } else if reached(file_bytes, self.bytes) {
            Some(Reason::Bytes)
        } else if reached(file_ns, now_ns.saturating_sub(self.opened_ns)) {
            Some(Reason::Time)
        } else {
            None
        }
    }

    /// Bytes and packets that the file may still take.
    pub fn room(&self) -> (u64, u64) {
        let left = |limit: Option<u64>, value: u64| limit.map_or(u64::MAX, |limit| limit.saturating_sub(value));
        (left(self.policy.file_bytes, self.bytes), left(self.policy.file_packets, self.packets))
    }

    /// Notes what was written into the file.
    pub fn wrote(&mut self, bytes: u64, packets: u64) {
        self.bytes += bytes;
        self.packets += packets;
    }

    /// The oldest file, if it has to go before `more` bytes are written. Ask again until there is none.
    pub fn excess(&mut self, more: u64) -> Option<String> {
        let RotationPolicy { total_bytes, files, .. } = self.policy;
        let too_large = total_bytes.is_some_and(|total| self.kept_bytes + self.bytes + more > total);
        let too_many = files.is_some_and(|files| self.kept.len() as u64 + 1 > files);
        if !too_large && !too_many {
            return None;
        }
        let oldest = self.kept.pop_front()?;
        self.kept_bytes -= oldest.bytes;
        Some(oldest.name)
    }

    /// What was asked for.
    pub fn policy(&self) -> &RotationPolicy {
        &self.policy
    }

    /// Packets of the present file.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Number of files that were begun.
    pub fn files(&self) -> u64 {
        self.number
    }

    /// Bytes of the present file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Name of the present file; empty before the first.
    pub fn current(&self) -> &str {
        &self.current
    }
}

/// A path without its ending, and the ending: `.pcapng`, `.pcap.zst`.
fn split(path: &str) -> (&str, &str) {
    let (folder_len, name) = path.rfind('/').map_or((0, path), |at| (at + 1, &path[at + 1..]));
    let whole = name.strip_suffix(".zst").unwrap_or(name);
    match whole.rfind('.') {
        Some(at) if at > 0 => path.split_at(folder_len + at),
        _ => path.split_at(folder_len + whole.len()),
    }
}

/// `20261121T105903Z`, of nanoseconds since 1970.
fn compact(time_ns: u64) -> String {
    let seconds = time_ns / 1_000_000_000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Gregorian calendar with years that begin on 1 March, so that the leap day is the last of its year.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;
    const NOW: u64 = 1_795_258_743 * S;

    #[test]
    fn names_say_number_and_time_and_sort() {
        let policy = RotationPolicy { file_packets: Some(1), ..RotationPolicy::default() };
        let mut rotation = Rotation::new(policy, "/a.b/c.pcap.zst").unwrap();
        assert_eq!(rotation.begin(NOW, 0), "/a.b/c_00000001_20261121T105903Z.pcap.zst");
        let mut names = vec![rotation.current().to_string()];
        // Also when the clock goes back.
        for step in 0..200 {
            names.push(rotation.begin(NOW - step * 977 * S, 0).to_string());
        }
        assert!(names.is_sorted());
        let single = |path| Rotation::new(RotationPolicy::default(), path).unwrap().begin(NOW, 0).to_string();
        for path in ["a.pcapng", "a", ".pcapng", "/x.y/a", "a.zst", "a.b.zst"] {
            assert_eq!(single(path), path);
        }
        assert_eq!(split("/x.y/a"), ("/x.y/a", ""));
        assert_eq!(split("x/.hidden"), ("x/.hidden", ""));
        assert_eq!(compact(951_782_400 * S), "20000229T000000Z");
        assert_eq!(compact(0), "19700101T000000Z");
        assert_eq!(compact(u64::MAX), "25540721T233433Z");
    }

    #[test]
    fn a_file_ends_by_size_time_or_packets() {
        let with = |policy| {
            let mut rotation = Rotation::new(policy, "a").unwrap();
            rotation.begin(NOW, 100);
            rotation
        };
        let mut by_bytes = with(RotationPolicy { file_bytes: Some(1000), ..RotationPolicy::default() });
        assert_eq!((by_bytes.due(NOW), by_bytes.room()), (None, (900, u64::MAX)));
        by_bytes.wrote(899, 1);
        assert_eq!(by_bytes.due(NOW), None);
        by_bytes.wrote(1, 1);
        assert_eq!(by_bytes.due(NOW), Some(Reason::Bytes));
        let mut by_time = with(RotationPolicy { file_ns: Some(5), ..RotationPolicy::default() });
        assert_eq!(by_time.due(NOW + 50), None);
        by_time.wrote(1, 1);
        assert_eq!((by_time.due(NOW + 4), by_time.due(NOW + 5)), (None, Some(Reason::Time)));
        let mut by_packets = with(RotationPolicy { file_packets: Some(2), ..RotationPolicy::default() });
        by_packets.wrote(1, 2);
        assert_eq!((by_packets.due(NOW), by_packets.room()), (Some(Reason::Packets), (u64::MAX, 0)));
    }

    #[test]
    fn limits_that_do_not_go_together_are_refused() {
        let refusal = |policy| Rotation::new(policy, "a").err();
        let none = RotationPolicy::default();
        assert_eq!(refusal(RotationPolicy { total_bytes: Some(9), ..none }), Some(PolicyError::NoFileLimit));
        assert_eq!(refusal(RotationPolicy { files: Some(9), ..none }), Some(PolicyError::NoFileLimit));
        assert_eq!(refusal(RotationPolicy { file_packets: Some(0), ..none }), Some(PolicyError::Zero));
        let small = RotationPolicy { total_bytes: Some(19), file_bytes: Some(10), ..none };
        assert_eq!(refusal(small), Some(PolicyError::TotalTooSmall { total: 19, file: 10 }));
        assert_eq!(refusal(RotationPolicy { total_bytes: Some(20), ..small }), None);
    }

    proptest! {
        /// However files grow, those that are there are the newest ones, and within their bounds.
        #[test]
        fn the_total_stays_bounded(
            writes in proptest::collection::vec(1u64..30, 1..200),
            files in proptest::option::of(1u64..5),
        ) {
            let policy =
                RotationPolicy { file_bytes: Some(100), total_bytes: Some(250), files, ..RotationPolicy::default() };
            let mut rotation = Rotation::new(policy, "a").unwrap();
            let mut there: Vec<(String, u64)> = vec![(rotation.begin(NOW, 10).into(), 10)];
            for bytes in writes {
                if rotation.due(NOW).is_some() || rotation.room().0 < bytes {
                    there.push((rotation.begin(NOW, 10).into(), 10));
                }
                while let Some(name) = rotation.excess(bytes) {
                    prop_assert_eq!(there.remove(0).0, name);
                }
                rotation.wrote(bytes, 1);
                there.last_mut().unwrap().1 += bytes;
                prop_assert!(there.iter().map(|file| file.1).sum::<u64>() <= 250);
                prop_assert!(files.is_none_or(|files| there.len() as u64 <= files));
                prop_assert!(there.iter().all(|file| file.1 <= 100));
            }
        }
    }
}
