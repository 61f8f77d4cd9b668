//! The byte order of a capture file.

/// Order of the bytes of numbers in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// The number at `at`; 0 where there are no bytes, which callers exclude by asking for them first.
    #[inline]
    pub fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let Some(bytes) = bytes.get(at..).and_then(|rest| rest.first_chunk()) else { return 0 };
        if self == ByteOrder::Little { u32::from_le_bytes(*bytes) } else { u32::from_be_bytes(*bytes) }
    }

    /// As [`ByteOrder::u32`].
    #[inline]
    pub fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let Some(bytes) = bytes.get(at..).and_then(|rest| rest.first_chunk()) else { return 0 };
        if self == ByteOrder::Little { u16::from_le_bytes(*bytes) } else { u16::from_be_bytes(*bytes) }
    }

    /// As [`ByteOrder::u32`].
    pub fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let Some(bytes) = bytes.get(at..).and_then(|rest| rest.first_chunk()) else { return 0 };
        if self == ByteOrder::Little { u64::from_le_bytes(*bytes) } else { u64::from_be_bytes(*bytes) }
    }
}
