//! Captured of what was sent, and the idle share of the machine, against load: two pictures for each size and direction.

use super::CHARTS_MAX;
use super::chart::{KINDS, Line, Plot, Scale};
use super::page::Page;
use super::sizes::{short_pps, tick_percent};
use crate::Results;
use crate::overview::{Curve, CurvePoint, Curves, capture_curves};
use crate::units::{percent, pps};

/// One of the two.
struct Picture {
    caption: &'static str,
    /// Title of the axis, and what a point's share is of.
    share: &'static str,
    value: fn(&CurvePoint) -> Option<f64>,
}

const PICTURES: [Picture; 2] = [
    Picture { caption: "Captured of what was sent", share: "captured", value: |point| Some(point.captured_ratio) },
    Picture { caption: "Idle share of all cores", share: "idle", value: |point| point.idle_share },
];

pub(super) fn charts(page: &mut Page, results: &Results) {
    page.raw("<div class=\"charts\">");
    for curves in capture_curves(results).iter().take(CHARTS_MAX / PICTURES.len()) {
        for picture in &PICTURES {
            if !page.is_full() {
                chart(page, curves, picture);
            }
        }
    }
    page.raw("</div>");
}

fn chart(page: &mut Page, curves: &Curves, picture: &Picture) {
    let place = |point: &CurvePoint| {
        let share = (picture.value)(point)?;
        Some((point.load_pps, share, format!("{} {} at {}", percent(share), picture.share, pps(point.load_pps))))
    };
    let line =
        |curve: &Curve| Line { name: curve.name.clone(), points: curve.points.iter().filter_map(place).collect() };
    // One point is no line.
    let lines: Vec<Line> = curves.settings.iter().take(KINDS).map(line).filter(|line| line.points.len() > 1).collect();
    if lines.is_empty() {
        return;
    }
    let ((x_from, x_to), (y_from, y_to)) = (Plot::x_range(), Plot::y_range());
    let x =
        Scale::linear(lines.iter().flat_map(|line| &line.points).map(|(x, ..)| *x).fold(0.0, f64::max), x_from, x_to);
    let y = Scale::linear(1.0, y_from, y_to);
    let x_ticks = x.ticks().into_iter().map(|tick| (tick, short_pps(tick))).collect();
    let y_ticks = y.ticks().into_iter().map(|tick| (tick, tick_percent(tick))).collect();
    let caption = format!("{}: {}", picture.caption, curves.case);
    let description =
        format!("Share {} at rising load, {} line(s); the values are in the table.", picture.share, lines.len());
    let (x_title, y_title, references) = ("offered load, pps", picture.share, Vec::new());
    Plot { caption, description, x, y, x_ticks, y_ticks, x_title, y_title, lines, references }.put(page);
}
