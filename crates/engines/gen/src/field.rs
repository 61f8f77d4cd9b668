//! One varying field of a stream's packets: where it is, which values it takes, which checksums it enters.

use crate::random;

/// Most checksum fields of one packet (outer and inner, IPv4 and transport).
pub(crate) const SUMS_MAX: usize = 4;

/// When a field goes to its next value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// For every packet.
    EachPacket,
    /// When the rule before it in the list has been through all of its values (the next wheel of an odometer).
    WhenPreviousWraps,
}

/// The values of a field, in the order in which they are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// `first`, `first + step`, ... , `count` of them, then again from `first`. `step` may be negative.
    Range {
        /// First value.
        first: u64,
        /// Difference from one value to the next, modulo the field's width.
        step: i64,
        /// Number of values, at least 1.
        count: u64,
    },
    /// Uniform among `first`, `first + step`, ... (`count` values), from a seed.
    Random {
        /// Lowest value.
        first: u64,
        /// Difference between neighbouring values.
        step: i64,
        /// Number of values, at least 1.
        count: u64,
        /// Start of the pseudo-random sequence.
        seed: u64,
    },
    /// These values, over and over.
    List(Vec<u64>),
}

/// A rule for one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPlan {
    /// First byte in the packet of the bytes that are rewritten.
    pub offset: usize,
    /// Bytes rewritten: 1 to 8.
    pub width: usize,
    /// Bits by which a value is shifted left inside them (a VLAN id: 0, an MPLS label: 12).
    pub shift: u32,
    /// Bits of the bytes that stay (priority bits beside a VLAN id), as a constant.
    pub constant: u64,
    /// Bits that the value may use, before the shift.
    pub value_bits: u32,
    /// The values.
    pub values: Values,
    /// When the next one is taken.
    pub advance: Advance,
    /// How it enters the packet's checksums.
    pub sums: Vec<SumTerm>,
}

/// How some bytes enter one checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumTerm {
    /// Index of the checksum in [`crate::ImagePlan::sums`].
    pub sum: usize,
    /// They count negatively: bytes inside VXLAN, for a checksum outside, because the inner checksum changes as well.
    pub negative: bool,
}

/// How some bytes enter one checksum, or that they do not, without a branch.
#[derive(Clone, Copy, Default)]
pub(crate) struct Weight {
    keep: u64,
    flip: u64,
}

/// 48 bits: a multiple of 2^16 - 1, that is 0 in a checksum; no term is larger.
const ZERO: u64 = (1 << 48) - 1;

impl Weight {
    /// The weights of some bytes in all checksums of a packet.
    pub(crate) fn of_all<'a>(terms: impl IntoIterator<Item = &'a SumTerm>) -> [Weight; SUMS_MAX] {
        let mut weights = [Weight::default(); SUMS_MAX];
        for term in terms {
            if let Some(weight) = weights.get_mut(term.sum) {
                // `ZERO - term` is `term ^ ZERO`.
                *weight = Weight { keep: ZERO, flip: if term.negative { ZERO } else { 0 } };
            }
        }
        weights
    }

    /// What a term of less than 48 bits adds to the checksum.
    #[inline]
    pub(crate) fn of(self, term: u64) -> u64 {
        (term ^ self.flip) & self.keep
    }
}

/// The sum of a value's 16-bit words, in at most 33 bits: 2^16 = 1 modulo 2^16 - 1, so halves may simply be added.
#[inline]
pub(crate) fn halves(value: u64) -> u64 {
    (value >> 32) + (value & 0xffff_ffff)
}

/// Left shift for bytes that end at `end`: after an odd number of bytes, the last one is the high half of its word.
pub(crate) fn parity_shift(end: usize) -> u32 {
    (end % 2) as u32 * 8
}

