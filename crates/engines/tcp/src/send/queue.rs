//! The list of chunks of a connection: those in flight, then those that were never sent, in the order of their sequence numbers.

use super::chunk::{Header, Marks};
use super::memory::{SEGMENT_MAX, SendMemory};
use crate::{NONE, Seq, Tcb};

/// Most bytes of data in a new segment.
#[inline]
pub(super) fn payload_max(tcb: &Tcb) -> u32 {
    tcb.payload_max().min(SEGMENT_MAX)
}

/// Bytes that a write would take now: what is left of the connection's buffer, and of what may wait to be sent, and at most half of what is left
/// of the budget, so that no connection takes all of it.
#[inline]
pub(super) fn room(tcb: &Tcb, memory: &SendMemory) -> usize {
    let unsent = tcb.queued.saturating_sub(tcb.in_flight());
    let own = memory.config.buffer_max.saturating_sub(tcb.queued).min(memory.config.unsent_max.saturating_sub(unsent));
    (own as usize).min(memory.available_bytes() / 2)
}

/// The first chunk that was never sent; [`NONE`] if there is none.
#[inline]
pub(super) fn first_unsent(tcb: &Tcb, memory: &SendMemory) -> u32 {
    if tcb.last_sent == NONE { tcb.head } else { memory.header(tcb.last_sent).next }
}

/// Appends a chunk with room for `room` bytes, or fewer, and puts as many of `bytes` into it as it has room for. Returns how many these
/// are; `None` if the budget is used up.
#[inline]
pub(super) fn append(tcb: &mut Tcb, memory: &mut SendMemory, room: usize, bytes: &[u8], marks: Marks) -> Option<usize> {
    let seq = tcb.snd_una + tcb.queued;
    let handle = memory.alloc(room)?;
    let taken = memory.fill(handle, Header { next: NONE, seq, stamp: 0, len: 0, marks, transmissions: 0 }, bytes);
    put_last(tcb, memory, handle);
    tcb.queued += taken as u32 + marks.numbers();
    Some(taken)
}

/// Appends a SYN or a FIN alone; false if the budget is used up.
pub(super) fn append_mark(tcb: &mut Tcb, memory: &mut SendMemory, mark: Marks) -> bool {
    let Some(handle) = memory.alloc_small(tcb.snd_una + tcb.queued, &[], mark) else { return false };
    put_last(tcb, memory, handle);
    tcb.queued += mark.numbers();
    true
}

#[inline]
fn put_last(tcb: &mut Tcb, memory: &mut SendMemory, handle: u32) {
    if tcb.head == NONE {
        tcb.head = handle;
    } else {
        memory.link(tcb.tail, handle);
    }
    tcb.tail = handle;
}

/// Moves the last chunk, which is also the first that was never sent, into a larger one; `None` if the budget is used up.
pub(super) fn enlarge(tcb: &mut Tcb, memory: &mut SendMemory, len: usize) -> Option<u32> {
    let old = tcb.tail;
    let new = memory.alloc(len)?;
    let header = memory.header(old);
    if memory.room(new) <= memory.room(old) {
        memory.free(new);
        return None;
    }
    memory.copy((old, 0), (new, 0), header.len as usize);
    memory.set(new, header);
    if tcb.head == old {
        tcb.head = new;
    } else {
        memory.link(tcb.last_sent, new);
    }
    tcb.tail = new;
    memory.free(old);
    Some(new)
}

/// Splits a chunk, so that it keeps `len` bytes and a new chunk behind it has the rest, with the same marks and times. False if the budget
/// is used up; then nothing changes. The chunk is not SACKed.
pub(super) fn split(tcb: &mut Tcb, memory: &mut SendMemory, handle: u32, len: u32) -> bool {
    let mut first = memory.header(handle);
    let rest = u32::from(first.len) - len;
    let Some(new) = memory.alloc(rest as usize) else { return false };
    if memory.room(new) < rest as usize {
        memory.free(new);
        return false;
    }
    memory.copy((handle, len as usize), (new, 0), rest as usize);
    let syn = first.marks.numbers() - first.marks.without(Marks::SYN).numbers();
    let second =
        Header { seq: first.seq + syn + len, len: rest as u16, marks: first.marks.without(Marks::SYN), ..first };
    memory.set(new, second);
    first.len = len as u16;
    first.next = new;
    first.marks = first.marks.without(Marks::FIN);
    memory.set(handle, first);
    if tcb.tail == handle {
        tcb.tail = new;
    }
    if tcb.last_sent == handle {
        tcb.last_sent = new;
    }
    true
}

/// Makes one chunk of the first `len` bytes that were never sent. `None`, and all bytes are where they were, if there are not so many without
/// SYN and FIN, or the budget is used up.
pub(super) fn join(tcb: &mut Tcb, memory: &mut SendMemory, len: u32) -> Option<u32> {
    let first = first_unsent(tcb, memory);
    let (mut last, mut held) = (first, 0);
    loop {
        let header = (last != NONE).then(|| memory.header(last)).filter(|header| header.marks == Marks::default())?;
        held += u32::from(header.len);
        if held >= len {
            let too_many = held - len;
            if too_many != 0 && !split(tcb, memory, last, u32::from(header.len) - too_many) {
                return None;
            }
            break;
        }
        last = header.next;
    }
    let new = memory.alloc(len as usize)?;
    if memory.room(new) < len as usize {
        memory.free(new);
        return None;
    }
    let (seq, next) = (memory.header(first).seq, memory.header(last).next);
    let (mut at, mut done) = (first, 0);
    while done < len as usize {
        let part = memory.header(at);
        memory.copy((at, 0), (new, done), usize::from(part.len));
        done += usize::from(part.len);
        memory.free(at);
        at = part.next;
    }
    memory.set(new, Header { next, seq, stamp: 0, len: len as u16, marks: Marks::default(), transmissions: 0 });
    match tcb.last_sent {
        NONE => tcb.head = new,
        before => memory.link(before, new),
    }
    if tcb.tail == last {
        tcb.tail = new;
    }
    Some(new)
}

/// Frees the first chunk, of which nothing is needed any more.
#[inline]
pub(super) fn free_head(tcb: &mut Tcb, memory: &mut SendMemory, header: &Header) {
    let handle = tcb.head;
    memory.free(handle);
    tcb.head = header.next;
    if tcb.last_sent == handle {
        tcb.last_sent = NONE;
    }
    if tcb.tail == handle {
        tcb.tail = NONE;
    }
}

/// Cuts what comes before `ack` off the first chunk, which goes on behind it, and returns its new header.
#[cold]
pub(super) fn trim_head(tcb: &mut Tcb, memory: &mut SendMemory, ack: Seq) -> Header {
    let mut header = memory.header(tcb.head);
    let mut cut = ack - header.seq;
    if cut > 0 && header.marks.has(Marks::SYN) {
        header.marks = header.marks.without(Marks::SYN);
        cut -= 1;
    }
    let len = header.len as usize;
    let cut = (cut as usize).min(len);
    memory.bytes_mut(tcb.head).copy_within(cut..len, 0);
    header.len -= cut as u16;
    header.seq = ack;
    memory.set(tcb.head, header);
    header
}

/// Frees all chunks.
pub(super) fn clear(tcb: &mut Tcb, memory: &mut SendMemory) {
    let mut handle = std::mem::replace(&mut tcb.head, NONE);
    while handle != NONE {
        let next = memory.header(handle).next;
        memory.free(handle);
        handle = next;
    }
    (tcb.tail, tcb.last_sent, tcb.queued) = (NONE, NONE, 0);
}
