//! From libpcap's callback to the batch. What libpcap has shown is gone from its ring, so what finds no place in the batch is
//! kept here.

use std::collections::VecDeque;

use linerate_mem::{Batch, Pool, Totals, Written};

use crate::sys::{Captured, Handle, PcapError};

/// Most packets that libpcap is asked for at once, and so the most that are kept.
const PACKETS_MAX: usize = 64;

/// The receiving side.
#[derive(Default)]
pub(crate) struct Receiver {
    /// Shown by libpcap, not handed out yet: bytes and time stamp.
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

    /// Fills the batch as far as it goes. Stamps are moved back by `clock_offset_ns`.
    pub(crate) fn receive(
        &mut self,
        handle: &mut Handle,
        pool: &mut Pool,
        batch: &mut Batch,
        clock_offset_ns: u64,
    ) -> Result<(), PcapError> {
        while self.hand_out_kept(pool, batch) && batch.room() > 0 {
            let wanted = batch.room().min(PACKETS_MAX);
            let mut each = |packet: Captured<'_>| {
                let time_ns = packet.time_ns.wrapping_sub(clock_offset_ns);
                self.place(pool, batch, packet, time_ns);
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
                Some(Written { len, time_ns })
            };
            if pool.fill(batch, 1, write) == 1 {
                self.totals.packets += 1;
                self.totals.bytes += len as u64;
                return;
            }
        }
        self.kept.push_back((packet.bytes.to_vec(), time_ns));
        self.hand_out_kept(pool, batch);
    }

    /// True when nothing is kept any more.
    fn hand_out_kept(&mut self, pool: &mut Pool, batch: &mut Batch) -> bool {
        while let Some((bytes, time_ns)) = self.kept.front() {
            let slots = bytes.len().div_ceil(pool.packet_len_max().max(1));
            if slots > batch.capacity() || slots > pool.region().frames() as usize {
                self.too_long += 1;
            } else if pool.append(batch, bytes, *time_ns) {
                self.totals.packets += 1;
                self.totals.bytes += bytes.len() as u64;
            } else {
                return false;
            }
            self.kept.pop_front();
        }
        true
    }
}