/// A field at work.
pub(crate) struct Field {
    offset: u16,
    width: u16,
    shift: u32,
    constant: u64,
    mask: u64,
    values: Values,
    weights: [Weight; SUMS_MAX],
    parity_shift: u32,
    index: u64,
    value: u64,
    random: u64,
    /// The slow field to step when this one has been through its values.
    pub(crate) carries_into: Option<usize>,
}

impl Field {
    pub(crate) fn new(plan: &FieldPlan, carries_into: Option<usize>) -> Field {
        let mask = if plan.value_bits >= 64 { u64::MAX } else { (1 << plan.value_bits) - 1 };
        let mut field = Field {
            offset: plan.offset as u16,
            width: plan.width as u16,
            shift: plan.shift,
            constant: plan.constant,
            mask,
            values: plan.values.clone(),
            weights: Weight::of_all(&plan.sums),
            parity_shift: parity_shift(plan.offset + plan.width),
            index: 0,
            value: 0,
            random: 0,
            carries_into,
        };
        field.rewind();
        field
    }

    /// Back to the first value.
    fn rewind(&mut self) {
        self.index = 0;
        self.value = match &self.values {
            Values::Range { first, .. } => *first,
            Values::List(list) => list.first().copied().unwrap_or(0),
            Values::Random { first, step, count, seed } => {
                self.random = *seed;
                random_value(&mut self.random, *first, *step, *count)
            }
        };
    }

    /// Goes to the next value; true when the values start again with it (never for random ones).
    #[inline]
    pub(crate) fn next(&mut self) -> bool {
        self.index += 1;
        match &self.values {
            Values::Range { first, step, count } => {
                self.value = self.value.wrapping_add_signed(*step);
                let wrapped = self.index >= *count;
                if wrapped {
                    (self.index, self.value) = (0, *first);
                }
                wrapped
            }
            Values::Random { first, step, count, .. } => {
                self.value = random_value(&mut self.random, *first, *step, *count);
                false
            }
            Values::List(list) => {
                let wrapped = self.index as usize >= list.len();
                if wrapped {
                    self.index = 0;
                }
                self.value = list.get(self.index as usize).copied().unwrap_or(0);
                wrapped
            }
        }
    }

    /// Writes the current value into the packet and adds it to the checksums that cover it.
    #[inline]
    pub(crate) fn apply<const SUMS: usize>(&self, packet: &mut [u8], sums: &mut [u64; SUMS]) {
        let value = (self.value & self.mask) << self.shift | self.constant;
        store(packet, self.offset, self.width, value);
        let term = halves(value) << self.parity_shift;
        for (sum, weight) in sums.iter_mut().zip(self.weights) {
            *sum += weight.of(term);
        }
    }
}

#[inline]
fn random_value(state: &mut u64, first: u64, step: i64, count: u64) -> u64 {
    first.wrapping_add((step as u64).wrapping_mul(random::below(state, count)))
}

/// Writes the low `width` bytes of a value, big-endian. Out of the packet, nothing is written.
#[inline]
fn store(packet: &mut [u8], offset: u16, width: u16, value: u64) {
    match width {
        2 => store_array(packet, offset, (value as u16).to_be_bytes()),
        4 => store_array(packet, offset, (value as u32).to_be_bytes()),
        8 => store_array(packet, offset, value.to_be_bytes()),
        _ => {
            let bytes = value.to_be_bytes();
            let (start, width) = (usize::from(offset), usize::from(width.min(8)));
            if let Some(place) = packet.get_mut(start..start + width) {
                place.copy_from_slice(&bytes[8 - width..]);
            }
        }
    }
}

/// As [`store`]. Offsets of 16 bits (frames are shorter) cannot overflow, which saves a check.
#[inline]
pub(crate) fn store_array<const N: usize>(packet: &mut [u8], offset: u16, bytes: [u8; N]) {
    let start = usize::from(offset);
    if let Some(place) = packet.get_mut(start..start + N) {
        place.copy_from_slice(&bytes);
    }
}
