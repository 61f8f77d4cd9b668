//! The memory of what was written and is not acknowledged: chunks of five sizes, with one budget.
//!
//! Each size has an array of its own, which is as large as the budget in address space but takes memory only where chunks were used.
//! A chunk that was freed is the first to be used again, because its lines are in the cache. A handle is three bits of size and the
//! number of the chunk's first line.

use linerate_slab::{Array, PopulateError, ReserveError, Slab};

use super::chunk::{HEADER, Header, LINE, Line, Marks, SMALL_MAX};
use super::config::SendConfig;
use super::counters::SendCounters;
use super::recovery::Recovery;
use crate::{NONE, Seq, Tcb};

/// Lines of a chunk of each size.
const SIZES: [u32; 5] = [1, 4, 16, 32, 142];
/// Bits of a handle that are the number of a line.
const LINE_BITS: u32 = 29;

/// Most bytes of data in a chunk, and so in a segment: enough for an MTU of 9,000 bytes.
pub const SEGMENT_MAX: u32 = SIZES[4] * LINE as u32 - HEADER as u32;

/// What all connections of a shard keep to send: chunks, and the state of loss recovery.
pub struct SendMemory {
    sizes: [Size; 8],
    lines_used: u32,
    lines_max: u32,
    /// A connection of which nothing is kept takes [`SMALL_MAX`] bytes while fewer lines are used.
    small_below: u32,
    limits: SmallLimits,
    pub(super) recoveries: Slab<Recovery>,
    pub(super) config: SendConfig,
    pub(super) counters: SendCounters,
}

/// What a connection of which one small chunk is kept may be like, for the chunk to leave the shortest way.
#[derive(Clone, Copy)]
pub(super) struct SmallLimits {
    /// Longest pause in milliseconds.
    pub idle_ms: u32,
    /// Least smoothed round trip, in microseconds, with which the probe time-out is not certain to come before the retransmission time-out.
    pub srtt_us: u32,
    /// Longest delay of an acknowledgment, in milliseconds.
    pub delay_ms: u32,
}

impl SmallLimits {
    fn of(config: &SendConfig) -> SmallLimits {
        let (idle_ms, delay_ms) = (config.rto_min_ms, config.ack_delay_max_ms);
        // The probe time-out is the delay and a millisecond for each 500 microseconds of the round trip.
        let most_ms = config.rto_min_ms.min(config.rto_max_ms);
        let srtt_us = most_ms.checked_sub(delay_ms).map_or(0, |rest| rest.saturating_mul(500).saturating_add(499));
        SmallLimits { idle_ms, srtt_us, delay_ms }
    }
}

/// A chunk of the smallest size that was never sent.
pub(super) struct UnsentSmall<'a> {
    /// Header and data.
    pub bytes: &'a mut Line,
    /// Bytes of data.
    pub len: u32,
}

impl UnsentSmall<'_> {
    /// Notes the first transmission.
    #[inline(always)]
    pub fn note_sent(&mut self, stamp: u32) {
        self.bytes[8..12].copy_from_slice(&stamp.to_le_bytes());
        self.bytes[12..16].copy_from_slice(&sent_once(self.len).to_le_bytes());
    }
}

/// The chunks of one size.
struct Size {
    lines: Array<Line>,
    chunk_lines: u32,
    free: u32,
}

impl SendMemory {
    /// Memory with the budget of `config`.
    ///
    /// # Errors
    /// The kernel does not reserve the address space.
    pub fn new(config: SendConfig) -> Result<SendMemory, ReserveError> {
        let lines_max = (config.budget_bytes / LINE).min((1 << LINE_BITS) - 1) as u32;
        let mut sizes = Vec::with_capacity(8);
        for index in 0..8 {
            let chunk_lines = SIZES.get(index).copied().unwrap_or(0);
            let lines = Array::new(if chunk_lines == 0 { 1 } else { lines_max as usize })?;
            sizes.push(Size { lines, chunk_lines, free: NONE });
        }
        let Ok(sizes) = <[Size; 8]>::try_from(sizes) else { unreachable!("eight sizes were made") };
        let recoveries = Slab::new(config.connections_max)?;
        // Half of what is left of the budget is for one connection (`queue::room`).
        let takes_small = config.unsent_max.min(config.buffer_max) >= SMALL_MAX as u32;
        let small_below = if takes_small { lines_max.saturating_sub(1) } else { 0 };
        let limits = SmallLimits::of(&config);
        let counters = SendCounters::default();
        Ok(SendMemory { sizes, lines_used: 0, lines_max, small_below, limits, recoveries, config, counters })
    }

