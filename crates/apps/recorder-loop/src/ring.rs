//! An interface's AF_PACKET ring, walked in place.

use linerate_pcapng::{Direction, PacketHead};
use linerate_ports::capture::{RingCapture, RingCounters};

use crate::control::Counts;
use crate::thread::{Sink, Source, WALK_MAX};

/// A ring of an interface.
pub struct Ring {
    /// The ring.
    pub ring: RingCapture,
    /// Whether packets that this host sends are captured, too: then each packet says which way it went.
    pub outgoing: bool,
    /// Whether the NIC was asked for timestamps: then those that it made are counted.
    pub hardware_timestamps: bool,
}

impl Source for Ring {
    fn walk(&mut self, sink: &mut Sink) -> Result<usize, String> {
        let Ring { ring, outgoing, hardware_timestamps } = self;
        let walked = ring.walk(WALK_MAX, |packet| {
            let original_len = packet.original_len() as u32;
            if !sink.admit(u64::from(original_len)) {
                return;
            }
            if *hardware_timestamps {
                sink.timestamped_by_nic += u64::from(packet.timestamped_by_hardware());
            }
            let Some(intake) = &mut sink.intake else { return };
            let direction = match *outgoing {
                false => Direction::Unknown,
                true if packet.is_outgoing() => Direction::Outbound,
                true => Direction::Inbound,
            };
            let head = PacketHead { interface: sink.interface, time_ns: packet.time_ns(), original_len, direction };
            intake.packet(&head, packet.len(), |place| packet.copy(place));
        });
        walked.map_err(|error| error.to_string())
    }

    fn wait(&mut self, timeout_ns: u64) -> Result<bool, String> {
        self.ring.wait(timeout_ns).map(|_| true).map_err(|error| error.to_string())
    }

    fn stop(&mut self) -> Result<(), String> {
        self.ring.stop().map_err(|error| error.to_string())
    }

    /// All that the kernel has put into the ring has been seen.
    fn is_walked(&mut self, _: usize, counts: &Counts) -> bool {
        counts.ring.offered.saturating_sub(counts.ring.dropped) <= counts.taken
    }

    /// Packets that came after the last one of the quota were in the ring, too, but after the capture's end.
    fn counters(&mut self, sink: &Sink) -> Result<RingCounters, String> {
        let counts = self.ring.counters().map_err(|error| error.to_string())?;
        Ok(RingCounters { offered: counts.offered.saturating_sub(sink.refused), ..counts })
    }

    fn level_bytes(&self) -> Option<(u64, u64)> {
        Some(self.ring.level_bytes())
    }
}
