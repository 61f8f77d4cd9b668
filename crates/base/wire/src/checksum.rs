//! The internet checksum (RFC 1071) and its incremental update (RFC 1624).
//!
//! A checksum is the complement of the ones'-complement sum of the data as big-endian 16-bit words.
//! [`Sum`] is that sum before folding and complement; everything else here is a few lines on top of
//! it.
//!
//! **Zero has two faces**, 0x0000 and 0xffff. A sum is 0x0000 only when all its data is zero, so a
//! computed checksum is 0xffff only then. Updates use equation 3 of RFC 1624, which never turns
//! another checksum into 0xffff: an updated checksum equals the recomputed one, bit for bit, unless
//! the old or the new data is all zero. No IPv4 header (version) and nothing with a pseudo-header
//! (protocol number) is all zero; only an ICMPv4 echo reply with identifier, sequence and payload 0
//! can be, of which whoever updates it has to look at the data ([`crate::Layout::patch`] does). UDP sends a computed 0x0000 as 0xffff, because 0x0000 means "no checksum" (RFC 768): use
//! [`Sum::finish_udp`] and [`Sum::update_udp`].

use std::net::{Ipv4Addr, Ipv6Addr};

/// A ones'-complement accumulator with deferred folding. All operations are branch-free, except
/// those on slices.
///
/// ```
/// use linerate_wire::Sum;
/// // RFC 1071 section 3: the words 0001 f203 f4f5 f6f7 add up to ddf2.
/// let sum = Sum::new().add_slice(&[0x00, 0x01, 0xf2, 0x03]).add_u32(0xf4f5_f6f7);
/// assert_eq!(sum.fold(), 0xddf2);
/// assert_eq!(sum.finish(), !0xddf2);
///
/// // The difference that a changed field makes, applied to a checksum.
/// let delta = Sum::new().replace_u16(0x5555, 0x3285);
/// assert_eq!(delta.update(0xdd2f), 0x0000);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct Sum(u64);

impl Sum {
    /// The empty sum.
    #[inline]
    pub const fn new() -> Sum {
        Sum(0)
    }

    /// The sum that finished as `checksum`. Changes added to it finish as the updated checksum.
    #[inline]
    pub const fn resume(checksum: u16) -> Sum {
        Sum(!checksum as u64)
    }