    /// Takes memory for so many of the smallest chunks in advance, at most for the budget.
    ///
    /// # Errors
    /// There is not so much memory.
    pub fn populate(&mut self, chunks: usize) -> Result<(), PopulateError> {
        let [smallest, ..] = &mut self.sizes;
        smallest.lines.populate(chunks)
    }

    /// The settings.
    pub fn config(&self) -> &SendConfig {
        &self.config
    }

    /// What happened so far.
    pub fn counters(&self) -> &SendCounters {
        &self.counters
    }

    /// Bytes of chunks in use, headers included.
    pub fn used_bytes(&self) -> usize {
        self.lines_used as usize * LINE
    }

    /// Bytes that are left of the budget.
    pub fn available_bytes(&self) -> usize {
        (self.lines_max - self.lines_used) as usize * LINE
    }

    /// Connections that have state of loss recovery.
    pub fn recoveries(&self) -> usize {
        self.recoveries.len()
    }

    /// Asks for the line of the connection's oldest chunk, which an acknowledgment will read. `tcb` is in the cache already.
    #[inline]
    pub fn prefetch(&self, tcb: &Tcb) {
        let [smallest, ..] = &self.sizes;
        if tcb.head < 1 << LINE_BITS {
            smallest.lines.prefetch(tcb.head);
        } else {
            self.size(tcb.head).lines.prefetch(line_of(tcb.head));
        }
    }

    /// Takes the smallest chunk with room for `len` bytes (at most [`SEGMENT_MAX`]), or one with less room if only that fits into the
    /// budget; `None` if the budget is used up.
    #[inline]
    pub(super) fn alloc(&mut self, len: usize) -> Option<u32> {
        let fit = SIZES[..4].iter().position(|lines| room_of(*lines) >= len).unwrap_or(4);
        match self.alloc_size(fit) {
            None => self.alloc_smaller(fit),
            found => found,
        }
    }

    /// True if a chunk of the smallest size was freed, and the budget has room for two.
    #[inline(always)]
    pub(super) fn has_small(&self) -> bool {
        let [size, ..] = &self.sizes;
        (size.free != NONE) & (self.lines_used < self.small_below)
    }

    /// The chunk that [`SendMemory::reuse_small`] writes.
    #[inline(always)]
    pub(super) fn next_small(&self) -> u32 {
        let [size, ..] = &self.sizes;
        size.free
    }

    /// As [`SendMemory::alloc_small`], after [`SendMemory::has_small`] said true, for bytes without marks, at most [`SMALL_MAX`].
    #[inline(always)]
    pub(super) fn reuse_small(&mut self, seq: Seq, bytes: &[u8]) {
        let [size, ..] = &mut self.sizes;
        let line = &mut size.lines[size.free];
        size.free = Header::read(line).next;
        self.lines_used += 1;
        write_small(line, seq, bytes, Marks::default());
    }

    /// Chunk `handle`, if it is of the smallest size, has data and no marks, and was never sent.
    #[inline(always)]
    pub(super) fn unsent_small(&mut self, handle: u32) -> Option<(UnsentSmall<'_>, &SmallLimits, &mut SendCounters)> {
        let [size, ..] = &mut self.sizes;
        // Handles of other sizes, and of none, are beyond all lines.
        let bytes = size.lines.get_mut(handle)?;
        let len = Header::length_word(bytes);
        (len.wrapping_sub(1) < SMALL_MAX as u32).then_some((
            UnsentSmall { bytes, len },
            &self.limits,
            &mut self.counters,
        ))
    }

    /// Gives chunk `handle` back, if it is of the smallest size, has `len` bytes of data and no marks, and was sent once; its stamp.
    #[inline(always)]
    pub(super) fn free_small(&mut self, handle: u32, len: u32) -> Option<u32> {
        let [size, ..] = &mut self.sizes;
        let line = size.lines.get_mut(handle)?;
        if Header::length_word(line) != sent_once(len) {
            return None;
        }
        Header::write_next(line, size.free);
        size.free = handle;
        self.lines_used -= 1;
        Some(Header::stamp_of(line))
    }

    /// Writes a new chunk of the smallest size; `None` if the bytes do not fit into it, or the budget is used up.
    #[inline(always)]
    pub(super) fn alloc_small(&mut self, seq: Seq, bytes: &[u8], marks: Marks) -> Option<u32> {
        let [size, ..] = &mut self.sizes;
        if (bytes.len() > SMALL_MAX) | (self.lines_used == self.lines_max) {
            return None;
        }
        let number = if size.free == NONE { size.carve()? } else { size.free };
        let line = &mut size.lines[number];
        size.free = Header::read(line).next;
        write_small(line, seq, bytes, marks);
        self.lines_used += 1;
        Some(number)
    }

