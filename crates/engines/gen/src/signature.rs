//! The signature: what a generated packet says about itself, in its last 16 bytes before the FCS.
//!
//! ```text
//!  A, big-endian:  | magic 24 | sequence 40               |
//!  B, big-endian:  | stream 16 | scheduled time, ns, 48   |
//! ```
//! At the end of the packet, a receiver finds it without parsing headers, and a 64-byte UDP frame (18 bytes of payload) has
//! room for it. The time is the *scheduled* one, of `CLOCK_MONOTONIC` modulo 2^48 (78 hours), so a generator that falls
//! behind makes latencies longer instead of hiding them. A random packet passes for a signed one with probability 2^-24, and
//! the receiver also asks for a plausible time.

/// Bytes of a signature.
pub const SIGNATURE_LEN: usize = 16;

/// Number of sequence numbers before they start again.
pub const SEQUENCE_MASK: u64 = (1 << 40) - 1;

/// Modulus of the timestamp, as a mask.
pub const TIME_MASK: u64 = (1 << 48) - 1;

const MAGIC: u64 = 0x4c5254;

/// What a signature says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Which stream the packet is of.
    pub stream: u16,
    /// Number of the packet in its stream, from 0, modulo 2^40.
    pub sequence: u64,
    /// When it was to be sent: nanoseconds modulo 2^48.
    pub time_ns: u64,
}

impl Signature {
    /// The two words as they stand in the packet.
    #[inline]
    pub fn words(&self) -> (u64, u64) {
        (MAGIC << 40 | self.sequence & SEQUENCE_MASK, u64::from(self.stream) << 48 | self.time_ns & TIME_MASK)
    }

    /// The signature at the end of a packet, if there is one.
    #[inline]
    pub fn read(packet: &[u8]) -> Option<Signature> {
        Signature::from_words(read_words(packet)?)
    }

    /// The signature that two words are, if they are one.
    #[inline]
    pub(crate) fn from_words((first, second): (u64, u64)) -> Option<Signature> {
        let sequence = first & SEQUENCE_MASK;
        let stream = (second >> 48) as u16;
        (first >> 40 == MAGIC).then_some(Signature { stream, sequence, time_ns: second & TIME_MASK })
    }

    /// Writes the signature into the end of a packet; a packet shorter than it stays as it is.
    #[inline]
    pub fn write(&self, packet: &mut [u8]) {
        if let Some((_, tail)) = packet.split_last_chunk_mut::<SIGNATURE_LEN>() {
            let (first, second) = self.words();
            tail[..8].copy_from_slice(&first.to_be_bytes());
            tail[8..].copy_from_slice(&second.to_be_bytes());
        }
    }
}

/// The two words at the end of a packet, where a signature would be; `None` of a packet shorter than that.
#[inline]
pub(crate) fn read_words(packet: &[u8]) -> Option<(u64, u64)> {
    let tail = u128::from_be_bytes(*packet.last_chunk::<SIGNATURE_LEN>()?);
    Some(((tail >> 64) as u64, tail as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_was_written() {
        let signature = Signature { stream: 0xabcd, sequence: (1 << 40) - 2, time_ns: (1 << 48) - 3 };
        let mut packet = [0u8; 61];
        signature.write(&mut packet);
        assert_eq!(Signature::read(&packet), Some(signature));
        assert_eq!(packet[..45], [0; 45]);
        packet[45] ^= 1;
        assert_eq!(Signature::read(&packet), None);
        assert_eq!(Signature::read(&[0x4c; 15]), None);
    }
}
