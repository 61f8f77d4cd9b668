//! How a worker waits: it spins as long as packets may follow at once, naps for a moment where it would be woken often, then sleeps until a port wakes it.

use linerate_port::Port;

/// Time after the last packet in which the next one is looked for without a pause.
const SPIN_NS: u64 = 50_000;
/// Time after the last packet in which a worker that is woken often only naps, because waking it would cost a busy sender a system call a packet.
const NAPPING_NS: u64 = 2_000_000;
pub(crate) const NAP_NS: u64 = 20_000;
/// Packets after a gap, in this and the last [`NAPPING_NS`], from which on a worker is woken often: some three a millisecond. Naps through a gap
/// of 300 us cost about what a wake-up does; with longer gaps the worker dozes, which is a sleep that a port may end.
const OFTEN: u32 = 8;
/// A packet after a longer silence stands alone: the worker naps after it, which costs nothing to speak of, and the next one finds its code in the caches.
const ALONE_NS: u64 = 20_000_000;
/// Nap while some port has no descriptor to sleep on: with the wake-up, its first packet waits less than 100 us.
const BLIND_NAP_NS: u64 = 60_000;
/// Sleeps while packets wait for a port that takes none, at first and later: it does not say when it has room again.
const STUCK_LATELY_SLEEP_NS: u64 = 500_000;
const STUCK_SLEEP_NS: u64 = 5_000_000;
/// A worker that sleeps at once, and that so many packets came to since its last pause, naps for so long first.
const BUSY_PACKETS: usize = 64;
const BUSY_NAP_NS: u64 = 50_000;
/// Longest sleep at first, so that ports notice that their interface is down, and a signal is seen. Each further one may be half as
/// long again.
pub(crate) const SLEEP_NS: u64 = 50_000_000;
/// Sleeps in a row that a descriptor ended and that brought nothing, after which descriptors are not trusted for a while.
const FALSE_ALARMS_MAX: u32 = 4;
const FALSE_ALARM_NAP_NS: u64 = 5_000_000;

/// What a worker does in the first moment after a packet. Later it naps and sleeps in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eagerness {
    /// It spins for 50 us, as long as a wake-up takes: the next packet is met within a microsecond.
    #[default]
    Spins,
    /// It gives its core to other threads in every turn: the far side is a thread of this process, which may need this core.
    Yields,
    /// It sleeps at once, since packets come in blocks, or others need the core more. While many come it naps once before it lets the
    /// kernel wake it, because waking a thread on another core costs the core that receives some microseconds.
    Sleeps,
    /// It sleeps at once, and never naps: its ports wake it for many packets at a time ([`linerate_port::Caps::rx_blocks`]).
    SleepsOnly,
    /// It sleeps as soon as its ports are drained, and does not look at them before: for ports whose sleep is a look
    /// ([`linerate_port::Caps::sleep_syncs`]).
    Polls,
}

impl Eagerness {
    /// Of a thread that moves packets between these ports.
    pub fn for_moving<'a>(mut ports: impl Iterator<Item = &'a dyn Port>) -> Eagerness {
        if ports.all(|port| port.caps().sleep_syncs) { Eagerness::Polls } else { Eagerness::default() }
    }

    /// Of a thread that only receives from these ports.
    pub fn for_receiving<'a>(ports: impl Iterator<Item = &'a dyn Port> + Clone) -> Eagerness {
        if Eagerness::for_moving(ports.clone()) == Eagerness::Polls {
            Eagerness::Polls
        } else if ports.clone().all(|port| !port.caps().async_tx) {
            Eagerness::Yields
        } else if ports.clone().all(|port| port.caps().rx_blocks) {
            Eagerness::SleepsOnly
        } else {
            Eagerness::Sleeps
        }
    }
}

/// What to do after a round that moved nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Look again at once.
    Spin,
    /// Let other threads run, then look again.
    Yield,
    /// Sleep this long, whatever comes.
    Nap(u64),
    /// As [`Pause::Sleep`], for at most so long, because a packet may come soon; where that does not go, [`NAP_NS`] of a nap.
    Doze(u64),
    /// Arm the wakeups of the ports, look once more, and sleep on their descriptors.
    Sleep,
}

/// Whether packets wait for a port that takes none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stuck {
    /// No packet waits.
    #[default]
    Not,
    /// Some wait for a port that took packets a moment ago: it may have room again soon.
    Lately,
    /// All that wait have waited for long.
    Long,
}

