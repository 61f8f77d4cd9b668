//! When the cores of a trial were away, by whom, and what was lost meanwhile.

use serde::{Deserialize, Serialize};

/// Most stalls of one part of a trial (the tester, the DUT) that a result lists.
pub const STALLS_MAX: usize = 64;
/// Pieces of equal length into which a trial is cut to show when it lost packets.
pub const LOSS_BINS: usize = 256;

/// What is known of a trial's interruptions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    /// At most [`STALLS_MAX`] of each part, in the order of time: those that cost packets, and the longest.
    #[serde(default)]
    pub list: Vec<Stall>,
    /// How many more there were.
    #[serde(default)]
    pub others: u64,
    /// How long these were together, in nanoseconds.
    #[serde(default)]
    pub others_ns: u64,
    /// Packets lost during interruptions of the DUT's core, and in the time that its full ring needed to drain after them.
    #[serde(default)]
    pub lost_in_interruptions: u64,
    /// When packets were lost; none where the packets' numbers are not told apart one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossTimes>,
    /// What could not be observed, in sentences.
    #[serde(default)]
    pub unknown: Vec<String>,
}

/// A time for which a core did not work for the trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// The core; none of a thread that the scheduler places.
    #[serde(default)]
    pub core: Option<u32>,
    /// Whose core: the tester's or the DUT's.
    pub part: StalledPart,
    /// When it began, in nanoseconds from the start of the load.
    pub start_ns: u64,
    /// How long it was, in nanoseconds.
    pub duration_ns: u64,
    /// Who had the core.
    pub by: StallCause,
    /// Whether times and cause were observed as such. If not, the stall is what no other observation explains, to 0.2 ms.
    pub exact: bool,
    /// Whether others than the tester and the DUT caused it.
    pub interruption: bool,
    /// Packets that were lost because of it.
    #[serde(default)]
    pub lost: u64,
}

/// What was stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StalledPart {
    /// A thread of the tester that sends.
    Generator,
    /// The DUT.
    Dut,
}

/// Who had a core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum StallCause {
    /// Another task.
    Task {
        /// Its name, at most 15 bytes.
        name: String,
        /// Its process.
        process: u32,
        /// Its thread.
        thread: u32,
        /// How often a task was put on the core meanwhile. If several tasks had it in turn, the one named ran longest.
        switches: u32,
    },
    /// An interrupt.
    Interrupt {
        /// Which one, in words.
        name: String,
    },
    /// Neither a task nor an interrupt, on a virtual machine: the hypervisor.
    Hypervisor,
    /// Not known.
    Unknown,
}

/// How many packets were lost when.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossTimes {
    /// Length of a bin, in nanoseconds; the first one begins with the load.
    pub bin_ns: u64,
    /// Packets lost, by bin, by the time when they were sent; at most [`LOSS_BINS`].
    pub lost: Vec<u64>,
}

impl Stalls {
    /// Keeps [`STALLS_MAX`] of each part of `all`, which are in the order of time, and sums up the others. Those that cost packets are kept
    /// first, then the longest.
    pub fn bounded(all: Vec<Stall>) -> Stalls {
        let kept_of = |part: StalledPart| {
            let of_part = all.iter().enumerate().filter(|(_, stall)| stall.part == part);
            let mut ranked: Vec<_> = of_part.map(|(at, stall)| (stall.lost > 0, stall.duration_ns, at)).collect();
            ranked.sort_unstable_by(|one, other| other.cmp(one));
            ranked.into_iter().take(STALLS_MAX).map(|(.., at)| at).collect::<Vec<usize>>()
        };
        let mut kept = [kept_of(StalledPart::Generator), kept_of(StalledPart::Dut)].concat();
        kept.sort_unstable();
        let mut stalls = Stalls::default();
        for (at, stall) in all.into_iter().enumerate() {
            if kept.binary_search(&at).is_ok() {
                stalls.list.push(stall);
            } else {
                stalls.others += 1;
                stalls.others_ns = stalls.others_ns.saturating_add(stall.duration_ns);
            }
        }
        stalls
    }

    /// Stalls that others than the tester and the DUT caused, of those in the list.
    pub fn interruptions(&self) -> impl Iterator<Item = &Stall> {
        self.list.iter().filter(|stall| stall.interruption)
    }
}

impl StallCause {
    /// In words: `task stress (process 4711)`, `task stress (process 4711) and others`.
    pub fn words(&self) -> String {
        match self {
            Self::Task { name, process, switches, .. } => {
                format!("task {name} (process {process}){}", if *switches > 1 { " and others" } else { "" })
            }
            Self::Interrupt { name } => name.clone(),
            Self::Hypervisor => "the hypervisor".into(),
            Self::Unknown => "unknown".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_costly_and_the_longest_are_kept_in_order_and_the_others_summed_up() {
        let stall = |at: u64| Stall {
            core: Some(1),
            part: StalledPart::Dut,
            start_ns: at * 1_000,
            duration_ns: 100 + at % 7,
            by: StallCause::Hypervisor,
            exact: false,
            interruption: at.is_multiple_of(2),
            lost: if at == 77 { 5 } else { 0 },
        };
        let stalls = Stalls::bounded((0..140).map(stall).collect());
        assert_eq!((stalls.list.len(), stalls.others), (STALLS_MAX, 76));
        assert!(stalls.list.windows(2).all(|pair| pair[0].start_ns < pair[1].start_ns));
        let whole: u64 = (0..140).map(|at| 100 + at % 7).sum();
        assert_eq!(stalls.list.iter().map(|stall| stall.duration_ns).sum::<u64>() + stalls.others_ns, whole);
        assert!(stalls.list.iter().all(|stall| stall.duration_ns >= 103 || stall.lost == 5), "the longest ones");
        assert!(stalls.list.iter().any(|stall| stall.lost == 5), "77 is among the shortest");
        // The tester's stalls do not take the place of the DUT's.
        let of =
            |at: u64| Stall { part: if at < 100 { StalledPart::Generator } else { StalledPart::Dut }, ..stall(at) };
        assert_eq!(Stalls::bounded((0..110).map(of).collect()).list.len(), STALLS_MAX + 10);
        assert_eq!(Stalls::bounded((0..3).map(stall).collect()).interruptions().count(), 2);
    }
}
