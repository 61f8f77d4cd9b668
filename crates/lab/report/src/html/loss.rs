//! Loss against offered load: a picture for each size, flows and direction, a line for each device.

use super::CHARTS_MAX;
use super::chart::{KINDS, Line};
use super::page::Page;
use super::shares;
use crate::overview::labels::{flows_words, line_name, size_words};
use crate::overview::loss_points;
use crate::units::{percent, pps};
use crate::{Cell, Results};

pub(super) fn charts(page: &mut Page, results: &Results) {
    let group = |cell: &Cell| format!("{}, {}, {}", size_words(cell), flows_words(cell.flows), cell.direction);
    let mut groups: Vec<(String, Vec<Line>)> = Vec::new();
    for (index, cell) in results.cells.iter().enumerate() {
        let mut points: Vec<(f64, f64, String)> = loss_points(results, index)
            .iter()
            .map(|p| (p.load_pps, p.loss_ratio, format!("{} lost at {}", percent(p.loss_ratio), pps(p.load_pps))))
            .collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        if points.is_empty() {
            continue;
        }
        let line = Line { name: line_name(cell), points };
        let name = group(cell);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, lines)) if lines.len() < KINDS => lines.push(line),
            Some(_) => {}
            None => groups.push((name, vec![line])),
        }
    }
    page.raw("<div class=\"charts\">");
    for (name, lines) in groups.into_iter().take(CHARTS_MAX) {
        if !page.is_full() {
            let most = lines.iter().flat_map(|line| &line.points).map(|(_, lost, _)| *lost).fold(0.001, f64::max);
            shares::chart(page, name, "lost", most.min(1.0), lines);
        }
    }
    page.raw("</div>");
}
