//! An experiment's results as OpenMetrics 1.0 text: the median of each figure, its bounds, and the ledgers.

use std::borrow::Cow;

use crate::figure::{Summary, Unit, summaries};
use crate::overview::{RowKind, account_rows, goal_rows, ledger_trials};
use crate::{Cell, Results};

/// A metric family: name without unit, unit (the last part of the name), help.
struct Family {
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    lines: Vec<String>,
}

impl Family {
    fn new(name: &'static str, unit: &'static str, help: &'static str) -> Self {
        Self { name, unit, help, lines: Vec::new() }
    }

    fn full_name(&self) -> String {
        if self.unit.is_empty() { self.name.to_owned() } else { format!("{}_{}", self.name, self.unit) }
    }

    fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        if value.is_finite() {
            let labels = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
            let labels = labels.collect::<Vec<_>>().join(",");
            self.lines.push(format!("{}{{{labels}}} {value}\n", self.full_name()));
        }
    }

    fn text(&self) -> String {
        if self.lines.is_empty() {
            return String::new();
        }
        let name = self.full_name();
        let mut text = format!("# TYPE {name} gauge\n");
        if !self.unit.is_empty() {
            text.push_str(&format!("# UNIT {name} {}\n", self.unit));
        }
        text.push_str(&format!("# HELP {name} {}\n", escaped(self.help)));
        text.extend(self.lines.iter().map(String::as_str));
        text
    }
}

/// Writes the figures of an experiment as OpenMetrics text, all gauges in base units (seconds, ratios), medians over repetitions.
pub fn openmetrics(results: &Results) -> String {
    let mut families = [
        Family::new("linerate_rate", "packets_per_second", "Packet rate found, median over the repetitions."),
        Family::new("linerate_rate_upper", "packets_per_second", "Lowest load above the rate that failed."),
        Family::new("linerate_time", "seconds", "Latency, recovery, outage and CPU time per packet, medians."),
        Family::new("linerate_loss", "ratio", "Share of packets lost, median."),
        Family::new("linerate_packets", "", "Counts of packets, such as the longest burst without loss, median."),
        Family::new("linerate_sessions", "", "Connections, requests or echoes found, a second or at a time, median."),
        Family::new("linerate_cores_full", "", "Cores that were busy for 95 % of the time or more."),
        Family::new("linerate_work", "", "Cycles or instructions for each packet delivered, median."),
        Family::new("linerate_repetitions", "", "Repetitions behind a figure."),
        Family::new("linerate_marked", "", "1 for each mark that makes a figure doubtful."),
        Family::new(
            "linerate_goal_met",
            "",
            "1 for each limit of the experiment that was kept in every repetition, 0 for one missed.",
        ),
        Family::new("linerate_ledger", "packets", "Account of the trial of each cell that lost most."),
    ];
    {
        let [rates, uppers, times, losses, packets, sessions, cores, work, repetitions, marked, goals, ledger] =
            &mut families;
        for summary in summaries(results).0 {
            let Some(cell) = results.cells.get(summary.cell) else { continue };
            let flows = cell.flows.to_string();
            let labels = labels(results, cell, &flows, &summary);
            let value = summary.median();
            match summary.unit {
                Unit::PacketsPerSecond => rates.add(&labels, value),
                Unit::Nanoseconds => times.add(&labels, value / 1e9),
                Unit::Share => losses.add(&labels, value),
                Unit::Packets => packets.add(&labels, value),
                Unit::PerSecond | Unit::Connections | Unit::Bytes => sessions.add(&labels, value),
                Unit::Cores => cores.add(&labels, value),
                Unit::CyclesPerPacket | Unit::InstructionsPerPacket => work.add(&labels, value),
            }
            if let Some(upper) = summary.upper {
                uppers.add(&labels, upper);
            }
            repetitions.add(&labels, summary.values.len() as f64);
            for mark in &summary.marks {
                marked.add(&[&labels[..], &[("mark", mark.short())]].concat(), 1.0);
            }
        }
        for row in goal_rows(results) {
            let Some(cell) = results.cells.get(row.cell) else { continue };
            let labels = [
                ("experiment", results.name.as_str()),
                ("cell", &cell.id),
                ("test", row.test),
                ("figure", row.name),
                ("wanted", row.wanted),
            ];
            goals.add(&labels, f64::from(u8::from(row.met == row.measured.len())));
        }
        add_ledgers(ledger, results);
    }
    families.iter().map(Family::text).chain(["# EOF\n".to_owned()]).collect()
}

fn labels<'a>(results: &'a Results, cell: &'a Cell, flows: &'a str, summary: &'a Summary) -> Vec<(&'a str, &'a str)> {
    vec![
        ("experiment", &results.name),
        ("cell", &cell.id),
        ("dut", &cell.dut_name),
        ("size", &cell.size),
        ("flows", flows),
        ("direction", &cell.direction),
        ("test", summary.test),
        ("figure", &summary.name),
    ]
}

fn add_ledgers(family: &mut Family, results: &Results) {
    for (cell, made) in ledger_trials(results) {
        let Some(cell) = results.cells.get(cell) else { continue };
        // Rows of the same place and cause that two counters tell apart are one sample.
        let mut sums: Vec<(RowKind, &str, Cow<'_, str>, i128)> = Vec::new();
        for row in account_rows(&made.trial) {
            let same = sums.iter_mut().find(|sum| (sum.0, sum.1, &sum.2) == (row.kind, row.place, &row.cause));
            match same {
                Some(sum) => sum.3 += row.packets,
                None => sums.push((row.kind, row.place, row.cause, row.packets)),
            }
        }
        for (kind, place, cause, packets) in sums {
            let labels = [
                ("experiment", results.name.as_str()),
                ("cell", &cell.id),
                ("row", kind.word()),
                ("place", place),
                ("cause", &*cause),
            ];
            family.add(&labels, packets as f64);
        }
    }
}

/// Label values and help as the text format wants them: backslash, line feed and quote escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}
