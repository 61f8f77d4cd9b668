//! System recovery: an overload of 110 % of the throughput (or all that the tester can send) is halved, and the time until nothing
//! more is lost is measured (RFC 2544 section 26.5).

use linerate_report::{Found, Purpose};
use linerate_search::Load as Pps;
use linerate_search::recovery::LoadDrop;

use super::bench::{Bench, Halt};
use super::rig::{Order, Rig};
use linerate_tester::{Load, Recovery};

pub(super) fn find(bench: &mut Bench<'_>, rig: &mut dyn Rig, trial_ns: u64) -> Result<Found, Halt> {
    let throughput = Pps::from_pps(bench.throughput_pps()? as u64);
    let maximum = Pps::from_pps(bench.ceiling(rig, trial_ns)?.sent_pps as u64);
    let drop = LoadDrop::of(throughput, maximum, trial_ns, trial_ns);
    if !drop.is_overload(throughput) {
        return Err(Halt::Cannot("the tester cannot send more than the throughput, so there is no overload".into()));
    }
    let (overload_pps, after_pps) = (drop.overload.pps() as f64, drop.after.pps() as f64);
    let load = Load::Step { before_pps: Some(overload_pps), before_ns: trial_ns, after_pps, after_ns: trial_ns };
    let order = bench.order("110 %, then half of it", Purpose::Overload, load);
    let measured = bench.trial(rig, Order { timeline: true, ..order }, None)?;
    let recovery_ns = match measured.recovery {
        Some(Recovery::AtOnce) => Some(0),
        Some(Recovery::After { recovery_ns }) => Some(recovery_ns),
        Some(Recovery::NotYet) => None,
        None => return Err(Halt::Cannot("the receiving end does not tell when packets arrive".into())),
    };
    Ok(Found::SystemRecovery {
        recovery_ns,
        overload_pps: overload_pps * bench.ways,
        after_pps: after_pps * bench.ways,
    })
}
