//! Latency at shares of the throughput (RFC 2544 section 26.2; RFC 8219 sections 7.2 and 7.3).

use linerate_report::{Found, LatencyPoint, Purpose};

use super::bench::{Bench, Halt};
use super::rig::{Order, Rig};
use linerate_tester::Load;

pub(super) fn find(
    bench: &mut Bench<'_>,
    rig: &mut dyn Rig,
    shares: &[f64],
    idle_pps: f64,
    trial_ns: u64,
) -> Result<Found, Halt> {
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
        let measured = bench.trial(rig, Order { latency: true, ..order }, None)?;
        points.push(LatencyPoint {
            share: *share,
            load_pps: pps * bench.ways,
            latency: measured.trial.trial.latency,
            histogram: measured.histogram,
            pdv_ns: measured.pdv_ns,
        });
    }
    Ok(Found::Latency { points })
}
