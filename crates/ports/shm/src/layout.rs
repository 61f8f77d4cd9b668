//! The shared memory: who writes what, and where it lies.
//!
//! ```text
//! 0        side 0 writes:  attached, asleep          128 bytes; then a word of both: the socket is removed
//! 128      side 1 writes:  attached, asleep          128 bytes
//! 256      packets 0 -> 1: tail (side 0), head (side 1), 128 bytes each, then the words
//!          packets 1 -> 0, free frames 0 -> 1, free frames 1 -> 0: the same
//! frames   on a page boundary: the region
//! ```
//! A word is a slot (`linerate_mem::Slot`) of the region; of free frames only its frame number counts. Indices run freely and
//! wrap at 2^32; a ring has a power of two of words. Nothing here is trusted: each side keeps its own index privately, checks
//! the other one against the ring's size, and each word against its table of frames.

use linerate_mem::Slot;

/// One cache line pair: neighbouring lines are fetched together on current x86 parts.
const LINE: usize = 128;
const PAGE: usize = 4096;

/// Most words of a ring of packets.
pub const RING_MAX: u32 = 1 << 16;

/// Shape of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Words of a ring of packets, a power of two.
    pub ring: u32,
    /// Frames of the region.
    pub frames: u32,
    /// Bytes of a frame.
    pub frame_size: u32,
}

/// Where a ring lies, in bytes from the start of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPlace {
    /// Index that the producer writes.
    pub tail: usize,
    /// Index that the consumer writes.
    pub head: usize,
    /// First word.
    pub words: usize,
    /// Number of words, a power of two.
    pub capacity: u32,
}

/// The four rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// Packets from side 0, from side 1.
    pub packets: [RingPlace; 2],
    /// Free frames from side 0, from side 1.
    pub free: [RingPlace; 2],
    /// Where the frames begin.
    pub frames: usize,
}

impl Shape {
    /// True for shapes that this program would make itself; the other side's word for it is not taken.
    pub fn is_possible(&self) -> bool {
        self.ring.is_power_of_two()
            && self.ring <= RING_MAX
            && (1..=Slot::FRAMES_MAX as u32).contains(&self.frames)
            && self.frame_size.is_power_of_two()
            && (512..=32768).contains(&self.frame_size)
    }

    /// Where everything lies.
    pub fn rings(&self) -> Rings {
        let mut at = 2 * LINE;
        let mut ring = |capacity: u32| {
            let place = RingPlace { tail: at, head: at + LINE, words: at + 2 * LINE, capacity };
            at += 2 * LINE + (capacity as usize * 8).next_multiple_of(LINE);
            place
        };
        // All frames fit into a ring of free ones, so it is never full.
        let free = self.frames.next_power_of_two();
        let (packets, free) = ([ring(self.ring), ring(self.ring)], [ring(free), ring(free)]);
        Rings { packets, free, frames: at.next_multiple_of(PAGE) }
    }

    /// Bytes of the whole memory.
    pub fn bytes(&self) -> usize {
        self.rings().frames + (self.frames as usize * self.frame_size as usize).next_multiple_of(PAGE)
    }
}

/// True for the word of a slot whose packet goes on in the next one.
#[inline]
pub fn goes_on(word: u64) -> bool {
    word >> 56 & 1 == 1
}

/// Place of side `side`'s word that says whether its port is open.
pub fn attached(side: usize) -> usize {
    side * LINE
}

/// Place of the word by which side `side` asks to be woken.
pub fn asleep(side: usize) -> usize {
    side * LINE + 4
}

/// Place of the word that is 1 once a side has taken on to remove the socket.
pub const SOCKET_REMOVED: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps() {
        for (ring, frames, frame_size) in [(1, 1, 512), (2, 3, 32768), (1024, 8192, 2048), (65536, 100_000, 1024)] {
            let shape = Shape { ring, frames, frame_size };
            assert!(shape.is_possible());
            let rings = shape.rings();
            let mut end = asleep(1) + 4;
            for place in rings.packets.iter().chain(&rings.free) {
                assert!(place.tail >= end && place.head >= place.tail + LINE && place.words >= place.head + LINE);
                assert!(place.words.is_multiple_of(8) && place.capacity.is_power_of_two());
                end = place.words + place.capacity as usize * 8;
            }
            assert!(rings.frames >= end && rings.frames.is_multiple_of(PAGE));
            assert!(rings.free[0].capacity >= frames && shape.bytes().is_multiple_of(PAGE));
        }
        let good = Shape { ring: 8, frames: 8, frame_size: 2048 };
        for bad in [
            Shape { ring: 3, ..good },
            Shape { ring: 0, ..good },
            Shape { ring: 1 << 17, ..good },
            Shape { frames: 0, ..good },
            Shape { frames: u32::MAX, ..good },
            Shape { frame_size: 100, ..good },
            Shape { frame_size: 1 << 31, ..good },
        ] {
            assert!(!bad.is_possible(), "{bad:?}");
        }
    }
}
