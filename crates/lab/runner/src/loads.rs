//! Tests that say what comes of given loads: one trial, overload, a long trial, the highest rate that is forwarded, a capture's ladder.

use linerate_report::{CapturePoint, CapturePort, CoreUse, Purpose, TestResult};
use linerate_search::Load as Pps;
use linerate_search::max_forwarding_rate::MaxForwardingRate;

use super::bench::{Bench, Halt};
use super::testbed::{Testbed, TrialRequest, TrialResult};
use super::throughput::in_words_of_search;
use linerate_tester::Load;

/// Relative to the load.
const RESOLUTION: f64 = 0.02;

/// One trial at a given load.
pub(super) fn load(
    bench: &mut Bench<'_>,
    testbed: &mut dyn Testbed,
    pps: Option<f64>,
    trial_ns: u64,
) -> Result<TestResult, Halt> {
    let purpose = if pps.is_some() { Purpose::Throughput } else { Purpose::Overload };
    let order = bench.order("", purpose, Load::new(pps, trial_ns));
    let measured = bench.trial(testbed, TrialRequest { latency: pps.is_some(), ..order }, None)?;
    let (sent_pps, delivered_pps) = measured.rates();
    Ok(TestResult::Load { sent_pps, delivered_pps })
}

/// The rate delivered under overload: several short trials at the tester's full rate, most of which no interruption falls into.
pub(super) fn capacity(
    bench: &mut Bench<'_>,
    testbed: &mut dyn Testbed,
    trials: u32,
    trial_ns: u64,
) -> Result<TestResult, Halt> {
    let (mut delivered, mut sent) = (Vec::new(), Vec::new());
    for _ in 0..trials {
        let order = bench.order("full rate", Purpose::Overload, Load::Full { duration_ns: trial_ns });
        let (sent_pps, delivered_pps) = bench.trial(testbed, order, None)?.rates();
        delivered.push(delivered_pps);
        sent.push(sent_pps);
    }
    Ok(TestResult::Capacity { delivered_pps: delivered, sent_pps: sent })
}

/// One long trial at a share of the throughput.
pub(super) fn soak(
    bench: &mut Bench<'_>,
    testbed: &mut dyn Testbed,
    share: f64,
    trial_ns: u64,
) -> Result<TestResult, Halt> {
    let pps = share * bench.throughput_pps()?;
    let order = bench.order("", Purpose::Throughput, Load::Rate { pps, duration_ns: trial_ns });
    let measured = bench.trial(testbed, TrialRequest { latency: true, ..order }, None)?;
    Ok(TestResult::Soak { load_pps: pps * bench.ways, loss_ratio: measured.loss_ratio() })
}

/// The highest rate that is delivered at any offered load (maximum forwarding rate, RFC 2285 section 3.6.3, RFC 2889).
pub(super) fn forwarding(bench: &mut Bench<'_>, testbed: &mut dyn Testbed, trial_ns: u64) -> Result<TestResult, Halt> {
    let maximum = Pps::from_pps(bench.ceiling(testbed, trial_ns)?.sent_pps as u64);
    let mut search = MaxForwardingRate::new(maximum, RESOLUTION).map_err(Halt::search)?;
    while let Some(load) = search.next() {
        let rate = Load::Rate { pps: load.pps() as f64, duration_ns: trial_ns };
        let order = bench.order("", Purpose::Overload, rate);
        let measured = bench.trial(testbed, order, None)?;
        search.record(in_words_of_search(&measured, load, trial_ns)).map_err(Halt::search)?;
    }
    let Some((pps, load)) = search.outcome().best else {
        return Err(Halt::Cannot("no load was tried".into()));
    };
    Ok(TestResult::MaxForwardingRate { pps: pps * bench.ways, load_pps: load.pps() as f64 * bench.ways })
}

/// What a capture takes in of a ladder of loads, what it costs, and how full its rings are.
pub(super) fn capture(
    bench: &mut Bench<'_>,
    testbed: &mut dyn Testbed,
    loads_pps: &[f64],
    trial_ns: u64,
) -> Result<TestResult, Halt> {
    let mut points = Vec::new();
    for pps in loads_pps {
        let order = bench.order("", Purpose::Overload, Load::Rate { pps: *pps, duration_ns: trial_ns });
        let measured = bench.trial(testbed, order, None)?;
        let Some(ports) = &measured.captured else {
            return Err(Halt::Cannot("the device is no capture: it says nothing of what it captured".into()));
        };
        points.push(point(pps * bench.ways, &measured, ports));
    }
    Ok(TestResult::Capture { points })
}

fn point(load_pps: f64, measured: &TrialResult, ports: &[CapturePort]) -> CapturePoint {
    let (sent_pps, captured_pps) = measured.rates();
    let account = &measured.trial.trial.account;
    let of_ports: Option<Vec<f64>> = ports.iter().map(CapturePort::capture_ratio).collect();
    let capture_ratio = of_ports.filter(|all| !all.is_empty()).map(|all| all.iter().sum::<f64>() / all.len() as f64);
    let cpu_ns: Option<u64> = ports.iter().map(|port| port.cpu_ns).sum();
    let captured: u64 = ports.iter().map(|port| port.captured).sum();
    CapturePoint {
        load_pps,
        sent_pps,
        captured_pps,
        capture_ratio,
        captured_of_sent: account.delivered() as f64 / account.sent() as f64,
        idle_share: idle_share(&measured.trial.trial.cpu),
        cpu_ns_per_packet: cpu_ns.filter(|_| captured > 0).map(|cpu_ns| cpu_ns as f64 / captured as f64),
        ports: ports.to_vec(),
    }
}

/// Of all cores together.
fn idle_share(cores: &[CoreUse]) -> Option<f64> {
    let idle = cores.iter().map(|core| core.idle).sum::<f64>() / cores.len() as f64;
    idle.is_finite().then_some(idle)
}
