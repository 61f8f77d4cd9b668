//! Loss against offered load, from the highest load downwards until two in a row lose nothing (RFC 2544 section 26.3).

use linerate_report::{Found, LossPoint, Purpose};
use linerate_search::Load as Pps;
use linerate_search::frame_loss::FrameLoss;

use super::bench::{Bench, Halt};
use super::rig::Rig;
use super::throughput::in_words_of_search;
use linerate_tester::Load;

/// Without given loads: steps of a tenth of the tester's full rate.
const STEP: f64 = 0.1;

pub(super) fn find(bench: &mut Bench<'_>, rig: &mut dyn Rig, loads_pps: &[f64], trial_ns: u64) -> Result<Found, Halt> {
    let mut curve = match loads_pps {
        [] => FrameLoss::downwards(Pps::from_pps(bench.ceiling(rig, trial_ns)?.sent_pps as u64), STEP, trial_ns),
        given => FrameLoss::at(given.iter().map(|pps| Pps::from_pps(*pps as u64)).collect(), trial_ns),
    }
    .map_err(Halt::search)?;
    let mut points = Vec::new();
    while let Some(load) = curve.next() {
        let rate = Load::Rate { pps: load.pps() as f64, duration_ns: trial_ns };
        let order = bench.order("", Purpose::Overload, rate);
        let measured = bench.trial(rig, order, None)?;
        curve.record(in_words_of_search(&measured, load, trial_ns)).map_err(Halt::search)?;
        let (sent_pps, delivered_pps) = measured.rates();
        let loss_ratio = measured.loss_ratio();
        points.push(LossPoint { load_pps: load.pps() as f64 * bench.ways, sent_pps, delivered_pps, loss_ratio });
    }
    Ok(Found::FrameLoss { points })
}
