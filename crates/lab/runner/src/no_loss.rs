//! The highest of a few loads that one trial carries without losing a packet.

use linerate_report::{LossPoint, Purpose, TestResult, units};
use linerate_search::Load as Pps;
use linerate_search::no_loss::NoLoss;

use super::bench::{Bench, Halt};
use super::testbed::Testbed;
use super::throughput::in_words_of_search;
use linerate_tester::Load;

pub(super) fn find(
    bench: &mut Bench<'_>,
    testbed: &mut dyn Testbed,
    shares: &[f64],
    trial_ns: u64,
) -> Result<TestResult, Halt> {
    let from = Pps::from_pps(bench.throughput_pps()? as u64);
    let mut search = NoLoss::new(from, shares, trial_ns).map_err(Halt::search)?;
    let mut points = Vec::new();
    while let Some(load) = search.next() {
        let rate = Load::Rate { pps: load.pps() as f64, duration_ns: trial_ns };
        let order = bench.order("", Purpose::Search, rate);
        let measured = bench.trial(testbed, order, None)?;
        search.record(in_words_of_search(&measured, load, trial_ns)).map_err(Halt::search)?;
        let (sent_pps, delivered_pps) = measured.rates();
        let loss_ratio = measured.loss_ratio();
        points.push(LossPoint { load_pps: load.pps() as f64 * bench.ways, sent_pps, delivered_pps, loss_ratio });
    }
    let pps = search.found().map(|load| load.pps() as f64 * bench.ways);
    let why = pps.is_none().then(|| why(&search, bench.ways, trial_ns));
    Ok(TestResult::NoLoss { pps, duration_ns: trial_ns, points, why })
}

/// Why no load passed, and what it would take.
fn why(search: &NoLoss, ways: f64, trial_ns: u64) -> String {
    let trials = search.trials();
    let least = trials.last().map_or(0.0, |trial| trial.load.pps() as f64 * ways);
    let in_interruptions = |trial: &linerate_search::Trial| {
        trial.unsent > 0 || trial.lost > 0 && trial.lost == trial.lost_in_interruptions
    };
    let interrupted = trials.iter().filter(|trial| in_interruptions(trial)).count();
    let tried = format!(
        "each of the {} loads tried, down to {}, lost packets within {}",
        trials.len(),
        units::pps(least),
        units::nanoseconds(trial_ns as f64)
    );
    match interrupted {
        0 => format!("{tried}: the device, or a part of the machine that cannot be seen, drops packets at any load"),
        all if all == trials.len() => {
            format!(
                "{tried}, all while a core was away: it takes cores that nothing else uses, or a longer receive ring"
            )
        }
        some => format!(
            "{tried}, {some} of them only while a core was away: it takes cores that nothing else uses, or a longer receive ring"
        ),
    }
}
