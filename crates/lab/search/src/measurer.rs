//! The injected measurer, and the loop that drives it.

use crate::{Load, Outcome, Search, Trial, TrialError};
use std::fmt;

/// Whatever can make a trial: a real generator and receiver, or a device made up for a test.
pub trait Measurer {
    /// Why a trial could not be made. It ends the search: what could not be measured is not a failing trial.
    type Error;

    /// Makes one trial at `load` for `duration_ns` nanoseconds.
    fn measure(&mut self, load: Load, duration_ns: u64) -> Result<Trial, Self::Error>;
}

impl<F, E> Measurer for F
where
    F: FnMut(Load, u64) -> Result<Trial, E>,
{
    type Error = E;

    fn measure(&mut self, load: Load, duration_ns: u64) -> Result<Trial, E> {
        self(load, duration_ns)
    }
}

impl Search {
    /// Searches to the end. `progress` is called after each trial, for instance to show the bounds closing in.
    ///
    /// On an error the search keeps what was recorded: [`Search::outcome`] still tells it.
    pub fn run<M: Measurer>(
        &mut self,
        measurer: &mut M,
        mut progress: impl FnMut(&Search),
    ) -> Result<Outcome, RunError<M::Error>> {
        while let Some(load) = self.next() {
            let trial = measurer.measure(load, self.goal().duration_ns).map_err(RunError::Measure)?;
            self.record(trial).map_err(RunError::Trial)?;
            progress(self);
        }
        Ok(self.outcome())
    }
}

/// Why a search could not be brought to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunError<E> {
    /// The measurer could not make a trial.
    Measure(E),
    /// The measurer returned a trial that cannot be one.
    Trial(TrialError),
}

impl<E: fmt::Display> fmt::Display for RunError<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Measure(error) => write!(formatter, "a trial could not be made: {error}"),
            Self::Trial(error) => write!(formatter, "{error}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for RunError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Measure(error) => Some(error),
            Self::Trial(error) => Some(error),
        }
    }
}