    #[cold]
    #[inline(never)]
    fn alloc_smaller(&mut self, fit: usize) -> Option<u32> {
        (0..fit).rev().find_map(|size| self.alloc_size(size))
    }

    #[inline]
    fn alloc_size(&mut self, index: usize) -> Option<u32> {
        let size = &mut self.sizes[index];
        if size.chunk_lines > self.lines_max - self.lines_used {
            return None;
        }
        let line = if size.free == NONE { size.carve()? } else { size.free };
        size.free = Header::read(&size.lines[line]).next;
        self.lines_used += size.chunk_lines;
        Some((index as u32) << LINE_BITS | line)
    }

    /// Gives chunk `handle` back.
    #[inline(always)]
    pub(super) fn free(&mut self, handle: u32) {
        let size = self.size_mut(handle);
        let (line, lines) = (line_of(handle), size.chunk_lines);
        Header::write_next(&mut size.lines[line], size.free);
        size.free = line;
        self.lines_used -= lines;
    }

    /// The header of chunk `handle`.
    #[inline(always)]
    pub(super) fn header(&self, handle: u32) -> Header {
        Header::read(&self.size(handle).lines[line_of(handle)])
    }

    /// Replaces the header of chunk `handle`.
    #[inline]
    pub(super) fn set(&mut self, handle: u32, header: Header) {
        header.write(&mut self.size_mut(handle).lines[line_of(handle)]);
    }

    /// Changes the link of chunk `handle`.
    #[inline]
    pub(super) fn link(&mut self, handle: u32, next: u32) {
        Header::write_next(&mut self.size_mut(handle).lines[line_of(handle)], next);
    }

    /// Notes that chunk `handle` is sent for the first time.
    #[inline]
    pub(super) fn stamp(&mut self, handle: u32, stamp: u32) {
        Header::write_sent(&mut self.size_mut(handle).lines[line_of(handle)], stamp);
    }

    /// Writes a new chunk: its header, and as many of `bytes` as it has room for. Returns how many these are.
    #[inline]
    pub(super) fn fill(&mut self, handle: u32, mut header: Header, bytes: &[u8]) -> usize {
        let size = self.size_mut(handle);
        let (first, lines) = (line_of(handle) as usize, size.chunk_lines as usize);
        let place = size.lines.as_mut_slice()[first..first + lines].as_flattened_mut();
        let len = bytes.len().min(place.len() - HEADER);
        place[HEADER..HEADER + len].copy_from_slice(&bytes[..len]);
        header.len = len as u16;
        if let Some(line) = place.first_chunk_mut() {
            header.write(line);
        }
        len
    }

    /// Bytes of data that chunk `handle` has room for.
    #[inline]
    pub(super) fn room(&self, handle: u32) -> usize {
        room_of(self.size(handle).chunk_lines)
    }

    /// The place of the data of chunk `handle`.
    #[inline]
    pub(super) fn bytes(&self, handle: u32) -> &[u8] {
        let size = self.size(handle);
        let first = line_of(handle) as usize;
        &size.lines.as_slice()[first..first + size.chunk_lines as usize].as_flattened()[HEADER..]
    }

    /// Chunk `handle`, header and data, and whatever lies behind it, with what is needed to send it.
    #[inline(always)]
    pub(super) fn chunk(&mut self, handle: u32) -> Option<(&mut [u8], &SendConfig, &mut SendCounters)> {
        let size = &mut self.sizes[(handle >> LINE_BITS) as usize];
        let lines = size.lines.as_mut_slice().get_mut(line_of(handle) as usize..)?;
        Some((lines.as_flattened_mut(), &self.config, &mut self.counters))
    }

    /// As [`SendMemory::bytes`], to write.
    #[inline]
    pub(super) fn bytes_mut(&mut self, handle: u32) -> &mut [u8] {
        let size = self.size_mut(handle);
        let first = line_of(handle) as usize;
        let lines = size.chunk_lines as usize;
        &mut size.lines.as_mut_slice()[first..first + lines].as_flattened_mut()[HEADER..]
    }

    /// Copies `len` bytes between chunks; a chunk comes with the place of the first byte in it.
    pub(super) fn copy(&mut self, (from, from_at): (u32, usize), (to, to_at): (u32, usize), len: usize) {
        let mut done = 0;
        while done < len {
            let mut part = [0; 256];
            let count = (len - done).min(part.len());
            part[..count].copy_from_slice(&self.bytes(from)[from_at + done..from_at + done + count]);
            self.bytes_mut(to)[to_at + done..to_at + done + count].copy_from_slice(&part[..count]);
            done += count;
        }
    }

