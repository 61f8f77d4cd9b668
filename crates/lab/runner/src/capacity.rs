//! The rate delivered under overload: several short trials at the tester's full rate, most of which no interruption falls into.

use linerate_report::{Found, Purpose};

use super::bench::{Bench, Halt};
use super::rig::Rig;
use linerate_tester::Load;

pub(super) fn find(bench: &mut Bench<'_>, rig: &mut dyn Rig, trials: u32, trial_ns: u64) -> Result<Found, Halt> {
    let (mut delivered, mut sent) = (Vec::new(), Vec::new());
    for _ in 0..trials {
        let order = bench.order("full rate", Purpose::Overload, Load::Full { duration_ns: trial_ns });
        let (sent_pps, delivered_pps) = bench.trial(rig, order, None)?.rates();
        delivered.push(delivered_pps);
        sent.push(sent_pps);
    }
    Ok(Found::Capacity { delivered_pps: delivered, sent_pps: sent })
}
