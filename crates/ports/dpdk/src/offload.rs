//! What is left to the device on transmit: partial checksums, and cutting TCP packets that were merged of several segments (TSO).

use std::fmt;

use linerate_mem::Batch;
use linerate_port::{complete_checksums, merge_at};
use linerate_wire::Merge;

use crate::sys::{DeviceInfo, Moved, Queue, TX_TCP, TX_TSO, TX_UDP};

/// The transmit offloads of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offload {
    offloads: u8,
    /// TCP segments that leave as one packet, at most; 0 if none do.
    merged_max: usize,
}

impl Offload {
    pub fn of(info: &DeviceInfo) -> Offload {
        let merges = info.offloads & TX_TSO != 0;
        Offload { offloads: info.offloads, merged_max: if merges { info.merged_max.into() } else { 0 } }
    }

    /// As [`Queue::transmit`], for a batch with partial checksums, on a device that computes some.
    pub fn transmit(self, queue: &mut Queue, batch: &mut Batch, len_max: usize) -> Moved {
        let mut moved = Moved::default();
        while !batch.is_empty() {
            let (slots, merge) = self.until_merge(batch, len_max);
            if slots > 0 && !transmit_slots(queue, batch, slots, &mut moved) {
                break;
            }
            if let Some(merge) = merge
                && !transmit_merged(queue, batch, merge, &mut moved)
            {
                break;
            }
        }
        moved
    }

    /// The slots in front of the first packet that can be merged with those behind it, and the merged packet.
    fn until_merge(self, batch: &Batch, len_max: usize) -> (usize, Option<Merge>) {
        let mut at = 0;
        if self.merged_max == 0 {
            return (batch.len(), None);
        }
        while let Some(span) = batch.span(at) {
            let merge = if span.len <= len_max { merge_at(batch, at, self.merged_max) } else { None };
            if merge.is_some() {
                return (at, merge);
            }
            at += span.slots;
        }
        (batch.len(), None)
    }
}

/// Sends the packets in the first slots; false if one of them stays.
fn transmit_slots(queue: &mut Queue, batch: &mut Batch, slots: usize, moved: &mut Moved) -> bool {
    let left = batch.len() - slots;
    loop {
        let now = queue.transmit(batch, batch.len() - left);
        moved.packets += now.packets;
        moved.bytes += now.bytes;
        if !queue.has_refused() {
            return batch.len() == left;
        }
        complete_checksums(batch);
    }
}

/// Sends the segments at the front as one packet, or each by itself if the driver refuses that; false if one of them stays.
fn transmit_merged(queue: &mut Queue, batch: &mut Batch, mut merge: Merge, moved: &mut Moved) -> bool {
    let segments = merge.segments();
    let len = segments * merge.headers_len() + merge.data_len();
    let headers = merge.finish();
    let mut before = [0; HEADERS_MAX];
    let before = &mut before[..headers.len()];
    before.copy_from_slice(&batch.packet(0)[..headers.len()]);
    batch.packet_mut(0)[..headers.len()].copy_from_slice(headers);
    if queue.transmit_merged(batch, &merge) {
        moved.packets += segments;
        moved.bytes += len as u64;
        return true;
    }
    batch.packet_mut(0)[..before.len()].copy_from_slice(before);
    transmit_slots(queue, batch, segments, moved)
}

/// Most bytes of headers of a merged packet: Ethernet, IPv6, and TCP with options.
const HEADERS_MAX: usize = 14 + 40 + 60;

impl fmt::Display for Offload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left: Vec<&str> = [(TX_UDP, "UDP checksums"), (TX_TCP, "TCP checksums"), (TX_TSO, "TCP segmentation")]
            .into_iter()
            .filter_map(|(bit, name)| (self.offloads & bit != 0).then_some(name))
            .collect();
        match left.as_slice() {
            [] => write!(out, "no transmit offloads"),
            left => write!(out, "left to the device: {}", left.join(", ")),
        }
    }
}
