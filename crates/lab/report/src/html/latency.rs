//! Latency by percentile, as HDR histograms are shown: the axis is the logarithm of 1 / (1 - p), so that every further nine has its place.

use super::CHARTS_MAX;
use super::chart::{KINDS, Line, Plot, Scale};
use super::page::Page;
use crate::figure::load_words;
use crate::overview::labels::Labels;
use crate::units::nanoseconds;
use crate::{Cell, LatencyPoint, Results, TestResult};

/// The last nine that is drawn.
const NINES_MAX: f64 = 6.0;

pub(super) fn charts(page: &mut Page, results: &Results, labels: &Labels) {
    let of_cell = |(index, cell): (usize, &Cell)| {
        let lines: Vec<Line> = lines(cell);
        (!lines.is_empty()).then(|| (labels.of(index).to_owned(), lines))
    };
    let all: Vec<(String, Vec<Line>)> = results.cells.iter().enumerate().filter_map(of_cell).take(CHARTS_MAX).collect();
    let values = || all.iter().flat_map(|(_, lines)| lines).flat_map(|line| &line.points).map(|(_, y, _)| *y);
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    page.raw("<div class=\"charts\">");
    for (caption, lines) in all {
        if !page.is_full() {
            chart(page, caption, lines, least, most);
        }
    }
    page.raw("</div>");
}

/// A line for each load, of the first repetition that has it.
fn lines(cell: &Cell) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for finding in &cell.findings {
        let Some(TestResult::Latency { points }) = &finding.result else { continue };
        for point in points {
            let name = match point.share {
                0.0 => format!("idle ({})", crate::units::pps(point.load_pps)),
                _ => format!("at {}", load_words(point)),
            };
            let curve = curve(point);
            let is_new = lines.iter().all(|line| line.name != name);
            if is_new && curve.len() > 1 && lines.len() < KINDS {
                lines.push(Line { name, points: curve });
            }
        }
    }
    lines
}

/// Number of nines and latency.
fn curve(point: &LatencyPoint) -> Vec<(f64, f64, String)> {
    let words = |nines: f64, span_ns: f64| format!("{} at p{}", nanoseconds(span_ns), percentile(nines));
    let total: f64 = point.histogram.iter().map(|(_, packets)| *packets as f64).sum();
    if total > 0.0 {
        let mut sorted = point.histogram.clone();
        sorted.sort_unstable();
        let mut below = 0.0;
        let steps = sorted.iter().map(|(edge_ns, packets)| {
            below += *packets as f64;
            // The last packet stands for the last share that so many packets can tell.
            let nines = ((total - below) / total).max(1.0 / (2.0 * total)).log10().abs().min(NINES_MAX);
            (nines, *edge_ns as f64, words(nines, *edge_ns as f64))
        });
        return steps.collect();
    }
    let Some(latency) = &point.latency else { return Vec::new() };
    let known = [
        (0.301, latency.p50_ns),
        (1.0, latency.p90_ns),
        (2.0, latency.p99_ns),
        (3.0, latency.p999_ns),
        (4.0, latency.p9999_ns),
    ];
    known.into_iter().map(|(nines, span_ns)| (nines, span_ns as f64, words(nines, span_ns as f64))).collect()
}

fn percentile(nines: f64) -> String {
    let text = format!("{:.4}", 100.0 - 100.0 / 10f64.powf(nines));
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn chart(page: &mut Page, caption: String, lines: Vec<Line>, least: f64, most: f64) {
    let ((x_from, x_to), (y_from, y_to)) = (Plot::x_range(), Plot::y_range());
    let nines = lines.iter().flat_map(|line| &line.points).map(|(x, ..)| *x).fold(2.0, f64::max).ceil();
    let x = Scale::between(0.0, nines, x_from, x_to);
    let y = Scale::log(least, most, y_from, y_to);
    let x_ticks = ["0", "90", "99", "99.9", "99.99", "99.999", "99.9999"];
    let x_ticks = x_ticks.iter().enumerate().map(|(nines, words)| (nines as f64, (*words).to_owned()));
    let x_ticks = x_ticks.take_while(|(tick, _)| *tick <= nines).collect();
    let y_ticks = y.ticks().into_iter().map(|tick| (tick, short_time(tick))).collect();
    let description = format!(
        "Latency at rising percentiles, {} load(s), both axes logarithmic; the values are in the table.",
        lines.len()
    );
    let (x_title, y_title, references) = ("percentile of packets, %", "latency", Vec::new());
    Plot { caption, description, x, y, x_ticks, y_ticks, x_title, y_title, lines, references }.put(page);
}

fn short_time(span_ns: f64) -> String {
    let words = nanoseconds(span_ns);
    let (number, unit) = words.split_once(' ').unwrap_or((&words, ""));
    let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number} {unit}")
}
