//! Packets that wait for a neighbour's link address, in memory that is taken once.

use linerate_mem::Checksum;

/// A packet that is parked. It cannot be copied, because it names memory that is given back once.
#[derive(Debug)]
pub struct Parked(u16);

/// The memory of all parked packets.
pub struct Parking {
    places: Vec<Place>,
    free: Vec<u16>,
    packet_len: usize,
}

struct Place {
    bytes: Vec<u8>,
    checksum: Checksum,
}

impl Parking {
    /// Memory for `packets` packets of at most `packet_len` bytes.
    pub fn new(packets: usize, packet_len: usize) -> Parking {
        let packets = packets.min(usize::from(u16::MAX));
        let place = || Place { bytes: Vec::with_capacity(packet_len), checksum: Checksum::Unknown };
        let free = (0..packets as u16).rev().collect();
        Parking { places: (0..packets).map(|_| place()).collect(), free, packet_len }
    }

    /// Keeps a copy of a packet; `None` if there is no room, or if it is too long.
    pub fn park(&mut self, packet: &[u8], checksum: Checksum) -> Option<Parked> {
        if packet.len() > self.packet_len {
            return None;
        }
        let number = self.free.pop()?;
        let place = &mut self.places[usize::from(number)];
        place.bytes.clear();
        place.bytes.extend_from_slice(packet);
        place.checksum = checksum;
        Some(Parked(number))
    }

    /// The packet.
    pub fn bytes(&self, parked: &Parked) -> (&[u8], Checksum) {
        let place = &self.places[usize::from(parked.0)];
        (&place.bytes, place.checksum)
    }

    /// Gives the memory back.
    pub fn free(&mut self, parked: Parked) {
        self.free.push(parked.0);
    }
}
