//! The load of a trial once more, for probes beside it.

use linerate_mem::Pool;
use linerate_sys::{clock, signal};
use linerate_worker::Control;

use super::super::ends::End;
use super::super::load_run::{grouped, join, lanes, send_on, start_counting};
use super::super::{Tester, TrialError, TrialSpec};
use super::exchange::{Exchange, Exchanged};
use linerate_testbed::threads::Priority;

/// From the start of the threads to the first packet: the clocks are read before it.
const LEAD_NS: u64 = 100_000_000;

impl Tester {
    /// Sends a load, and a direction's probes beside each direction of it. Nothing is counted but probes.
    pub(super) fn probe_under_load(
        &mut self,
        spec: &TrialSpec<'_>,
        exchanges: Vec<Exchange>,
    ) -> Result<Vec<Exchanged>, TrialError> {
        self.resolve().map_err(TrialError::NextHop)?;
        let spec = &TrialSpec { timed: false, ..*spec };
        let loads = self.loads(spec)?;
        let Tester { ends: [first, second], pool, .. } = self;
        let (End { sender: forth, endpoint: back_end, .. }, End { sender: back, endpoint: forth_end, .. }) =
            (first, second);
        let mut ports = Vec::new();
        let mut endpoints = Vec::new();
        let pool: &Pool = pool;
        let ways = [(forth.as_mut(), forth_end.as_mut()), (back.as_mut(), back_end.as_mut())];
        for (load, (port, endpoint)) in loads.iter().zip(ways) {
            ports.push(port.ok_or(TrialError::OneWayOnly)?);
            let endpoint = endpoint.ok_or(TrialError::OneWayOnly)?;
            endpoint.begin(load.id, false)?;
            endpoints.push(endpoint);
        }
        let duration_ns = loads.iter().map(|load| load.load.duration_ns()).max().unwrap_or(0);
        let control = Control::ignoring_signals();
        let exchanged = std::thread::scope(|scope| {
            let counting =
                start_counting(scope, endpoints, (&loads, spec), &control).inspect_err(|_| control.stop())?;
            let start_ns = clock::now_ns() + LEAD_NS;
            let probing: Vec<_> = exchanges
                .into_iter()
                .map(|mut exchange| scope.spawn(move || exchange.run(start_ns, start_ns + duration_ns)))
                .collect();
            let counts = loads.iter().map(|_| None).collect();
            let sending: Vec<_> = grouped(lanes(ports, &loads, counts), &spec.cores)
                .into_iter()
                .map(|(core, lanes)| scope.spawn(move || send_on((core, Priority::Nice, None), lanes, pool, start_ns)))
                .collect();
            sending.into_iter().for_each(|thread| drop(join(thread)));
            let exchanged: Vec<_> = probing.into_iter().map(join).collect();
            control.stop();
            counting.into_iter().for_each(|counting| drop(counting.finish()));
            Ok::<_, TrialError>(exchanged)
        })?;
        crate::phases::pause_ns(spec.phases.drain_ns);
        if signal::stop_requested() { Err(TrialError::Stopped) } else { Ok(exchanged) }
    }
}
