//! What happens to each packet, decided in the order in which packets come.

use crate::random::{Dice, Draw, Random, Threshold};
use crate::settings::{Loss, Settings};

/// What happens to one packet.
#[derive(Clone, Copy)]
pub(crate) struct Fate {
    /// It is lost, and nothing else happens to it.
    pub lost: bool,
    /// A copy follows it.
    pub duplicated: bool,
    /// It leaves without the delay.
    pub early: bool,
    /// One of its bits changes.
    pub corrupted: Option<Draw>,
    /// How long it waits, in nanoseconds.
    pub delay_ns: u64,
}

/// Decides the fates of the packets of one direction.
pub(crate) struct Fates {
    loss: Option<Losses>,
    duplicate: Option<Dice>,
    corrupt: Option<Dice>,
    reorder: Option<Reorder>,
    delay_ns: u64,
    jitter: Option<Jitter>,
}

enum Losses {
    Random(Dice),
    Bursts { random: Random, to_bad: Threshold, to_good: Threshold, bad: Threshold, good: Threshold, is_bad: bool },
}

struct Reorder {
    dice: Dice,
    gap: u64,
    /// Packets since the last one that left early.
    since: u64,
}

struct Jitter {
    random: Random,
    correlation: Threshold,
    jitter_ns: u64,
    /// How much the last packet's delay was above the shortest.
    last_ns: u64,
}

impl Fates {
    /// Fates by the settings; `direction` makes two directions with the same seed differ.
    pub(crate) fn new(settings: &Settings, direction: u64) -> Fates {
        let random = |impairment: u64| Random::new(settings.seed, direction << 8 | impairment);
        let loss = match settings.loss {
            Loss::Random(chance) => Dice::new(chance, random(0)).map(Losses::Random),
            Loss::GilbertElliott { to_bad, to_good, bad, good } => Some(Losses::Bursts {
                random: random(0),
                to_bad: Threshold::new(to_bad),
                to_good: Threshold::new(to_good),
                bad: Threshold::new(bad),
                good: Threshold::new(good),
                is_bad: false,
            }),
        };
        let jitter = Jitter {
            random: random(1),
            correlation: Threshold::new(settings.jitter_correlation),
            jitter_ns: settings.jitter_ns,
            last_ns: settings.jitter_ns,
        };
        let reorder = Dice::new(settings.reorder, random(2));
        Fates {
            loss,
            duplicate: Dice::new(settings.duplicate, random(3)),
            corrupt: Dice::new(settings.corrupt, random(4)),
            reorder: reorder.map(|dice| Reorder { dice, gap: settings.reorder_gap, since: 0 }),
            delay_ns: settings.delay_ns,
            jitter: (settings.jitter_ns > 0).then_some(jitter),
        }
    }

    /// The fate of the next packet. Every impairment draws for every packet, also for one that is lost: so what one of them does
    /// to a packet does not depend on the others.
    #[inline]
    pub(crate) fn next(&mut self) -> Fate {
        let happens = |dice: &mut Option<Dice>| dice.as_mut().map(Dice::throw).filter(|(happens, _)| *happens);
        let early = self.reorder.as_mut().is_some_and(Reorder::next);
        let delay_ns = match &mut self.jitter {
            None => self.delay_ns,
            Some(jitter) => (self.delay_ns + jitter.next()).saturating_sub(jitter.jitter_ns),
        };
        Fate {
            lost: self.loss.as_mut().is_some_and(Losses::next),
            duplicated: happens(&mut self.duplicate).is_some(),
            early,
            corrupted: happens(&mut self.corrupt).map(|(_, draw)| draw),
            delay_ns: if early { 0 } else { delay_ns },
        }
    }
}

impl Losses {
    #[inline]
    fn next(&mut self) -> bool {
        match self {
            Losses::Random(dice) => dice.throw().0,
            Losses::Bursts { random, to_bad, to_good, bad, good, is_bad } => {
                let draw = random.draw();
                let (change, loss) = if *is_bad { (*to_good, *bad) } else { (*to_bad, *good) };
                *is_bad ^= draw.first(change);
                draw.second(loss)
            }
        }
    }
}

impl Reorder {
    fn next(&mut self) -> bool {
        self.since += 1;
        let early = self.dice.throw().0 && self.since >= self.gap;
        if early {
            self.since = 0;
        }
        early
    }
}

