//! The stack: a datapath of one port, with the program on top.

use linerate_mem::{Batch, Pool};
use linerate_port::{Context, Datapath, PortIndex};

use crate::engine::Engine;
use crate::{App, Io, Now, StackConfig, StackError};

/// One shard: connections, and the program over them. It serves one port, number 0.
pub struct Stack<A: App> {
    engine: Engine,
    app: A,
    output: Batch,
}

impl<A: App> Stack<A> {
    /// A stack that sends frames of `pool`.
    ///
    /// # Errors
    /// There is no memory for so many connections, or a number is out of its range.
    pub fn new(config: StackConfig, pool: &Pool, app: A) -> Result<Stack<A>, StackError> {
        let output = Batch::new(pool, config.output_packets);
        Ok(Stack { engine: Engine::new(config)?, app, output })
    }

    /// Calls `work` with the program and the stack, from outside a round. What it sends leaves with the next `output`.
    pub fn with<R>(&mut self, now_ns: u64, pool: &mut Pool, work: impl FnOnce(&mut A, &mut Io<'_>) -> R) -> R {
        self.engine.now = Now::new(now_ns);
        let _ = pool;
        work(&mut self.app, &mut Io::new(&mut self.engine))
    }

    /// The program.
    pub fn app(&self) -> &A {
        &self.app
    }
}

impl<A: App> Datapath for Stack<A> {
    fn input(&mut self, _: PortIndex, batch: &mut Batch, context: &mut Context<'_>) {
        context.pool.free(batch);
    }

    fn output(&mut self, _: PortIndex) -> Option<&mut Batch> {
        Some(&mut self.output)
    }

    fn tx_done(&mut self, _: PortIndex, _: usize, _: u64) {}

    fn waiting(&self, _: PortIndex) -> u64 {
        self.output.len() as u64
    }

    fn too_long(&mut self, _: PortIndex, _: usize, context: &mut Context<'_>) {
        context.pool.free_front(&mut self.output, 1);
    }

    fn is_done(&self) -> bool {
        self.app.is_done()
    }
}
