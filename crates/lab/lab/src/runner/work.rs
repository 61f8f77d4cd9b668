//! One trial, until its losses could be asked for and it was undisturbed, or has been repeated often enough.

use linerate_experiment::Experiment;
use linerate_report::Noise;

use super::rig::{Gone, Measured, Order, Rig};
use super::watch::Event;

/// Makes a trial, again where the kernel's drop reasons came too late for it, and while it is disturbed and retries are left. The
/// notes and the noise of what comes back say so. Also: how many were disturbed.
pub(super) fn undisturbed(
    rig: &mut dyn Rig,
    order: &Order,
    experiment: &Experiment,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<(Measured, u32), Gone> {
    let mut repeated = 0;
    let mut made_again = None;
    loop {
        let mut measured = rig.trial(order)?;
        if let (Some(why), None) = (&measured.again, &made_again) {
            watch(Event::Again { trial: &measured.trial, why });
            made_again = measured.again;
            continue;
        }
        let disturbed = is_disturbed(&measured.trial.noise, measured.trial.trial.duration_ns, experiment);
        measured.trial.noise = Noise { disturbed, repeated, ..measured.trial.noise };
        if !disturbed || repeated >= experiment.disturbed_retries {
            measured.trial.trial.notes.extend(made_again);
            return Ok((measured, repeated));
        }
        watch(Event::Disturbed(&measured.trial));
        repeated += 1;
    }
}

/// The hypervisor, or other programs that wanted the sending thread's core, took more than the allowed share; or one
/// interruption by others than the tester and the DUT was too long.
fn is_disturbed(noise: &Noise, duration_ns: u64, experiment: &Experiment) -> bool {
    let waited = noise.waited_ns.unwrap_or(0) as f64 / duration_ns.max(1) as f64;
    noise.steal_share > experiment.steal_max
        || waited > experiment.steal_max
        || noise.gap_max_ns > experiment.gap_max_ns
}
