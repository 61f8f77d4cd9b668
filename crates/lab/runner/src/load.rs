//! One trial at a given load.

use linerate_report::{Found, Purpose};

use super::bench::{Bench, Halt};
use super::rig::{Order, Rig};
use linerate_tester::Load;

pub(super) fn find(bench: &mut Bench<'_>, rig: &mut dyn Rig, pps: Option<f64>, trial_ns: u64) -> Result<Found, Halt> {
    let purpose = if pps.is_some() { Purpose::Throughput } else { Purpose::Overload };
    let order = bench.order("", purpose, Load::new(pps, trial_ns));
    let measured = bench.trial(rig, Order { latency: pps.is_some(), ..order }, None)?;
    let (sent_pps, delivered_pps) = measured.rates();
    Ok(Found::Load { sent_pps, delivered_pps })
}
