//! Pseudo-random decisions. Each impairment has a sequence of its own, of which each packet takes one number, so that what happens to
//! a packet depends on the seed and on the packet's number only.

use crate::settings::Chance;

/// A sequence of pseudo-random numbers (splitmix64; Steele, Lea and Flood 2014).
pub(crate) struct Random(u64);

impl Random {
    /// The sequence number `sequence` of a seed.
    pub(crate) fn new(seed: u64, sequence: u64) -> Random {
        Random(mixed(seed.wrapping_add(mixed(sequence.wrapping_mul(STEP)))))
    }

    #[inline]
    pub(crate) fn draw(&mut self) -> Draw {
        self.0 = self.0.wrapping_add(STEP);
        Draw(mixed(self.0))
    }
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline]
fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// One number of a sequence: two halves that do not depend on each other.
#[derive(Clone, Copy)]
pub(crate) struct Draw(u64);

impl Draw {
    #[inline]
    pub(crate) fn first(self, share: Threshold) -> bool {
        self.0 >> 32 < share.0
    }

    #[inline]
    pub(crate) fn second(self, share: Threshold) -> bool {
        self.0 & 0xffff_ffff < share.0
    }

    /// A number below `count`, from the first half.
    #[inline]
    pub(crate) fn below(self, count: u64) -> u64 {
        ((u128::from(self.0 >> 32) * u128::from(count)) >> 32) as u64
    }

    /// A further number below `count`, which depends on neither half.
    pub(crate) fn other_below(self, count: u64) -> u64 {
        Draw(mixed(self.0 ^ STEP)).below(count)
    }
}

/// A share as a limit for half a draw: exact to 1 part in 2^32.
#[derive(Clone, Copy)]
pub(crate) struct Threshold(u64);

impl Threshold {
    pub(crate) fn new(share: f64) -> Threshold {
        Threshold((share.clamp(0.0, 1.0) * 4_294_967_296.0).round() as u64)
    }
}

/// Decides whether something happens to a packet.
pub(crate) struct Dice {
    random: Random,
    share: Threshold,
    correlation: Threshold,
    last: bool,
}

impl Dice {
    /// `None`: it happens to no packet.
    pub(crate) fn new(chance: Chance, random: Random) -> Option<Dice> {
        let (share, correlation) = (Threshold::new(chance.share), Threshold::new(chance.correlation));
        (chance.share > 0.0).then_some(Dice { random, share, correlation, last: false })
    }

    /// Throws for the next packet: with the draw, for what else depends on it.
    #[inline]
    pub(crate) fn throw(&mut self) -> (bool, Draw) {
        let draw = self.random.draw();
        // Repeating a decision leaves the share as it is, and makes neighbours correlate by just that much.
        if !draw.second(self.correlation) {
            self.last = draw.first(self.share);
        }
        (self.last, draw)
    }
}
