//! The highest rate that is delivered at any offered load (maximum forwarding rate, RFC 2285 section 3.6.3, RFC 2889).

use linerate_report::{Found, Purpose};
use linerate_search::Load as Pps;
use linerate_search::max_forwarding_rate::MaxForwardingRate;

use super::bench::{Bench, Halt};
use super::rig::Rig;
use super::throughput::in_words_of_search;
use linerate_tester::Load;

/// Relative to the load.
const RESOLUTION: f64 = 0.02;

pub(super) fn find(bench: &mut Bench<'_>, rig: &mut dyn Rig, trial_ns: u64) -> Result<Found, Halt> {
    let maximum = Pps::from_pps(bench.ceiling(rig, trial_ns)?.sent_pps as u64);
    let mut search = MaxForwardingRate::new(maximum, RESOLUTION, trial_ns).map_err(Halt::search)?;
    while let Some(load) = search.next() {
        let rate = Load::Rate { pps: load.pps() as f64, duration_ns: trial_ns };
        let order = bench.order("", Purpose::Overload, rate);
        let measured = bench.trial(rig, order, None)?;
        search.record(in_words_of_search(&measured, load, trial_ns)).map_err(Halt::search)?;
    }
    let Some((pps, load)) = search.outcome().best else {
        return Err(Halt::Cannot("no load was tried".into()));
    };
    Ok(Found::MaxForwardingRate { pps: pps * bench.ways, load_pps: load.pps() as f64 * bench.ways })
}
