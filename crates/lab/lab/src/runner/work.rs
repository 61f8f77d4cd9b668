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
        let disturbed = is_disturbed(&measured.trial.noise, experiment);
        measured.trial.noise = Noise { disturbed, repeated, ..measured.trial.noise };
        if !disturbed || repeated >= experiment.disturbed_retries {
            return Ok((measured, repeated));
        }
        watch(Event::Disturbed(&measured.trial));
        repeated += 1;
    }
}

fn is_disturbed(noise: &Noise, experiment: &Experiment) -> bool {
    noise.steal_share > experiment.steal_max || noise.gap_max_ns > experiment.gap_max_ns
}
