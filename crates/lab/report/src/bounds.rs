//! Within which bounds rates are stated: how far their repetitions lie apart, and, where the machine itself moved, what that did to them.
//!
//! A search, or a few trials at full rate, see the machine of some seconds. Repetitions that lie over the whole run show how far the rate varies
//! meanwhile, and the bounds of all of them are stated: two runs of `n` and `m` repetitions of one steady device miss each other with a
//! probability of `2 n! m! / (n + m)!` (10 % of three and three, 3 % of four and four, below 1 % of five and five), less the width of the searches.
//!
//! That holds as long as all repetitions are of one machine. A virtual core whose neighbours come and go, whose clock changes, or that is moved
//! away from the other one, is another machine for a while, and three to five searches may all have missed the moment in which the next run is
//! made. How fast the device was in each moment is known: each of the trials under overload, of which every repetition has some, is a
//! time of the device itself. A rate without loss is a share of what the device can deliver, and the share is the device's own. So each repetition is
//! restated for the slowest and the fastest of these moments: times what was delivered under overload then, by the median of what was delivered
//! beside that repetition. A share above 1 says that the trials beside it met a slower moment than the search did, so it counts as 1. The bounds
//! stated are those of both parts together.
//!
//! Cells are measured one after the other, so one may have all its trials while the cores are near and the next one all while they are far. That is
//! known, too: a round trip of a cache line is timed beside each trial. What a round trip longer by a nanosecond costs a packet is the slope of
//! the time per packet over the round trip, in the trials under overload of all cells, each cell about its own mean. With it each of these trials is
//! also restated for near and for far cores: the first and the ninth decile of the round trips of all trials of the run.
//!
//! A machine kept its pace where the fixed loop, timed beside each trial, moved by less than 5 % between the findings, and a round trip of a
//! cache line between the cores by less than a half. The second part is then left out: what the trials under overload differ by is chance, which the
//! first part has already.

use crate::figure::median;
use crate::{Cell, ExperimentTrial, Finding, GoalBounds, RateBounds, Results, StatedBounds, TestResult};

/// A machine whose fixed loop moves by less than this kept its pace.
const PACE_KEPT: f64 = 0.05;
/// Round trips of a cache line further apart than this are those of other cores: the hypervisor has moved them.
const NEAR: f64 = 1.5;
/// A round trip beyond this is no distance between cores: one of the two threads that measured it had lost its own.
const TRIP_MAX_NS: f64 = 2_000.0;

/// The bounds of all rates of a run; `None` where no rate was measured.
pub fn stated_bounds(results: &Results) -> Option<StatedBounds> {
    let paces = [
        |made: &ExperimentTrial| made.machine.noise.generator_pace_ns,
        |made: &ExperimentTrial| made.machine.noise.dut_pace_ns,
    ];
    let loop_moved = paces.into_iter().filter_map(|pace| pace_moved(results, pace)).reduce(f64::max);
    let cache_line_ns = cache_line_ns(results);
    let has_cores_moved = cache_line_ns.is_some_and(|[least, most]| has_moved(least, most));
    let kept_pace = loop_moved.is_none_or(|moved| moved < PACE_KEPT) && !has_cores_moved;
    let distance = (!kept_pace).then(|| Distance::of(results));
    let rates: Vec<RateBounds> = results.cells.iter().flat_map(|cell| of_cell(cell, distance.as_ref())).collect();
    (!rates.is_empty()).then_some(StatedBounds { loop_moved, cache_line_ns, kept_pace, rates })
}

/// Whether round trips so far apart are those of other cores.
pub(crate) fn has_moved(least_ns: f64, most_ns: f64) -> bool {
    most_ns > least_ns * NEAR
}

/// By which share the time of the fixed loop moved over the run.
fn pace_moved(results: &Results, pace: fn(&ExperimentTrial) -> Option<f64>) -> Option<f64> {
    let findings = results.cells.iter().flat_map(|cell| &cell.findings);
    let times: Vec<f64> = findings
        .filter_map(|finding| {
            let times: Vec<f64> = finding.used_trials().filter_map(pace).collect();
            (!times.is_empty()).then(|| median(&times))
        })
        .collect();
    let [least, most] = range(times.iter().copied())?;
    (times.len() > 1).then(|| (most - least) / median(&times))
}

fn cache_line_ns(results: &Results) -> Option<[f64; 2]> {
    range(results.cells.iter().flat_map(|cell| &cell.findings).flat_map(trips))
}

