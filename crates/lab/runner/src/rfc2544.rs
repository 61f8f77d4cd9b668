//! The procedures of RFC 2544 beside throughput (`throughput.rs`): latency, frame loss, back-to-back, system recovery, reset.

use linerate_experiment::TimestampSource;
use linerate_report::{LatencyPoint, LossPoint, Purpose, TestResult};
use linerate_search::Load as Pps;
use linerate_search::back_to_back::{BackToBack, Burst, Settings, buffer_time};
use linerate_search::frame_loss::FrameLoss;
use linerate_search::recovery::LoadDrop;

use super::bench::{Bench, Halt};
use super::testbed::{Testbed, TrialRequest};
use super::throughput::in_words_of_search;
use linerate_tester::{Load, Recovery};

/// Without given loads: steps of a tenth of the tester's full rate.
const LOAD_STEP: f64 = 0.1;
/// The longest burst is found to this share of the longest that is tried, or to 8 packets where that is less: a sender's batches are
/// not finer.
const BURST_STEP: u64 = 1_000;
const BURST_STEP_MAX: u64 = 8;
/// The reset comes after this share of the trial.
const RESET_AFTER: u64 = 4;

/// Latency at shares of the throughput (RFC 2544 section 26.2; RFC 8219 sections 7.2 and 7.3).
pub(super) fn latency(
    bench: &mut Bench<'_>,
    testbed: &mut dyn Testbed,
    (shares, idle_pps, timestamps): (&[f64], f64, TimestampSource),
    trial_ns: u64,
) -> Result<TestResult, Halt> {
    // Shares above 0 need the throughput; share 0 alone does not.
    let full_pps = match shares.iter().any(|share| *share > 0.0) {
        true => bench.throughput_pps()?,
        false => 0.0,
    };
    let mut points = Vec::new();
    for share in shares {
        let pps = if *share > 0.0 { share * full_pps } else { idle_pps };
        let words = format!("{:.0} % of the throughput", share * 100.0);
        let order = bench.order(&words, Purpose::Throughput, Load::Rate { pps, duration_ns: trial_ns });
        let measured = bench.trial(testbed, TrialRequest { latency: true, timestamps, ..order }, None)?;
        points.push(LatencyPoint {
            share: *share,
            load_pps: pps * bench.ways,
            latency: measured.probed.or(measured.trial.trial.latency),
            timestamps: measured.timestamps,
            histogram: measured.histogram,
            pdv_ns: measured.pdv_ns,
        });
    }
    Ok(TestResult::Latency { points })
}

/// Loss against offered load, from the highest load downwards until two in a row lose nothing (RFC 2544 section 26.3).
pub(super) fn frame_loss(
    bench: &mut Bench<'_>,
    testbed: &mut dyn Testbed,
    loads_pps: &[f64],
    trial_ns: u64,
) -> Result<TestResult, Halt> {
    let mut curve = match loads_pps {
        [] => FrameLoss::downwards(Pps::from_pps(bench.ceiling(testbed, trial_ns)?.sent_pps as u64), LOAD_STEP),
        given => FrameLoss::at(given.iter().map(|pps| Pps::from_pps(*pps as u64)).collect()),
    }
    .map_err(Halt::search)?;
    let mut points = Vec::new();
    while let Some(load) = curve.next() {
        let rate = Load::Rate { pps: load.pps() as f64, duration_ns: trial_ns };
        let order = bench.order("", Purpose::Overload, rate);
        let measured = bench.trial(testbed, order, None)?;
        curve.record(in_words_of_search(&measured, load, trial_ns)).map_err(Halt::search)?;
        let (sent_pps, delivered_pps) = measured.rates();
        let loss_ratio = measured.loss_ratio();
        points.push(LossPoint { load_pps: load.pps() as f64 * bench.ways, sent_pps, delivered_pps, loss_ratio });
    }
    Ok(TestResult::FrameLoss { points })
}

