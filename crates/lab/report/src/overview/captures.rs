//! What captures took in, setting by setting and load by load.

use super::labels::Labels;
use super::points::{Point, points};
use super::recommendation::Ranking;
use super::{Entry, Grid, Tone, Topic};
use crate::{Cell, Results};

/// Settings of the ranking.
const RANKED_MAX: usize = 10;
/// Settings of a picture: so many of the best, and of the worst.
const DRAWN_OF_EACH: usize = 3;

const COLUMNS: [(&str, bool); 8] = [
    ("load", true),
    ("sent", true),
    ("capture ratio", true),
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
            "Loads are of all ports together. Capture ratio: captured / (captured + dropped) by the capture's own counts, mean of \
             the ports; it does not see what the kernel lost before the ring. Of sent: captured / sent, which does. Idle: of all \
             cores, the tester's among them. CPU/packet: of the capturing threads alone."
                .to_owned(),
            "A ring loses nothing until it has been full once: in a short trial a large one hides that its reader is too slow. \
             So its highest level and what the level says of a longer run stand beside the capture ratio, where the capture knows them."
                .to_owned(),
        ];
    }
    grid
}

/// The settings at the load that decides, the best first.
pub(super) fn ranking(results: &Results) -> Grid {
    let columns: Vec<_> = [("setting", false)].into_iter().chain(COLUMNS).collect();
    let Some(ranking) = Ranking::of(results) else { return Grid::new(Topic::Ranking, "", &columns) };
    let title = format!("Captures compared: {}", ranking.case);
    let mut grid = Grid::new(Topic::Ranking, title, &columns);
    for candidate in ranking.candidates.iter().take(RANKED_MAX) {
        grid.rows
            .push([vec![Entry::toned(&candidate.cell.dut_name, Tone::Strong)], candidate.point.entries()].concat());
    }
    let left = ranking.candidates.len().saturating_sub(RANKED_MAX);
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
    pub(crate) captured_of_sent: f64,
    pub(crate) idle_share: Option<f64>,
}

/// A picture's worth for each case, the hardest first.
pub(crate) fn capture_curves(results: &Results) -> Vec<Curves> {
    Ranking::all(results).into_iter().map(|ranking| curves(&ranking)).collect()
}

fn curves(ranking: &Ranking<'_>) -> Curves {
    let all = ranking.candidates.len();
    let drawn = |number: &usize| *number < DRAWN_OF_EACH || *number + DRAWN_OF_EACH >= all;
    let settings = (0..all).filter(drawn).map(|number| curve(ranking.candidates[number].cell)).collect();
    let left_out = all > 2 * DRAWN_OF_EACH;
    let case = &ranking.case;
    let case = if left_out { format!("{case}, the best and the worst {DRAWN_OF_EACH} of {all}") } else { case.clone() };
    Curves { case, settings }
}

fn curve(cell: &Cell) -> Curve {
    let point = |point: &Point<'_>| CurvePoint {
        load_pps: point.load_pps(),
        captured_of_sent: point.captured_of_sent(),
        idle_share: point.of(|point| point.idle_share),
    };
    Curve { name: cell.dut_name.clone(), points: points(cell).iter().map(point).collect() }
}
