//! SYN segments over IPv4 that nearly all connections begin with.

use linerate_mem::Checksum;

use super::{FastPath, HEAD_MASK, Usual4, checksums_are_right};

/// A SYN over IPv4, with or without ACK, as Linux and this stack send it: no VLAN tag, no options of IP, no fragment, no other flag, and for its options
/// MSS, SACK permitted, timestamps and window scale, in this order; no data. It is for one of our addresses, its source address is one that another
/// host can have, and its checksums are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsualSyn4<'a> {
    /// Source address.
    pub src: u32,
    /// Destination address, one of ours.
    pub dst: u32,
    /// Source port in the upper half, destination port in the lower.
    pub ports: u32,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Flags of the TCP header, as bits.
    pub flags: u8,
    /// Window, which is never scaled.
    pub window: u16,
    /// ECN bits of the IP header.
    pub ecn: u8,
    /// TSval and TSecr.
    pub timestamps: (u32, u32),
    /// All options.
    pub options: &'a [u8; 20],
}

/// Bytes of the link header, the IP header and the TCP header.
const HEADERS_LEN: usize = 74;

impl<'a> UsualSyn4<'a> {
    /// The segment of a frame that [`crate::Ip::is_usual_syn4`] recognised.
    #[inline]
    pub fn of(frame: &'a [u8]) -> Option<UsualSyn4<'a>> {
        let head = frame.first_chunk::<HEADERS_LEN>()?;
        let word = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        Some(UsualSyn4 {
            src: word(26),
            dst: word(30),
            ports: word(34),
            seq: word(38),
            ack: word(42),
            flags: head[47],
            window: word(46) as u16,
            ecn: head[15] & 3,
            timestamps: (word(62), word(66)),
            options: head[54..].first_chunk()?,
        })
    }
}

impl FastPath {
    /// See [`crate::Ip::is_usual_syn4`].
    #[inline]
    pub fn is_usual_syn4(&self, frame: &[u8], checksum: Checksum) -> bool {
        let Some(head) = frame.first_chunk::<HEADERS_LEN>() else { return false };
        // Words as they lie in memory, as in `usual4`.
        let word = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let half = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        // Destination MAC address and the group bit of the source; EtherType, version, header length and length; fragment and protocol; header length and
        // flags of TCP; its options, but for MSS, timestamps and shift.
        let differences = (word(0) & HEAD_MASK) ^ self.head
            | (word(12) ^ 0x0800_4500_003c_0000u64.to_be()) & 0xffff_ff00_ffff_0000u64.to_be()
            | (word(16) ^ 0x0000_0000_0000_0006u64.to_be()) & 0x0000_0000_3fff_00ffu64.to_be()
            | u64::from((half(46) ^ 0xa002_0000u32.to_be()) & 0xf0ef_0000u32.to_be())
            | (word(54) ^ 0x0204_0000_0402_080au64.to_be()) & 0xffff_0000_ffff_ffffu64.to_be()
            | u64::from((half(70) ^ 0x0103_0300u32.to_be()) & 0xffff_ff00u32.to_be());
        let addresses = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        differences == 0
            && self.is_own4(addresses(30))
            && self.may_send4(addresses(26))
            && (checksum != Checksum::Unknown || checksums_are_right(frame, (HEADERS_LEN - Usual4::HEADERS_LEN) as u16))
    }
}