/// The round trips beside the trials of a finding.
fn trips(finding: &Finding) -> impl Iterator<Item = f64> {
    let trips = finding.used_trials().filter_map(|made| made.machine.noise.cache_line_ns);
    trips.filter(|trip| *trip <= TRIP_MAX_NS)
}

fn range(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    values.fold(None, |range: Option<[f64; 2]>, value| {
        let [least, most] = range.unwrap_or([value; 2]);
        Some([least.min(value), most.max(value)])
    })
}

/// What a repetition found: its bounds.
struct Repetition {
    number: u32,
    lower_pps: Option<f64>,
    upper_pps: Option<f64>,
}

fn of_cell(cell: &Cell, distance: Option<&Distance>) -> Vec<RateBounds> {
    let overload: Vec<Moment> = cell.findings.iter().flat_map(under_overload).collect();
    let all: Vec<f64> = overload.iter().map(|moment| moment.pps).collect();
    let seen = range(all.iter().copied());
    let extremes = distance.zip(seen).map(|(distance, seen)| distance.extremes(&overload, seen));
    let moments = extremes.map(|extremes| Moments { overload: &overload, all: &all, extremes });
    let mut names: Vec<&str> = Vec::new();
    for goal in cell.findings.iter().flat_map(goals) {
        if !names.contains(&goal.1.name.as_str()) {
            names.push(&goal.1.name);
        }
    }
    let goals = names.into_iter().filter_map(|name| {
        let of_name = cell.findings.iter().flat_map(goals).filter(|(_, goal)| goal.name == name);
        let repetition = |(number, goal): (u32, &crate::GoalFound)| Repetition {
            number,
            lower_pps: goal.lower_pps,
            upper_pps: goal.upper_pps.or(goal.lower_pps),
        };
        of_repetitions(cell, name, &of_name.map(repetition).collect::<Vec<_>>(), moments.as_ref())
    });
    // Its bounds are those of the moments themselves; the rate is the median of the repetitions, as in all tables.
    let capacity = seen.map(|seen| {
        let [lower_pps, upper_pps] = extremes.unwrap_or(seen);
        let of_repetitions: Vec<f64> = cell.findings.iter().filter_map(delivered).collect();
        let (cell, figure, pps) = (cell.id.clone(), "capacity".to_owned(), median(&of_repetitions));
        RateBounds { cell, figure, pps, lower_pps, upper_pps, spread: parts(seen), machine: extremes.map(parts) }
    });
    goals.chain(capacity).collect()
}

fn parts([lower, upper]: [f64; 2]) -> GoalBounds {
    GoalBounds { lower_pps: Some(lower), upper_pps: Some(upper) }
}

fn goals(finding: &Finding) -> impl Iterator<Item = (u32, &crate::GoalFound)> {
    let goals = if let Some(TestResult::Throughput { goals }) = &finding.result { goals.as_slice() } else { &[] };
    goals.iter().map(|goal| (finding.repetition, goal))
}

/// What was delivered under overload: the median of the trials of a repetition.
fn delivered(finding: &Finding) -> Option<f64> {
    let Some(TestResult::Capacity { delivered_pps, .. }) = &finding.result else { return None };
    Some(median(delivered_pps)).filter(|pps| pps.is_finite())
}

/// A trial under overload.
struct Moment {
    repetition: u32,
    /// Delivered.
    pps: f64,
    /// Round trip of a cache line beside it.
    trip_ns: Option<f64>,
}

fn under_overload(finding: &Finding) -> Vec<Moment> {
    let Some(TestResult::Capacity { delivered_pps, .. }) = &finding.result else { return Vec::new() };
    let of_trials: Vec<Option<f64>> = finding.used_trials().map(|made| made.machine.noise.cache_line_ns).collect();
    let of_finding = Some(median(&trips(finding).collect::<Vec<_>>())).filter(|trip| trip.is_finite());
    let is_told = of_trials.len() == delivered_pps.len();
    let trip = |number: usize| if is_told { of_trials.get(number).copied().flatten() } else { of_finding };
    let moment = |(number, pps): (usize, &f64)| Moment {
        repetition: finding.repetition,
        pps: *pps,
        trip_ns: trip(number).filter(|trip| *trip <= TRIP_MAX_NS),
    };
    delivered_pps.iter().enumerate().map(moment).collect()
}

