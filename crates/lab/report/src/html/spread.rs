//! Noise: how far repetitions lie from their median.

use super::chart::{Svg, WIDTH};
use super::page::{Page, shortened};
use crate::figure::Summary;
use crate::overview::is_rate;
use crate::overview::labels::Labels;
use crate::units::percent;

const ROWS_MAX: usize = 24;
const ROW: f64 = 32.0;
/// Never zoom in further than to this deviation: nobody should see mountains in 0.1 %.
const DEVIATION_MIN: f64 = 0.01;

pub(super) fn chart(page: &mut Page, labels: &Labels, figures: &[Summary]) {
    let several = |summary: &&Summary| is_rate(summary) && summary.values.len() > 1 && summary.median() > 0.0;
    let mut rows: Vec<&Summary> = figures.iter().filter(several).collect();
    rows.dedup_by_key(|summary| summary.cell);
    rows.truncate(ROWS_MAX);
    if rows.is_empty() {
        return;
    }
    let deviation = |summary: &Summary, value: f64| value / summary.median() - 1.0;
    let widest = rows.iter().flat_map(|row| [deviation(row, row.min()).abs(), deviation(row, row.max()).abs()]);
    let widest = widest.fold(DEVIATION_MIN, f64::max);
    let place = |share: f64| WIDTH / 2.0 + share / widest * (WIDTH / 2.0 - 8.0);
    let mut svg = Svg::new(WIDTH, rows.len() as f64 * ROW + 20.0);
    svg.line("g", (WIDTH / 2.0, 0.0), (WIDTH / 2.0, rows.len() as f64 * ROW));
    for (number, row) in rows.iter().enumerate() {
        let (y, label) = (number as f64 * ROW, labels.of(row.cell));
        let spread = percent((row.max() - row.min()) / row.median());
        svg.text("", (0.0, y + 11.0), "start", &shortened(label, 40));
        svg.text("t", (WIDTH, y + 11.0), "end", &format!("{spread} apart"));
        let middle = y + 20.0;
        svg.line("a", (place(deviation(row, row.min())), middle), (place(deviation(row, row.max())), middle));
        for value in &row.values {
            let title = format!("{label}: {} ({})", row.unit.words(*value), percent(deviation(row, *value)));
            svg.circle("m s1", (place(deviation(row, *value)), middle), 3.0, &title);
        }
    }
    let bottom = rows.len() as f64 * ROW + 13.0;
    svg.text("t", (0.0, bottom), "start", &format!("-{}", percent(widest)));
    svg.text("t", (WIDTH / 2.0, bottom), "middle", "median");
    svg.text("t", (WIDTH, bottom), "end", &format!("+{}", percent(widest)));
    page.raw("<div class=\"charts wide\">");
    let description = "Each repetition's rate as its deviation from the cell's median; the values are in the table.";
    svg.put(page, "Repetitions beside their median", description, &[]);
    page.raw("</div>");
}
