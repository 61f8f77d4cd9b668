//! The facts about a packet of a capture file, apart from its bytes.

use crate::Direction;

/// What a file says about one packet, beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Nanoseconds since 1970; 0 where the format has no time (simple packet blocks).
    pub time_ns: u64,
    /// Bytes that the packet had, without FCS; more than [`Head::len`] when the capture cut it short.
    pub original_len: u32,
    /// Link type of its interface (`LINKTYPE_...`); 1 is Ethernet.
    pub link_type: u16,
    /// Number of its interface, into [`crate::CaptureReader::interfaces`].
    pub interface: u32,
    /// Which way it went.
    pub direction: Direction,
    /// Bytes of the packet that the file holds, without FCS.
    pub len: usize,
    /// First byte of the packet, from the start of the record.
    pub(crate) start: usize,
    /// Bytes of the record.
    pub(crate) record: usize,
}

/// Length kept and true length of a packet without the `fcs_len` bytes at its true end.
#[inline]
pub(crate) fn strip_fcs(len: usize, original_len: u32, fcs_len: usize) -> (usize, u32) {
    if fcs_len == 0 {
        return (len, original_len);
    }
    let original_len = original_len.saturating_sub(fcs_len as u32);
    (len.min(original_len as usize), original_len)
}
