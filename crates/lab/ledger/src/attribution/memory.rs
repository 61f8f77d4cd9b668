//! Losses on a path of shared memory: between the tester's ports and those of a switch, and in the switch.
//!
//! There is no kernel to count in between, and none to lose anything: the path is cut where the switch counts all packets that
//! pass, as they come in and as they go out. What it lost it says itself, by port and reason.

use linerate_report::Loss;

use super::queued::{in_switch, under_way};
use super::switched::SWITCH;
use super::{Direction, Losses};
use crate::drops::hints;
use linerate_testbed::switches::{SwitchCounters, place_of_port};

/// Where the tester's own ports lose something.
const TESTERS_PORT: &str = "the tester's memif port";

/// The losses of all directions together.
pub fn losses_over_memory(switch: &SwitchCounters, ways: &[Direction<'_>]) -> Losses {
    let own = |rows: &[Loss]| -> Vec<Loss> {
        let named = rows.iter().map(|row| Loss { place: place_of_port(&row.place, TESTERS_PORT), ..row.clone() });
        named.filter(|row| row.packets > 0).collect()
    };
    let sending: Vec<Loss> = ways.iter().flat_map(|way| own(&way.ports.generator)).collect();
    let receiving: Vec<Loss> = ways.iter().flat_map(|way| own(&way.ports.receiver)).collect();
    let sent: u64 = ways.iter().map(|way| way.sent).sum();
    let received: u64 = ways.iter().map(|way| way.received).sum();

    let before = sent.saturating_sub(sum(&sending) + switch.received + sum(&switch.before));
    let others: u64 = ways.iter().map(|way| way.ports.other_streams).sum();
    let earlier = others.min(switch.waiting_before);
    let mut inside = (switch.received + earlier).saturating_sub(switch.sent + sum(&switch.inside));
    let while_reading: u64 = ways.iter().map(|way| way.ports.while_reading).sum();
    let after = switch.sent.saturating_sub(sum(&switch.after) + received + sum(&receiving) + while_reading);

    let mut losses = Losses::default();
    losses.at_most.extend((while_reading > 0).then(|| under_way(TESTERS_PORT, while_reading)));
    losses.rows = sending.into_iter().chain(switch.losses().cloned()).chain(receiving).collect();
    if switch.restarted {
        let missing = sent.saturating_sub(received + sum(&losses.rows));
        let cause = "in its rings and queues when it was stopped";
        losses.rows.extend(
            (missing > 0).then(|| Loss::new(SWITCH, cause, missing).inferred_from("its account, which begins anew")),
        );
    } else {
        let queued = in_switch(SWITCH, switch);
        let queued = Loss { packets: queued.packets.min(inside), ..queued };
        inside -= queued.packets;
        losses.rows.extend((queued.packets > 0).then_some(queued));
        let places = [
            ("between the sending port and the switch", before),
            ("in the switch", inside),
            ("between the switch and the receiving port", after),
        ];
        let unnamed = places.into_iter().filter(|(_, packets)| *packets > 0);
        losses.unnamed =
            unnamed.map(|(place, packets)| Loss::new(place, "no counter names the cause", packets)).collect();
    }
    hints::add(&mut losses.rows);
    hints::add(&mut losses.unnamed);
    hints::add(&mut losses.at_most);
    losses
}

fn sum(rows: &[Loss]) -> u64 {
    rows.iter().map(|row| row.packets).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::PortRows;

    fn switch(received: u64, sent: u64, full: u64) -> SwitchCounters {
        let inside = vec![Loss::new("switch port out", "egress-full", full)];
        SwitchCounters { received, sent, inside, ..SwitchCounters::default() }
    }

    fn found(switch: &SwitchCounters, sent: u64, received: u64, ports: &PortRows) -> Losses {
        losses_over_memory(switch, &[Direction { sent, received, unknown: 0, ports }])
    }

    fn rows(losses: &[Loss]) -> Vec<(&str, u64)> {
        losses.iter().map(|row| (row.place.as_str(), row.packets)).collect()
    }

    #[test]
    fn what_the_switch_says_is_a_row_with_a_hint_and_nothing_is_left() {
        let losses = found(&switch(100, 80, 20), 100, 80, &PortRows::default());
        assert_eq!((rows(&losses.rows), rows(&losses.unnamed)), (vec![("switch port out", 20)], vec![]));
        assert!(losses.rows[0].hint.is_some());
        assert_eq!(found(&switch(100, 100, 0), 100, 100, &PortRows::default()), Losses::default());
    }

    #[test]
    fn what_nobody_counts_has_its_place_and_no_cause() {
        let ports =
            PortRows { receiver: vec![Loss::new("memif:/tmp/x", "longer than the batch", 2)], ..PortRows::default() };
        let losses = found(&switch(95, 80, 10), 100, 71, &ports);
        assert_eq!(rows(&losses.rows), [("switch port out", 10), (TESTERS_PORT, 2)]);
        assert_eq!(
            rows(&losses.unnamed),
            [
                ("between the sending port and the switch", 5),
                ("in the switch", 5),
                ("between the switch and the receiving port", 7)
            ]
        );
    }

    #[test]
    fn what_waits_in_the_switch_is_a_row_and_what_waited_before_is_none_of_the_trials() {
        let waiting = SwitchCounters { waiting: 40, waiting_before: 30, ..switch(100, 90, 0) };
        let ports = PortRows { other_streams: 30, ..PortRows::default() };
        let losses = found(&waiting, 100, 90, &ports);
        assert_eq!((rows(&losses.rows), rows(&losses.unnamed)), (vec![(SWITCH, 40)], vec![]));
    }

    #[test]
    fn a_switch_that_was_started_anew_has_what_was_in_it() {
        let anew = SwitchCounters { restarted: true, ..switch(30, 20, 10) };
        let losses = found(&anew, 100, 60, &PortRows::default());
        assert_eq!(rows(&losses.rows), [("switch port out", 10), ("Linerate switch", 30)]);
        assert!(losses.rows[1].is_inferred() && losses.unnamed.is_empty());
    }
}
