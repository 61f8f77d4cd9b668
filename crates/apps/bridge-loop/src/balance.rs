//! The datapath of a balancer: spreads packets, and lets those that do not go wait within a bound.

use std::sync::Arc;

use linerate_mem::Batch;
use linerate_port::{Context, Datapath, PortIndex};
use linerate_worker::Meter;

use crate::output::Output;
use crate::spread::{flow_hash, output_of};

/// Groups of outputs. Every group gets every packet.
///
/// ```text
/// ports of a worker   | inputs | outputs: a port, or the ring to its worker | rings of other workers to outputs that are ports here |
/// ```
pub struct Balancer {
    /// Ports that packets come from.
    pub inputs: usize,
    /// All outputs, one group after the other; without an input those that are ports of this worker.
    pub outputs: Vec<Output>,
    /// Their numbers among the outputs of all workers.
    pub numbers: Vec<usize>,
    /// Outputs of each group.
    pub groups: Vec<usize>,
    /// The places in `outputs` of the rings by which packets of other workers come.
    pub rings: Vec<usize>,
    /// Slots that may wait, over all outputs, when new packets come.
    pub extra: usize,
    /// Packets that came in.
    pub received: u64,
    /// Shows how many came in.
    pub meter: Arc<Meter>,
}

impl Balancer {
    /// Gives the packet in front of the batch to one output of each group: copies to all groups but the last.
    #[inline]
    fn spread(&mut self, batch: &mut Batch, slots: usize, context: &mut Context<'_>) {
        let hash = flow_hash(batch.packet(0));
        let (mut first, last) = (0, self.groups.len() - 1);
        for (group, count) in self.groups.iter().enumerate() {
            let output = &mut self.outputs[first + output_of(hash, *count)];
            if group == last {
                output.assign(batch, slots, context.pool);
            } else {
                output.assign_copy(batch);
            }
            first += count;
        }
        self.received += 1;
    }

    /// Drops `excess` slots: the oldest of the longest queue, so that an output that stands still cannot take the room of the
    /// others, and new packets go before old ones.
    #[cold]
    fn trim(&mut self, mut excess: usize) {
        while excess > 0 {
            let lengths = self.outputs.iter().map(Output::backlog);
            let Some((longest, length)) = lengths.clone().enumerate().max_by_key(|(_, length)| *length) else { break };
            let others = lengths.enumerate().filter(|(index, _)| *index != longest).map(|(_, length)| length);
            let next = others.max().unwrap_or(0);
            if length == 0 {
                break;
            }
            self.outputs[longest].overflow(excess.min(length - next + 1).min(length));
            let now = self.outputs[longest].backlog();
            excess = excess.saturating_sub(length - now);
        }
    }

    fn output_mut(&mut self, to: PortIndex) -> Option<&mut Output> {
        let place = self.place_of(to)?;
        self.outputs.get_mut(place)
    }

    /// The place of the output behind a port.
    #[inline]
    fn place_of(&self, to: PortIndex) -> Option<usize> {
        usize::from(to.0).checked_sub(self.inputs)
    }

    /// The place of the output whose packets other workers send by this port.
    #[inline]
    fn output_behind(&self, from: PortIndex) -> Option<usize> {
        self.rings.get(self.place_of(from)?.checked_sub(self.outputs.len())?).copied()
    }
}

impl Datapath for Balancer {
    #[inline]
    fn input(&mut self, from: PortIndex, batch: &mut Batch, context: &mut Context<'_>) {
        let waiting = self.outputs.iter().map(Output::backlog).sum::<usize>();
        if waiting > self.extra {
            self.trim(waiting - self.extra);
        }
        if let Some(output) = self.output_behind(from) {
            self.outputs[output].take_over(batch);
            return;
        }
        while let Some(span) = batch.span(0) {
            self.spread(batch, span.slots, context);
        }
        self.meter.set(self.received, 0, 0);
    }

    #[inline]
    fn output(&mut self, to: PortIndex) -> Option<&mut Batch> {
        self.output_mut(to).map(Output::queue)
    }

    #[inline]
    fn tx_done(&mut self, to: PortIndex, packets: usize, _: u64) {
        if let Some(output) = self.output_mut(to) {
            output.tx_done(packets as u64);
        }
    }

    fn waiting(&self, to: PortIndex) -> u64 {
        let output = self.place_of(to).and_then(|place| self.outputs.get(place));
        output.map_or(0, Output::held)
    }

    fn too_long(&mut self, to: PortIndex, _: usize, _: &mut Context<'_>) {
        if let Some(output) = self.output_mut(to) {
            output.too_long();
        }
    }
}
