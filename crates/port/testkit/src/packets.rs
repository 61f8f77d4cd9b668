//! Packets that can be recognised to the bit: each byte follows from the run, the sequence number and the length.
//!
//! ```text
//! 02 4b sequence:32 | 02 6b run:32 | [tags] | 88 b5 | pseudo-random bytes
//! ```
//! 88b5 is the "Local Experimental Ethertype 1" of IEEE Std 802, which no stack answers.

use std::sync::atomic::{AtomicU32, Ordering};

use linerate_mem::{Batch, Checksum, Pool};
use linerate_wire::{PartialChecksum, Stack, ethernet, ipv4, udp};

/// Shortest packet: addresses and type.
pub(crate) const HEADER_LEN: usize = 14;

/// One packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Bytes without FCS.
    pub len: usize,
    /// Frames to lay it out in.
    pub slots: usize,
    /// VLAN tags in front of the type.
    pub tags: usize,
    /// It is a UDP packet without tags, of 42 bytes or more, that is sent with a partial checksum.
    pub partial: bool,
}

impl Entry {
    /// A packet in one frame, without tags.
    pub(crate) fn plain(len: usize) -> Entry {
        Entry { len, slots: 1, tags: 0, partial: false }
    }

    /// A packet in as few frames of `frame_room` bytes as hold it.
    pub(crate) fn fitting(len: usize, frame_room: usize) -> Entry {
        Entry { len, slots: len.div_ceil(frame_room).max(1), tags: 0, partial: false }
    }
}

/// Number of a run, another one for each session of the process.
pub(crate) fn new_run() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    std::process::id() << 12 | NEXT.fetch_add(1, Ordering::Relaxed) & 0xfff
}

/// The bytes of packet `sequence` as they arrive.
pub(crate) fn bytes(run: u32, sequence: u32, entry: Entry) -> Vec<u8> {
    let mut out = bytes_sent(run, sequence, entry);
    if let Some(partial) = PartialChecksum::find(&out) {
        assert!(partial.complete(&mut out));
    }
    out
}

/// The bytes of packet `sequence` as they are sent.
pub(crate) fn bytes_sent(run: u32, sequence: u32, entry: Entry) -> Vec<u8> {
    let mut out = Vec::with_capacity(entry.len);
    out.extend([0x02, 0x4b]);
    out.extend(sequence.to_be_bytes());
    out.extend([0x02, 0x6b]);
    out.extend(run.to_be_bytes());
    for tag in 0..entry.tags {
        let kind: [u8; 2] = if tag + 1 < entry.tags { [0x88, 0xa8] } else { [0x81, 0x00] };
        out.extend(kind);
        out.extend((0x2000 | (sequence as u16 & 0xff) << 2 | 1).to_be_bytes());
    }
    if entry.partial {
        let udp_len = (entry.len - HEADER_LEN - 20) as u16;
        let stack = Stack::new().with(ethernet::Header::default()).with(ipv4::Header::default());
        let headers = stack.with(udp::Header::default()).build(entry.len).expect("room for the headers").bytes;
        let pseudo = ipv4::Packet::new_unchecked(&headers[HEADER_LEN..]).pseudo_sum(udp_len).fold();
        out.extend(&headers[HEADER_LEN - 2..40]);
        out.extend(pseudo.to_be_bytes());
    } else {
        out.extend([0x88, 0xb5]);
    }
    let mut state = u64::from(run) << 32 | u64::from(sequence) | 1 << 63;
    while out.len() < entry.len {
        // The generator of Knuth's MMIX; its upper half is good enough to notice a byte out of place.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        out.extend(&state.to_be_bytes()[..4]);
    }
    out.truncate(entry.len);
    out
}

/// Sequence number of a packet of this run; `None` for a packet that somebody else sent.
pub(crate) fn sequence_of(run: u32, packet: &[u8]) -> Option<u32> {
    let ours = packet.len() >= HEADER_LEN && packet[..2] == [0x02, 0x4b] && packet[6..8] == [0x02, 0x6b];
    if !ours || packet[8..12] != run.to_be_bytes() {
        return None;
    }
    Some(u32::from_be_bytes([packet[2], packet[3], packet[4], packet[5]]))
}

/// Appends packet `sequence` to the batch; false when the pool or the batch has no room for all of it.
pub(crate) fn append(batch: &mut Batch, pool: &mut Pool, run: u32, sequence: u32, entry: Entry) -> bool {
    let first = batch.len();
    if batch.room() < entry.slots || pool.available() < entry.slots {
        return false;
    }
    let taken = pool.alloc(batch, entry.slots, pool.packet_len_max());
    assert_eq!(taken, entry.slots, "the pool said that it had the frames");
    let packet = bytes_sent(run, sequence, entry);
    let mut rest = packet.as_slice();
    for part in 0..entry.slots {
        // Uneven parts, none empty: what is left, spread over the frames that are left, rounded up.
        let len = rest.len().div_ceil(entry.slots - part);
        let (now, later) = rest.split_at(len);
        batch.set_len(first + part, len);
        assert_eq!(batch.packet(first + part).len(), len, "a part of {len} bytes does not fit into a frame");
        batch.packet_mut(first + part).copy_from_slice(now);
        batch.set_more(first + part, part + 1 < entry.slots);
        rest = later;
    }
    if entry.partial {
        batch.set_checksum(first, Checksum::Partial);
    }
    true
}

/// The packets of a batch from slot `first` on, their parts joined; an error when the last one is not whole.
pub(crate) fn joined(batch: &Batch, first: usize) -> Result<Vec<Vec<u8>>, String> {
    let mut packets = Vec::new();
    let mut packet = Vec::new();
    for index in first..batch.len() {
        packet.extend_from_slice(batch.packet(index));
        if !batch.more(index) {
            packets.push(std::mem::take(&mut packet));
        } else if index + 1 == batch.len() {
            return Err("a packet of several slots was split over the end of the batch".into());
        }
    }
    Ok(packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_recognised_and_differ() {
        let run = new_run();
        let entry = Entry { len: 61, slots: 1, tags: 2, partial: false };
        assert_eq!(sequence_of(run, &bytes(run, 7, entry)), Some(7));
        assert_eq!(sequence_of(run, &bytes(run.wrapping_add(1), 7, entry)), None);
        assert_eq!(sequence_of(run, &[0; 60]), None);
        assert_ne!(bytes(run, 1, entry)[30..], bytes(run, 2, entry)[30..]);
        assert_eq!(bytes(run, 1, Entry::plain(HEADER_LEN)).len(), HEADER_LEN);
    }

    #[test]
    fn partial_checksums_are_partial_when_sent_and_right_when_they_arrive() {
        for len in [42, 43, 60, 1514] {
            let entry = Entry { len, slots: 1, tags: 0, partial: true };
            let (sent, arrived) = (bytes_sent(3, 9, entry), bytes(3, 9, entry));
            assert_eq!((sent.len(), sequence_of(3, &sent)), (len, Some(9)));
            assert!(
                linerate_wire::verify_checksums(&sent).is_err() && linerate_wire::verify_checksums(&arrived).is_ok()
            );
        }
    }

    #[test]
    fn parts_join_to_the_packet() {
        let mut pool = Pool::new(Default::default()).unwrap();
        let mut batch = Batch::new(&pool, 8);
        let entry = Entry { len: 4001, slots: 5, tags: 0, partial: false };
        assert!(append(&mut batch, &mut pool, 1, 2, entry));
        assert_eq!(joined(&batch, 0).unwrap(), [bytes(1, 2, entry)]);
        batch.set_more(4, true);
        assert!(joined(&batch, 0).is_err());
    }
}
