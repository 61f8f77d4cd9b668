//! How well departures keep to their schedule, packet by packet.

use linerate_measure::Histogram;

/// Lateness and gap errors of the packets of one port, in the order of their departure.
#[derive(Default)]
pub(crate) struct Departures {
    /// How long after its scheduled time each packet was handed to the port.
    pub lateness: Histogram,
    /// Difference between the pause before a packet and the pause that the schedule asked for, as an absolute value.
    pub gap_error: Histogram,
    /// Departure and scheduled time of the last packet.
    last: Option<(u64, u64)>,
}

impl Departures {
    /// Notes packets scheduled for these times that left together at `now_ns`.
    pub(crate) fn note(&mut self, times_ns: impl IntoIterator<Item = u64>, now_ns: u64) {
        for time_ns in times_ns {
            self.lateness.record(now_ns.saturating_sub(time_ns));
            if let Some((departed_ns, scheduled_ns)) = self.last {
                let (real, wanted) = (now_ns.saturating_sub(departed_ns), time_ns.saturating_sub(scheduled_ns));
                self.gap_error.record(real.abs_diff(wanted));
            }
            self.last = Some((now_ns, time_ns));
        }
    }
}
