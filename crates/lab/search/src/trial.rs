//! One trial as the search sees it: how many frames were asked for, and how many did not make it.

use crate::Load;

/// What one trial at one load showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// The load that was asked for.
    pub load: Load,
    /// How long frames were sent, in nanoseconds. The drain after the last frame is not part of it.
    pub duration_ns: u64,
    /// Frames that the schedule asked for. At least 1.
    pub intended: u64,
    /// Frames that the schedule asked for and the tester could not send.
    pub unsent: u64,
    /// Frames sent and not delivered.
    pub lost: u64,
    /// Of these, frames that were lost while something else had a core that the path works on: at most `lost`, 0 where that is not known.
    pub lost_in_interruptions: u64,
}

impl Trial {
    /// Frames that arrived.
    pub fn delivered(&self) -> u64 {
        self.intended.saturating_sub(self.unsent).saturating_sub(self.lost)
    }

    /// The share of the intended frames that did not arrive, unsent ones included: from 0 to 1.
    ///
    /// A load that the tester could not offer was not carried, so unsent frames count against the load, as in MLRsearch;
    /// [`Outcome::limit`](crate::Outcome::limit) tells which of the two it was.
    pub fn loss_ratio(&self) -> f64 {
        (self.intended - self.delivered()) as f64 / self.intended.max(1) as f64
    }

    /// The trial as a goal sees it that leaves interruptions out: what was lost in them counts as delivered.
    pub fn outside_interruptions(&self) -> Trial {
        Trial { lost: self.lost.saturating_sub(self.lost_in_interruptions), lost_in_interruptions: 0, ..*self }
    }

    /// Whether the trial meets a loss ratio by what was sent and fails it only because the tester did not send the rest.
    pub fn is_decided_by_unsent(&self, loss_ratio: f64) -> bool {
        let lost_ratio = self.lost as f64 / self.intended.max(1) as f64;
        lost_ratio <= loss_ratio && self.loss_ratio() > loss_ratio
    }

    /// The rate at which frames arrived (the forwarding rate of RFC 2285 section 3.6.1), in packets per second.
    pub fn forwarding_rate_pps(&self) -> f64 {
        self.load.pps() as f64 * (1.0 - self.loss_ratio())
    }

    /// Whether the numbers can be of one trial.
    pub fn check(&self) -> Result<(), TrialError> {
        if self.intended == 0 {
            return Err(TrialError::Empty { load: self.load });
        }
        match self.unsent.checked_add(self.lost) {
            Some(missing) if missing <= self.intended && self.lost_in_interruptions <= self.lost => Ok(()),
            _ => Err(TrialError::Unbalanced { trial: *self }),
        }
    }
}

/// Why a trial cannot be taken as evidence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrialError {
    /// No frame was intended, so nothing was tested.
    #[error("the trial at {load} intended no packet, so it tested nothing")]
    Empty {
        /// The load that was asked for.
        load: Load,
    },
    /// More frames are missing than were intended.
    #[error("the trial at {} counts {} unsent and {} lost of only {} intended packets", trial.load, trial.unsent, trial.lost, trial.intended)]
    Unbalanced {
        /// The trial as given.
        trial: Trial,
    },
}
