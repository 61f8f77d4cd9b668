//! What each core did during a trial, from /proc/stat (proc(5)): shares of time by kind.

use std::collections::BTreeMap;
use std::io;

use linerate_report::CoreUse;

/// Time by kind since boot of each online core, in clock ticks of the kernel (10 ms as a rule); or the difference of two
/// readings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    cores: BTreeMap<u32, Ticks>,
}

/// The columns of a `cpuN` line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    user: u64,
    system: u64,
    idle: u64,
    irq: u64,
    softirq: u64,
    steal: u64,
}

impl CpuTimes {
    /// Reads the times now.
    ///
    /// # Errors
    /// When /proc/stat is not there or is not what proc(5) says.
    pub fn read() -> io::Result<CpuTimes> {
        let text = std::fs::read_to_string("/proc/stat")?;
        parse(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/stat has no line for any core"))
    }

    /// The time since an earlier reading.
    pub fn since(&self, earlier: &CpuTimes) -> CpuTimes {
        let difference = |(core, later): (&u32, &Ticks)| {
            let earlier = earlier.cores.get(core).copied().unwrap_or_default();
            (*core, later.since(earlier))
        };
        CpuTimes { cores: self.cores.iter().map(difference).collect() }
    }

    /// The shares of a difference, by core; `role` names what runs on it.
    pub fn shares(&self, role: impl Fn(u32) -> Option<String>) -> Vec<CoreUse> {
        let share = |(core, ticks): (&u32, &Ticks)| {
            let total = ticks.total() as f64;
            CoreUse {
                core: *core,
                role: role(*core),
                user: ticks.user as f64 / total,
                system: ticks.system as f64 / total,
                softirq: ticks.softirq as f64 / total,
                irq: ticks.irq as f64 / total,
                steal: ticks.steal as f64 / total,
                idle: ticks.idle as f64 / total,
            }
        };
        self.cores.iter().map(share).collect()
    }

    /// Share of all cores' time that the hypervisor gave to others; 0 when no time passed.
    pub fn steal_share(&self) -> f64 {
        let (steal, total) =
            self.cores.values().fold((0, 0), |(steal, total), ticks| (steal + ticks.steal, total + ticks.total()));
        steal as f64 / total.max(1) as f64
    }
}

impl Ticks {
    fn since(self, earlier: Ticks) -> Ticks {
        Ticks {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            idle: self.idle.saturating_sub(earlier.idle),
            irq: self.irq.saturating_sub(earlier.irq),
            softirq: self.softirq.saturating_sub(earlier.softirq),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }

    fn total(self) -> u64 {
        self.user + self.system + self.idle + self.irq + self.softirq + self.steal
    }
}

fn parse(text: &str) -> Option<CpuTimes> {
    let mut cores = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(core) = words.next().and_then(|word| word.strip_prefix("cpu")?.parse().ok()) else { continue };
        // user nice system idle iowait irq softirq steal; guest times are part of user and nice.
        let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks[..] else { return None };
        cores.insert(core, Ticks { user: user + nice, system, idle: idle + iowait, irq, softirq, steal });
    }
    (!cores.is_empty()).then_some(CpuTimes { cores })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLIER: &str =
        "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 100 0 50 800 10 1 30 9 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\nintr 5\n";
    const LATER: &str = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 120 5 75 820 20 1 50 9 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\nintr 5\n";

    #[test]
    fn shares_are_of_the_time_between_readings() {
        let difference = parse(LATER).unwrap().since(&parse(EARLIER).unwrap());
        let shares = difference.shares(|core| (core == 0).then(|| "generator".into()));
        let first = &shares[0];
        assert_eq!((first.user, first.system, first.softirq, first.steal, first.idle), (0.25, 0.25, 0.2, 0.0, 0.3));
        assert_eq!(first.role.as_deref(), Some("generator"));
        assert!(shares[1].user.is_nan(), "no time passed: nothing is known");
    }

    #[test]
    fn refuses_what_is_no_proc_stat() {
        assert_eq!(parse("cpu0 1 2 3\n"), None);
        assert_eq!(parse("hello\n"), None);
        assert!(CpuTimes::read().is_ok());
    }
}
