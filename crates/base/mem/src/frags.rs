//! Packets of several frames (frags): laid out in frames, and read out of them.
#![allow(unsafe_code)]

use crate::{Batch, Pool};

/// What became of a packet that was to be laid out in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scattered {
    /// It is at the end of the batch.
    Done,
    /// The batch has no room for it now, or the pool has too few free frames.
    NotNow,
    /// It needs more frames than the batch has slots, or than the pool has.
    TooLong,
}

impl Pool {
    /// Appends a packet of `len` bytes, over as many frames as it needs. `write` gets the bytes of each frame in turn, with what the
    /// last owner left in them. Nothing has happened unless the result is [`Scattered::Done`].
    pub fn scatter(
        &mut self,
        batch: &mut Batch,
        len: usize,
        time_ns: u64,
        mut write: impl FnMut(&mut [u8]),
    ) -> Scattered {
        let frame_len = self.packet_len_max();
        let frags = len.div_ceil(frame_len).max(1);
        if frags > batch.capacity() || frags > self.region().frames() as usize {
            return Scattered::TooLong;
        }
        let first = batch.len();
        if frags > batch.room() {
            return Scattered::NotNow;
        }
        if self.alloc(batch, frags, len) < frags {
            self.free_back(batch, batch.len() - first);
            return Scattered::NotNow;
        }
        let last = batch.len() - 1;
        batch.set_len(last, len - (frags - 1) * frame_len);
        for index in first..=last {
            batch.set_more(index, index < last);
            batch.set_time_ns(index, time_ns);
            write(batch.packet_mut(index));
        }
        Scattered::Done
    }

    /// Appends a copy of `bytes` as [`Pool::scatter`] does.
    pub fn scatter_bytes(&mut self, batch: &mut Batch, bytes: &[u8], time_ns: u64) -> Scattered {
        let mut rest = bytes;
        self.scatter(batch, bytes.len(), time_ns, |frame| {
            let (now, later) = rest.split_at(frame.len());
            frame.copy_from_slice(now);
            rest = later;
        })
    }

    /// Appends a copy of `bytes` over as many frames as it needs. False, and nothing has happened, when there is not the room or not
    /// the frames.
    pub fn append(&mut self, batch: &mut Batch, bytes: &[u8], time_ns: u64) -> bool {
        self.scatter_bytes(batch, bytes, time_ns) == Scattered::Done
    }

    /// Appends a copy of the packet that begins in slot `index` of `source`, which may be of another region, over as many
    /// frames as it needs. False, and nothing has happened, when there is not the room or not the frames, or when the
    /// packet's last slot is not in `source`.
    #[inline]
    pub fn copy(&mut self, source: &Batch, index: usize, into: &mut Batch) -> bool {
        if index >= source.len() || source.more(index) || source.packet(index).len() > self.packet_len_max() {
            return self.copy_long(source, index, into);
        }
        let bytes = source.packet(index);
        into.check_region(self.region());
        if into.room() == 0 {
            return false;
        }
        let Some(slot) = self.alloc_slot(bytes.len()) else { return false };
        let at = into.len();
        // SAFETY: the slot was just taken from this pool, whose region is the batch's.
        unsafe { into.push(slot) };
        into.packet_mut(at).copy_from_slice(bytes);
        into.set_time_ns(at, source.time_ns(index).unwrap_or(0));
        into.set_checksum(at, source.checksum(index));
        true
    }

    #[cold]
    fn copy_long(&mut self, source: &Batch, index: usize, into: &mut Batch) -> bool {
        let Some(span) = source.span(index) else { return false };
        let mut bytes = source.reader(index, span.slots);
        let time_ns = source.time_ns(index).unwrap_or(0);
        let at = into.len();
        let copied = self.scatter(into, span.len, time_ns, |frame| _ = bytes.read(frame)) == Scattered::Done;
        if copied {
            into.set_checksum(at, source.checksum(index));
        }
        copied
    }
}

impl Batch {
    /// A reader of the packet that begins in slot `index` and has `slots` slots.
    #[inline]
    pub fn reader(&self, index: usize, slots: usize) -> FragReader<'_> {
        FragReader { batch: self, next: index, end: index + slots, rest: &[] }
    }
}

/// Reads the bytes of one packet, whatever frames they lie in.
pub struct FragReader<'a> {
    batch: &'a Batch,
    next: usize,
    end: usize,
    /// What is left of the frag before `next`.
    rest: &'a [u8],
}

impl<'a> FragReader<'a> {
    /// The next bytes that lie in one frame, at most `most`; none at the end of the packet, or if `most` is 0.
    #[inline]
    pub fn chunk(&mut self, most: usize) -> &'a [u8] {
        while self.rest.is_empty() && self.next < self.end {
            self.rest = self.batch.packet(self.next);
            self.next += 1;
        }
        let (now, later) = self.rest.split_at(most.min(self.rest.len()));
        self.rest = later;
        now
    }

    /// Copies the next bytes, as many as there are and `to` holds, and returns how many.
    pub fn read(&mut self, to: &mut [u8]) -> usize {
        let mut done = 0;
        loop {
            let bytes = self.chunk(to.len() - done);
            if bytes.is_empty() {
                return done;
            }
            to[done..done + bytes.len()].copy_from_slice(bytes);
            done += bytes.len();
        }
    }
}
