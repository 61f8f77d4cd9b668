//! The cores of a trial.

/// Which core does what; `None` leaves it to the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cores {
    /// The sending thread.
    pub generator: Option<usize>,
    /// The sending thread of the way back, where that shall be one of its own: with `None`, or the generator's core, one thread
    /// serves both directions in turn.
    pub generator_back: Option<usize>,
    /// The DUT's first hop (pinned by `Tester::place`).
    pub dut: Option<usize>,
    /// The receiving threads, where there are some.
    pub receiver: Option<usize>,
}
