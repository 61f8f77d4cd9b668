//! A device inside this process: what stands between the two ends of an in-process link.

use linerate_mem::{Batch, Pool};
use linerate_port::{Context, Datapath, Port, PortError, PortIndex};
use linerate_worker::{Config, Control, Eagerness, Role, Worker};

use super::TesterError;
use linerate_testbed::threads::{Priority, pin_and_prioritize};

const BATCH: usize = 64;
/// How long packets that have arrived when the trial ends may still pass.
const DRAIN_NS: u64 = 1_000_000_000;

/// A wire: packets that come from port 0 leave by port 1, those from port 2 by port 3.
struct Wire {
    queues: [Batch; 2],
}

impl Wire {
    /// The queue of the way that has this port at one of its ends.
    fn queue(&mut self, port: PortIndex) -> Option<&mut Batch> {
        self.queues.get_mut(usize::from(port.0) / 2)
    }
}

impl Datapath for Wire {
    #[inline]
    fn input(&mut self, from: PortIndex, batch: &mut Batch, _: &mut Context<'_>) {
        if let Some(queue) = self.queue(from) {
            batch.move_to(queue, batch.len());
        }
    }

    #[inline]
    fn output(&mut self, to: PortIndex) -> Option<&mut Batch> {
        self.queue(to).filter(|_| to.0 % 2 == 1)
    }

    fn tx_done(&mut self, _: PortIndex, _: usize, _: u64) {}

    /// Packets of a trial have one slot.
    fn waiting(&self, to: PortIndex) -> u64 {
        self.queues.get(usize::from(to.0) / 2).filter(|_| to.0 % 2 == 1).map_or(0, |queue| queue.len() as u64)
    }

    fn too_long(&mut self, to: PortIndex, _: usize, context: &mut Context<'_>) {
        if let Some(queue) = self.queue(to) {
            context.pool.free_front(queue, 1);
        }
    }
}

/// A device and its ports.
pub(super) struct Installed(Worker<Wire>);

impl Installed {
    /// A wire between ports of `pool`: from the first to the second, from the third to the fourth.
    pub(super) fn wire(pool: &Pool, ports: [Box<dyn Port>; 4]) -> Result<Installed, TesterError> {
        let wire = Wire { queues: [Batch::new(pool, BATCH), Batch::new(pool, BATCH)] };
        let config =
            Config { batch: BATCH, eagerness: Eagerness::Yields, drain_input_ns: DRAIN_NS, ..Config::default() };
        let worker = Worker::new(wire, pool, config, Box::new(|_| ()));
        let (mut worker, _) = worker.map_err(TesterError::Worker)?;
        for (number, port) in ports.into_iter().enumerate() {
            worker.attach(port, pool, Role { receives: number % 2 == 0, ..Role::default() });
        }
        Ok(Installed(worker))
    }

    /// What it is, in words.
    pub(super) fn describe(&self) -> String {
        "in-process link with a forwarding thread".into()
    }

    /// Serves the device until a stop is asked for and nothing moves any more.
    pub(super) fn serve(&mut self, core: Option<usize>, control: &Control) -> Result<(), PortError> {
        pin_and_prioritize(core, Priority::Nice);
        self.0.run(control).error.map_or(Ok(()), Err)
    }
}
