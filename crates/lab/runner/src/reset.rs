//! Reset: the device is reset under load at its throughput, and the time without packets is measured (RFC 2544 section 26.6), also by
//! the number of lost packets (RFC 6201 section 4).

use linerate_report::{Found, Purpose};

use super::bench::{Bench, Halt};
use super::rig::{Order, Rig};
use linerate_tester::Load;

/// The reset comes after this share of the trial.
const RESET_AFTER: u64 = 4;

pub(super) fn find(bench: &mut Bench<'_>, rig: &mut dyn Rig, trial_ns: u64) -> Result<Found, Halt> {
    let pps = bench.throughput_pps()?;
    let order = bench.order("reset under load", Purpose::Throughput, Load::Rate { pps, duration_ns: trial_ns });
    let order = Order { timeline: true, reset_after_ns: Some(trial_ns / RESET_AFTER), ..order };
    let measured = bench.trial(rig, order, None)?;
    let Some(reset) = measured.reset.clone() else {
        return Err(Halt::Cannot("the receiving end does not tell when packets arrive".into()));
    };
    let account = &measured.trial.trial.account;
    let lost = account.sent().saturating_sub(account.delivered()) as f64;
    let sent_pps = measured.rates().0;
    let outage_by_loss_ns = if sent_pps > 0.0 { (lost / sent_pps * 1e9) as u64 } else { 0 };
    Ok(Found::Reset { how: reset.how, outage_ns: reset.outage_ns, outage_by_loss_ns })
}
