//! Echoes against connections: a picture for each placement on cores, a line for each path, and the published ones. Where there is one number of
//! connections only, bars.

use super::bars;
use super::chart::{Line, Plot, Reference, Scale};
use super::page::Page;
use super::sizes::short_pps;
use crate::figure::Summary;
use crate::overview::is_echoes;
use crate::overview::labels::{Labels, connections_words, path_name};
use crate::units::count;
use crate::{Cell, Results};

/// Echoes of a cell.
type Echoes<'a> = (&'a Cell, &'a Summary);

pub(super) fn charts(page: &mut Page, results: &Results, labels: &Labels, figures: &[Summary]) {
    let echoes: Vec<&Summary> = figures.iter().filter(|summary| is_echoes(summary)).collect();
    let mut groups: Vec<(Option<&str>, Vec<Echoes<'_>>)> = Vec::new();
    for summary in &echoes {
        let Some(cell) = results.cells.get(summary.cell) else { continue };
        match groups.iter_mut().find(|(cores, _)| *cores == cell.cores.as_deref()) {
            Some((_, group)) => group.push((cell, *summary)),
            None => groups.push((cell.cores.as_deref(), vec![(cell, *summary)])),
        }
    }
    page.raw("<div class=\"charts wide\">");
    let mut drawn = false;
    for (cores, group) in &groups {
        let mut connections: Vec<f64> = group.iter().map(|(cell, _)| cell.flows as f64).collect();
        connections.sort_by(f64::total_cmp);
        connections.dedup();
        if connections.len() > 1 && !page.is_full() {
            let cores = cores.map_or(String::new(), |name| format!(", cores {name}"));
            chart(page, format!("Echoes a second by connections{cores}"), group, &connections);
            drawn = true;
        }
    }
    if !drawn {
        bars::of_cells(page, labels, &echoes, "Echoes a second");
    }
    page.raw("</div>");
}

fn chart(page: &mut Page, caption: String, group: &[Echoes<'_>], connections: &[f64]) {
    let lines = Line::gather(group.iter().map(|(cell, summary)| {
        let words = format!("{}: {} {}", connections_words(cell.flows), summary.words(), summary.mark_words());
        (path_name(cell), (cell.flows as f64, summary.median(), words))
    }));
    let references = published(group);
    let measured = lines.iter().flat_map(|line| &line.points).map(|(_, y, _)| *y);
    let all: Vec<f64> = measured.chain(references.iter().flat_map(|one| &one.points).map(|(_, y)| *y)).collect();
    let ends = [all.iter().copied().fold(f64::INFINITY, f64::min), all.iter().copied().fold(0.0, f64::max)];
    let ((x_from, x_to), (y_from, y_to)) = (Plot::x_range(), Plot::y_range());
    let ends_of_x = [connections.first(), connections.last()].map(|end| end.copied().unwrap_or(1.0));
    let x = Scale::log_between(ends_of_x[0], ends_of_x[1], x_from + 10.0, x_to - 10.0);
    let y = Scale::log(ends[0], ends[1], y_from, y_to);
    let description = format!(
        "{} line(s) over {} numbers of connections; the values are in the table.",
        lines.len(),
        connections.len()
    );
    let x_ticks = connections.iter().map(|number| (*number, short_count(*number))).collect();
    let y_ticks = y.ticks().into_iter().map(|tick| (tick, short_pps(tick))).collect();
    let (x_title, y_title) = ("connections", "echoes a second");
    Plot { caption, description, x, y, x_ticks, y_ticks, x_title, y_title, lines, references }.put(page);
}

/// The published echoes beside these cells, a line for each source; of its name what the others do not have.
fn published(group: &[Echoes<'_>]) -> Vec<Reference> {
    let mut sources: Vec<(&str, Vec<(f64, f64)>)> = Vec::new();
    for (cell, row) in group.iter().flat_map(|(cell, _)| cell.published.iter().map(move |row| (cell, row))) {
        let Some(value) = row.value.filter(|value| row.what == "echoes" && *value > 0.0) else { continue };
        let point = (cell.flows as f64, value);
        match sources.iter_mut().find(|(source, _)| *source == row.source) {
            Some((_, points)) => points.push(point),
            None => sources.push((&row.source, vec![point])),
        }
    }
    let parts = |source: &str| source.split(", ").map(str::to_owned).collect::<Vec<String>>();
    let all: Vec<Vec<String>> = sources.iter().map(|(source, _)| parts(source)).collect();
    let own = |source: &str| {
        let is_common = |part: &String| all.len() > 1 && all.iter().all(|parts| parts.contains(part));
        parts(source).into_iter().filter(|part| !is_common(part)).collect::<Vec<_>>().join(", ")
    };
    let reference = |(source, mut points): (&str, Vec<(f64, f64)>)| {
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points.dedup();
        // One alone is named below the picture.
        let (name, label) = match all.len() {
            1 => (format!("published: {source}"), String::new()),
            _ => ("published, on another machine".to_owned(), own(source)),
        };
        (points.len() > 1).then_some(Reference { name, label, class: "r", points })
    };
    sources.iter().cloned().filter_map(reference).collect()
}

/// `10 k`, for axes.
fn short_count(number: f64) -> String {
    match number {
        ..1e4 => count(number as u64),
        _ => short_pps(number),
    }
}
