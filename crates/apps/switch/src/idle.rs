//! How the worker waits: it spins as long as packets may follow at once, naps for a moment, then sleeps until a port rings.

use crate::hub::Round;

/// Time after the last packet in which the next one is looked for without a pause.
const SPIN_NS: u64 = 50_000;
/// Time after the last packet in which the worker only naps: ringing would cost a busy sender a system call a packet.
const NAPPING_NS: u64 = 2_000_000;
const NAP_NS: u64 = 20_000;
/// Nap while some port cannot ring: with the wake-up, its first packet waits less than 100 us.
const BLIND_NAP_NS: u64 = 60_000;
/// Sleeps while packets wait for a port that takes none, at first and later: it does not say when it has room again.
const STUCK_LATELY_SLEEP_NS: u64 = 500_000;
const STUCK_SLEEP_NS: u64 = 5_000_000;
/// Longest sleep, so that table entries age, ports notice that their interface is down, and a stop is seen.
const SLEEP_NS: u64 = 50_000_000;
/// Sleeps in a row that a descriptor ended and that brought nothing, after which descriptors are not trusted for a while.
const FALSE_ALARMS_MAX: u32 = 4;
const FALSE_ALARM_NAP_NS: u64 = 5_000_000;

/// What to do when a round moved nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Look again at once.
    Spin,
    /// Sleep this long, whatever comes.
    Nap(u64),
    /// Ask the ports for their descriptors, look once more, and sleep on them.
    Sleep,
}

/// When something last moved, and how well sleeping works.
#[derive(Debug)]
pub(crate) struct Idle {
    moved_ns: u64,
    false_alarms: u32,
}

impl Idle {
    pub(crate) fn new(now_ns: u64) -> Idle {
        Idle { moved_ns: now_ns, false_alarms: 0 }
    }

    /// A round moved something.
    #[inline]
    pub(crate) fn moved(&mut self, now_ns: u64) {
        self.moved_ns = now_ns;
        self.false_alarms = 0;
    }

    /// A round moved nothing.
    pub(crate) fn pause(&self, now_ns: u64) -> Pause {
        let quiet_ns = now_ns.saturating_sub(self.moved_ns);
        if quiet_ns < SPIN_NS {
            Pause::Spin
        } else if quiet_ns < NAPPING_NS {
            Pause::Nap(NAP_NS)
        } else if self.false_alarms >= FALSE_ALARMS_MAX {
            Pause::Nap(FALSE_ALARM_NAP_NS)
        } else {
            Pause::Sleep
        }
    }

    /// How long to sleep on descriptors. `blind`: some port has none. `round`: the last one.
    pub(crate) fn sleep_ns(&self, blind: bool, round: Round) -> u64 {
        match (blind, round.stuck, round.stuck_lately) {
            (true, ..) => BLIND_NAP_NS,
            (false, true, true) => STUCK_LATELY_SLEEP_NS,
            (false, true, false) => STUCK_SLEEP_NS,
            (false, false, _) => SLEEP_NS,
        }
    }

    /// A sleep is over; `rung`: a port's descriptor ended it. Whether something came, the next round shows.
    pub(crate) fn woken(&mut self, rung: bool) {
        self.false_alarms = if rung { self.false_alarms + 1 } else { 0 };
    }

    /// A nap that stood in for a sleep is over: descriptors get another chance.
    pub(crate) fn napped(&mut self) {
        self.false_alarms = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_nothing_comes_the_longer_the_pause() {
        let idle = Idle::new(1_000);
        assert_eq!(idle.pause(2_000), Pause::Spin);
        assert_eq!(idle.pause(200_000), Pause::Nap(NAP_NS));
        assert_eq!(idle.pause(5_000_000), Pause::Sleep);
        let sleeps_ns = [(true, true, true), (false, true, true), (false, true, false), (false, false, false)]
            .map(|(blind, stuck, stuck_lately)| idle.sleep_ns(blind, Round { moved: 0, stuck, stuck_lately }));
        assert!(sleeps_ns.is_sorted() && sleeps_ns[3] == SLEEP_NS);
    }

    #[test]
    fn a_descriptor_that_rings_for_nothing_does_not_keep_the_worker_awake() {
        let mut idle = Idle::new(0);
        for _ in 0..FALSE_ALARMS_MAX {
            assert_eq!(idle.pause(5_000_000), Pause::Sleep);
            idle.woken(true);
        }
        assert_eq!(idle.pause(5_000_000), Pause::Nap(FALSE_ALARM_NAP_NS));
        idle.napped();
        assert_eq!(idle.pause(5_000_000), Pause::Sleep);
        idle.woken(true);
        idle.moved(5_000_000);
        assert_eq!(idle.pause(5_000_001), Pause::Spin);
    }
}
