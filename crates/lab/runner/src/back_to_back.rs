//! The longest burst at full rate that loses nothing (RFC 2544 section 26.4), and the buffer that it shows (RFC 9004 section 6.4).

use linerate_report::{Found, Purpose};
use linerate_search::back_to_back::{BackToBack, Burst, Settings, buffer_time};

use super::bench::{Bench, Halt};
use super::rig::Rig;
use linerate_tester::Load;

/// The longest burst is found to this share of the longest that is tried, or to 8 packets where that is less: a sender's batches are
/// not finer.
const STEP: u64 = 1_000;
const STEP_MAX: u64 = 8;

pub(super) fn find(
    bench: &mut Bench<'_>,
    rig: &mut dyn Rig,
    burst_max_ns: u64,
    bursts: u32,
    trial_ns: u64,
) -> Result<Found, Halt> {
    let sent_pps = bench.ceiling(rig, trial_ns)?.sent_pps;
    let burst_max = ((sent_pps * burst_max_ns as f64 / 1e9) as u64).max(1);
    let step = (burst_max / STEP).clamp(1, STEP_MAX);
    let mut search = BackToBack::new(Settings { burst_max, step, repetitions: bursts.max(1) }).map_err(Halt::search)?;
    while let Some(packets) = search.next() {
        let number = search.outcome().longest.len() + 1;
        let order = bench.order(&format!("burst {number} of {bursts}"), Purpose::Search, Load::Burst { packets });
        let measured = bench.trial(rig, order, None)?;
        // Both directions have a burst of this length; what either lost counts.
        let account = &measured.trial.trial.account;
        let lost = account.intended().saturating_sub(account.delivered()).min(packets);
        search.record(Burst { packets, lost }).map_err(Halt::search)?;
    }
    let outcome = search.outcome();
    let throughput_pps = bench.throughput_pps().ok();
    let mean = outcome.statistics.map(|statistics| statistics.mean);
    let buffer = throughput_pps.zip(mean).filter(|_| !outcome.at_maximum);
    Ok(Found::BackToBack {
        bursts: outcome.longest,
        sent_pps: sent_pps * bench.ways,
        throughput_pps: throughput_pps.map(|pps| pps * bench.ways),
        buffer_seconds: buffer.and_then(|(pps, mean)| Some(buffer_time(mean, sent_pps, pps)?.corrected_seconds)),
        at_maximum: outcome.at_maximum,
    })
}
