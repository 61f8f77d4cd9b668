//! Losses of a device that takes packets in and passes none on: each of its interfaces ends a path.

use super::segment::Segment;
use super::{Direction, Path, counted};
use crate::counters::InterfaceCounters;
use crate::drops::causes::{Known, Piece};
use crate::drops::reasons::Confidence;

impl Path {
    /// From a sending interface to the capture's ring behind `to`; `lost` packets the sender counts as dropped.
    pub(super) fn capturing(
        &mut self,
        from: &InterfaceCounters,
        to: &InterfaceCounters,
        lost: u64,
        way: Direction<'_>,
    ) {
        let in_ring: u64 = way.ports.receiver.iter().map(|loss| loss.packets).sum();
        let missing = to.rx_packets.saturating_sub(way.received + in_ring);
        // What a full AF_XDP ring refused the driver counts, too, after it has counted the packet as received.
        let by_driver = to.driver_sum("rx", "drops");
        // With receive packet steering behind NAPI the interface counts a packet before a core's backlog refuses it.
        let others = to.rx_dropped.saturating_sub(from.driver_sum("tx", "xdp_xmit_errors") + by_driver);
        let late = others.min(missing);
        self.link(from, to, lost, by_driver + late);
        let mut segment = Segment::new(missing, Piece::Reception, to, to, Known::default());
        for loss in &way.ports.receiver {
            self.push(loss.clone());
        }
        segment.take_xdp_drops(to);
        let name = &to.name;
        let drops = by_driver.saturating_sub(in_ring);
        segment.take(counted(name, "dropped by the driver", &format!("{name} rx_queue_*_drops"), drops));
        self.take_backlog(&mut segment, late);
        self.divide(&mut segment, Confidence::Any);
        self.close(segment, &format!("between {name} and the capture"));
    }
}
