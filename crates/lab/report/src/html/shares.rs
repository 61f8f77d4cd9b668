//! Shares against offered load, which pictures of losses and of captures have in common.

use super::chart::{Line, Plot, Scale};
use super::page::Page;
use super::sizes::short_pps;
use crate::units::percent;

/// Draws `lines`, of load in packets per second and share. `what` is the share's name; its axis goes to `most` at least.
pub(super) fn chart(page: &mut Page, caption: String, what: &'static str, most: f64, lines: Vec<Line>) {
    let ((x_from, x_to), (y_from, y_to)) = (Plot::x_range(), Plot::y_range());
    let most_pps = lines.iter().flat_map(|line| &line.points).map(|(x, ..)| *x).fold(0.0, f64::max);
    let x = Scale::linear(most_pps, x_from, x_to);
    let y = Scale::linear(most, y_from, y_to);
    let x_ticks = x.ticks().into_iter().map(|tick| (tick, short_pps(tick))).collect();
    let y_ticks = y.ticks().into_iter().map(|tick| (tick, tick_percent(tick))).collect();
    let description = format!("Share {what} at rising load, {} line(s); the values are in the table.", lines.len());
    let (x_title, y_title, references) = ("offered load, pps", what, Vec::new());
    Plot { caption, description, x, y, x_ticks, y_ticks, x_title, y_title, lines, references }.put(page);
}

/// `20 %`, without digits that say nothing.
fn tick_percent(share: f64) -> String {
    let words = percent(share);
    words.replace(".0 %", " %").replace(".00 %", " %")
}
