//! Everything of a stack but the program.

use crate::{Counters, Now, StackConfig, StackError};

/// Connections, tables, timers and memory of a stack.
pub(crate) struct Engine {
    pub(crate) config: StackConfig,
    pub(crate) counters: Counters,
    pub(crate) now: Now,
}

impl Engine {
    pub(crate) fn new(config: StackConfig) -> Result<Engine, StackError> {
        Ok(Engine { config, counters: Counters::default(), now: Now::default() })
    }
}