/// `None` where no repetition has a rate. What a load was at least is known of those that have none.
fn of_repetitions(
    cell: &Cell,
    figure: &str,
    repetitions: &[Repetition],
    moments: Option<&Moments<'_>>,
) -> Option<RateBounds> {
    let lower: Vec<f64> = repetitions.iter().filter_map(|repetition| repetition.lower_pps).collect();
    let bounds = |factor: &dyn Fn(u32, usize, f64) -> f64| {
        let ends = |end: usize, of: fn(&Repetition) -> Option<f64>| {
            range(repetitions.iter().filter_map(move |one| of(one).map(|pps| pps * factor(one.number, end, pps))))
        };
        let [least, _] = ends(0, |one| one.lower_pps)?;
        let [_, most] = ends(1, |one| one.upper_pps)?;
        Some([least, most])
    };
    let [least, most] = bounds(&|_, _, _| 1.0)?;
    let machine = moments.and_then(|moments| {
        let extreme = |end: usize| moments.extremes.get(end).copied().unwrap_or(1.0);
        bounds(&|number, end, pps| extreme(end) / moments.beside(number).max(pps))
    });
    let machine = machine.filter(|ends| ends.iter().all(|end| end.is_finite()));
    Some(RateBounds {
        cell: cell.id.clone(),
        figure: figure.to_owned(),
        pps: median(&lower),
        lower_pps: machine.map_or(least, |[lower, _]| lower.min(least)),
        upper_pps: machine.map_or(most, |[_, upper]| upper.max(most)),
        spread: parts([least, most]),
        machine: machine.map(parts),
    })
}

/// What the device delivered under overload, moment by moment.
struct Moments<'a> {
    overload: &'a [Moment],
    all: &'a [f64],
    /// In the slowest and in the fastest moment.
    extremes: [f64; 2],
}

impl Moments<'_> {
    /// Beside a repetition: the median of its trials, or of all where it has none.
    fn beside(&self, number: u32) -> f64 {
        let of_repetition = self.overload.iter().filter(|moment| moment.repetition == number);
        let rates: Vec<f64> = of_repetition.map(|moment| moment.pps).collect();
        median(if rates.is_empty() { self.all } else { &rates })
    }
}

/// How far the cores were from each other over the run, and what that costs.
struct Distance {
    /// First and ninth decile of the round trips; `None` where they share a core.
    trips_ns: Option<[f64; 2]>,
    /// Time of a packet for each nanosecond of a round trip.
    slope: f64,
}

impl Distance {
    fn of(results: &Results) -> Self {
        let mut all: Vec<f64> = results.cells.iter().flat_map(|cell| &cell.findings).flat_map(trips).collect();
        all.sort_by(f64::total_cmp);
        let decile = |tenths: usize| all.get(all.len().saturating_sub(1) * tenths / 10).copied();
        let trips_ns = decile(1).zip(decile(9)).map(<[f64; 2]>::from);
        Self { trips_ns, slope: trips_ns.map_or(0.0, |ends| slope(results, ends)) }
    }

    /// The slowest and the fastest of these moments, as they were (`seen`), and with the cores far from each other and near.
    fn extremes(&self, moments: &[Moment], seen: [f64; 2]) -> [f64; 2] {
        let Some([near_ns, far_ns]) = self.trips_ns else { return seen };
        let restated = moments.iter().filter_map(|moment| {
            let trip_ns = moment.trip_ns?.clamp(near_ns, far_ns);
            let at = |other_ns: f64| match self.slope * (other_ns - trip_ns) {
                0.0 => moment.pps,
                more_ns => 1e9 / (1e9 / moment.pps + more_ns),
            };
            Some([at(far_ns), at(near_ns)])
        });
        let possible = restated.flatten().filter(|pps| pps.is_finite() && *pps > 0.0);
        range(possible.chain(seen)).unwrap_or(seen)
    }
}

/// The least squares over the trials under overload of all cells, each cell about its own mean; at least 0: no device gains by the distance.
fn slope(results: &Results, [near_ns, far_ns]: [f64; 2]) -> f64 {
    let (mut products, mut squares) = (0.0, 0.0);
    for cell in &results.cells {
        let moments = cell.findings.iter().flat_map(under_overload);
        let points: Vec<[f64; 2]> = moments
            .filter_map(|moment| Some([moment.trip_ns?.clamp(near_ns, far_ns), 1e9 / moment.pps]))
            .filter(|[_, packet_ns]| packet_ns.is_finite())
            .collect();
        let mean = |axis: usize| points.iter().filter_map(|point| point.get(axis)).sum::<f64>() / points.len() as f64;
        let (trip_ns, packet_ns) = (mean(0), mean(1));
        products += points.iter().map(|point| (point[0] - trip_ns) * (point[1] - packet_ns)).sum::<f64>();
        squares += points.iter().map(|point| (point[0] - trip_ns).powi(2)).sum::<f64>();
    }
    let slope = products / squares;
    if slope.is_finite() { slope.max(0.0) } else { 0.0 }
}
