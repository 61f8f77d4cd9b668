//! The ledger of a trial: places in path order, causes in words, and the unexplained rest.

use super::page::{Page, Style};
use super::table::{Cell, Set, Table};
use crate::units::{count, frame_bytes, nanoseconds, percent, pps, signed_count};
use crate::{Latency, Loss, Trial};

/// Prints the ledger with its heading.
pub(super) fn print(page: &mut Page, trial: &Trial) {
    let load = format!("{} intended for {}", pps(trial.load_pps), nanoseconds(trial.duration_ns as f64));
    // TCP makes packets of many sizes.
    let size = if trial.size_wire == 0 { String::new() } else { format!("{}, ", frame_bytes(trial.size_wire)) };
    let heading = format!("{}: {size}{}, {load}", trial.name, flows(trial.flows));
    page.paragraph("", 0, Style::Heading, &heading);
    if !trial.path.is_empty() {
        page.paragraph("  path", 8, Style::Plain, &trial.path.join(" > "));
    }
    accounts(trial).print(page);
    for hint in hints(trial) {
        page.paragraph("  hint", 8, Style::Plain, &hint);
    }
    page.paragraph("", 2, Style::Faint, &footnote(trial));
    if let Some(latency) = &trial.latency {
        page.paragraph("  latency", 11, Style::Plain, &latency_words(latency));
    }
    for note in &trial.notes {
        page.paragraph("  note", 8, Style::Plain, note);
    }
}

/// What to change, each once, in path order.
fn hints(trial: &Trial) -> Vec<String> {
    let losses = moved(trial.account.unsent_by()).chain(in_path_order(trial));
    let mut hints: Vec<String> = Vec::new();
    for hint in losses.filter_map(|loss| Some(format!("{}: {}", loss.place, loss.hint.as_ref()?))) {
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    hints
}

/// The whole account in a few words, for a trial that has only a line.
pub(super) fn words(trial: &Trial) -> (Style, String) {
    let account = &trial.account;
    let mut words = Vec::new();
    if account.unsent() > 0 {
        let by = moved(account.unsent_by())
            .map(|loss| format!("{} {}: {}", loss.place, loss.cause_words(), count(loss.packets)));
        let by = by.collect::<Vec<_>>().join(", ");
        words.push(if by.is_empty() {
            format!("unsent {}", count(account.unsent()))
        } else {
            format!("unsent {} ({by})", count(account.unsent()))
        });
    }
    for loss in in_path_order(trial) {
        words.push(format!("{} {}: {}", loss.place, loss.cause_words(), count(loss.packets)));
    }
    if account.unexplained() != 0 {
        words.push(format!("unexplained {}", signed_count(account.unexplained())));
    }
    match words.is_empty() {
        true => (Style::Good, "all delivered".to_owned()),
        false => (if account.unexplained() == 0 { Style::Plain } else { Style::Bad }, words.join("; ")),
    }
}

pub(super) fn flows(flows: u64) -> String {
    if flows == 1 { "1 flow".to_owned() } else { format!("{} flows", count(flows)) }
}

fn accounts(trial: &Trial) -> Table {
    let account = &trial.account;
    let share = |packets: f64| {
        if account.intended() == 0 { "-".to_owned() } else { percent(packets / account.intended() as f64) }
    };
    let mut table =
        Table::new(vec![("", Set::Text), ("cause", Set::Text), ("packets", Set::Number), ("share", Set::Number)])
            .without_header();
    let mut row = |place: &str, cause: &str, packets: u64, style| {
        let packets_cell = Cell::styled(count(packets), style);
        table.row(vec![Cell::new(place), Cell::new(cause), packets_cell, Cell::styled(share(packets as f64), style)]);
    };
    row("intended", "", account.intended(), Style::Plain);
    row("unsent", "", account.unsent(), if account.unsent() == 0 { Style::Plain } else { Style::Doubtful });
    for loss in moved(account.unsent_by()) {
        row(&format!("  {}", loss.place), &loss.cause_words(), loss.packets, Style::Doubtful);
    }
    row("sent", "", account.sent(), Style::Plain);
    for loss in in_path_order(trial) {
        row(&format!("  {}", loss.place), &loss.cause_words(), loss.packets, Style::Bad);
    }
    row("delivered", "", account.delivered(), Style::Plain);
    let rest = account.unexplained();
    let (cause, style) = match rest {
        0 => ("", Style::Good),
        1.. => ("missing, and in no counter", Style::Bad),
        _ => ("the counters claim more than is missing", Style::Bad),
    };
    let cells = [Cell::new(cause), Cell::styled(signed_count(rest), style), Cell::styled(share(rest as f64), style)];
    table.row([Cell::new("unexplained")].into_iter().chain(cells).collect());
    table
}

/// Losses that happened, in the order of the path. Places that are not on the path come last.
fn in_path_order(trial: &Trial) -> Vec<&Loss> {
    let place_number = |loss: &&Loss| trial.path.iter().position(|place| *place == loss.place).unwrap_or(usize::MAX);
    let mut losses: Vec<&Loss> = moved(trial.account.lost()).collect();
    losses.sort_by_key(place_number);
    losses
}

fn moved(losses: &[Loss]) -> impl Iterator<Item = &Loss> {
    losses.iter().filter(|loss| loss.packets > 0)
}

fn footnote(trial: &Trial) -> String {
    let account = &trial.account;
    let still = account.lost().len() - moved(account.lost()).count();
    let counters = match still {
        0 => String::new(),
        1 => "; 1 other counter did not move".to_owned(),
        _ => format!("; {still} other counters did not move"),
    };
    format!("duplicated {}, reordered {}{counters}", count(account.duplicated()), count(account.reordered()))
}

fn latency_words(latency: &Latency) -> String {
    let time = |span_ns: u64| nanoseconds(span_ns as f64);
    format!(
        "min {}, p50 {}, p90 {}, p99 {}, p99.9 {}, p99.99 {}, max {}, mean {} ({} samples)",
        time(latency.min_ns),
        time(latency.p50_ns),
        time(latency.p90_ns),
        time(latency.p99_ns),
        time(latency.p999_ns),
        time(latency.p9999_ns),
        time(latency.max_ns),
        nanoseconds(latency.mean_ns),
        count(latency.samples)
    )
}
