//! Counts of rings, put together to those of ports and of all.

use linerate_capture::{Counted, FillReport, holds_ns};
use linerate_port::{Drops, RxRing, drops_that_happened};

use super::line::Scope;
use linerate_recorder_loop::thread::RingEnd;

/// What is known of a ring, a port, or all of them at a moment, since the start.
#[derive(Clone, Copy, Default)]
pub(super) struct Moment {
    pub counted: Counted,
    /// Packets that the interface dropped.
    pub dropped_by_interface: Option<u64>,
    pub timestamped_by_nic: u64,
    pub bytes: u64,
    pub level_bytes: Option<u64>,
    pub cpu_ns: u64,
}

impl Moment {
    /// What ring `name` lost of the packets that were for it, and what the writer did.
    pub fn drops(&self, name: &str) -> Vec<Drops> {
        let drop = |place: String, cause: &str, packets: u64| Drops { place, cause: cause.into(), packets };
        drops_that_happened(&[
            drop(name.into(), "ring full", self.counted.dropped_by_ring),
            drop(format!("writer of {name}"), "no free buffer", self.counted.dropped_for_buffers),
            drop(format!("writer of {name}"), "errors of the disk", self.counted.dropped_by_errors),
        ])
    }

    /// Share of the packets since `before` that were captured, and not lost by the ring or by the writer; `None` if there were none.
    pub fn capture_ratio(&self, before: &Moment) -> Option<f64> {
        let lost_by_writer = |moment: &Moment| moment.counted.dropped_for_buffers + moment.counted.dropped_by_errors;
        let taken = self.counted.taken - before.counted.taken;
        let offered = taken + self.counted.dropped_by_ring - before.counted.dropped_by_ring;
        // What the writer lost may have been taken before `before`.
        let captured = taken.saturating_sub(lost_by_writer(self).saturating_sub(lost_by_writer(before)));
        (offered > 0).then(|| captured as f64 / offered as f64)
    }

    pub fn sum<'a>(moments: impl IntoIterator<Item = &'a Moment>) -> Moment {
        let both = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        let add = |one: Moment, other: &Moment| {
            let (a, b) = (one.counted, other.counted);
            let counted = Counted {
                received: both(a.received, b.received),
                offered: a.offered + b.offered,
                dropped_by_ring: a.dropped_by_ring + b.dropped_by_ring,
                taken: a.taken + b.taken,
                counted_only: a.counted_only + b.counted_only,
                dropped_for_buffers: a.dropped_for_buffers + b.dropped_for_buffers,
                dropped_by_errors: a.dropped_by_errors + b.dropped_by_errors,
                written: a.written + b.written,
            };
            Moment {
                counted,
                dropped_by_interface: both(one.dropped_by_interface, other.dropped_by_interface),
                timestamped_by_nic: one.timestamped_by_nic + other.timestamped_by_nic,
                bytes: one.bytes + other.bytes,
                level_bytes: both(one.level_bytes, other.level_bytes),
                cpu_ns: one.cpu_ns + other.cpu_ns,
            }
        };
        moments.into_iter().copied().reduce(|one, other| add(one, &other)).unwrap_or_default()
    }
}

/// One line to be: what it is about, and the counts.
pub(super) struct Part<'a> {
    pub scope: Scope,
    pub name: &'a str,
    /// Number of the port, for one.
    pub port: Option<usize>,
    pub queue: Option<usize>,
    pub rings: std::ops::Range<usize>,
    pub room: Option<RxRing>,
    /// The NIC was asked for timestamps.
    pub by_nic: bool,
    pub now: Moment,
}

/// Packets of a port with timestamps of its NIC's clock, where it was asked for these.
pub(super) fn timestamped_by_nic(part: &Part<'_>) -> Option<u64> {
    part.by_nic.then_some(part.now.timestamped_by_nic)
}

/// How full the fullest ring was.
pub(super) fn fullest(ends: &[RingEnd]) -> Option<FillReport> {
    let worse = |one: &FillReport, other: &FillReport| {
        (one.overflows, one.highest_share())
            .partial_cmp(&(other.overflows, other.highest_share()))
            .unwrap_or(std::cmp::Ordering::Equal)
    };
    ends.iter().filter_map(|end| end.ring).max_by(worse)
}

impl Part<'_> {
    /// How long `rings` rings hold what comes at this rate, in packets and bytes a second, if nobody reads; in nanoseconds. `None`
    /// when nothing comes, or the size of the rings is not known.
    pub fn ring_holds_ns(&self, rings: u64, (pps, bytes_ps): (f64, f64), snaplen: u32) -> Option<u64> {
        let ring = self.room?;
        holds_ns(ring.bytes * rings, pps * ring.packet_bytes((bytes_ps / pps.max(1e-9)).min(f64::from(snaplen))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds_ns(ring: RxRing, rings: u64, rate: (f64, f64), snaplen: u32) -> Option<u64> {
        let part = Part {
            scope: Scope::Port,
            name: "",
            port: None,
            queue: None,
            rings: 0..1,
            room: Some(ring),
            by_nic: false,
            now: Moment::default(),
        };
        part.ring_holds_ns(rings, rate, snaplen)
    }

    #[test]
    fn a_ring_holds_packets_with_what_stands_around_them() {
        let ring = RxRing::of_packet_ring(1_464_000);
        // 60 bytes and 86 around them: 10,000 packets a second are 1.46 MB.
        let ms = |held: Option<u64>| held.map(|ns| ns / 1_000_000);
        assert_eq!(ms(holds_ns(ring, 1, (10_000.0, 600_000.0), 262_144)), Some(1002));
        assert_eq!(ms(holds_ns(ring, 2, (10_000.0, 15_000_000.0), 60)), Some(2005));
        assert_eq!(holds_ns(RxRing::of_frames(1024, 2048), 1, (1024.0, 1.0), 9), Some(1_000_000_000));
        assert_eq!(holds_ns(ring, 1, (0.0, 0.0), 9), None);
    }

    #[test]
    fn what_ring_and_writer_lose_is_not_captured() {
        let moment = |taken, dropped_by_ring, dropped_for_buffers, dropped_by_errors| Moment {
            counted: Counted { taken, dropped_by_ring, dropped_for_buffers, dropped_by_errors, ..Counted::default() },
            ..Moment::default()
        };
        let nothing = Moment::default();
        assert_eq!(nothing.capture_ratio(&nothing), None);
        assert_eq!(moment(75, 25, 0, 0).capture_ratio(&nothing), Some(0.75));
        // A full disk, and a slow one.
        assert_eq!(moment(100, 0, 20, 30).capture_ratio(&nothing), Some(0.5));
        assert_eq!(moment(300, 25, 20, 30).capture_ratio(&moment(225, 0, 20, 5)), Some(0.5));
    }
}
