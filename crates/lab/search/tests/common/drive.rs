//! Drives a search to its end with a device that is made up.

use linerate_search::frame_loss::{FrameLoss, LossCurve};
use linerate_search::max_forwarding_rate::{ForwardingRate, MaxForwardingRate};
use linerate_search::{Load, Outcome, Search, Trial, mlr};

const SECOND_NS: u64 = 1_000_000_000;

/// A search that asks for trials.
pub trait Drive {
    type Outcome;
    /// The load and the duration of the next trial.
    fn order(&self) -> Option<(Load, u64)>;
    fn take(&mut self, trial: Trial);
    fn found(&self) -> Self::Outcome;

    /// Makes trials until the search has ended; `progress` is called after each. A device that fails ends it.
    fn run<E>(
        &mut self,
        device: &mut impl FnMut(Load, u64) -> Result<Trial, E>,
        mut progress: impl FnMut(&Self),
    ) -> Result<Self::Outcome, E> {
        while let Some((load, duration_ns)) = self.order() {
            self.take(device(load, duration_ns)?);
            progress(self);
        }
        Ok(self.found())
    }
}

macro_rules! drive {
    ($($search:ty => $outcome:ty, $order:expr;)*) => {$(
        impl Drive for $search {
            type Outcome = $outcome;

            fn order(&self) -> Option<(Load, u64)> {
                $order(self)
            }

            fn take(&mut self, trial: Trial) {
                self.record(trial).unwrap();
            }

            fn found(&self) -> $outcome {
                self.outcome()
            }
        }
    )*};
}

drive! {
    Search => Outcome, |search: &Search| Some((search.next()?, search.goal().duration_ns));
    mlr::Search => mlr::Outcome, |search: &mlr::Search| search.next().map(|order| (order.load, order.duration_ns));
    FrameLoss => LossCurve, |curve: &FrameLoss| Some((curve.next()?, SECOND_NS));
    MaxForwardingRate => ForwardingRate, |search: &MaxForwardingRate| Some((search.next()?, SECOND_NS));
}
