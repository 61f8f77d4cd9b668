//! The request to stop, for all workers of an instance.

use linerate_worker::Control;

/// Stops all workers together.
#[derive(Clone, Default)]
pub(crate) struct Stop(pub(crate) Vec<Control>);

impl Stop {
    pub(crate) fn stop(&self) {
        self.0.iter().for_each(Control::stop);
    }

    pub(crate) fn stopping(&self) -> bool {
        self.0.iter().any(Control::stopping)
    }
}
