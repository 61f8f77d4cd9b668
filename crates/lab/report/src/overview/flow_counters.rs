//! What the flow entries of a switch counted, beside what the tester sent and received.

use super::labels::Labels;
use super::{Entry, Grid, Tone, Topic};
use crate::figure::key_trial;
use crate::units::count;
use crate::{FLOW_MATCHES, Results};

/// A row for each finding whose device counts by flow entries.
pub(super) fn grid(results: &Results, labels: &Labels) -> Grid {
    let columns = [
        ("cell", false),
        ("sent", true),
        ("matched by flow entries", true),
        ("received", true),
        ("the flows say", false),
    ];
    let mut grid = Grid::new(Topic::FlowCounters, "Flow counters and the tester's", &columns);
    for (index, cell) in results.cells.iter().enumerate() {
        for made in cell.findings.iter().filter_map(key_trial) {
            let Some(matched) = made.dut_counters.get(FLOW_MATCHES) else { continue };
            let account = &made.trial.account;
            let (words, tone) = verdict(account.sent(), *matched, account.delivered());
            let numbers = [account.sent(), *matched, account.delivered()].map(|packets| Entry::new(count(packets)));
            let row = [Entry::new(labels.of(index))].into_iter().chain(numbers);
            grid.rows.push(row.chain([Entry::toned(words, tone)]).collect());
        }
    }
    if !grid.rows.is_empty() {
        let note = "Packets that all flow entries of the switch counted in the trial, both directions together. What it lost before \
                    its entries is missing in all of them; what was lost after a match is missing at the receiver only.";
        grid.notes = vec![note.to_owned()];
    }
    grid
}

/// Where the packets are that not everybody counted.
fn verdict(sent: u64, matched: u64, received: u64) -> (String, Tone) {
    let (before, after) = (sent.checked_sub(matched), matched.checked_sub(received));
    match (before, after) {
        (Some(0), Some(0)) => ("equal to sent and received".to_owned(), Tone::Good),
        (Some(before), Some(0)) => (format!("equal to received: {} lost before a match", count(before)), Tone::Plain),
        (Some(0), Some(after)) => (format!("equal to sent: {} lost after the match", count(after)), Tone::Plain),
        (Some(before), Some(after)) => {
            (format!("{} lost before a match, {} after it", count(before), count(after)), Tone::Plain)
        }
        (None, _) => (format!("{} more than were sent", count(matched - sent)), Tone::Bad),
        (_, None) => (format!("{} fewer than were received", count(received - matched)), Tone::Bad),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_says_on_which_side_of_the_match_packets_are_missing() {
        let cases = [
            (100, 100, 100, "equal to sent and received"),
            (100, 70, 70, "equal to received: 30 lost before a match"),
            (100, 100, 90, "equal to sent: 10 lost after the match"),
            (100, 80, 75, "20 lost before a match, 5 after it"),
            (100, 120, 100, "20 more than were sent"),
            (100, 90, 95, "5 fewer than were received"),
        ];
        for (sent, matched, received, words) in cases {
            let (said, tone) = verdict(sent, matched, received);
            assert_eq!((said.as_str(), tone == Tone::Bad), (words, words.contains("more") || words.contains("fewer")));
        }
    }
}
