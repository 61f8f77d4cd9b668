//! One trial, until its losses could be asked for and it was undisturbed, or has been repeated often enough.

use linerate_experiment::Experiment;
use linerate_report::{ExperimentTrial, Noise, units};

use super::testbed::{Testbed, TestbedError, TrialRequest, TrialResult};

/// A trial that stays disturbed, however often it is made again, tells of a machine that is never undisturbed: to make every one twice costs
/// twice the time and gives nothing. So after such a trial one disturbed trial counts as it is, after the next two, then four, and so on, until
/// a trial is undisturbed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Hope {
    /// Trials in a row that stayed disturbed.
    in_vain: u32,
    /// Disturbed trials that will count as they are.
    resting: u32,
}

/// At most eight disturbed trials in a row count as they are.
const RESTING_MAX_LOG2: u32 = 3;

impl Hope {
    fn is_left(&self) -> bool {
        self.resting == 0
    }

    /// A trial counts from now on, after so many repetitions.
    fn note(&mut self, disturbed: bool, repeated: u32) {
        match (disturbed, repeated) {
            (false, _) => *self = Self::default(),
            (true, 0) => self.resting = self.resting.saturating_sub(1),
            (true, _) => {
                self.resting = 1 << self.in_vain.min(RESTING_MAX_LOG2);
                self.in_vain += 1;
            }
        }
    }
}

/// Makes a trial, again where the kernel's drop reasons came too late for it, and while it is disturbed (a link of the tester's went away, too)
/// and retries are left. Each one that is made again is handed to `set_aside` and says why. The notes and the noise of the one that comes back say so, too.
pub(super) fn undisturbed<E: From<TestbedError>>(
    testbed: &mut dyn Testbed,
    order: &TrialRequest,
    (experiment, hope): (&Experiment, &mut Hope),
    set_aside: &mut dyn FnMut(ExperimentTrial) -> Result<(), E>,
) -> Result<TrialResult, E> {
    let mut repeated = 0;
    let mut made_again = None;
    let mut attempt = 0;
    loop {
        attempt += 1;
        let mut measured = testbed.trial(order)?;
        let noise = measured.trial.machine.noise;
        let flapped = !measured.retry.link_flaps.is_empty();
        let disturbed = flapped || is_disturbed(&noise, measured.trial.trial.duration_ns, experiment);
        measured.trial.machine.noise = Noise { disturbed, repeated, ..noise };
        let unasked = measured.retry.reasons.take().filter(|_| made_again.is_none());
        let why = match &unasked {
            Some(why) => why.clone(),
            None if disturbed && repeated < experiment.disturbed_retries && (flapped || hope.is_left()) => {
                repeated += 1;
                match flapped {
                    true => format!("{}: made again", measured.retry.link_flaps.join("; ")),
                    false => disturbed_words(&noise),
                }
            }
            None => {
                hope.note(disturbed, repeated);
                measured.trial.trial.notes.extend(made_again);
                return Ok(measured);
            }
        };
        made_again = made_again.or(unasked);
        measured.trial.trial.name.push_str(&format!(", attempt {attempt}"));
        measured.trial.not_used = Some(why);
        set_aside(measured.trial)?;
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

fn disturbed_words(noise: &Noise) -> String {
    format!(
        "disturbed ({} of the time stolen, a core away for {}): made again",
        units::percent(noise.steal_share),
        units::nanoseconds(noise.gap_max_ns as f64)
    )
}
