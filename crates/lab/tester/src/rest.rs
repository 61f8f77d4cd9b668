//! The counters of the path once it is at rest, and of a path that does not come to rest.

use linerate_sys::clock;

use crate::Phases;
use linerate_ledger::counters::{CounterSources, CountersError, Reading, Snapshot};
use linerate_testbed::switches::{SwitchCounters, SwitchSource};

/// What counts on the path, beside its ends.
pub(super) struct Counters<'a> {
    pub(super) sources: Option<&'a mut CounterSources>,
    pub(super) switch: Option<&'a SwitchSource>,
}

/// The account of a switch, and whether it was at rest.
pub(super) type SwitchReading = Option<(SwitchCounters, bool)>;

impl Counters<'_> {
    /// Reads the counters again, now that the ends have begun or ended their counts: a path can let go of packets more slowly than is
    /// waited for. How many packets have reached each end meanwhile, or so shortly before that the end may not have counted them: the second
    /// one, where those forward go, then the first one.
    pub(super) fn read_again(
        &mut self,
        reading: &mut Option<Reading>,
        switch: &mut SwitchReading,
    ) -> Result<[u64; 2], CountersError> {
        let mut moved = [0; 2];
        if let (Some(sources), Some(last)) = (self.sources.as_deref_mut(), &mut *reading) {
            let next = sources.snapshot_after(&last.snapshot)?;
            let reached = next.since(&last.snapshot).reached();
            moved = std::array::from_fn(|end| reached[end] + last.lately[end]);
            last.snapshot = next;
        }
        // A switch that does not answer now did before.
        if let (Some(source), Some((last, _))) = (self.switch, &mut *switch)
            && let Ok(next) = source.read()
        {
            // Which port its packets left by is not told.
            moved[0] += next.since(last).sent;
            *last = next;
        }
        Ok(moved)
    }
}

/// The counters of the path once it is at rest; none on a link inside this process, whose ports count all there is.
pub(super) fn at_rest(sources: Option<&mut CounterSources>, phases: &Phases) -> Result<Option<Reading>, CountersError> {
    sources.map(|sources| sources.read_at_rest(phases.quiet(), phases.quiet_max())).transpose()
}

/// The account of a switch that the tester shares memory with, at rest, and whether it is; none where there is no such switch.
pub(super) fn switch_at_rest(switch: Option<&SwitchSource>, phases: &Phases) -> Result<SwitchReading, CountersError> {
    switch.map(|switch| Ok(switch.read_at_rest(phases.quiet(), phases.quiet_max())?)).transpose()
}

/// As [`at_rest`], after a load that began at `before`, of which the ports say that they have `sent` so many packets, forward first: packets
/// in a ring whose reader waits for its core are waited for too.
pub(super) fn at_rest_since(
    sources: Option<&mut CounterSources>,
    (before, sent): (Option<&Snapshot>, [u64; 2]),
    phases: &Phases,
) -> Result<Option<Reading>, CountersError> {
    let (Some(sources), Some(before)) = (sources, before) else { return Ok(None) };
    let give_up_ns = clock::now_ns() + phases.drain_max_ns;
    loop {
        let after = sources.read_at_rest(phases.quiet(), phases.quiet_max())?;
        let difference = after.snapshot.since(before);
        let empty = !sources.is_joined() || difference.in_flight() + difference.in_uncounted_rings(sent) == 0;
        if empty || clock::now_ns() > give_up_ns {
            return Ok(Some(Reading { is_quiet: after.is_quiet && empty, ..after }));
        }
    }
}
