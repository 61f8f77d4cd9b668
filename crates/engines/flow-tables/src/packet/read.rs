//! Big-endian reads and writes at positions that a parser found. Positions outside of the bytes read as 0 and are not written, so that no
//! packet, however it changed since, makes one panic.

/// The `N` bytes at `at`.
#[inline(always)]
pub fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

/// The 16-bit number at `at`.
#[inline(always)]
pub fn be16(bytes: &[u8], at: usize) -> u16 {
    array(bytes, at).map_or(0, |found| u16::from_be_bytes(*found))
}

/// The 32-bit number at `at`.
#[inline(always)]
pub fn be32(bytes: &[u8], at: usize) -> u32 {
    array(bytes, at).map_or(0, |found| u32::from_be_bytes(*found))
}

/// The 64-bit number at `at`.
#[inline(always)]
pub fn be64(bytes: &[u8], at: usize) -> u64 {
    array(bytes, at).map_or(0, |found| u64::from_be_bytes(*found))
}

/// The byte at `at`.
#[inline(always)]
pub fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// Writes `new` at `at`.
#[inline(always)]
pub fn put<const N: usize>(bytes: &mut [u8], at: usize, new: [u8; N]) {
    if let Some(place) = bytes.get_mut(at..at + N) {
        place.copy_from_slice(&new);
    }
}