    /// The pseudo-header of UDP and TCP over IPv4 (RFC 768, RFC 9293); `len` is that of the UDP or
    /// TCP header and data.
    #[inline]
    pub const fn pseudo_ipv4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: u16) -> Sum {
        Sum::new().add_u32(src.to_bits()).add_u32(dst.to_bits()).add_u16(protocol as u16).add_u16(len)
    }

    /// The pseudo-header of everything over IPv6 (RFC 8200 section 8.1); `len` is that of the
    /// upper-layer packet.
    #[inline]
    pub const fn pseudo_ipv6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, len: u32) -> Sum {
        Sum::new().add_u128(src.to_bits()).add_u128(dst.to_bits()).add_u16(protocol as u16).add_u32(len)
    }

    /// Adds one 16-bit word.
    #[inline]
    pub const fn add_u16(self, value: u16) -> Sum {
        self.add_u64(value as u64)
    }

    /// Adds two 16-bit words.
    #[inline]
    pub const fn add_u32(self, value: u32) -> Sum {
        self.add_u64(value as u64)
    }

    /// Adds four 16-bit words.
    #[inline]
    pub const fn add_u64(self, value: u64) -> Sum {
        let (sum, carry) = self.0.overflowing_add(value);
        Sum(sum.wrapping_add(carry as u64))
    }

    /// Adds eight 16-bit words, such as an IPv6 address.
    #[inline]
    pub const fn add_u128(self, value: u128) -> Sum {
        self.add_u64((value >> 64) as u64).add_u64(value as u64)
    }

    /// Adds another sum.
    #[inline]
    pub const fn add_sum(self, other: Sum) -> Sum {
        self.add_u64(other.0)
    }

    /// Adds bytes that start at an even offset of the data; an odd last byte is padded with zero
    /// (RFC 1071).
    #[inline]
    pub fn add_slice(self, bytes: &[u8]) -> Sum {
        // The sum is taken in native byte order, and swapped once: RFC 1071 section 2(B).
        self.add_u64(u64::from_be(native_sum(bytes)))
    }

    /// Adds bytes that lie at `offset` of the data, even or odd.
    #[inline]
    pub fn add_slice_at(self, offset: usize, bytes: &[u8]) -> Sum {
        let sum = Sum::new().add_slice(bytes).fold();
        self.add_u16(if offset.is_multiple_of(2) { sum } else { sum.swap_bytes() })
    }

    /// Takes one 16-bit word out.
    #[inline]
    pub const fn sub_u16(self, value: u16) -> Sum {
        self.add_u16(!value)
    }

    /// Takes four 16-bit words out.
    #[inline]
    pub const fn sub_u64(self, value: u64) -> Sum {
        self.add_u64(!value)
    }

    /// Takes another sum out.
    #[inline]
    pub const fn sub_sum(self, other: Sum) -> Sum {
        self.add_u64(!other.0)
    }

    /// One 16-bit word changes from `old` to `new`.
    #[inline]
    pub const fn replace_u16(self, old: u16, new: u16) -> Sum {
        self.add_u32(!old as u32 + new as u32)
    }

    /// Four 16-bit words change from `old` to `new`.
    #[inline]
    pub const fn replace_u64(self, old: u64, new: u64) -> Sum {
        self.sub_u64(old).add_u64(new)
    }

    /// Bytes at `offset` of the data change from `old` to `new`.
    #[inline]
    pub fn replace_slice_at(self, offset: usize, old: &[u8], new: &[u8]) -> Sum {
        self.sub_sum(Sum::new().add_slice_at(offset, old)).add_slice_at(offset, new)
    }

    /// The opposite difference.
    #[inline]
    pub const fn negate(self) -> Sum {
        Sum(!self.0)
    }

    /// The sum as one 16-bit word.
    #[inline]
    pub const fn fold(self) -> u16 {
        let (sum, carry) = (self.0 as u32).overflowing_add((self.0 >> 32) as u32);
        let sum = sum.wrapping_add(carry as u32);
        let (sum, carry) = (sum as u16).overflowing_add((sum >> 16) as u16);
        sum.wrapping_add(carry as u16)
    }

    /// The checksum of what was added.
    #[inline]
    pub const fn finish(self) -> u16 {
        !self.fold()
    }

    /// The checksum of what was added, as UDP sends it: never 0x0000.
    #[inline]
    pub const fn finish_udp(self) -> u16 {
        let checksum = self.finish();
        if checksum == 0 { 0xffff } else { checksum }
    }

    /// `checksum` after the differences in this sum.
    #[inline]
    pub const fn update(self, checksum: u16) -> u16 {
        Sum::resume(checksum).add_sum(self).finish()
    }

    /// A UDP `checksum` after the differences in this sum: 0x0000, no checksum, stays; else never
    /// 0x0000.
    #[inline]
    pub const fn update_udp(self, checksum: u16) -> u16 {
        let updated = Sum::resume(checksum).add_sum(self).finish_udp();
        if checksum == 0 { 0 } else { updated }
    }

    /// Whether data summed together with its checksum is intact.
    #[inline]
    pub const fn is_valid(self) -> bool {
        self.fold() == 0xffff
    }
}

/// The checksum of `bytes`.
///
/// ```
/// assert_eq!(linerate_wire::checksum::checksum(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
/// ```
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::new().add_slice(bytes).finish()
}

/// The ones'-complement sum of `bytes` as native-endian 64-bit words, with end-around carry.
#[inline]
fn native_sum(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mut sum = blocks.iter().fold(0, add_words);
    let (halves, rest) = rest.as_chunks::<16>();
    sum = halves.first().map_or(sum, |half| add_words(sum, half));
    let (words, rest) = rest.as_chunks::<8>();
    sum = words.first().map_or(sum, |word| add_words(sum, word));
    add_words(sum, &native_tail(rest).to_ne_bytes())
}

/// `sum` and whole 64-bit words, added in one chain of carries.
#[inline]
fn add_words<const LEN: usize>(mut sum: u64, bytes: &[u8; LEN]) -> u64 {
    let mut carry = false;
    for word in bytes.as_chunks::<8>().0 {
        (sum, carry) = sum.carrying_add(u64::from_ne_bytes(*word), carry);
    }
    // The first addition has no carry in, so one that carries out leaves less than u64::MAX: no overflow here.
    sum.wrapping_add(carry as u64)
}

/// Fewer than 8 bytes as one 64-bit word whose ones'-complement value is their sum in native byte order.
#[inline]
fn native_tail(bytes: &[u8]) -> u64 {
    let (fours, rest) = bytes.as_chunks::<4>();
    let (twos, rest) = rest.as_chunks::<2>();
    let four = fours.first().map_or(0, |four| u32::from_ne_bytes(*four) as u64);
    let two = twos.first().map_or(0, |two| u16::from_ne_bytes(*two) as u64);
    let one = rest.first().map_or(0, |one| u16::from_ne_bytes([*one, 0]) as u64);
    four + two + one
}