/// When something last moved, and how well sleeping works.
#[derive(Debug)]
pub(crate) struct Idle {
    eagerness: Eagerness,
    moved_ns: u64,
    /// Packets since the last pause.
    packets: usize,
    false_alarms: u32,
    /// Movements after a gap longer than [`SPIN_NS`]: since `gaps_since_ns`, and in the [`NAPPING_NS`] before.
    gaps: [u32; 2],
    gaps_since_ns: u64,
    /// The last such gap.
    gap_ns: u64,
    /// Longest sleep now, and at last.
    sleep_ns: u64,
    sleep_max_ns: u64,
}

impl Idle {
    pub(crate) fn new(eagerness: Eagerness, sleep_max_ns: u64, now_ns: u64) -> Idle {
        Idle {
            eagerness,
            moved_ns: now_ns,
            packets: 0,
            false_alarms: 0,
            gaps: [0; 2],
            gaps_since_ns: now_ns,
            gap_ns: u64::MAX,
            sleep_ns: SLEEP_NS,
            sleep_max_ns,
        }
    }

    /// A round moved something.
    #[inline]
    pub(crate) fn moved(&mut self, now_ns: u64, packets: usize) {
        if now_ns.saturating_sub(self.moved_ns) > SPIN_NS {
            self.note_gap(now_ns);
        }
        self.moved_ns = now_ns;
        self.packets += packets;
        self.false_alarms = 0;
        self.sleep_ns = SLEEP_NS;
    }

    #[cold]
    fn note_gap(&mut self, now_ns: u64) {
        self.is_woken_often(now_ns);
        self.gaps[0] += 1;
        self.gap_ns = now_ns.saturating_sub(self.moved_ns);
    }

    /// Whether so many packets came after a gap lately that a nap costs less than being woken.
    fn is_woken_often(&mut self, now_ns: u64) -> bool {
        let since_ns = now_ns.saturating_sub(self.gaps_since_ns);
        if since_ns >= NAPPING_NS {
            let before = if since_ns < 2 * NAPPING_NS { self.gaps[0] } else { 0 };
            (self.gaps, self.gaps_since_ns) = ([0, before], now_ns);
        }
        self.gaps[0] + self.gaps[1] >= OFTEN
    }

    /// A round moved nothing.
    pub(crate) fn pause(&mut self, now_ns: u64) -> Pause {
        let busy = std::mem::take(&mut self.packets) >= BUSY_PACKETS;
        let quiet_ns = match self.eagerness {
            Eagerness::Sleeps | Eagerness::SleepsOnly | Eagerness::Polls => u64::MAX,
            Eagerness::Spins | Eagerness::Yields => now_ns.saturating_sub(self.moved_ns),
        };
        if busy && self.eagerness == Eagerness::Sleeps {
            Pause::Nap(BUSY_NAP_NS)
        } else if quiet_ns < SPIN_NS {
            if self.eagerness == Eagerness::Yields { Pause::Yield } else { Pause::Spin }
        } else if quiet_ns < NAPPING_NS {
            let trusts = self.eagerness == Eagerness::Spins && self.false_alarms < FALSE_ALARMS_MAX;
            let dozes = trusts && self.gap_ns < ALONE_NS;
            if dozes && !self.is_woken_often(now_ns) { Pause::Doze(NAPPING_NS - quiet_ns) } else { Pause::Nap(NAP_NS) }
        } else if self.false_alarms >= FALSE_ALARMS_MAX {
            Pause::Nap(FALSE_ALARM_NAP_NS)
        } else {
            Pause::Sleep
        }
    }

    /// How long to sleep on descriptors. `blind`: some port has none. `settled`: all ports work, and are to stay.
    pub(crate) fn sleep_ns(&mut self, blind: bool, stuck: Stuck, settled: bool) -> u64 {
        if blind || stuck != Stuck::Not || !settled {
            self.sleep_ns = SLEEP_NS;
        }
        match (blind, stuck) {
            (true, _) => BLIND_NAP_NS,
            (false, Stuck::Lately) => STUCK_LATELY_SLEEP_NS,
            (false, Stuck::Long) => STUCK_SLEEP_NS,
            (false, Stuck::Not) => {
                let longer_ns = (self.sleep_ns + self.sleep_ns / 2).min(self.sleep_max_ns);
                std::mem::replace(&mut self.sleep_ns, longer_ns)
            }
        }
    }

