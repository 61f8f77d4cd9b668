//! Sequence numbers (RFC 9293 section 3.4): 32 bits that wrap, compared by difference.

use std::ops::{Add, AddAssign, Sub};

/// A sequence number. The order of two numbers is defined where they are less than 2^31 apart.
///
/// ```
/// use linerate_tcp::Seq;
/// let before = Seq(u32::MAX);
/// assert!(before.before(before + 2));
/// assert_eq!((before + 2) - before, 2);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// True if `self` comes before `other`.
    #[inline]
    pub const fn before(self, other: Seq) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// True if `self` comes after `other`.
    #[inline]
    pub const fn after(self, other: Seq) -> bool {
        other.before(self)
    }

    /// True if `self` is `other` or comes before it.
    #[inline]
    pub const fn at_most(self, other: Seq) -> bool {
        !other.before(self)
    }

    /// True if `self` is `other` or comes after it.
    #[inline]
    pub const fn at_least(self, other: Seq) -> bool {
        !self.before(other)
    }

    /// True if `from <= self < to`.
    #[inline]
    pub const fn is_in(self, from: Seq, to: Seq) -> bool {
        self.0.wrapping_sub(from.0) < to.0.wrapping_sub(from.0)
    }

    /// The later one.
    #[inline]
    pub const fn max(self, other: Seq) -> Seq {
        if self.before(other) { other } else { self }
    }

    /// The earlier one.
    #[inline]
    pub const fn min(self, other: Seq) -> Seq {
        if self.before(other) { self } else { other }
    }
}

impl Add<u32> for Seq {
    type Output = Seq;

    #[inline]
    fn add(self, bytes: u32) -> Seq {
        Seq(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for Seq {
    #[inline]
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl Sub<u32> for Seq {
    type Output = Seq;

    #[inline]
    fn sub(self, bytes: u32) -> Seq {
        Seq(self.0.wrapping_sub(bytes))
    }
}

/// Distance in bytes, modulo 2^32.
impl Sub<Seq> for Seq {
    type Output = u32;

    #[inline]
    fn sub(self, other: Seq) -> u32 {
        self.0.wrapping_sub(other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        for start in [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1, u32::MAX] {
            let seq = Seq(start);
            assert!(seq.before(seq + 1) && (seq + 1).after(seq) && !seq.before(seq));
            assert!(seq.at_most(seq) && seq.at_least(seq) && seq.at_most(seq + 0x7fff_ffff));
            assert!(seq.is_in(seq, seq + 1) && !seq.is_in(seq, seq) && !(seq + 1).is_in(seq, seq + 1));
            assert!((seq - 1).before(seq) && !(seq - 1).is_in(seq, seq + 5));
            assert_eq!((seq.max(seq + 9), seq.min(seq - 9), (seq + 7) - seq), (seq + 9, seq - 9, 7));
        }
    }
}
