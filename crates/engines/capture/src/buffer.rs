//! A large aligned buffer of whole records.
//!
//! A thread that reads a ring lays each record around a place in the buffer and has the ring copy the packet there: one copy
//! from the ring's memory to the bytes that are written. Buffers hold whole records only, so any of them can be left out, and a
//! file can end behind any of them.

use linerate_mem::prefetch_to_write;
use linerate_pcapng::{FileFormat, PacketHead, padding, padding_len, record, record_len};

/// Alignment of the first byte: a page, which is what O_DIRECT wants of memory on every disk.
pub const ALIGNMENT: usize = 4096;

/// Bounds of huge pages: a long buffer begins on one, so that it lies in few of them if it lies in any.
const HUGE_PAGE: usize = 2 << 20;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes between a record and the lines that are called for while it is written.
const AHEAD: usize = 24 * LINE;

/// Records, and what they are.
pub struct WriteBuffer {
    format: FileFormat,
    memory: Box<[u8]>,
    start: usize,
    capacity: usize,
    len: usize,
    packets: u64,
    packet_bytes: u64,
}

impl WriteBuffer {
    /// A buffer of `capacity` bytes for records of this format.
    pub fn new(format: FileFormat, capacity: usize) -> WriteBuffer {
        // Room for the alignment of the first byte, and for a block of padding. What is never written is never in memory.
        let alignment = if capacity < HUGE_PAGE / 2 { ALIGNMENT } else { HUGE_PAGE };
        let memory: Box<[u8]> = vec![0; capacity + alignment + 2 * ALIGNMENT].into();
        let start = memory.as_ptr().align_offset(alignment).min(alignment);
        WriteBuffer { format, memory, start, capacity, len: 0, packets: 0, packet_bytes: 0 }
    }

    /// The memory for records, to be told how to lie; writing there spoils the records. (Padding may need a page behind it.)
    pub fn memory_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.capacity]
    }

    /// Appends a record of a packet of which `kept` bytes are written, and gives the place for those bytes.
    ///
    /// `None` when there is no room left; then the buffer is as it was.
    #[inline]
    pub fn packet(&mut self, head: &PacketHead, kept: usize) -> Option<&mut [u8]> {
        let len = record_len(self.format, kept, head.direction);
        if len > self.capacity - self.len {
            return None;
        }
        let start = self.start + self.len;
        // The disk has read the line since it was written last, so it is no longer this core's.
        prefetch_to_write(&self.memory, start + AHEAD);
        if len > LINE {
            prefetch_to_write(&self.memory, start + AHEAD + LINE);
        }
        let place = record(self.format, self.memory.get_mut(start..start + len)?, head, kept)?;
        self.len += len;
        self.packets += 1;
        self.packet_bytes += u64::from(head.original_len);
        Some(place)
    }

    /// Appends blocks that are no packets; false when there is no room.
    pub fn blocks(&mut self, bytes: &[u8]) -> bool {
        let start = self.start + self.len;
        let room = self.capacity - self.len;
        match self.memory.get_mut(start..start + bytes.len()) {
            Some(place) if bytes.len() <= room => {
                place.copy_from_slice(bytes);
                self.len += bytes.len();
                true
            }
            _ => false,
        }
    }

    /// As [`WriteBuffer::bytes`], with a block of padding behind that makes their number a multiple of [`ALIGNMENT`]. For pcapng
    /// only: pcap has no such block.
    pub fn padded_bytes(&mut self) -> &[u8] {
        let end = self.start + self.len;
        let padded_end = end + padding_len(self.len, ALIGNMENT);
        padding(&mut self.memory[end..padded_end]);
        &self.memory[self.start..padded_end]
    }

    /// The records, as they are to be written; the first byte is aligned to [`ALIGNMENT`].
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    /// Format of the records.
    pub fn format(&self) -> FileFormat {
        self.format
    }

    /// True when there is no record.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of all records.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Most bytes of records.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Packets in it.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Bytes that those packets had.
    pub fn packet_bytes(&self) -> u64 {
        self.packet_bytes
    }

    /// Forgets all records.
    pub fn clear(&mut self) {
        (self.len, self.packets, self.packet_bytes) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_pcapng::{CaptureReader, Direction, file_start};

    #[test]
    fn what_is_put_in_is_what_a_file_has() {
        for format in [FileFormat::Pcap, FileFormat::Pcapng] {
            let mut buffer = WriteBuffer::new(format, 1000);
            let mut packets = Vec::new();
            for number in 0.. {
                let (bytes, time_ns) = (vec![number as u8; 60 + number], 1_700_000_000_000_000_000 + number as u64);
                let head = PacketHead { time_ns, original_len: 1500, direction: Direction::Inbound, interface: 0 };
                let before = buffer.len();
                let Some(place) = buffer.packet(&head, bytes.len()) else {
                    assert_eq!(buffer.len(), before);
                    break;
                };
                place.copy_from_slice(&bytes);
                packets.push((time_ns, bytes));
            }
            assert!(packets.len() > 5 && buffer.len() <= buffer.capacity());
            assert_eq!(buffer.bytes().as_ptr() as usize % ALIGNMENT, 0);
            assert_eq!((buffer.packets(), buffer.packet_bytes()), (packets.len() as u64, packets.len() as u64 * 1500));
            let mut file = Vec::new();
            file_start(&mut file, format, 0);
            file.extend(buffer.bytes());
            let mut reader = CaptureReader::new(&file[..]).unwrap();
            for (time_ns, bytes) in &packets {
                let head = reader.next().unwrap().unwrap();
                assert_eq!((head.time_ns, reader.packet(), head.original_len), (*time_ns, &bytes[..], 1500));
                assert_eq!(head.direction == Direction::Inbound, format == FileFormat::Pcapng);
            }
            assert!(reader.next().unwrap().is_none());
            if format == FileFormat::Pcapng {
                let len = buffer.len();
                let padded = buffer.padded_bytes();
                assert!(padded.len().is_multiple_of(ALIGNMENT) && padded.len() - len <= 2 * ALIGNMENT);
                let mut file = Vec::new();
                file_start(&mut file, format, 0);
                file.extend(padded);
                let mut reader = CaptureReader::new(&file[..]).unwrap();
                packets.iter().for_each(|_| assert!(reader.next().unwrap().is_some()));
                assert!(reader.next().unwrap().is_none());
            }
            assert!(!buffer.blocks(&[0; 1001]));
            buffer.clear();
            assert!(buffer.blocks(&[7; 1000]) && !buffer.blocks(&[7]) && buffer.bytes() == [7; 1000]);
            buffer.clear();
            assert!(buffer.is_empty() && buffer.bytes().is_empty() && buffer.packets() == 0);
        }
    }
}
