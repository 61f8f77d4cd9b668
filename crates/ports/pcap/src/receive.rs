//! From libpcap's callback to the batch. What libpcap has shown is gone from its ring, so what finds no place in the batch is
//! kept here.

use std::collections::VecDeque;

use linerate_mem::{Batch, Pool, Scattered, Totals, Written};
use linerate_port::checksum_of;
use linerate_wire::Segments;

use crate::sys::{Captured, Handle, PcapError};

/// Most packets that libpcap is asked for at once, and so the most that are kept.
const PACKETS_MAX: usize = 64;

/// Bytes by which two VLAN tags make a frame longer.
const TAGS_BYTES: usize = 8;

/// The receiving side.
#[derive(Default)]
pub(crate) struct Receiver {
    /// Shown by libpcap, not handed out yet: bytes and timestamp.
    kept: VecDeque<(Vec<u8>, u64)>,
    /// libpcap showed as many as it was asked for.
    more: bool,
    /// Handed out so far.
    pub totals: Totals,
    /// Packets of which libpcap had only the beginning.
    pub truncated: u64,
    /// Packets in more slots than the caller's batch or the pool has.
    pub too_long: u64,
}

impl Receiver {
    /// True when there may be packets that the descriptor tells nothing of.
    pub(crate) fn ready(&self) -> bool {
        self.more || !self.kept.is_empty()
    }

    /// Fills the batch as far as it goes. Timestamps are moved back by `clock_offset_ns`. TCP packets longer than `frame_len_max` are cut
    /// into such: a kernel merged them, and libpcap does not say how they are to be cut.
    pub(crate) fn receive(
        &mut self,
        handle: &mut Handle,
        pool: &mut Pool,
        batch: &mut Batch,
        clock_offset_ns: u64,
        frame_len_max: usize,
    ) -> Result<(), PcapError> {
        while self.hand_out_kept(pool, batch) && batch.room() > 0 {
            let wanted = batch.room().min(PACKETS_MAX);
            let mut each = |packet: Captured<'_>| {
                let time_ns = packet.time_ns.wrapping_sub(clock_offset_ns);
                if packet.bytes.len() > frame_len_max + TAGS_BYTES {
                    self.cut(packet, time_ns, frame_len_max);
                    self.hand_out_kept(pool, batch);
                } else {
                    self.place(pool, batch, packet, time_ns);
                }
            };
            let shown = handle.dispatch(wanted, &mut each);
            self.more = shown.as_ref().is_ok_and(|shown| *shown >= wanted);
            shown?;
            if !self.more {
                break;
            }
        }
        Ok(())
    }

    fn place(&mut self, pool: &mut Pool, batch: &mut Batch, packet: Captured<'_>, time_ns: u64) {
        let len = packet.bytes.len();
        if packet.len > len {
            self.truncated += 1;
            return;
        }
        if self.kept.is_empty() && len <= pool.packet_len_max() {
            let write = |frame: &mut [u8]| {
                frame[..len].copy_from_slice(packet.bytes);
                Some(Written { len, time_ns, checksum: checksum_of(packet.bytes) })
            };
            if pool.fill(batch, 1, write) == 1 {
                self.totals.packets += 1;
                self.totals.bytes += len as u64;
                return;
            }
        }
        self.keep(packet.bytes, time_ns);
        self.hand_out_kept(pool, batch);
    }

    fn keep(&mut self, bytes: &[u8], time_ns: u64) {
        self.kept.push_back((bytes.to_vec(), time_ns));
    }

    /// Keeps the parts of a merged packet, or the packet if it cannot be cut.
    #[cold]
    fn cut(&mut self, packet: Captured<'_>, time_ns: u64, frame_len_max: usize) {
        if packet.len > packet.bytes.len() {
            self.truncated += 1;
            return;
        }
        let segments = Segments::fitting(packet.bytes, frame_len_max).map(Segments::with_partial_checksums);
        let Some(mut segments) = segments else {
            return self.keep(packet.bytes, time_ns);
        };
        let mut bytes = packet.bytes.to_vec();
        while let Some(range) = segments.next(&mut bytes) {
            self.kept.push_back((bytes[range].to_vec(), time_ns));
        }
    }

    /// True when nothing is kept any more.
    fn hand_out_kept(&mut self, pool: &mut Pool, batch: &mut Batch) -> bool {
        while let Some((bytes, time_ns)) = self.kept.front() {
            let first = batch.len();
            match pool.scatter_bytes(batch, bytes, *time_ns) {
                Scattered::NotNow => return false,
                Scattered::TooLong => self.too_long += 1,
                Scattered::Done => {
                    batch.set_checksum(first, checksum_of(bytes));
                    self.totals.packets += 1;
                    self.totals.bytes += bytes.len() as u64;
                }
            }
            self.kept.pop_front();
        }
        true
    }
}