    #[inline]
    fn size(&self, handle: u32) -> &Size {
        &self.sizes[(handle >> LINE_BITS) as usize]
    }

    #[inline]
    fn size_mut(&mut self, handle: u32) -> &mut Size {
        &mut self.sizes[(handle >> LINE_BITS) as usize]
    }
}

impl Size {
    /// A chunk that was never used, linked to nothing.
    #[cold]
    fn carve(&mut self) -> Option<u32> {
        let lines = self.chunk_lines as usize;
        if self.lines.len() + lines > self.lines.capacity() {
            return None;
        }
        let mut first = [0; LINE];
        first[..4].copy_from_slice(&NONE.to_le_bytes());
        let line = self.lines.push(first);
        for _ in 1..lines {
            self.lines.push([0; LINE]);
        }
        line
    }
}

/// Writes a chunk of the smallest size.
#[inline(always)]
fn write_small(line: &mut Line, seq: Seq, bytes: &[u8], marks: Marks) {
    let len = bytes.len() as u16;
    Header { next: NONE, seq, stamp: 0, len, marks, transmissions: 0 }.write(line);
    match bytes {
        [byte] => line[HEADER] = *byte,
        _ => line[HEADER..HEADER + bytes.len()].copy_from_slice(bytes),
    }
}

/// [`Header::length_word`] of a chunk of `len` bytes without marks that was sent once.
#[inline(always)]
const fn sent_once(len: u32) -> u32 {
    len | 1 << 24
}

/// The number of the first line of chunk `handle` among those of its size.
#[inline]
const fn line_of(handle: u32) -> u32 {
    handle & ((1 << LINE_BITS) - 1)
}

/// Bytes of data in a chunk of so many lines.
#[inline]
const fn room_of(lines: u32) -> usize {
    (lines as usize * LINE).saturating_sub(HEADER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seq;
    use crate::send::chunk::Marks;

    fn memory(bytes: usize) -> SendMemory {
        SendMemory::new(SendConfig { budget_bytes: bytes, connections_max: 4, ..SendConfig::default() }).unwrap()
    }

    #[test]
    fn a_chunk_has_room_for_what_was_asked_and_is_used_again_first() {
        let mut memory = memory(1 << 20);
        for (len, room) in [(1, 48), (48, 48), (49, 240), (241, 1008), (1448, 2032), (2033, 9072), (9072, 9072)] {
            let handle = memory.alloc(len).unwrap();
            assert_eq!(memory.room(handle), room);
            assert_eq!(memory.bytes_mut(handle).len(), room);
            memory.free(handle);
            assert_eq!((memory.alloc(len), memory.used_bytes()), (Some(handle), room + 16));
            memory.free(handle);
        }
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn chunks_do_not_overlap() {
        let mut memory = memory(1 << 16);
        let mut handles = Vec::new();
        for number in 0.. {
            let Some(handle) = memory.alloc([40, 200, 1000, 2000][number % 4]) else { break };
            memory.set(
                handle,
                Header {
                    next: NONE,
                    seq: Seq(number as u32),
                    stamp: 0,
                    len: 0,
                    marks: Marks::default(),
                    transmissions: 0,
                },
            );
            memory.bytes_mut(handle).fill(number as u8);
            handles.push(handle);
        }
        assert!(memory.available_bytes() < 64 && handles.len() > 40);
        for (number, handle) in handles.iter().enumerate() {
            assert_eq!(memory.header(*handle).seq, Seq(number as u32));
            assert!(memory.bytes(*handle).iter().all(|byte| *byte == number as u8));
        }
        for handle in handles {
            memory.free(handle);
        }
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn the_last_of_the_budget_is_given_in_smaller_chunks() {
        let mut memory = memory(2048 + 1024 + 64);
        let rooms: Vec<_> = std::iter::from_fn(|| memory.alloc(1448).map(|handle| memory.room(handle))).collect();
        assert_eq!(rooms, [2032, 1008, 48]);
    }

    #[test]
    fn copies_between_chunks_of_any_size() {
        let mut memory = memory(1 << 16);
        let (from, to) = (memory.alloc(2000).unwrap(), memory.alloc(900).unwrap());
        for (place, byte) in memory.bytes_mut(from).iter_mut().enumerate() {
            *byte = place as u8;
        }
        memory.copy((from, 1100), (to, 0), 900);
        assert!(memory.bytes(to)[..900].iter().enumerate().all(|(place, byte)| *byte == (1100 + place) as u8));
    }
}
