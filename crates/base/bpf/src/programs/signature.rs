//! The signature: the last 16 bytes of a test frame before the FCS, two big-endian 64-bit words.
//!
//! ```text
//!  63            40 39                                0
//! +----------------+----------------------------------+
//! | magic 0x4C5254 | sequence modulo 2^40             |  A
//! +----------+-----+----------------------------------+
//! | stream   | scheduled time, CLOCK_MONOTONIC ns     |  B
//! | 63    48 | 47       modulo 2^48                 0 |
//! +----------+----------------------------------------+
//! ```

/// Its length.
pub const SIGNATURE_BYTES: usize = 16;
/// The upper 24 bits of the first word: `LRT`.
pub const MAGIC: u64 = 0x4c_5254;
/// Bits of the sequence number.
pub const SEQUENCE_BITS: u32 = 40;
/// Bits of the time.
pub const TIME_BITS: u32 = 48;

/// What a signature says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The stream.
    pub stream: u16,
    /// Position in the stream from 0 on, modulo 2^40.
    pub sequence: u64,
    /// When the frame was to be sent: CLOCK_MONOTONIC in ns modulo 2^48.
    pub time_ns: u64,
}

impl Signature {
    /// The bytes that stand at the frame's end; sequence and time are cut to their bits.
    pub fn encode(self) -> [u8; SIGNATURE_BYTES] {
        let sequence = self.sequence & ((1 << SEQUENCE_BITS) - 1);
        let time_ns = self.time_ns & ((1 << TIME_BITS) - 1);
        let first = MAGIC << SEQUENCE_BITS | sequence;
        let second = u64::from(self.stream) << TIME_BITS | time_ns;
        (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
    }

    /// Reads the end of `frame`; none if it is too short or bears no signature.
    pub fn decode(frame: &[u8]) -> Option<Signature> {
        let words = u128::from_be_bytes(*frame.last_chunk()?);
        let (first, second) = ((words >> 64) as u64, words as u64);
        (first >> SEQUENCE_BITS == MAGIC).then_some(Signature {
            stream: (second >> TIME_BITS) as u16,
            sequence: first & ((1 << SEQUENCE_BITS) - 1),
            time_ns: second & ((1 << TIME_BITS) - 1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let signature = Signature { stream: 0xabcd, sequence: 0x01_0203_0405, time_ns: 0x1122_3344_5566 };
        let bytes = signature.encode();
        assert_eq!(bytes[..8], [0x4c, 0x52, 0x54, 1, 2, 3, 4, 5]);
        assert_eq!(bytes[8..], [0xab, 0xcd, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66]);
        assert_eq!(Signature::decode(&bytes), Some(signature));
        assert_eq!(Signature::decode(&bytes[1..]), None);
        assert_eq!(Signature::decode(&[0; 60]), None);
        let wide = Signature { stream: 1, sequence: u64::MAX, time_ns: u64::MAX };
        let cut = Signature::decode(&wide.encode());
        let all = Signature { stream: 1, sequence: (1 << 40) - 1, time_ns: (1 << 48) - 1 };
        assert_eq!(cut, Some(all));
    }
}
