//! One trial, until it was undisturbed or has been repeated often enough.

use linerate_experiment::Experiment;
use linerate_report::Noise;

use super::rig::{Gone, Measured, Order, Rig};
use super::watch::Event;

/// Makes a trial, again while it is disturbed and retries are left. The noise of what comes back says so. Also: how many there
/// were.
pub(super) fn undisturbed(
    rig: &mut dyn Rig,
    order: &Order,
    experiment: &Experiment,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<(Measured, u32), Gone> {
    let mut repeated = 0;
    loop {
        let mut measured = rig.trial(order)?;
        let disturbed = is_disturbed(&measured.trial.noise, measured.trial.trial.duration_ns, experiment);
        measured.trial.noise = Noise { disturbed, repeated, ..measured.trial.noise };
        if !disturbed || repeated >= experiment.disturbed_retries {
            return Ok((measured, repeated));
        }
        watch(Event::Disturbed(&measured.trial));
        repeated += 1;
    }
}

/// The hypervisor, or other programs that wanted the sending thread's core, took more than the allowed share; or one gap was too long.
fn is_disturbed(noise: &Noise, duration_ns: u64, experiment: &Experiment) -> bool {
    let waited = noise.waited_ns.unwrap_or(0) as f64 / duration_ns.max(1) as f64;
    noise.steal_share > experiment.steal_max
        || waited > experiment.steal_max
        || noise.gap_max_ns > experiment.gap_max_ns
}