impl Jitter {
    /// Time above the shortest delay: uniform from 0 to twice the jitter.
    #[inline]
    fn next(&mut self) -> u64 {
        let draw = self.random.draw();
        if !draw.second(self.correlation) {
            self.last_ns = draw.below(2 * self.jitter_ns + 1);
        }
        self.last_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKETS: u32 = 1_000_000;

    fn fates(text: &str, direction: u64) -> Vec<Fate> {
        let mut fates = Fates::new(&text.parse().unwrap(), direction);
        (0..PACKETS).map(|_| fates.next()).collect()
    }

    fn share(fates: &[Fate], happens: impl Fn(&Fate) -> bool) -> f64 {
        fates.iter().filter(|fate| happens(fate)).count() as f64 / fates.len() as f64
    }

    fn is_near(found: f64, expected: f64, part: f64) -> bool {
        (found - expected).abs() <= expected * part
    }

    /// Correlation of neighbours.
    fn correlation(values: &[f64]) -> f64 {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>() / variance
    }

    #[test]
    fn shares_and_correlations_are_those_asked_for() {
        for (text, happens) in [
            ("loss 10%", (|fate| fate.lost) as fn(&Fate) -> bool),
            ("duplicate 10%", |fate| fate.duplicated),
            ("corrupt 10%", |fate| fate.corrupted.is_some()),
            ("delay 1ms reorder 10%", |fate| fate.early),
        ] {
            let plain = fates(text, 0);
            assert!(is_near(share(&plain, happens), 0.1, 0.01), "{text}: {}", share(&plain, happens));
            let found = plain.iter().map(|fate| f64::from(u8::from(happens(fate)))).collect::<Vec<_>>();
            assert!(correlation(&found).abs() < 0.01, "{text}");
            let text = format!("{text} 40%");
            let bound = fates(&text, 0);
            assert!(is_near(share(&bound, happens), 0.1, 0.02), "{text}: {}", share(&bound, happens));
            let found = bound.iter().map(|fate| f64::from(u8::from(happens(fate)))).collect::<Vec<_>>();
            assert!(is_near(correlation(&found), 0.4, 0.03), "{text}: {}", correlation(&found));
        }
        assert_eq!(share(&fates("loss 100%", 0), |fate| fate.lost), 1.0);
        assert_eq!(share(&fates("delay 1ms", 0), |fate| fate.lost || fate.duplicated || fate.early), 0.0);
    }

    #[test]
    fn bursts_are_as_long_and_as_frequent_as_the_chain_makes_them() {
        let lost: Vec<bool> = fates("loss gemodel 1% 20%", 0).iter().map(|fate| fate.lost).collect();
        // In the bad state p / (p + r) of the time, for 1 / r packets on the mean.
        let share = lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64;
        let bursts = lost.windows(2).filter(|pair| pair[1] && !pair[0]).count() as f64;
        assert!(is_near(share, 0.01 / 0.21, 0.03), "{share}");
        assert!(is_near(share * f64::from(PACKETS) / bursts, 5.0, 0.03), "{}", share * f64::from(PACKETS) / bursts);
        let with_both = fates("loss gemodel 1% 20% 50% 0.1%", 0);
        let share = super::tests::share(&with_both, |fate| fate.lost);
        assert!(is_near(share, (0.01 * 0.5 + 0.2 * 0.001) / 0.21, 0.03), "{share}");
    }

    #[test]
    fn delays_are_uniform_around_the_mean_and_never_negative() {
        let delays = |text: &str| fates(text, 0).iter().map(|fate| fate.delay_ns as f64).collect::<Vec<_>>();
        let plain = delays("delay 10ms 2ms");
        let mean = plain.iter().sum::<f64>() / plain.len() as f64;
        let deviation = (plain.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / plain.len() as f64).sqrt();
        assert!(is_near(mean, 10e6, 0.001) && is_near(deviation, 2e6 / 3f64.sqrt(), 0.005), "{mean} {deviation}");
        assert!(plain.iter().all(|delay| (8e6..=12e6).contains(delay)) && correlation(&plain).abs() < 0.01);
        let bound = delays("delay 10ms 2ms 25%");
        assert!(is_near(correlation(&bound), 0.25, 0.03), "{}", correlation(&bound));
        assert!(delays("delay 1ms 3ms").contains(&0.0));
        assert!(delays("delay 7us").iter().all(|delay| *delay == 7e3));
    }

    #[test]
    fn a_gap_lets_only_each_so_many_th_packet_leave_early() {
        let early: Vec<usize> = fates("delay 1ms reorder 100% gap 5", 0)
            .iter()
            .enumerate()
            .filter(|(_, fate)| fate.early)
            .map(|(n, _)| n)
            .collect();
        assert_eq!((early.len(), early[0]), (PACKETS as usize / 5, 4));
        assert!(early.windows(2).all(|pair| pair[1] - pair[0] == 5));
    }

    #[test]
    fn a_fate_depends_on_seed_direction_and_number_only() {
        let lost = |text: &str, direction| fates(text, direction).iter().map(|fate| fate.lost).collect::<Vec<_>>();
        let one = lost("loss 1% seed 5", 0);
        assert_eq!(one, lost("loss 1% seed 5", 0));
        assert_eq!(
            one,
            lost("loss 1% delay 1ms 1ms duplicate 3% corrupt 3% reorder 2% seed 5", 0),
            "others do not matter"
        );
        let together = |other: Vec<bool>| one.iter().zip(&other).filter(|(a, b)| **a && **b).count();
        for other in [lost("loss 1% seed 6", 0), lost("loss 1% seed 5", 1)] {
            // Two that do not depend on each other meet in 1 of 10,000 packets.
            assert!((50..=150).contains(&together(other)));
        }
    }
}
