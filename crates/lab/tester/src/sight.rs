//! What a trial's observers saw of its cores, and what follows for its outcome.

use linerate_report::AccountError;

use super::Tester;
use super::endpoint::Endpoint;
use super::outcome::Outcome;
use crate::Cores;
use linerate_ledger::stalls::{self, Machine, Seen, Watched};
use linerate_ledger::turns::{Marks, TurnLog};
use linerate_testbed::environment;

/// What was seen while the load ran.
#[derive(Debug, Default)]
pub(super) struct Sight {
    /// The sending threads: their cores, and what they noted.
    pub(super) logs: Vec<(Option<u32>, TurnLog)>,
    pub(super) watched: Watched,
    /// The DUT's core, where the kernel threads that do its work are pinned to one of their own.
    pub(super) dut: Option<u32>,
    pub(super) start_ns: u64,
}

impl Tester {
    /// The kernel threads that do the DUT's work, with their core, as far as they are pinned.
    pub(super) fn dut_threads(&self, both_ways: bool) -> Vec<(u32, u32)> {
        let first_hop = self.topology.as_ref().map(|topology| topology.mode().pinned_threads()).unwrap_or_default();
        let back = self.back_threads.iter().copied().filter(|_| both_ways);
        first_hop.into_iter().chain(back).collect()
    }

    /// Completes an outcome by its stalls, and divides its account by them.
    pub(super) fn note_stalls(&self, outcome: &mut Outcome, sight: Sight) -> Result<(), AccountError> {
        let Sight { logs, watched, dut, start_ns } = sight;
        let dut_in_calls = self.topology.as_ref().is_some_and(|topology| !topology.mode().can_lose());
        let machine = Machine { is_virtual: environment::is_virtual(), dut_in_calls };
        let marks: Vec<&Marks> = logs.iter().flat_map(|(_, log)| &log.marks).collect();
        let sinks = [&self.ends[1], &self.ends[0]].map(|end| match &end.endpoint {
            Some(Endpoint::Sink(sink)) => Some(sink),
            _ => None,
        });
        let missing: Vec<_> = outcome
            .ways
            .iter()
            .zip(sinks)
            .map(|(way, sink)| {
                let sent = way.counted.sent;
                sink.map(|sink| move |each: &mut dyn FnMut(u64, u64)| sink.missing(sent, each))
            })
            .collect();
        let losses = marks.into_iter().zip(&missing);
        let seen = Seen {
            machine,
            generators: logs.iter().map(|(core, log)| (*core, log)).collect(),
            dut,
            watched,
            start_ns,
            duration_ns: outcome.duration_ns,
            losses: losses.filter_map(|(marks, runs)| Some((marks, runs.as_ref()? as _))).collect(),
        };
        let told = stalls::tell(seen, &outcome.ledger.account)?;
        outcome.ledger.account = told.account;
        let machine = &mut outcome.readings.machine;
        machine.stalls = told.stalls;
        machine.noise.gap_max_ns = told.longest_ns;
        machine.noise.waited_ns = machine.noise.waited_ns.map(|waited| waited.saturating_sub(told.own_waits_ns));
        Ok(())
    }
}

/// The cores that the threads of a trial are pinned to.
pub(super) fn cores_in_use(cores: &Cores, threads: &[(u32, u32)]) -> Vec<u32> {
    let senders = [cores.generator, cores.generator_back].into_iter().flatten();
    senders.filter_map(|core| u32::try_from(core).ok()).chain(threads.iter().map(|(core, _)| *core)).collect()
}
