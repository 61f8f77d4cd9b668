//! Throughput against frame size, a picture for each number of flows and direction, a line for each device.

use super::CHARTS_MAX;
use super::chart::{Line, Plot, Reference, Scale};
use super::page::Page;
use crate::figure::Summary;
use crate::overview::is_rate;
use crate::overview::labels::{flows_words, line_name};
use crate::units::{L1_OVERHEAD_BYTES, pps};
use crate::{Cell, Results};

/// Speeds of links whose line-rate curve is drawn where it is within the picture, in Gbit/s.
const LINKS_GBPS: [f64; 6] = [1.0, 10.0, 25.0, 40.0, 100.0, 400.0];
/// The path without the DUT is drawn up to this multiple of what was measured: beyond it all lines would lie on the axis.
const BASELINE_MAX: f64 = 4.0;
/// Points of a line-rate curve.
const CURVE_POINTS: usize = 40;

pub(super) fn charts(page: &mut Page, results: &Results, figures: &[Summary]) {
    let mut groups: Vec<(u64, &str)> = Vec::new();
    for cell in &results.cells {
        if !groups.contains(&(cell.flows, &cell.direction)) {
            groups.push((cell.flows, &cell.direction));
        }
    }
    page.raw("<div class=\"charts wide\">");
    for (flows, direction) in groups.into_iter().take(CHARTS_MAX) {
        let cells: Vec<(usize, &Cell)> = results
            .cells
            .iter()
            .enumerate()
            .filter(|(_, cell)| cell.flows == flows && cell.direction == direction)
            .collect();
        let mut sizes: Vec<f64> = cells.iter().map(|(_, cell)| cell.size_wire).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        if sizes.len() > 1 && !page.is_full() {
            let caption = format!("Rate by frame size, {}, {direction}", flows_words(flows));
            chart(page, caption, &cells, &sizes, figures);
        }
    }
    page.raw("</div>");
}

fn chart(page: &mut Page, caption: String, cells: &[(usize, &Cell)], sizes: &[f64], figures: &[Summary]) {
    let rate = |cell: usize| figures.iter().find(|summary| summary.cell == cell && is_rate(summary));
    let mut baselines: Vec<Baseline> = Vec::new();
    for (cell, pps) in cells.iter().filter_map(|(_, cell)| Some((cell, cell.baseline_pps?))) {
        let (name, point) = (line_name(cell), (cell.size_wire, pps));
        match baselines.iter_mut().find(|one| one.name == name) {
            Some(one) => one.points.push(point),
            None => baselines.push(Baseline { name, points: vec![point] }),
        }
    }
    let lines = Line::gather(cells.iter().filter_map(|(index, cell)| {
        let summary = rate(*index)?;
        let words = format!("{} B: {} {}", cell.size_wire, summary.words(), summary.mark_words());
        Some((line_name(cell), (cell.size_wire, summary.median(), words)))
    }));
    let measured = lines.iter().flat_map(|line| &line.points).map(|(_, y, _)| *y).fold(0.0, f64::max);
    baselines.retain(|one| one.points.len() > 1 && one.most() <= BASELINE_MAX * measured);
    let most = baselines.iter().map(Baseline::most).fold(measured, f64::max);
    let ((x_from, x_to), (y_from, y_to)) = (Plot::x_range(), Plot::y_range());
    let (least, largest) = (sizes.first().copied().unwrap_or(64.0), sizes.last().copied().unwrap_or(64.0));
    let x = Scale::log_between(least, largest, x_from + 10.0, x_to - 10.0);
    let y = Scale::linear(most, y_from, y_to);
    let mut references = Vec::new();
    for mut baseline in baselines {
        baseline.points.sort_by(|one, other| one.0.total_cmp(&other.0));
        references.push(Reference {
            name: "the same path without the DUT".to_owned(),
            label: String::new(),
            class: "base",
            points: baseline.points,
        });
    }
    references.extend(LINKS_GBPS.iter().filter_map(|gbps| line_rate(*gbps, least, largest, y.high())));
    let description =
        format!("{} line(s) over {} frame sizes; the values are in the table below.", lines.len(), sizes.len());
    let x_ticks = sizes.iter().map(|size| (*size, format!("{size:.0}"))).collect();
    let y_ticks = y.ticks().into_iter().map(|tick| (tick, short_pps(tick))).collect();
    let (x_title, y_title) = ("bytes of a frame on the wire", "pps");
    Plot { caption, description, x, y, x_ticks, y_ticks, x_title, y_title, lines, references }.put(page);
}

/// What a device's path carries without it, by frame size.
struct Baseline {
    name: String,
    points: Vec<(f64, f64)>,
}

impl Baseline {
    fn most(&self) -> f64 {
        self.points.iter().map(|(_, pps)| *pps).fold(0.0, f64::max)
    }
}

/// The line-rate curve of a link, as far as it is within the picture.
fn line_rate(gbps: f64, least: f64, largest: f64, most_pps: f64) -> Option<Reference> {
    let rate = |size: f64| gbps * 1e9 / ((size + f64::from(L1_OVERHEAD_BYTES)) * 8.0);
    let size = |step: usize| least * (largest / least).powf(step as f64 / CURVE_POINTS as f64);
    let all = (0..=CURVE_POINTS).map(|step| (size(step), rate(size(step))));
    let points: Vec<_> = all.filter(|(_, pps)| *pps <= most_pps).collect();
    let name = "line rate of a link, L1".to_owned();
    (points.len() > 1).then(|| Reference { name, label: format!("{gbps:.0} Gbit/s"), class: "r", points })
}

/// `1.5 M`, for axes.
pub(super) fn short_pps(value: f64) -> String {
    let words = pps(value);
    let (number, unit) = words.split_once(' ').unwrap_or((&words, ""));
    let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number} {}", unit.trim_end_matches("pps")).trim_end().to_owned()
}
