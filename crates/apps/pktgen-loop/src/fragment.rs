//! `-F` and `-M`: a port that sends each packet as several slots.

use linerate_mem::{Batch, Pool};
use linerate_port::{Caps, Interest, Port, PortError, Readiness, Stats};

/// Packets cut up at once.
const PACKETS: usize = 64;
/// Most slots of a packet: `-M 1` of the longest frame would be more than any port takes.
pub const FRAGMENTS_MAX: usize = 64;

/// Cuts what it sends into slots.
pub struct FragmentPort {
    inner: Box<dyn Port>,
    pool: Pool,
    fragments: usize,
    len_max: usize,
    pieces: Batch,
}

impl FragmentPort {
    /// Sends each packet in `fragments` slots of at most `len_max` bytes, in more of them if the packet is longer.
    pub fn boxed(inner: Box<dyn Port>, pool: &Pool, fragments: usize, len_max: Option<usize>) -> Box<dyn Port> {
        let len_max = len_max.unwrap_or(usize::MAX).min(pool.packet_len_max());
        let pieces = Batch::new(pool, PACKETS * FRAGMENTS_MAX);
        Box::new(FragmentPort { inner, pool: pool.clone(), fragments, len_max, pieces })
    }

    /// Appends the packet in slot `slot` of `batch` to the pieces; false when there are too few frames.
    fn cut(&mut self, batch: &Batch, slot: usize) -> bool {
        let packet = batch.packet(slot);
        let (count, len) = shape(packet.len(), self.fragments, self.len_max);
        let held = self.pieces.len();
        // Checked first, because slots taken for half a packet could not be given back from the end of the batch.
        if self.pool.available() < count {
            return false;
        }
        let longest = len.max(packet.len() - len * (count - 1));
        if self.pool.alloc(&mut self.pieces, count, longest) < count {
            return false;
        }
        for number in 0..count {
            let start = number * len;
            let end = if number + 1 == count { packet.len() } else { start + len };
            self.pieces.set_len(held + number, end - start);
            self.pieces.set_more(held + number, number + 1 < count);
            self.pieces.packet_mut(held + number).copy_from_slice(&packet[start..end]);
        }
        true
    }
}

/// Slots of a packet, and the bytes of all but the last one, as the original computes them.
pub fn shape(len: usize, fragments: usize, len_max: usize) -> (usize, usize) {
    let piece = (len / fragments).max(1);
    match piece > len_max {
        true => (len.div_ceil(len_max), len_max),
        // The last one takes the remainder, which can be one byte short of a whole further piece.
        false => (fragments.min(len), piece),
    }
}

impl Port for FragmentPort {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.inner.receive(batch)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let wanted = batch.len().min(PACKETS);
        let cut = (0..wanted).take_while(|slot| self.cut(batch, *slot)).count();
        if cut < wanted {
            // Frames of the packet that could not be cut whole go back with the rest.
            self.inner.flush()?;
        }
        let taken = self.inner.transmit(&mut self.pieces);
        let slots = *taken.as_ref().unwrap_or(&0);
        self.pool.free(&mut self.pieces);
        // A packet here is one slot: whole packets went, so as many slots leave the batch.
        self.pool.free_front(batch, slots);
        taken
    }

    fn flush(&mut self) -> Result<usize, PortError> {
        self.inner.flush()
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        self.inner.wait(interest, timeout_ns)
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        self.inner.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_the_originals() {
        assert_eq!(shape(60, 1, usize::MAX), (1, 60));
        assert_eq!(shape(60, 3, usize::MAX), (3, 20));
        assert_eq!(shape(61, 3, usize::MAX), (3, 20));
        assert_eq!(shape(60, 2, 16), (4, 16));
        assert_eq!(shape(64, 2, 32), (2, 32));
        assert_eq!(shape(65, 2, 31), (3, 31));
    }
}
