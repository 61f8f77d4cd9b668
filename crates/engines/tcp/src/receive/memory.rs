//! Memory of the receive sides of all connections: records and chunks, within one budget.

use linerate_slab::{ReserveError, Slab};

use super::{List, Receive};
use crate::{NONE, Seq};

/// Bytes of data in a small and in a large chunk.
const SMALL: usize = 240;
const LARGE: usize = 2032;
/// Bit of a handle that says that the chunk is large.
const IS_LARGE: u32 = 1 << 31;
/// Most chunks of one connection behind gaps. A peer that sends many small pieces out of order gets them dropped beyond.
const AHEAD_MAX: u32 = 4096;

#[derive(Clone, Copy)]
#[repr(C)]
struct Chunk<const LEN: usize> {
    header: Header,
    bytes: [u8; LEN],
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Header {
    /// Number of the first byte that is left.
    seq: Seq,
    next: u32,
    /// Bytes at the front that were taken.
    start: u16,
    /// Bytes written, those that were taken included.
    len: u16,
    unused: u32,
}

impl Header {
    fn end(&self) -> Seq {
        self.seq + u32::from(self.len - self.start)
    }
}

/// What became of bytes that arrived behind a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// They are kept. If some were there already, this is their range.
    Kept(Option<(Seq, Seq)>),
    /// There is no memory for them.
    NoRoom,
}

/// Records and chunks.
pub(crate) struct ReceiveMemory {
    records: Slab<Receive>,
    small: Slab<Chunk<SMALL>>,
    large: Slab<Chunk<LARGE>>,
    budget: usize,
    used: usize,
}

impl ReceiveMemory {
    pub(crate) fn new(connections: usize, budget: usize) -> Result<ReceiveMemory, ReserveError> {
        let chunks = |len: usize| (budget / len).clamp(1, IS_LARGE as usize - 1);
        Ok(ReceiveMemory {
            records: Slab::new(connections)?,
            small: Slab::new(chunks(SMALL))?,
            large: Slab::new(chunks(LARGE))?,
            budget,
            used: 0,
        })
    }

    /// Bytes of the budget that are left.
    #[inline]
    pub(crate) fn free_bytes(&self) -> usize {
        self.budget - self.used
    }

