//! What captures took in, setting by setting and load by load.

use super::labels::Labels;
use super::recommendation::Race;
use super::{Entry, Grid, Tone, Topic};
use crate::capture::{CapturePoint, Outlook};
use crate::figure::median;
use crate::units::{nanoseconds, percent, pps};
use crate::{Cell, Found, Results};

/// A load was really sent if this share of it was.
const SENT_SHARE: f64 = 0.95;
/// Settings of the ranking.
const RANKED_MAX: usize = 10;
/// Settings of a picture: so many of the best, and of the worst.
const DRAWN_OF_EACH: usize = 3;

/// The points of a cell by load, each the median over the repetitions.
pub(super) fn points(cell: &Cell) -> Vec<Point<'_>> {
    let mut all: Vec<&CapturePoint> = Vec::new();
    for finding in &cell.findings {
        if let Some(Found::Capture { points }) = &finding.found {
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

    pub(super) fn captured_ratio(&self) -> f64 {
        self.of(|point| Some(point.captured_ratio)).unwrap_or(0.0)
    }

    /// Between the repetitions.
    pub(super) fn spread(&self) -> f64 {
        let of = |fold: fn(f64, f64) -> f64| self.0.iter().map(|point| point.captured_ratio).reduce(fold);
        of(f64::max).zip(of(f64::min)).map_or(0.0, |(most, least)| most - least)
    }

    pub(super) fn was_sent(&self) -> bool {
        self.of(|point| Some(point.sent_pps / point.load_pps)).is_some_and(|share| share >= SENT_SHARE)
    }

    pub(super) fn outlook(&self) -> Outlook {
        self.0.iter().map(|point| point.outlook()).max().unwrap_or_default()
    }

    pub(super) fn outlook_words(&self) -> String {
        let full_in_ns = self.0.iter().filter_map(|point| point.full_in_ns()).min();
        match self.outlook() {
            Outlook::Steady => "falls back".to_owned(),
            Outlook::TooShort => "too short to tell".to_owned(),
            Outlook::Unknown => "not known".to_owned(),
            Outlook::FullIn => {
                full_in_ns.map_or("rises".to_owned(), |ns| format!("rises, full in {}", nanoseconds(ns as f64)))
            }
            Outlook::Overflowed => "was full".to_owned(),
        }
    }

    pub(super) fn buffers(&self) -> u64 {
        self.0.iter().map(|point| point.buffers()).max().unwrap_or(0)
    }

    /// Load to outlook, as both grids have it.
    fn entries(&self) -> Vec<Entry> {
        let share = |share: Option<f64>| share.map_or("-".to_owned(), percent);
        let lost = if self.captured_ratio() < 1.0 { Tone::Bad } else { Tone::Good };
        let sent = self.of(|point| Some(point.sent_pps));
        let cost = self.of(|point| point.cpu_ns_per_packet);
        let doubtful = if self.outlook() >= Outlook::FullIn { Tone::Doubtful } else { Tone::Plain };
        vec![
            Entry::new(pps(self.load_pps())),
            Entry::toned(sent.map_or("-".to_owned(), pps), if self.was_sent() { Tone::Plain } else { Tone::Doubtful }),
            Entry::new(share(self.of(|point| point.efficiency))),
            Entry::toned(percent(self.captured_ratio()), lost),
            Entry::new(share(self.of(|point| point.idle_share))),
            Entry::new(cost.map_or("-".to_owned(), nanoseconds)),
            Entry::new(share(self.of(CapturePoint::fill_share))),
            Entry::toned(self.outlook_words(), doubtful),
        ]
    }
}

const COLUMNS: [(&str, bool); 8] = [
    ("load", true),
    ("sent", true),
    ("efficiency", true),
    ("of sent", true),
    ("idle", true),
    ("CPU/packet", true),
    ("ring full", true),
    ("its level", false),
];

/// Every load of every setting.
pub(super) fn grid(results: &Results, labels: &Labels) -> Grid {
    let columns: Vec<_> = [("cell", false)].into_iter().chain(COLUMNS).collect();
    let mut grid = Grid::new(Topic::Captures, "Captured", &columns);
    for (index, cell) in results.cells.iter().enumerate() {
        for point in points(cell) {
            grid.rows.push([vec![Entry::new(labels.of(index))], point.entries()].concat());
        }
    }
    if !grid.rows.is_empty() {
        grid.notes = vec![
            "Loads are of all ports together. Efficiency: captured / (captured + dropped) by the capture's own counts, mean of \
             the ports; it does not see what the kernel lost before the ring. Of sent: captured / sent, which does. Idle: of all \
             cores, the tester's among them. CPU/packet: of the capturing threads alone."
                .to_owned(),
            "A ring loses nothing until it has been full once: in a short trial a large one hides that its reader is too slow. \
             So its highest level and what the level says of a longer run stand beside the efficiency, where the capture knows them."
                .to_owned(),
        ];
    }
    grid
}

/// The settings at the load that decides, the best first.
pub(super) fn ranking(results: &Results) -> Grid {
    let columns: Vec<_> = [("setting", false)].into_iter().chain(COLUMNS).collect();
    let Some(race) = Race::of(results) else { return Grid::new(Topic::Ranking, "", &columns) };
    let title = format!("Captures compared: {}", race.case);
    let mut grid = Grid::new(Topic::Ranking, title, &columns);
    for runner in race.runners.iter().take(RANKED_MAX) {
        grid.rows.push([vec![Entry::toned(&runner.cell.dut_name, Tone::Strong)], runner.point.entries()].concat());
    }
    let left = race.runners.len().saturating_sub(RANKED_MAX);
    if left > 0 {
        grid.notes.push(format!("{left} more in the table \"Captured\""));
    }
    grid
}

/// What settings do as the load rises, for one size and one direction: the best and the worst of them.
pub(crate) struct Curves {
    /// Size and ports, and how many settings there are.
    pub(crate) case: String,
    pub(crate) settings: Vec<Curve>,
}

/// One setting, by load.
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<CurvePoint>,
}

/// Medians over the repetitions.
pub(crate) struct CurvePoint {
    pub(crate) load_pps: f64,
    /// Captured / sent.
    pub(crate) captured_ratio: f64,
    pub(crate) idle_share: Option<f64>,
}

/// A picture's worth for each case, the hardest first.
pub(crate) fn capture_curves(results: &Results) -> Vec<Curves> {
    Race::all(results).into_iter().map(|race| curves(&race)).collect()
}

fn curves(race: &Race<'_>) -> Curves {
    let all = race.runners.len();
    let drawn = |number: &usize| *number < DRAWN_OF_EACH || *number + DRAWN_OF_EACH >= all;
    let settings = (0..all).filter(drawn).map(|number| curve(race.runners[number].cell)).collect();
    let left_out = all > 2 * DRAWN_OF_EACH;
    let case = &race.case;
    let case = if left_out { format!("{case}, the best and the worst {DRAWN_OF_EACH} of {all}") } else { case.clone() };
    Curves { case, settings }
}

fn curve(cell: &Cell) -> Curve {
    let point = |point: &Point<'_>| CurvePoint {
        load_pps: point.load_pps(),
        captured_ratio: point.captured_ratio(),
        idle_share: point.of(|point| point.idle_share),
    };
    Curve { name: cell.dut_name.clone(), points: points(cell).iter().map(point).collect() }
}
