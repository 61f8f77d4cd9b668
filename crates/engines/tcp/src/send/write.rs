//! What the application gives: bytes that become chunks of one segment each, and the end of them.

use super::chunk::Marks;
use super::memory::SendMemory;
use super::queue::{self, payload_max, room};
use super::timer;
use crate::{Flags, Now, Tcb};

/// Room from which on an application that was refused is told, in bytes.
const ROOM_AGAIN: usize = 16 << 10;

/// True if a write was cut short, and it is worth while to tell the application that there is room again: `SEND_BLOCKED` is cleared.
#[inline(never)]
pub(super) fn take_room_again(tcb: &mut Tcb, memory: &SendMemory) -> bool {
    let room = room(tcb, memory);
    let most = memory.config.buffer_max.min(memory.config.unsent_max) as usize;
    let is_enough = room >= ROOM_AGAIN.min(most / 4).max(1);
    let is_due = is_enough || (tcb.queued == 0 && room > 0);
    if is_due {
        tcb.flags.clear(Flags::SEND_BLOCKED);
    }
    is_due
}

/// Takes bytes to be sent and returns how many.
#[inline]
pub(super) fn write(tcb: &mut Tcb, memory: &mut SendMemory, bytes: &[u8], now: Now) -> usize {
    let is_one_segment = !bytes.is_empty() && bytes.len() <= payload_max(tcb) as usize && tcb.is_synchronized();
    let is_alone = tcb.queued == tcb.in_flight() && !tcb.flags.has(Flags::FIN_QUEUED);
    if is_one_segment && is_alone && bytes.len() <= room(tcb, memory) {
        // The usual case: nothing waits to be sent, and the bytes are one segment.
        let taken = queue::append(tcb, memory, bytes.len(), bytes, Marks::default()).unwrap_or(0);
        if taken == bytes.len() {
            return taken;
        }
        return taken + write_more(tcb, memory, &bytes[taken..], now);
    }
    write_more(tcb, memory, bytes, now)
}

/// As `write`, in every case.
#[inline(never)]
fn write_more(tcb: &mut Tcb, memory: &mut SendMemory, bytes: &[u8], now: Now) -> usize {
    if tcb.flags.has(Flags::FIN_QUEUED) {
        return 0;
    }
    let payload = payload_at_least(tcb);
    let most = bytes.len().min(room_in_segments(tcb, memory));
    let mut rest = &bytes[..most];
    if tcb.queued > tcb.in_flight() {
        rest = fill_last(tcb, memory, rest, payload as usize);
    }
    while !rest.is_empty() {
        let is_first_unsent = tcb.queued == tcb.in_flight();
        let len = rest.len().min(payload as usize);
        // A chunk behind others that wait cannot be replaced by a larger one, so it begins with the largest.
        let room = if is_first_unsent { len } else { payload as usize };
        let Some(taken) = queue::append(tcb, memory, room, &rest[..len], Marks::default()) else {
            memory.counters.budget_exhausted += 1;
            break;
        };
        rest = &rest[taken..];
    }
    let taken = most - rest.len();
    if taken < bytes.len() {
        refuse(tcb, now);
    }
    taken
}

/// Bytes of data of a segment. Options are not agreed on before the handshake is over; what is written before must fit if they are.
fn payload_at_least(tcb: &Tcb) -> u32 {
    if tcb.is_synchronized() { payload_max(tcb) } else { payload_max(tcb).saturating_sub(12).max(1) }
}

/// Bytes that a write would take now: as [`room`], but of what may wait to be sent only whole segments. More would leave as a short segment, which
/// ends what leaves in one piece, though the program has more to write.
pub(super) fn room_in_segments(tcb: &Tcb, memory: &SendMemory) -> usize {
    let (payload, most) = (payload_at_least(tcb), memory.config.unsent_max);
    let whole = if most < payload { most } else { most - most % payload };
    let unsent = tcb.queued.saturating_sub(tcb.in_flight());
    room(tcb, memory).min(whole.saturating_sub(unsent) as usize)
}

/// The write was cut short: `sendable` is owed.
#[cold]
fn refuse(tcb: &mut Tcb, now: Now) {
    tcb.flags.set(Flags::SEND_BLOCKED);
    if tcb.queued == 0 {
        timer::arm_retry(tcb, now);
    }
}

/// Puts bytes into the last chunk, which was never sent, until it is a full segment. Returns the bytes that are left.
fn fill_last<'a>(tcb: &mut Tcb, memory: &mut SendMemory, bytes: &'a [u8], payload: usize) -> &'a [u8] {
    let mut handle = tcb.tail;
    let header = memory.header(handle);
    if header.transmissions != 0 || header.marks != Marks::default() {
        return bytes;
    }
    let held = header.len as usize;
    let mut len = bytes.len().min(payload.saturating_sub(held));
    if held + len > memory.room(handle) {
        if handle == queue::first_unsent(tcb, memory) {
            handle = queue::enlarge(tcb, memory, held + len).unwrap_or(handle);
        }
        len = len.min(memory.room(handle) - held);
    }
    extend(tcb, memory, handle, &bytes[..len]);
    &bytes[len..]
}

/// Appends bytes to chunk `handle`, the last one, which has room for them.
#[inline]
fn extend(tcb: &mut Tcb, memory: &mut SendMemory, handle: u32, bytes: &[u8]) {
    let mut header = memory.header(handle);
    let held = header.len as usize;
    memory.bytes_mut(handle)[held..held + bytes.len()].copy_from_slice(bytes);
    header.len += bytes.len() as u16;
    memory.set(handle, header);
    tcb.queued += bytes.len() as u32;
}

/// A SYN is to be sent.
pub(super) fn open(tcb: &mut Tcb, memory: &mut SendMemory) -> bool {
    queue::append_mark(tcb, memory, Marks::SYN)
}

/// A FIN follows the bytes that were written.
pub(super) fn close(tcb: &mut Tcb, memory: &mut SendMemory) {
    if tcb.flags.has(Flags::FIN_QUEUED) {
        return;
    }
    tcb.flags.set(Flags::FIN_QUEUED);
    tcb.flags.clear(Flags::SEND_BLOCKED);
    if tcb.queued > tcb.in_flight() {
        let mut header = memory.header(tcb.tail);
        if header.transmissions == 0 && !header.marks.has(Marks::SYN) {
            header.marks = header.marks.with(Marks::FIN);
            memory.set(tcb.tail, header);
            tcb.queued += 1;
            return;
        }
    }
    if !queue::append_mark(tcb, memory, Marks::FIN) {
        // `next_segment` tries again.
        tcb.flags.set(Flags::FIN_OWED);
    }
}
