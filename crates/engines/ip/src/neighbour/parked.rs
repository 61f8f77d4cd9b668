//! Packets that wait for a neighbour's link address, in memory that is reserved once.

use linerate_mem::Checksum;

/// Stands for "none" among the numbers of places.
const NONE: u16 = u16::MAX;

/// A packet that is parked. It cannot be copied, because it names memory that is given back once.
#[derive(Debug)]
pub struct Parked(u16);

/// The packets that wait for one neighbour, oldest first.
#[derive(Debug)]
pub struct Queue {
    first: u16,
    last: u16,
    len: u16,
}

impl Queue {
    /// Nothing waits.
    pub const EMPTY: Queue = Queue { first: NONE, last: NONE, len: 0 };
}

/// The memory of all parked packets.
pub struct Parking {
    /// A place is `packet_len` bytes of it. Pages that no packet has used are not resident.
    bytes: Vec<u8>,
    places: Vec<Place>,
    free: Vec<u16>,
    packet_len: usize,
    queue_max: u16,
}

struct Place {
    len: usize,
    checksum: Checksum,
    next: u16,
}

impl Parking {
    /// Memory for `packets` packets of at most `packet_len` bytes, of which half may wait for one neighbour.
    pub fn new(packets: usize, packet_len: usize) -> Parking {
        let packets = packets.min(usize::from(NONE));
        let place = || Place { len: 0, checksum: Checksum::Unknown, next: NONE };
        Parking {
            bytes: vec![0; packets * packet_len],
            places: (0..packets).map(|_| place()).collect(),
            free: (0..packets as u16).rev().collect(),
            packet_len,
            queue_max: packets.div_ceil(2) as u16,
        }
    }

    /// Keeps a copy of a packet behind those of its queue. False if it is too long, or all memory is that of other queues.
    pub fn park(&mut self, queue: &mut Queue, packet: &[u8], checksum: Checksum) -> bool {
        if packet.len() > self.packet_len {
            return false;
        }
        let Some(number) = self.free.pop() else { return false };
        let start = usize::from(number) * self.packet_len;
        self.bytes[start..start + packet.len()].copy_from_slice(packet);
        self.places[usize::from(number)] = Place { len: packet.len(), checksum, next: NONE };
        match queue.last {
            NONE => queue.first = number,
            last => self.places[usize::from(last)].next = number,
        }
        queue.last = number;
        queue.len += 1;
        true
    }

    /// True if a packet of this queue must go before another can be parked in it.
    pub fn is_full(&self, queue: &Queue) -> bool {
        queue.len >= self.queue_max || self.free.is_empty()
    }

    /// Takes the oldest packet out of a queue. [`Parking::free`] must follow.
    pub fn take(&mut self, queue: &mut Queue) -> Option<Parked> {
        let number = queue.first;
        let place = self.places.get(usize::from(number))?;
        queue.first = place.next;
        queue.len -= 1;
        if queue.first == NONE {
            queue.last = NONE;
        }
        Some(Parked(number))
    }

    /// The packet.
    pub fn bytes(&self, parked: &Parked) -> (&[u8], Checksum) {
        let place = &self.places[usize::from(parked.0)];
        let start = usize::from(parked.0) * self.packet_len;
        (&self.bytes[start..start + place.len], place.checksum)
    }

    /// Gives the memory back.
    pub fn free(&mut self, parked: Parked) {
        self.free.push(parked.0);
    }
}
