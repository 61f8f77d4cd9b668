//! Which packets of a batch go into the next system call, and what the kernel's answer means.
//!
//! Why sendmmsg and no TPACKET transmit ring: measured on one core into a veth pair, 60-byte frames, Linux 6.18, alternating
//! runs, million packets per second of CPU time: sendmmsg of 64 packets 0.85 past the qdisc and 0.87 through it (a veth has
//! none); a ring of version 2 0.78 with a kick every 64 packets, 0.74 every 256, version 3 0.78; trafgen, which uses a ring,
//! 0.76. The ring saves the copying of 60 bytes and pays with page references and a destructor for each packet.

use std::io;

use linerate_mem::{Batch, Totals};

use crate::device::ETHERNET_BYTES;
use crate::sys::{MESSAGES_MAX, SLOTS_MAX};

/// Bytes by which a frame with an 802.1Q tag may be longer. The kernel grants them to ethertype 0x8100 only
/// (packet_extra_vlan_len_allowed in net/packet/af_packet.c).
pub(crate) const VLAN_BYTES: usize = 4;
const VLAN_ETHERTYPE: [u8; 2] = [0x81, 0x00];

/// The first packets of a batch that can go into one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub totals: Totals,
    /// Slots that they span.
    pub slots: usize,
    /// Why the packet after them cannot go; `None` when there is none, or when the call is full.
    pub stop: Option<Stop>,
}

/// What is wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Longer than the interface takes, or in too many slots.
    TooLong {
        /// Its bytes.
        len: usize,
        /// What it may have.
        max: usize,
    },
    /// No room for an Ethernet header; the kernel refuses such packets.
    TooShort {
        /// Slots that it spans.
        slots: usize,
    },
    /// Its last slot is not in the batch yet.
    Incomplete,
}

/// Looks at packets from the front of the batch on. `frame_len_max` is for untagged frames. `merges`: segments that follow each other leave as
/// one message, so that more packets than messages go into a call.
#[inline]
pub(crate) fn next_run(batch: &Batch, frame_len_max: usize, merges: bool) -> Run {
    let packets_max = if merges && batch.has_partial_checksums(0) { SLOTS_MAX } else { MESSAGES_MAX };
    let mut run = Run::default();
    let mut packet = Totals::default();
    let mut first_slot = 0;
    for (index, bytes) in batch.iter().take(SLOTS_MAX).enumerate() {
        packet.bytes += bytes.len() as u64;
        if batch.more(index) {
            continue;
        }
        let (len, slots) = (packet.bytes as usize, index + 1 - first_slot);
        if len > frame_len_max && len > allowed_len(batch.packet(first_slot), frame_len_max) {
            let max = allowed_len(batch.packet(first_slot), frame_len_max);
            return Run { stop: Some(Stop::TooLong { len, max }), ..run };
        }
        if len < ETHERNET_BYTES {
            return Run { stop: Some(Stop::TooShort { slots }), ..run };
        }
        run.totals.packets += 1;
        run.totals.bytes += packet.bytes;
        run.slots = index + 1;
        if run.totals.packets as usize == packets_max {
            return run;
        }
        first_slot = index + 1;
        packet = Totals::default();
    }
    if run.slots == 0 && !batch.is_empty() {
        run.stop = Some(unfinished(batch, frame_len_max));
    }
    run
}

/// The front packet has no last slot among the first [`SLOTS_MAX`].
#[inline]
#[cold]
fn unfinished(batch: &Batch, frame_len_max: usize) -> Stop {
    if batch.len() < SLOTS_MAX {
        return Stop::Incomplete;
    }
    let end = batch.span(0).map_or(batch.len(), |span| span.slots);
    let len = batch.totals_of(end).bytes as usize;
    Stop::TooLong { len, max: frame_len_max.min(len) }
}

#[inline]
#[cold]
fn allowed_len(first_bytes: &[u8], frame_len_max: usize) -> usize {
    let tagged = first_bytes.get(12..14).is_some_and(|ethertype| ethertype == VLAN_ETHERTYPE);
    frame_len_max + if tagged { VLAN_BYTES } else { 0 }
}

/// Slots of the first `packets` packets of a batch.
#[inline]
pub(crate) fn slots_of(batch: &Batch, packets: usize) -> usize {
    let ends = (0..batch.len()).filter(|index| !batch.more(*index));
    ends.take(packets).last().map_or(0, |index| index + 1)
}

