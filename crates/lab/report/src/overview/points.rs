//! The capture points of a cell, over its repetitions.

use super::{Entry, Tone};
use crate::capture::{CapturePoint, RingTrend};
use crate::figure::median;
use crate::units::{nanoseconds, percent, pps};
use crate::{Cell, TestResult};

/// A load was really sent if this share of it was.
const SENT_SHARE: f64 = 0.95;

/// The points of a cell by load, each the median over the repetitions.
pub(super) fn points(cell: &Cell) -> Vec<Point<'_>> {
    let mut all: Vec<&CapturePoint> = Vec::new();
    for finding in &cell.findings {
        if let Some(TestResult::Capture { points }) = &finding.result {
            all.extend(points);
        }
    }
    all.sort_by(|one, other| one.load_pps.total_cmp(&other.load_pps));
    all.chunk_by(|one, other| one.load_pps == other.load_pps).map(|group| Point(group.to_vec())).collect()
}

/// The repetitions of one load. At least one.
pub(super) struct Point<'a>(pub(super) Vec<&'a CapturePoint>);

impl Point<'_> {
    pub(super) fn load_pps(&self) -> f64 {
        self.of(|point| Some(point.load_pps)).unwrap_or(f64::NAN)
    }

    /// The median of those that are known.
    pub(super) fn of(&self, value: fn(&CapturePoint) -> Option<f64>) -> Option<f64> {
        let known: Vec<f64> =
            self.0.iter().filter_map(|point| value(point)).filter(|value| value.is_finite()).collect();
        (!known.is_empty()).then(|| median(&known))
    }

    pub(super) fn captured_of_sent(&self) -> f64 {
        self.of(|point| Some(point.captured_of_sent)).unwrap_or(0.0)
    }

    /// Between the repetitions.
    pub(super) fn spread(&self) -> f64 {
        let of = |fold: fn(f64, f64) -> f64| self.0.iter().map(|point| point.captured_of_sent).reduce(fold);
        of(f64::max).zip(of(f64::min)).map_or(0.0, |(most, least)| most - least)
    }

    pub(super) fn was_sent(&self) -> bool {
        self.of(|point| Some(point.sent_pps / point.load_pps)).is_some_and(|share| share >= SENT_SHARE)
    }

    pub(super) fn ring_trend(&self) -> RingTrend {
        self.0.iter().map(|point| point.ring_trend()).max().unwrap_or_default()
    }

    pub(super) fn outlook_words(&self) -> String {
        let time_to_full_ns = self.0.iter().filter_map(|point| point.time_to_full_ns()).min();
        match self.ring_trend() {
            RingTrend::Steady => "falls back".to_owned(),
            RingTrend::TooShort => "too short to tell".to_owned(),
            RingTrend::Unknown => "not known".to_owned(),
            RingTrend::FullIn => {
                time_to_full_ns.map_or("rises".to_owned(), |ns| format!("rises, full in {}", nanoseconds(ns as f64)))
            }
            RingTrend::Overflowed => "was full".to_owned(),
        }
    }

    pub(super) fn buffers(&self) -> u64 {
        self.0.iter().map(|point| point.buffers()).max().unwrap_or(0)
    }

    /// Load to the trend of the ring, as both grids have it.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let share = |share: Option<f64>| share.map_or("-".to_owned(), percent);
        let lost = if self.captured_of_sent() < 1.0 { Tone::Bad } else { Tone::Good };
        let sent = self.of(|point| Some(point.sent_pps));
        let cost = self.of(|point| point.cpu_ns_per_packet);
        let doubtful = if self.ring_trend() >= RingTrend::FullIn { Tone::Doubtful } else { Tone::Plain };
        vec![
            Entry::new(pps(self.load_pps())),
            Entry::toned(sent.map_or("-".to_owned(), pps), if self.was_sent() { Tone::Plain } else { Tone::Doubtful }),
            Entry::new(share(self.of(|point| point.capture_ratio))),
            Entry::toned(percent(self.captured_of_sent()), lost),
            Entry::new(share(self.of(|point| point.idle_share))),
            Entry::new(cost.map_or("-".to_owned(), nanoseconds)),
            Entry::new(share(self.of(CapturePoint::fill_share))),
            Entry::toned(self.outlook_words(), doubtful),
        ]
    }
}
