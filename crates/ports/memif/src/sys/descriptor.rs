//! The words of a ring: its marks, and a place of it, 16 bytes that are read and written as two words.

/// Marks memory as a ring.
pub(crate) const COOKIE: u32 = 0x03e3_1f20;

/// Flag of a ring: whoever puts something in need not ring.
pub(crate) const NO_INTERRUPT: u16 = 1;

/// Flag of a descriptor: the packet goes on in the next.
pub(crate) const NEXT: u16 = 1;

/// One place of a ring: where a buffer is, and how much is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) flags: u16,
    pub(crate) region: u16,
    pub(crate) length: u32,
    pub(crate) offset: u32,
}

impl Descriptor {
    /// What its two words say.
    #[inline]
    pub(crate) fn of_words(first: u64, second: u64) -> Descriptor {
        let [a, b, c, d, length @ ..] = first.to_ne_bytes();
        let [offset @ .., _, _, _, _] = second.to_ne_bytes();
        Descriptor {
            flags: u16::from_ne_bytes([a, b]),
            region: u16::from_ne_bytes([c, d]),
            length: u32::from_ne_bytes(length),
            offset: u32::from_ne_bytes(offset),
        }
    }

    /// Flags, region and length: what changes when a buffer is filled.
    #[inline]
    pub(crate) fn first_word(self) -> u64 {
        let (flags, region, length) = (self.flags.to_ne_bytes(), self.region.to_ne_bytes(), self.length.to_ne_bytes());
        u64::from_ne_bytes([flags[0], flags[1], region[0], region[1], length[0], length[1], length[2], length[3]])
    }

    /// Where the buffer is.
    #[inline]
    pub(crate) fn second_word(self) -> u64 {
        let offset = self.offset.to_ne_bytes();
        u64::from_ne_bytes([offset[0], offset[1], offset[2], offset[3], 0, 0, 0, 0])
    }
}
