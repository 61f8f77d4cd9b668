//! Big-endian reads and writes of fields given as byte ranges, and slices cut at the end of a
//! buffer.

use std::ops::Range;

/// The bytes of `field` as an array. Panics if the field lies outside `bytes` or is not `N` bytes
/// wide.
#[inline]
pub fn array<const N: usize>(bytes: &[u8], field: Range<usize>) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[field]);
    out
}

/// The two bytes of `field` as a number.
#[inline]
pub fn be16(bytes: &[u8], field: Range<usize>) -> u16 {
    u16::from_be_bytes(array(bytes, field))
}

/// The four bytes of `field` as a number.
#[inline]
pub fn be32(bytes: &[u8], field: Range<usize>) -> u32 {
    u32::from_be_bytes(array(bytes, field))
}

/// Writes `value` to the two bytes of `field`.
#[inline]
pub fn put16(bytes: &mut [u8], field: Range<usize>, value: u16) {
    bytes[field].copy_from_slice(&value.to_be_bytes());
}

/// Writes `value` to the four bytes of `field`.
#[inline]
pub fn put32(bytes: &mut [u8], field: Range<usize>, value: u32) {
    bytes[field].copy_from_slice(&value.to_be_bytes());
}

/// `bytes[start..end]`, cut at the end of `bytes`; empty where `start` lies beyond `end`.
#[inline]
pub fn cut(bytes: &[u8], start: usize, end: usize) -> &[u8] {
    let end = end.min(bytes.len());
    &bytes[start.min(end)..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_never_panics() {
        let bytes = [1, 2, 3];
        assert_eq!(cut(&bytes, 1, 2), [2]);
        assert_eq!(cut(&bytes, 1, 9), [2, 3]);
        assert_eq!(cut(&bytes, 9, 12), []);
        assert_eq!(cut(&bytes, 2, 1), []);
    }
}
