//! Readings that agree with each other.
//!
//! The counters of protocols and of interfaces are read one after the other. A packet of the device's own in between (a question for an address)
//! would be in the later of them only: one more packet would have left an interface than IP had given it. The protocols are read before the
//! interfaces. Where these stand as they did in the reading before, no packet can have passed since then, so none passed in between either.

use super::Snapshot;

/// So many readings at most: a path that is never still is read as it is.
const READINGS_MAX: usize = 5;

/// The first reading after `last` that the one before it agrees with.
pub(super) fn agreeing<E>(last: &Snapshot, mut read: impl FnMut() -> Result<Snapshot, E>) -> Result<Snapshot, E> {
    let mut movement = last.movement();
    let mut next = read()?;
    for _ in 1..READINGS_MAX {
        if next.movement() == movement {
            break;
        }
        movement = next.movement();
        next = read()?;
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::DutCounters;

    /// A device whose IP has sent so many packets of its own, of which so many have left.
    fn device(requests: u64, left: u64) -> Snapshot {
        let mut dut = DutCounters::default();
        dut.protocols.insert("Ip6OutRequests".into(), requests);
        dut.ingress.tx_packets = left;
        Snapshot { dut: Some(dut), ..Snapshot::default() }
    }

    /// What left beyond what IP gave, between two readings.
    fn left_unasked(earlier: &Snapshot, later: &Snapshot) -> i64 {
        let dut = later.since(earlier).dut.expect("a device");
        dut.ingress.tx_packets as i64 - dut.protocols["Ip6OutRequests"] as i64
    }

    #[test]
    fn a_packet_of_the_devices_own_between_two_counters_is_in_both_or_in_none() {
        let last = device(7, 7);
        // The solicitation left after the protocols were read and before the interfaces were.
        let mut readings = [device(7, 8), device(8, 8), device(8, 8)].into_iter();
        assert_eq!(left_unasked(&last, &device(7, 8)), 1, "this would be a packet that was sent back");
        let read = agreeing(&last, || readings.next().ok_or(())).expect("a reading");
        assert_eq!(left_unasked(&last, &read), 0);
        assert_eq!(readings.count(), 1, "two readings were enough");
    }

    #[test]
    fn a_still_path_is_read_once_and_a_busy_one_a_few_times() {
        let mut readings = 0;
        let mut read = |step: u64| {
            readings = 0;
            let of = |readings: u64| device(step * readings, step * readings);
            agreeing(&of(0), || {
                readings += 1;
                Ok::<_, ()>(of(readings))
            })
            .expect("a reading");
            readings
        };
        assert_eq!(read(0), 1);
        assert_eq!(read(10), READINGS_MAX as u64);
        assert_eq!(agreeing(&device(0, 0), || Err("the interface is gone")), Err("the interface is gone"));
    }
}
