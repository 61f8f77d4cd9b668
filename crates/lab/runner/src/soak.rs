//! One long trial at a share of the throughput.

use linerate_report::{Found, Purpose};

use super::bench::{Bench, Halt};
use super::rig::{Order, Rig};
use linerate_tester::Load;

pub(super) fn find(bench: &mut Bench<'_>, rig: &mut dyn Rig, share: f64, trial_ns: u64) -> Result<Found, Halt> {
    let pps = share * bench.throughput_pps()?;
    let order = bench.order("", Purpose::Throughput, Load::Rate { pps, duration_ns: trial_ns });
    let measured = bench.trial(rig, Order { latency: true, ..order }, None)?;
    Ok(Found::Soak { load_pps: pps * bench.ways, loss_ratio: measured.loss_ratio() })
}
