//! Bars: rates with the published figures below them, and costs.

use super::chart::{Scale, Svg, WIDTH};
use super::page::{Page, shortened};
use crate::Results;
use crate::figure::{Mark, Summary, Unit};
use crate::overview::labels::Labels;
use crate::overview::{is_rate, limits};

const ROWS_MAX: usize = 24;
/// Published figures beyond this multiple of the measured ones are only pointed at: they would make all bars dots.
const PUBLISHED_MAX: f64 = 1.8;
const ROW: f64 = 34.0;
const PUBLISHED_ROW: f64 = 23.0;
const BAR: f64 = 11.0;
/// Width of a character of a label, and of a value, which is bold; in the units of the picture, of a wide font.
const LABEL_CHARACTER: f64 = 6.0;
const VALUE_CHARACTER: f64 = 6.7;
/// Between a label and the value behind it.
const GAP: f64 = 8.0;

/// The first rate of each cell, with its range, and what was published.
pub(super) fn throughput(page: &mut Page, results: &Results, labels: &Labels, figures: &[Summary]) {
    let of_cell = |cell: usize| figures.iter().find(move |summary| summary.cell == cell && is_rate(summary));
    let rates: Vec<&Summary> = (0..results.cells.len()).filter_map(of_cell).take(ROWS_MAX).collect();
    let Some(first) = rates.first() else { return };
    let most = rates.iter().map(|summary| summary.upper.unwrap_or(summary.max())).fold(0.0, f64::max);
    let published = |summary: &Summary| {
        let rows = results.cells.get(summary.cell).map(|cell| cell.published.as_slice()).unwrap_or_default();
        rows.iter().filter(|row| matches!(row.what.as_str(), "throughput" | "rate")).collect::<Vec<_>>()
    };
    let within = |value: f64| value <= PUBLISHED_MAX * most;
    let values = rates.iter().flat_map(|summary| published(summary)).filter_map(|row| row.value);
    let scale = Scale::linear(values.filter(|value| within(*value)).fold(most, f64::max), 0.0, WIDTH - 4.0);
    let height: f64 = rates.iter().map(|summary| ROW + PUBLISHED_ROW * published(summary).len() as f64).sum();
    let mut svg = Svg::new(WIDTH, height + 4.0);
    let mut y = 0.0;
    for summary in &rates {
        let label = labels.of(summary.cell);
        bar(&mut svg, &scale, y, summary, label);
        y += ROW - 6.0;
        for row in published(summary) {
            let value = row.value.unwrap_or(f64::NAN);
            let title = format!("{label}: published {} ({})", row.text, row.source);
            svg.text("t", (0.0, y + 10.0), "start", &shortened(&format!("{}: {}", row.source, row.text), 56));
            if within(value) {
                svg.rect("hollow", (0.5, y + 13.5), (scale.place(value), 5.0), &title);
            } else if value.is_finite() {
                let (end, middle) = (WIDTH - 5.0, y + 16.0);
                svg.path("r", &format!("M0 {middle:.1}H{end:.1}"), &title);
                svg.path("a", &format!("M{:.1} {:.1}l5 3l-5 3", end - 5.0, middle - 3.0), &title);
            }
            y += PUBLISHED_ROW;
        }
        y += 6.0;
    }
    let description = format!("{} of each cell; the values are in the table below.", first.name);
    let mut legend = vec![(
        "<rect class=\"f1\" y=\"1\" width=\"26\" height=\"8\"/>".to_owned(),
        format!("measured here, {}", first.name),
    )];
    if rates.iter().any(|summary| !published(summary).is_empty()) {
        let swatch = "<rect class=\"hollow\" x=\"1\" y=\"2\" width=\"24\" height=\"6\"/>".to_owned();
        legend.push((swatch, "published, on another machine (arrow: beyond the scale)".to_owned()));
    }
    if rates.iter().any(|summary| !summary.marks.is_empty()) {
        let swatch = "<rect class=\"f5\" y=\"1\" width=\"26\" height=\"8\"/>".to_owned();
        legend.push((swatch, "doubtful: see its mark".to_owned()));
    }
    page.raw("<div class=\"charts wide\">");
    svg.put(page, "Rate of each cell", &description, &legend);
    page.raw("</div>");
}

