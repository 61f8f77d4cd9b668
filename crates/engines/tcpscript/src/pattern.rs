//! The bytes of a stream, by their place in it, so that a byte at a wrong place is found.

/// Byte `offset` of the stream that both sides send. Neighbouring kilobytes differ.
pub fn stream_byte(offset: u64) -> u8 {
    (offset as u8).wrapping_mul(31).wrapping_add((offset >> 8) as u8).wrapping_add((offset >> 16) as u8)
}
