//! The addresses that forwarding without OpenFlow has learned (`NORMAL`, and a switch without a controller), shared by all workers.
//!
//! ```text
//! VLAN and MAC address, 60 bits -> (mixed, reversibly) -> bucket 12 bits, tag 48 bits
//! place    tag 48 | slot of the port 16         one word, so that a reader never sees one address with the port of another
//! age      time of the last packet, beside it
//! ```

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Buckets, as a power of two.
const BUCKET_BITS: u32 = 12;
const WAYS: usize = 4;
const TAG_BITS: u32 = 60 - BUCKET_BITS;
/// Seconds of silence after which an address is forgotten (IEEE 802.1D's default).
const AGE_S: u32 = 300;

pub(crate) struct MacTable {
    buckets: Box<[Bucket]>,
}

#[derive(Default)]
#[repr(align(64))]
struct Bucket {
    places: [AtomicU64; WAYS],
    /// Seconds, plus one; 0 if the place is free.
    ages: [AtomicU32; WAYS],
}

const MASK: u64 = (1 << 60) - 1;
/// An odd number, so that multiplication by it can be undone.
const FACTOR: u64 = 0x0e37_79b9_7f4a_7c15;

fn mix(key: u64) -> u64 {
    let once = key.wrapping_mul(FACTOR) & MASK;
    let folded = once ^ once >> 31;
    folded.wrapping_mul(FACTOR) & MASK
}

impl MacTable {
    pub(crate) fn new() -> MacTable {
        MacTable { buckets: (0..1 << BUCKET_BITS).map(|_| Bucket::default()).collect() }
    }

    fn place(&self, vlan: u16, mac: u64) -> (&Bucket, u64) {
        let mixed = mix(u64::from(vlan & 0xfff) << 48 | mac & 0xffff_ffff_ffff);
        (&self.buckets[(mixed >> TAG_BITS) as usize & (self.buckets.len() - 1)], mixed & ((1 << TAG_BITS) - 1))
    }

    /// Notes that a packet with this source arrived by the port in `slot`.
    pub(crate) fn learn(&self, vlan: u16, mac: u64, slot: u16, now_s: u32) {
        let (bucket, tag) = self.place(vlan, mac);
        let word = tag << 16 | u64::from(slot);
        let mut oldest = (0, u32::MAX);
        for (way, (place, age)) in bucket.places.iter().zip(&bucket.ages).enumerate() {
            let (known, seen) = (place.load(Ordering::Relaxed), age.load(Ordering::Relaxed));
            if known >> 16 == tag && seen != 0 {
                oldest = (way, seen);
                break;
            }
            if seen < oldest.1 {
                oldest = (way, seen);
            }
        }
        let (way, seen) = oldest;
        if bucket.places[way].load(Ordering::Relaxed) != word {
            bucket.places[way].store(word, Ordering::Relaxed);
        }
        if seen != now_s + 1 {
            bucket.ages[way].store(now_s + 1, Ordering::Relaxed);
        }
    }

    /// The slot of the port behind which the address is.
    pub(crate) fn lookup(&self, vlan: u16, mac: u64, now_s: u32) -> Option<u16> {
        let (bucket, tag) = self.place(vlan, mac);
        let mut places = bucket.places.iter().zip(&bucket.ages);
        let (place, _) = places.find(|(place, age)| {
            let seen = age.load(Ordering::Relaxed);
            place.load(Ordering::Relaxed) >> 16 == tag && seen != 0 && (now_s + 1).saturating_sub(seen) <= AGE_S
        })?;
        Some(place.load(Ordering::Relaxed)).filter(|word| word >> 16 == tag).map(|word| word as u16)
    }

    /// Forgets the addresses of a port.
    pub(crate) fn forget(&self, slot: u16) {
        for bucket in &self.buckets {
            for (place, age) in bucket.places.iter().zip(&bucket.ages) {
                if place.load(Ordering::Relaxed) as u16 == slot {
                    age.store(0, Ordering::Relaxed);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unmix(mixed: u64) -> u64 {
        let inverse = inverse(FACTOR);
        let folded = mixed.wrapping_mul(inverse) & MASK;
        let once = folded ^ folded >> 31;
        once.wrapping_mul(inverse) & MASK
    }

    /// The inverse of an odd number modulo 2^64, by Newton's iteration.
    const fn inverse(odd: u64) -> u64 {
        let mut inverse = odd;
        let mut round = 0;
        while round < 6 {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
            round += 1;
        }
        inverse
    }

    #[test]
    fn addresses_are_learned_move_age_and_are_forgotten() {
        let table = MacTable::new();
        table.learn(5, 0x0200_0000_0001, 3, 10);
        assert_eq!(table.lookup(5, 0x0200_0000_0001, 10), Some(3));
        assert_eq!(table.lookup(6, 0x0200_0000_0001, 10), None);
        table.learn(5, 0x0200_0000_0001, 4, 20);
        assert_eq!(table.lookup(5, 0x0200_0000_0001, 20), Some(4));
        assert_eq!(table.lookup(5, 0x0200_0000_0001, 320), Some(4));
        assert_eq!(table.lookup(5, 0x0200_0000_0001, 321), None);
        table.forget(4);
        assert_eq!(table.lookup(5, 0x0200_0000_0001, 22), None);
    }

    #[test]
    fn mixing_is_reversible() {
        for key in [0, 1, MASK, 0x0123_4567_89ab_cdef & MASK] {
            assert_eq!(unmix(mix(key)), key);
        }
    }
}