/// What an errno of sendmmsg(2) on an AF_PACKET socket means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The socket's buffer is full of frames on their way: poll tells when there is room.
    BufferFull,
    /// The driver's ring is full, or memory is short: nothing tells when that is over.
    DriverFull,
    /// The interface is down, gone, or was either of them a moment ago.
    Device,
    /// Longer than the MTU, which has changed since.
    TooLong,
    /// Something else.
    Other,
}

#[inline]
pub(crate) fn refusal(error: &io::Error) -> Refusal {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => Refusal::BufferFull,
        Some(libc::ENOBUFS | libc::ENOMEM | libc::EINTR) => Refusal::DriverFull,
        Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => Refusal::Device,
        Some(libc::EMSGSIZE) => Refusal::TooLong,
        _ => Refusal::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_mem::{Checksum, Pool};

    /// A batch of packets, each given as the lengths of its slots.
    fn batch(packets: &[&[usize]]) -> Batch {
        let mut pool = Pool::new(Default::default()).unwrap();
        let mut batch = Batch::new(&pool, 256);
        for slots in packets {
            for (index, len) in slots.iter().enumerate() {
                pool.alloc(&mut batch, 1, *len);
                let at = batch.len() - 1;
                batch.packet_mut(at).fill(0);
                batch.set_more(at, index + 1 < slots.len());
            }
        }
        batch
    }

    fn run(packets: u64, bytes: u64, slots: usize, stop: Option<Stop>) -> Run {
        Run { totals: Totals { packets, bytes }, slots, stop }
    }

    #[test]
    fn whole_packets_go_and_what_is_wrong_stops_them() {
        assert_eq!(next_run(&batch(&[]), 1514, false), run(0, 0, 0, None));
        assert_eq!(next_run(&batch(&[&[60], &[100, 50], &[1514]]), 1514, false), run(3, 1724, 4, None));
        let too_long = Some(Stop::TooLong { len: 1515, max: 1514 });
        assert_eq!(next_run(&batch(&[&[60], &[1000, 515], &[60]]), 1514, false), run(1, 60, 1, too_long));
        assert_eq!(next_run(&batch(&[&[60], &[6, 7]]), 1514, false), run(1, 60, 1, Some(Stop::TooShort { slots: 2 })));
        let mut cut = batch(&[&[60], &[60]]);
        cut.set_more(1, true);
        assert_eq!(next_run(&cut, 1514, false), run(1, 60, 1, None));
        cut.set_more(0, true);
        assert_eq!(next_run(&cut, 1514, false), run(0, 0, 0, Some(Stop::Incomplete)));
    }

    #[test]
    fn a_tag_makes_room_for_itself() {
        let mut tagged = batch(&[&[1518]]);
        tagged.packet_mut(0)[12..14].copy_from_slice(&VLAN_ETHERTYPE);
        assert_eq!(next_run(&tagged, 1514, false).totals.packets, 1);
        assert_eq!(next_run(&tagged, 1513, false).stop, Some(Stop::TooLong { len: 1518, max: 1517 }));
        assert_eq!(next_run(&batch(&[&[1518]]), 1514, false).stop, Some(Stop::TooLong { len: 1518, max: 1514 }));
    }

    #[test]
    fn a_call_takes_so_many_packets_and_slots_at_most() {
        let sixty: &[usize] = &[60];
        let many = batch(&[sixty; 100]);
        assert_eq!(next_run(&many, 1514, false).totals.packets as usize, MESSAGES_MAX);
        // A batch of which nothing is partial holds nothing to merge.
        assert_eq!(next_run(&many, 1514, true).totals.packets as usize, MESSAGES_MAX);
        let mut segments = batch(&[sixty; 200]);
        segments.set_checksum(0, Checksum::Partial);
        assert_eq!(next_run(&segments, 1514, true).totals.packets as usize, SLOTS_MAX);
        assert_eq!(next_run(&segments, 1514, false).totals.packets as usize, MESSAGES_MAX);
        let two: &[usize] = &[30, 30];
        let split = batch(&[two; 100]);
        assert_eq!(next_run(&split, 1514, false).slots, SLOTS_MAX);
        let ones = [1; SLOTS_MAX + 1];
        let endless = batch(&[&ones]);
        assert_eq!(next_run(&endless, 1514, false).stop, Some(Stop::TooLong { len: 129, max: 129 }));
        assert_eq!(slots_of(&split, 3), 6);
    }
}