    /// Bytes that chunks take now.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used
    }

    #[inline]
    pub(crate) fn get(&self, record: u32) -> Option<&Receive> {
        if record == NONE { None } else { self.records.get(record) }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, record: u32) -> Option<&mut Receive> {
        if record == NONE { None } else { self.records.get_mut(record) }
    }

    /// The record in `handle`, made if there is none; `None` if there is no memory.
    pub(crate) fn record(&mut self, handle: &mut u32) -> Option<&mut Receive> {
        if *handle == NONE {
            *handle = self.records.insert(Receive::EMPTY)?;
        }
        self.records.get_mut(*handle)
    }

    /// Frees the record if nothing is left in it.
    #[inline]
    pub(crate) fn clean(&mut self, handle: &mut u32, tick: u32) {
        if self.get(*handle).is_some_and(|record| record.is_clean(tick)) {
            self.records.remove(*handle);
            *handle = NONE;
        }
    }

    /// Frees the record with all its chunks.
    pub(crate) fn end(&mut self, handle: &mut u32) {
        let Some(record) = self.get(*handle).copied() else { return };
        for list in [record.ready, record.ahead] {
            let mut at = list.head;
            while at != NONE {
                let next = self.header(at).next;
                self.free(at);
                at = next;
            }
        }
        self.records.remove(*handle);
        *handle = NONE;
    }

    /// Appends bytes in order to those that wait for the program; returns how many there was memory for.
    pub(crate) fn append(&mut self, handle: &mut u32, seq: Seq, bytes: &[u8]) -> usize {
        let Some(record) = self.record(handle) else { return 0 };
        let mut list = record.ready;
        let tail = list.tail;
        let done = self.put(&mut list, (tail, NONE), seq, bytes);
        if let Some(record) = self.get_mut(*handle) {
            record.ready = list;
        }
        done
    }

    /// Keeps bytes behind a gap, but for those that are there already.
    pub(crate) fn store(&mut self, handle: &mut u32, mut seq: Seq, mut bytes: &[u8]) -> Stored {
        let Some(record) = self.record(handle) else { return Stored::NoRoom };
        let mut list = record.ahead;
        let (first, end) = (seq, seq + bytes.len() as u32);
        let (mut before, mut at) = (NONE, list.head);
        if list.tail != NONE && self.header(list.tail).end().at_most(seq) {
            (before, at) = (list.tail, NONE);
        }
        let mut duplicate: Option<(Seq, Seq)> = None;
        let mut complete = true;
        while complete && seq.before(end) {
            let gap_end = if at == NONE { end } else { end.min(self.header(at).seq) };
            if at != NONE && self.header(at).end().at_most(seq) {
                (before, at) = (at, self.header(at).next);
                continue;
            }
            if seq.before(gap_end) {
                let len = (gap_end - seq) as usize;
                let room = list.chunks < AHEAD_MAX;
                let done = if room { self.put(&mut list, (before, at), seq, &bytes[..len]) } else { 0 };
                complete = done == len;
                bytes = &bytes[len..];
                seq = gap_end;
                // The pieces that were put stand between `before` and `at`.
                while before != NONE && self.header(before).next != at || before == NONE && list.head != at {
                    before = if before == NONE { list.head } else { self.header(before).next };
                }
                continue;
            }
            let covered = end.min(self.header(at).end());
            duplicate = Some(duplicate.map_or((seq, covered), |known| (known.0, covered)));
            bytes = &bytes[(covered - seq) as usize..];
            seq = covered;
        }
        if let Some(record) = self.get_mut(*handle) {
            record.ahead = list;
            if complete {
                record.sacks.add(first, end);
            }
        }
        if complete { Stored::Kept(duplicate) } else { Stored::NoRoom }
    }

    /// Moves bytes that are in order now, because all before `next` are, to those that wait for the program. Returns the number behind
    /// them.
    pub(crate) fn join(&mut self, handle: u32, mut next: Seq) -> Seq {
        let Some(mut record) = self.get(handle).copied() else { return next };
        while record.ahead.head != NONE && self.header(record.ahead.head).seq.at_most(next) {
            let at = record.ahead.head;
            let header = *self.header(at);
            let len = header.end() - header.seq;
            record.ahead.head = header.next;
            record.ahead.bytes -= len;
            record.ahead.chunks -= 1;
            if record.ahead.head == NONE {
                record.ahead.tail = NONE;
            }
            let old = (next - header.seq).min(len);
            if old == len {
                self.free(at);
                continue;
            }
            let kept = self.header_mut(at);
            kept.start += old as u16;
            kept.seq = next;
            kept.next = NONE;
            next += len - old;
            if record.ready.tail == NONE {
                record.ready.head = at;
            } else {
                self.header_mut(record.ready.tail).next = at;
            }
            record.ready.tail = at;
            record.ready.bytes += len - old;
            record.ready.chunks += 1;
        }
        record.sacks.advance(next);
        if let Some(place) = self.get_mut(handle) {
            *place = record;
        }
        next
    }

    /// The first bytes that wait for the program; empty if there are none.
    pub(crate) fn front(&self, handle: u32) -> &[u8] {
        match self.get(handle) {
            Some(record) if record.ready.head != NONE => self.bytes(record.ready.head),
            _ => &[],
        }
    }

    /// The program took `count` of the first bytes.
    pub(crate) fn consume(&mut self, handle: u32, count: usize) {
        let Some(mut record) = self.get(handle).copied() else { return };
        let at = record.ready.head;
        if at == NONE {
            return;
        }
        let header = self.header_mut(at);
        let count = count.min(usize::from(header.len - header.start)) as u16;
        header.start += count;
        header.seq += u32::from(count);
        let (emptied, next) = (header.start == header.len, header.next);
        record.ready.bytes -= u32::from(count);
        if emptied {
            record.ready.head = next;
            record.ready.chunks -= 1;
            if next == NONE {
                record.ready.tail = NONE;
            }
            self.free(at);
        }
        if let Some(place) = self.get_mut(handle) {
            *place = record;
        }
    }

    /// Puts bytes between two neighbours of a list, into the first one as far as it has room and they follow it.
    fn put(&mut self, list: &mut List, (mut before, after): (u32, u32), seq: Seq, bytes: &[u8]) -> usize {
        let mut done = 0;
        if before != NONE && self.header(before).end() == seq {
            done = self.extend(before, bytes);
            list.bytes += done as u32;
        }
        while done < bytes.len() {
            let Some((chunk, count)) = self.alloc(seq + done as u32, &bytes[done..]) else { break };
            self.header_mut(chunk).next = after;
            match before {
                NONE => list.head = chunk,
                before => self.header_mut(before).next = chunk,
            }
            if after == NONE {
                list.tail = chunk;
            }
            list.chunks += 1;
            list.bytes += count as u32;
            done += count;
            before = chunk;
        }
        done
    }

    fn alloc(&mut self, seq: Seq, bytes: &[u8]) -> Option<(u32, usize)> {
        let is_large = bytes.len() > SMALL;
        let size = if is_large { size_of::<Chunk<LARGE>>() } else { size_of::<Chunk<SMALL>>() };
        if self.free_bytes() < size {
            return None;
        }
        let count = bytes.len().min(LARGE);
        let header = Header { seq, next: NONE, start: 0, len: count as u16, unused: 0 };
        let handle = if is_large {
            let mut chunk = Chunk { header, bytes: [0; LARGE] };
            chunk.bytes[..count].copy_from_slice(&bytes[..count]);
            self.large.insert(chunk)? | IS_LARGE
        } else {
            let mut chunk = Chunk { header, bytes: [0; SMALL] };
            chunk.bytes[..count].copy_from_slice(&bytes[..count]);
            self.small.insert(chunk)?
        };
        self.used += size;
        Some((handle, count))
    }

    fn extend(&mut self, chunk: u32, bytes: &[u8]) -> usize {
        let len = usize::from(self.header(chunk).len);
        let all = self.all_bytes_mut(chunk);
        let count = bytes.len().min(all.len() - len);
        all[len..len + count].copy_from_slice(&bytes[..count]);
        self.header_mut(chunk).len += count as u16;
        count
    }

    fn free(&mut self, chunk: u32) {
        if chunk & IS_LARGE != 0 {
            self.large.remove(chunk & !IS_LARGE);
            self.used -= size_of::<Chunk<LARGE>>();
        } else {
            self.small.remove(chunk);
            self.used -= size_of::<Chunk<SMALL>>();
        }
    }

    fn header(&self, chunk: u32) -> &Header {
        if chunk & IS_LARGE != 0 { &self.large[chunk & !IS_LARGE].header } else { &self.small[chunk].header }
    }

    fn header_mut(&mut self, chunk: u32) -> &mut Header {
        if chunk & IS_LARGE != 0 { &mut self.large[chunk & !IS_LARGE].header } else { &mut self.small[chunk].header }
    }

    fn bytes(&self, chunk: u32) -> &[u8] {
        let header = self.header(chunk);
        let all: &[u8] =
            if chunk & IS_LARGE != 0 { &self.large[chunk & !IS_LARGE].bytes } else { &self.small[chunk].bytes };
        &all[usize::from(header.start)..usize::from(header.len)]
    }

    fn all_bytes_mut(&mut self, chunk: u32) -> &mut [u8] {
        if chunk & IS_LARGE != 0 { &mut self.large[chunk & !IS_LARGE].bytes } else { &mut self.small[chunk].bytes }
    }
}
