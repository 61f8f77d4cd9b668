//! Captured of what was sent, and the idle share of the machine, against load: two pictures for each size and direction.

use super::CHARTS_MAX;
use super::chart::{KINDS, Line};
use super::page::Page;
use super::shares;
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
    Picture { caption: "Captured of what was sent", share: "captured", value: |point| Some(point.captured_of_sent) },
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
    if !lines.is_empty() {
        shares::chart(page, format!("{}: {}", picture.caption, curves.case), picture.share, 1.0, lines);
    }
}