    /// A sleep is over; `by_port`: the descriptor of a port ended it. The next round shows whether something came.
    pub(crate) fn woken(&mut self, by_port: bool) {
        self.false_alarms = if by_port { self.false_alarms + 1 } else { 0 };
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
        let mut idle = Idle::new(Eagerness::Spins, 1_000_000_000, 1_000);
        assert_eq!(idle.pause(2_000), Pause::Spin);
        assert_eq!(idle.pause(201_000), Pause::Nap(NAP_NS));
        assert_eq!(idle.pause(5_000_000), Pause::Sleep);
        let sleeps_ns = [(true, Stuck::Lately), (false, Stuck::Lately), (false, Stuck::Long), (false, Stuck::Not)]
            .map(|(blind, stuck)| idle.sleep_ns(blind, stuck, true));
        assert!(sleeps_ns.is_sorted() && sleeps_ns[3] == SLEEP_NS);
        let mut sleeps_ns = || idle.sleep_ns(false, Stuck::Not, true);
        let first = sleeps_ns();
        assert!(first > SLEEP_NS && sleeps_ns() > first && (0..10).all(|_| sleeps_ns() <= 1_000_000_000));
        assert_eq!(sleeps_ns(), 1_000_000_000);
        // A port that is down is asked for often; a packet begins anew.
        assert_eq!(idle.sleep_ns(false, Stuck::Not, false), SLEEP_NS);
        idle.moved(6_000_000, 1);
        assert_eq!(idle.sleep_ns(false, Stuck::Not, true), SLEEP_NS);
    }

    #[test]
    fn a_worker_naps_where_it_would_be_woken_often_and_dozes_elsewhere() {
        // What follows packets with this gap, after 20 of them.
        let pause = |gap_ns: u64, alarms: u32| {
            let mut idle = Idle::new(Eagerness::Spins, SLEEP_NS, 0);
            let last_ns =
                (1..=20).map(|packet| packet * gap_ns).inspect(|now_ns| idle.moved(*now_ns, 1)).last().unwrap();
            (0..alarms).for_each(|_| idle.woken(true));
            idle.pause(last_ns + 100_000)
        };
        assert_eq!([60_000, 150_000, 250_000].map(|gap_ns| pause(gap_ns, 0)), [Pause::Nap(NAP_NS); 3]);
        let dozes = Pause::Doze(NAPPING_NS - 100_000);
        assert_eq!([1_000_000, 2_000_000, 10_000_000].map(|gap_ns| pause(gap_ns, 0)), [dozes; 3]);
        assert_eq!([1_000, 100_000_000].map(|gap_ns| pause(gap_ns, 0)), [Pause::Nap(NAP_NS); 2], "they stand alone");
        assert_eq!(pause(1_000_000, FALSE_ALARMS_MAX), Pause::Nap(NAP_NS), "descriptors are not trusted");
    }

    #[test]
    fn eagerness_is_about_the_first_moment_only() {
        let [mut yields, mut sleeps, mut only] = [Eagerness::Yields, Eagerness::Sleeps, Eagerness::SleepsOnly]
            .map(|eagerness| Idle::new(eagerness, SLEEP_NS, 1_000));
        assert_eq!([yields.pause(2_000), sleeps.pause(2_000)], [Pause::Yield, Pause::Sleep]);
        assert_eq!([yields.pause(5_000_000), sleeps.pause(5_000_000)], [Pause::Sleep; 2]);
        sleeps.moved(6_000_000, BUSY_PACKETS);
        assert_eq!([(); 2].map(|()| sleeps.pause(6_000_000)), [Pause::Nap(BUSY_NAP_NS), Pause::Sleep], "it is busy");
        only.moved(6_000_000, BUSY_PACKETS);
        assert_eq!(only.pause(6_000_000), Pause::Sleep, "more packets come as a block");
    }

    #[test]
    fn a_descriptor_that_wakes_for_nothing_does_not_keep_the_worker_awake() {
        for eagerness in [Eagerness::Spins, Eagerness::Sleeps] {
            let mut idle = Idle::new(eagerness, SLEEP_NS, 0);
            for _ in 0..FALSE_ALARMS_MAX {
                assert_eq!(idle.pause(5_000_000), Pause::Sleep);
                idle.woken(true);
            }
            assert_eq!(idle.pause(5_000_000), Pause::Nap(FALSE_ALARM_NAP_NS));
            idle.napped();
            assert_eq!(idle.pause(5_000_000), Pause::Sleep);
            idle.woken(true);
            idle.moved(5_000_000, 1);
            assert!(!matches!(idle.pause(5_000_001), Pause::Nap(_)));
        }
    }
}
