//! A slot: 64 bits that name a packet inside a region and own its frame.

/// Owner of one frame, and the place of a packet (or of a part of one) in it.
///
/// ```text
///  63      56 55            32 31            16 15             0
/// |  flags   |   frame number |     offset     |      length    |
/// ```
/// Flags: 56 the packet goes on in the next slot; 57 its checksum is partial; 58 its checksum is verified (see [`Checksum`]).
/// Not `Clone`: two slots for one frame would be two `&mut` to one packet. Dropping a slot leaks its frame, which is safe
/// and is what the "pool is whole" checks of the tests find.
#[derive(Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Slot(u64);

const MORE: u64 = 1 << 56;
const PARTIAL: u64 = 1 << 57;
const VERIFIED: u64 = 1 << 58;
/// Flags about the checksum of the packet that begins in a slot.
pub(crate) const CHECKSUM_FLAGS: u64 = PARTIAL | VERIFIED;

/// What is known about the UDP or TCP checksum of a packet, beside its bytes. The flags stay inside this process: ports that send
/// packets out of it complete partial checksums first, and no peer's word makes a packet verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// Nothing is known; whoever wants to know computes it.
    #[default]
    Unknown,
    /// The checksum is right: the kernel or the network card of this host has verified it.
    Verified,
    /// The field holds the sum of the pseudo-header (CHECKSUM_PARTIAL in Linux). Parsing the packet finds its place.
    Partial,
}

impl Checksum {
    #[inline]
    pub(crate) fn of(word: u64) -> Checksum {
        // A table, because batches ask for each packet.
        const OF_FLAGS: [Checksum; 4] = [Checksum::Unknown, Checksum::Partial, Checksum::Verified, Checksum::Partial];
        OF_FLAGS[(word / PARTIAL % 4) as usize]
    }

    #[inline]
    pub(crate) fn flags(self) -> u64 {
        match self {
            Checksum::Unknown => 0,
            Checksum::Verified => VERIFIED,
            Checksum::Partial => PARTIAL,
        }
    }
}

impl Slot {
    /// Highest number of frames that a region can have.
    pub const FRAMES_MAX: usize = 1 << 24;

    /// Claims a frame.
    ///
    /// # Safety
    /// Nothing else owns the frame, it is inside its region, and `offset + len` is at most the region's frame size.
    #[allow(unsafe_code)]
    #[inline]
    pub unsafe fn new(frame: u32, offset: u16, len: u16) -> Slot {
        Slot(Slot::new_word(frame, offset, len))
    }

    /// The word of such a slot, which owns nothing.
    #[inline]
    pub(crate) fn new_word(frame: u32, offset: u16, len: u16) -> u64 {
        u64::from(frame) << 32 | u64::from(offset) << 16 | u64::from(len)
    }

    /// The slot as a word for a ring. The frame's owner is now the word.
    #[inline]
    pub fn into_word(self) -> u64 {
        self.0
    }

    /// The slot that [`Slot::into_word`] took apart.
    ///
    /// # Safety
    /// `word` came from `into_word` and becomes a slot once only.
    #[allow(unsafe_code)]
    #[inline]
    pub unsafe fn from_word(word: u64) -> Slot {
        Slot(word)
    }

    /// Number of the frame in its region.
    #[inline]
    pub fn frame(&self) -> u32 {
        frame_of(self.0)
    }

    /// First byte of the packet, counted from the start of the frame.
    #[inline]
    pub fn offset(&self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Bytes of the packet in this frame, without FCS.
    #[inline]
    pub fn len(&self) -> u16 {
        self.0 as u16
    }

    /// True for a slot of no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True when the packet goes on in the next slot.
    #[inline]
    pub fn more(&self) -> bool {
        more_of(self.0)
    }

    /// The same slot with the mark "the packet goes on in the next slot" set or cleared.
    #[inline]
    pub fn with_more(self, more: bool) -> Slot {
        Slot(if more { self.0 | MORE } else { self.0 & !MORE })
    }
}

/// Bits of a slot's word that another process may set: all but the flags, and of these `more`.
pub(crate) const KNOWN_BITS: u64 = MORE | (MORE - 1);

/// What the word of a slot says. It owns nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotFields {
    /// Number of the frame in its region.
    pub frame: u32,
    /// First byte of the packet, counted from the start of the frame.
    pub offset: u16,
    /// Bytes of the packet in this frame.
    pub len: u16,
    /// The packet goes on in the next slot.
    pub more: bool,
}

impl SlotFields {
    /// The fields of a word.
    #[inline]
    pub fn of(word: u64) -> SlotFields {
        SlotFields { frame: frame_of(word), offset: (word >> 16) as u16, len: word as u16, more: more_of(word) }
    }

    /// The word that has these fields. A frame of [`Slot::FRAMES_MAX`] or more gives a word that no table accepts.
    #[inline]
    pub fn word(self) -> u64 {
        if self.frame as usize >= Slot::FRAMES_MAX {
            return u64::MAX;
        }
        Slot::new_word(self.frame, self.offset, self.len) | if self.more { MORE } else { 0 }
    }
}

#[inline]
pub(crate) fn frame_of(word: u64) -> u32 {
    (word >> 32) as u32 & 0x00ff_ffff
}

#[inline]
pub(crate) fn more_of(word: u64) -> bool {
    word & MORE != 0
}
