//! What a capture takes in of a ladder of loads, what it costs, and how full its rings are.

use linerate_report::{CapturePoint, CapturePort, CoreUse, Found, Purpose};

use super::bench::{Bench, Halt};
use super::rig::{Measured, Rig};
use linerate_tester::Load;

pub(super) fn find(bench: &mut Bench<'_>, rig: &mut dyn Rig, loads_pps: &[f64], trial_ns: u64) -> Result<Found, Halt> {
    let mut points = Vec::new();
    for pps in loads_pps {
        let order = bench.order("", Purpose::Overload, Load::Rate { pps: *pps, duration_ns: trial_ns });
        let measured = bench.trial(rig, order, None)?;
        let Some(ports) = &measured.captured else {
            return Err(Halt::Cannot("the device is no capture: it says nothing of what it captured".into()));
        };
        points.push(point(pps * bench.ways, &measured, ports));
    }
    Ok(Found::Capture { points })
}

fn point(load_pps: f64, measured: &Measured, ports: &[CapturePort]) -> CapturePoint {
    let (sent_pps, captured_pps) = measured.rates();
    let account = &measured.trial.trial.account;
    let of_ports: Option<Vec<f64>> = ports.iter().map(CapturePort::efficiency).collect();
    let efficiency = of_ports.filter(|all| !all.is_empty()).map(|all| all.iter().sum::<f64>() / all.len() as f64);
    let cpu_ns: Option<u64> = ports.iter().map(|port| port.cpu_ns).sum();
    let captured: u64 = ports.iter().map(|port| port.captured).sum();
    CapturePoint {
        load_pps,
        sent_pps,
        captured_pps,
        efficiency,
        captured_ratio: account.delivered() as f64 / account.sent() as f64,
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