/// A label, a bar with the range over the repetitions, and the value.
fn bar(svg: &mut Svg, scale: &Scale, y: f64, summary: &Summary, label: &str) {
    let words = summary.words();
    let marks = summary.mark_words();
    let shown = if marks.is_empty() { words.clone() } else { format!("{words}, {marks}") };
    let range = format!("{} to {}", summary.unit.words(summary.min()), summary.unit.words(summary.max()));
    let title = format!("{label}: {shown} ({range})");
    let (label, shown) = beside(label, &words, &summary.marks);
    svg.text("", (0.0, y + 11.0), "start", &label);
    let class = if summary.marks.is_empty() { "b" } else { "b d" };
    svg.text(class, (WIDTH - 4.0, y + 11.0), "end", &shown);
    let fill = if summary.marks.is_empty() { "f1" } else { "f5" };
    svg.rect(fill, (0.0, y + 15.0), (scale.place(summary.median()), BAR - 4.0), &title);
    if summary.values.len() > 1 {
        let (from, to, middle) = (scale.place(summary.min()), scale.place(summary.max()), y + 15.0 + (BAR - 4.0) / 2.0);
        svg.path(
            "a",
            &format!("M{from:.1} {middle:.1}H{to:.1}M{from:.1} {:.1}v6M{to:.1} {:.1}v6", middle - 3.0, middle - 3.0),
            &range,
        );
    }
    if summary.marks.contains(&Mark::AtMaximum) {
        let x = scale.place(summary.median());
        svg.path("a", &format!("M{x:.1} {:.1}l4 3.5l-4 3.5", y + 15.0), "or more");
    }
}

/// A label and what stands behind it in the same line: the value with its marks, or as many of them as there is room for. The title and the
/// table have all of them, and the bar's colour says that there are some.
fn beside(label: &str, words: &str, marks: &[Mark]) -> (String, String) {
    let room = |shown: &str| (WIDTH - 4.0 - GAP - VALUE_CHARACTER * shown.chars().count() as f64) / LABEL_CHARACTER;
    let with = |count: usize| {
        let more = if count < marks.len() { ", …" } else { "" };
        let marks: String = marks.iter().take(count).map(|mark| format!(", {}", mark.short())).collect();
        format!("{words}{marks}{}", if count > 0 { more } else { "" })
    };
    let fits = |shown: &String| label.chars().count() as f64 <= room(shown);
    let shown = (0..=marks.len()).rev().map(with).find(fits).unwrap_or_else(|| words.to_owned());
    (shortened(label, room(&shown).max(1.0) as usize), shown)
}

/// CPU time per packet of each cell.
pub(super) fn costs(page: &mut Page, labels: &Labels, figures: &[Summary]) {
    let is_time = |summary: &&Summary| summary.test == "cpu" && summary.unit == Unit::Nanoseconds;
    let mut costs: Vec<&Summary> = figures.iter().filter(is_time).collect();
    costs.dedup_by_key(|summary| summary.cell);
    page.raw("<div class=\"charts wide\">");
    of_cells(page, labels, &costs, "CPU time per packet, all cores together");
    page.raw("</div>");
}

/// The most connections and requests that succeed, a picture for each test.
pub(super) fn sessions(page: &mut Page, labels: &Labels, figures: &[Summary]) {
    page.raw("<div class=\"charts wide\">");
    for (what, of_test) in limits(figures) {
        of_cells(page, labels, &of_test, &format!("{}{} that all succeed", what[..1].to_uppercase(), &what[1..]));
    }
    page.raw("</div>");
}

/// One bar for each of these figures.
pub(super) fn of_cells(page: &mut Page, labels: &Labels, figures: &[&Summary], caption: &str) {
    let shown: Vec<_> = figures.iter().take(ROWS_MAX).collect();
    if shown.is_empty() {
        return;
    }
    let scale = Scale::linear(shown.iter().map(|summary| summary.max()).fold(0.0, f64::max), 0.0, WIDTH - 4.0);
    let mut svg = Svg::new(WIDTH, ROW * shown.len() as f64);
    for (row, summary) in shown.iter().enumerate() {
        bar(&mut svg, &scale, ROW * row as f64, summary, labels.of(summary.cell));
    }
    svg.put(page, caption, "The values are in the table below.", &[]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_never_lies_on_its_label() {
        let long = "switch-memif-of-a-long-name, 1518 B, 10,000 flows, both ways";
        let marks = [Mark::Wide, Mark::Disturbed];
        assert_eq!(beside("ovs, 64 B", "54.18 kpps", &marks).1, "54.18 kpps, wide bounds, disturbed");
        assert_eq!(beside("switch-memif, 1518 B", "199.4 kpps", &marks).1, "199.4 kpps, wide bounds, …");
        assert_eq!(beside("switch-memif, 1518 B, 10,000 flows", "199.4 kpps", &marks).1, "199.4 kpps");
        for label in ["", "ovs, 64 B", "switch-memif, 1518 B", long] {
            for count in 0..=marks.len() {
                let (label, shown) = beside(label, "199.4 kpps", &marks[..count]);
                let width =
                    label.chars().count() as f64 * LABEL_CHARACTER + shown.chars().count() as f64 * VALUE_CHARACTER;
                assert!(width + GAP <= WIDTH, "{label:?} and {shown:?}");
                assert!(shown.starts_with("199.4 kpps"), "{shown:?}");
            }
        }
    }
}
