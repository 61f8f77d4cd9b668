//! Timestamps of one network card: whether latencies can be measured by its own clock.

use super::Finding;
use super::facts::{ClockState, Interface};

const WHY: &str = "latency tests then measure by software, with the tester's and the driver's own time in it";

pub(super) fn check(interface: &Interface) -> Option<Finding> {
    let timestamps = interface.timestamps.as_ref().filter(|_| interface.hardware)?;
    let topic = format!("{} timestamps", interface.name);
    if !timestamps.sent || timestamps.received.is_empty() {
        return Some(Finding::note(&topic, timestamps.words.clone(), WHY));
    }
    Some(match &timestamps.clock_state {
        ClockState::Runs => Finding::good(&topic, timestamps.words.clone()),
        ClockState::None => {
            Finding::note(&topic, format!("{}: it has no clock that can be read", timestamps.words), WHY)
        }
        ClockState::Stands => Finding::warning(
            &topic,
            format!("{}: its clock stands still", timestamps.words),
            "its timestamps say nothing",
        ),
        ClockState::Pace(thousandths) => Finding::warning(
            &topic,
            format!(
                "{}: its clock runs at {} times the pace of the system's",
                timestamps.words,
                *thousandths as f64 / 1e3
            ),
            "times between its timestamps are wrong by as much, so latency tests do not use them",
        ),
        ClockState::Unreadable(why) => {
            Finding::note(&topic, format!("{}: its clock cannot be read: {why}", timestamps.words), WHY)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::super::facts::Timestamps;
    use super::*;

    #[test]
    fn a_card_with_a_clock_that_runs_is_good_and_others_say_why_not() {
        let timestamps = Timestamps {
            words: "by the card".into(),
            sent: true,
            received: vec!["all".into()],
            received_now: Some("nothing".into()),
            clock: Some(0),
            clock_state: ClockState::Runs,
        };
        let card = |timestamps| Interface { hardware: true, timestamps: Some(timestamps), ..Interface::default() };
        let severity = |timestamps| check(&card(timestamps)).expect("a finding").severity;
        let at = |clock_state| Timestamps { clock_state, ..timestamps.clone() };
        assert_eq!(severity(timestamps.clone()), Severity::Good);
        assert_eq!(severity(at(ClockState::Stands)), Severity::Warning);
        let fast = check(&card(at(ClockState::Pace(1_667)))).expect("a finding");
        assert_eq!(fast.severity, Severity::Warning);
        assert!(format!("{fast:?}").contains("1.667 times the pace"), "{fast:?}");
        for clock_state in [ClockState::None, ClockState::Unreadable("not allowed".into())] {
            assert_eq!(severity(at(clock_state)), Severity::Note);
        }
        assert_eq!(severity(Timestamps { sent: false, ..timestamps.clone() }), Severity::Note);
        assert_eq!(severity(Timestamps { received: Vec::new(), ..timestamps.clone() }), Severity::Note);
        // A software interface has none to have.
        assert_eq!(check(&Interface { hardware: false, ..card(timestamps) }), None);
    }
}