/// The longest burst at full rate that loses nothing (RFC 2544 section 26.4), and the buffer that it shows (RFC 9004 section 6.4).
pub(super) fn back_to_back(
    bench: &mut Bench<'_>,
    testbed: &mut dyn Testbed,
    burst_max_ns: u64,
    bursts: u32,
    trial_ns: u64,
) -> Result<TestResult, Halt> {
    let sent_pps = bench.ceiling(testbed, trial_ns)?.sent_pps;
    let burst_max = ((sent_pps * burst_max_ns as f64 / 1e9) as u64).max(1);
    let step = (burst_max / BURST_STEP).clamp(1, BURST_STEP_MAX);
    let mut search = BackToBack::new(Settings { burst_max, step, repetitions: bursts.max(1) }).map_err(Halt::search)?;
    while let Some(packets) = search.next() {
        let number = search.outcome().longest.len() + 1;
        let order = bench.order(&format!("burst {number} of {bursts}"), Purpose::Search, Load::Burst { packets });
        let measured = bench.trial(testbed, order, None)?;
        // Both directions have a burst of this length; what either lost counts.
        let account = &measured.trial.trial.account;
        let lost = account.intended().saturating_sub(account.delivered()).min(packets);
        search.record(Burst { packets, lost }).map_err(Halt::search)?;
    }
    let outcome = search.outcome();
    let throughput_pps = bench.throughput_pps().ok();
    let mean = outcome.statistics.map(|statistics| statistics.mean);
    let buffer = throughput_pps.zip(mean).filter(|_| !outcome.at_maximum);
    Ok(TestResult::BackToBack {
        bursts: outcome.longest,
        sent_pps: sent_pps * bench.ways,
        throughput_pps: throughput_pps.map(|pps| pps * bench.ways),
        buffer_seconds: buffer.and_then(|(pps, mean)| Some(buffer_time(mean, sent_pps, pps)?.corrected_seconds)),
        at_maximum: outcome.at_maximum,
    })
}

/// System recovery: an overload of 110 % of the throughput (or all that the tester can send) is halved, and the time until nothing more
/// is lost is measured (RFC 2544 section 26.5).
pub(super) fn recovery(bench: &mut Bench<'_>, testbed: &mut dyn Testbed, trial_ns: u64) -> Result<TestResult, Halt> {
    let throughput = Pps::from_pps(bench.throughput_pps()? as u64);
    let maximum = Pps::from_pps(bench.ceiling(testbed, trial_ns)?.sent_pps as u64);
    let drop = LoadDrop::of(throughput, maximum);
    if !drop.is_overload(throughput) {
        return Err(Halt::Cannot("the tester cannot send more than the throughput, so there is no overload".into()));
    }
    let (overload_pps, after_pps) = (drop.overload.pps() as f64, drop.after.pps() as f64);
    let load = Load::Step { before_pps: Some(overload_pps), before_ns: trial_ns, after_pps, after_ns: trial_ns };
    let order = bench.order("110 %, then half of it", Purpose::Overload, load);
    let measured = bench.trial(testbed, TrialRequest { timeline: true, ..order }, None)?;
    let recovery_ns = match measured.recovery {
        Some(Recovery::AtOnce) => Some(0),
        Some(Recovery::After { recovery_ns }) => Some(recovery_ns),
        Some(Recovery::NotYet) => None,
        None => return Err(Halt::Cannot("the receiving end does not tell when packets arrive".into())),
    };
    Ok(TestResult::SystemRecovery {
        recovery_ns,
        overload_pps: overload_pps * bench.ways,
        after_pps: after_pps * bench.ways,
    })
}

/// Reset: the device is reset under load at its throughput, and the time without packets is measured (RFC 2544 section 26.6), also by the
/// number of lost packets (RFC 6201 section 4).
pub(super) fn reset(bench: &mut Bench<'_>, testbed: &mut dyn Testbed, trial_ns: u64) -> Result<TestResult, Halt> {
    let pps = bench.throughput_pps()?;
    let order = bench.order("reset under load", Purpose::Throughput, Load::Rate { pps, duration_ns: trial_ns });
    let order = TrialRequest { timeline: true, reset_after_ns: Some(trial_ns / RESET_AFTER), ..order };
    let measured = bench.trial(testbed, order, None)?;
    let Some(reset) = measured.reset.clone() else {
        return Err(Halt::Cannot("the receiving end does not tell when packets arrive".into()));
    };
    let account = &measured.trial.trial.account;
    let lost = account.sent().saturating_sub(account.delivered()) as f64;
    let sent_pps = measured.rates().0;
    let outage_by_loss_ns = if sent_pps > 0.0 { (lost / sent_pps * 1e9) as u64 } else { 0 };
    Ok(TestResult::Reset { how: reset.how, outage_ns: reset.outage_ns, outage_by_loss_ns })
}
