//! What is asked of ports beside a trial.

use linerate_port::{Drops, Interest, Port, Readiness};

/// Longest wait for one end before the others are looked at.
const TURN_NS: u64 = 5_000_000;

/// Whether a port can send; waits a little for it.
pub fn can_send(port: &mut (dyn Port + 'static)) -> bool {
    matches!(port.wait(Interest::Transmit, TURN_NS), Ok(Readiness::Ready))
}

/// What a port's totals of drops grew by.
pub fn drops_since(after: &[Drops], before: &[Drops]) -> Vec<Drops> {
    let earlier = |drops: &Drops| {
        let same = before.iter().find(|earlier| earlier.place == drops.place && earlier.cause == drops.cause);
        same.map_or(0, |earlier| earlier.packets)
    };
    after.iter().map(|drops| Drops { packets: drops.packets.saturating_sub(earlier(drops)), ..drops.clone() }).collect()
}
