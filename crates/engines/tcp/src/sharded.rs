//! One shard of a stack that runs on several cores: the stack, with the rings that lead to the others.
//!
//! ```text
//!   device queue --Port--> steering --own packets--> [ stack ] --> Port
//!                             |  ^                                   ^
//!              ToShard(k) <---+  +--- FromShards (for this stack)    +--- ForPort (what shards without a queue send)
//! ```
//! Shards share nothing else. A packet is handed over at most once on its way in, so the packets of a connection stay in order: all of
//! them come by one queue, as devices see to, and go to one shard.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use core::cell::Cell;

use linerate_ip::Shard;
use linerate_mem::{Batch, Pool};
use linerate_port::{Context, Datapath, PortIndex};
use linerate_wire::Protocol;

use crate::owners::{ALL, Owners, Sieve};
use crate::{App, Io, Stack};

/// Packets that wait for a ring to another shard, at most.
const QUEUE: usize = 1024;
/// Room in the output of the stack that packets of other shards leave to its own.
const OWN: usize = 256;

/// Shards that have nothing left to do; the run ends when all of them have not, because each may need the port of another one.
#[derive(Clone, Debug, Default)]
pub struct ShardsDone(Arc<AtomicU16>);

/// What a port of the worker is to the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardPort {
    /// A queue of the device. Packets that arrive are for any shard.
    Port,
    /// A ring by which others hand over packets for this shard.
    FromShards,
    /// A ring by which a shard without a queue hands over packets that are to leave by the port.
    ForPort,
    /// A ring to the shard of that number, for packets that are its.
    ToShard(u16),
    /// A ring to a shard with a queue: packets of this one leave by it.
    ToPort,
}

/// Packets between shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardCounters {
    /// Packets that arrived at this shard's queue of the device.
    pub arrived: u64,
    /// Of these, handed over to other shards. Copies for all shards are counted for each.
    pub handed_over: u64,
    /// Not handed over, because the ring was full or no frame was free.
    pub lost: u64,
    /// Packets that other shards handed over to this one.
    pub taken_over: u64,
    /// Packets of other shards that left by this one's queue.
    pub relayed: u64,
}

/// One shard of several: a datapath over the stack.
pub struct Sharded<A: App> {
    stack: Stack<A>,
    shard: Shard,
    /// By the worker's numbers.
    ports: Vec<Option<ShardPort>>,
    /// The port that the stack's packets leave by.
    exit: Option<PortIndex>,
    owners: Owners,
    /// Places in a batch of packets that are not this shard's alone, and whose they are.
    foreign: Vec<(usize, u8)>,
    /// Packets for other shards, and the port that each queue leaves by.
    queues: Vec<Queue>,
    own: Batch,
    counters: ShardCounters,
    done: ShardsDone,
    is_counted: Cell<bool>,
}

struct Queue {
    packets: Batch,
    port: Option<PortIndex>,
}

impl<A: App> Sharded<A> {
    /// A stack that is `shard` of several, over frames of `pool`; the others have clones of `done`.
    pub fn new(stack: Stack<A>, shard: Shard, done: ShardsDone, pool: &Pool) -> Sharded<A> {
        let others = if shard.of() > 1 { QUEUE } else { 0 };
        Sharded {
            stack,
            shard,
            ports: Vec::new(),
            exit: None,
            owners: Owners::new(shard),
            foreign: Vec::new(),
            queues: (0..shard.of()).map(|_| Queue { packets: Batch::new(pool, others), port: None }).collect(),
            own: Batch::new(pool, others),
            counters: ShardCounters::default(),
            done,
            is_counted: Cell::new(false),
        }
    }

    /// Takes the next port, which gets the lowest number that is free; `None` if it has such a port already, or there is no such shard.
    pub fn bind(&mut self, port: ShardPort) -> Option<PortIndex> {
        let index = self.ports.iter().position(Option::is_none).unwrap_or(self.ports.len());
        let number = PortIndex(u16::try_from(index).ok()?);
        match port {
            ShardPort::Port | ShardPort::ToPort if self.exit.is_some() => return None,
            ShardPort::Port | ShardPort::ToPort => self.exit = Some(number),
            ShardPort::ToShard(shard) => {
                let queue = self.queues.get_mut(usize::from(shard)).filter(|queue| queue.port.is_none())?;
                queue.port = Some(number);
            }
            ShardPort::FromShards | ShardPort::ForPort => {}
        }
        if index == self.ports.len() {
            self.ports.push(None);
        }
        self.ports[index] = Some(port);
        Some(number)
    }

    /// Number of its queue of the device; `None` if it has none.
    pub fn port(&self) -> Option<PortIndex> {
        self.exit.filter(|exit| self.kind(*exit) == Some(ShardPort::Port))
    }

    /// The program.
    pub fn app(&self) -> &A {
        self.stack.app()
    }

    /// The program, to change.
    pub fn app_mut(&mut self) -> &mut A {
        self.stack.app_mut()
    }

    /// Which shard it is.
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// Packets between it and the other shards.
    pub fn shard_counters(&self) -> ShardCounters {
        self.counters
    }

    /// Calls `work` with the program and the stack, from outside a round.
    pub fn with<R>(&mut self, now_ns: u64, work: impl FnOnce(&mut A, &mut Io<'_>) -> R) -> R {
        self.stack.with(now_ns, work)
    }

    #[inline]
    fn kind(&self, port: PortIndex) -> Option<ShardPort> {
        self.ports.get(usize::from(port.0)).copied().flatten()
    }

    /// Sends each packet to its shard; own ones go to the stack.
    fn steer(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        if batch.len() > 1 && is_tcp4(batch.packet(0)) && !batch.has_frags() {
            self.counters.arrived += batch.len() as u64;
            self.sift(batch, context);
        } else {
            self.counters.arrived += batch.totals().packets;
            self.divide(batch, context);
        }
    }

    /// A batch of segments above all, whose headers the stack reads anyway: it finds out which are not its own, and leaves those alone.
    fn sift(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let mut foreign = std::mem::take(&mut self.foreign);
        self.stack.sift(&mut Sieve { owners: &self.owners, foreign: &mut foreign }, batch, context);
        let mut gone = 0;
        for run in foreign.chunk_by(|one, next| one.1 == next.1 && one.0 + 1 == next.0) {
            let (place, owner) = run[0];
            context.pool.free_front(batch, place - gone);
            if owner == ALL {
                for _ in run {
                    self.copy_to_others(batch.packet(0), context);
                    context.pool.free_front(batch, 1);
                }
            } else {
                self.hand_over(batch, run.len(), usize::from(owner), context);
            }
            gone = place + run.len();
        }
        foreign.clear();
        self.foreign = foreign;
        self.stack.end(batch, context);
    }

    /// Any batch: runs of packets that have one owner move together.
    fn divide(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let own = self.owners.own();
        while !batch.is_empty() {
            let mut count = 0;
            // Slots in a row that have one owner move together, and so do the slots of a packet.
            let (mut run, mut begins) = (own, true);
            while count < batch.len() {
                if begins {
                    let mut owner = self.owners.of(batch.packet(count));
                    if owner == ALL {
                        // Copies for the others, the packet itself for this one.
                        if !batch.more(count) {
                            self.copy_to_others(batch.packet(count), context);
                        }
                        owner = own;
                    }
                    if count > 0 && owner != run {
                        break;
                    }
                    run = owner;
                }
                begins = !batch.more(count);
                count += 1;
            }
            if run == own {
                if self.own.is_empty() && count == batch.len() {
                    self.stack.input(PortIndex(0), batch, context);
                    return;
                }
                if self.own.room() < count {
                    self.stack.input(PortIndex(0), &mut self.own, context);
                }
                batch.move_to(&mut self.own, count);
            } else {
                self.hand_over(batch, count, usize::from(run), context);
            }
        }
        if !self.own.is_empty() {
            self.stack.input(PortIndex(0), &mut self.own, context);
        }
    }

    fn hand_over(&mut self, batch: &mut Batch, count: usize, to: usize, context: &mut Context<'_>) {
        let packets = batch.totals_of(count).packets;
        match self.queues.get_mut(to) {
            Some(queue) if queue.port.is_some() && queue.packets.room() >= count => {
                batch.move_to(&mut queue.packets, count);
                self.counters.handed_over += packets;
            }
            _ => {
                context.pool.free_front(batch, count);
                self.counters.lost += packets;
            }
        }
    }

    #[cold]
    fn copy_to_others(&mut self, packet: &[u8], context: &mut Context<'_>) {
        let own = usize::from(self.shard.number());
        for (_, queue) in self.queues.iter_mut().enumerate().filter(|(number, _)| *number != own) {
            let at = queue.packets.len();
            let room = queue.port.is_some() && queue.packets.room() > 0;
            if room && context.pool.alloc(&mut queue.packets, 1, packet.len()) == 1 {
                let copy = queue.packets.packet_mut(at);
                let len = copy.len().min(packet.len());
                copy[..len].copy_from_slice(&packet[..len]);
                self.counters.handed_over += 1;
            } else {
                self.counters.lost += 1;
            }
        }
    }

    /// The queue that leaves by this port.
    fn queue_mut(&mut self, port: PortIndex) -> Option<&mut Queue> {
        match self.kind(port) {
            Some(ShardPort::ToShard(shard)) => self.queues.get_mut(usize::from(shard)),
            _ => None,
        }
    }
}

/// True if a frame is probably a TCP segment over IPv4.
#[inline]
fn is_tcp4(frame: &[u8]) -> bool {
    frame.first_chunk::<24>().is_some_and(|head| head[12..14] == [8, 0] && head[23] == Protocol::TCP.0)
}

impl<A: App> Datapath for Sharded<A> {
    #[inline]
    fn input(&mut self, from: PortIndex, batch: &mut Batch, context: &mut Context<'_>) {
        match self.kind(from) {
            Some(ShardPort::Port) if self.shard.of() > 1 => self.steer(batch, context),
            Some(ShardPort::ForPort) => {
                // What does not fit waits in the ring.
                let count = batch.len().min(self.stack.output_room().saturating_sub(OWN));
                let packets = batch.totals_of(count).packets;
                self.counters.relayed += packets;
                self.stack.relay(batch, count);
            }
            Some(ShardPort::FromShards) => {
                self.counters.taken_over += batch.totals().packets;
                self.stack.input(from, batch, context);
            }
            _ => self.stack.input(from, batch, context),
        }
    }

    #[inline]
    fn output(&mut self, to: PortIndex) -> Option<&mut Batch> {
        if self.exit == Some(to) {
            return self.stack.output(to);
        }
        self.queue_mut(to).map(|queue| &mut queue.packets)
    }

    fn tx_done(&mut self, _: PortIndex, _: usize, _: u64) {}

    fn waiting(&self, to: PortIndex) -> u64 {
        match self.kind(to) {
            Some(ShardPort::ToShard(shard)) => {
                self.queues.get(usize::from(shard)).map_or(0, |queue| queue.packets.totals().packets)
            }
            Some(ShardPort::Port | ShardPort::ToPort) => self.stack.waiting(to),
            _ => 0,
        }
    }

    fn too_long(&mut self, to: PortIndex, len_max: usize, context: &mut Context<'_>) {
        match self.queue_mut(to) {
            Some(queue) => context.pool.free_front(&mut queue.packets, 1),
            None => self.stack.too_long(to, len_max, context),
        }
    }

    fn stuck(&mut self, to: PortIndex, context: &mut Context<'_>) {
        if self.exit == Some(to) {
            self.stack.stuck(to, context);
        }
    }

    fn removed(&mut self, port: PortIndex, context: &mut Context<'_>) {
        if let Some(queue) = self.queue_mut(port) {
            context.pool.free(&mut queue.packets);
            queue.port = None;
        }
        if self.exit == Some(port) {
            self.stack.removed(port, context);
            self.exit = None;
        }
        if let Some(kind) = self.ports.get_mut(usize::from(port.0)) {
            *kind = None;
        }
    }

    #[inline]
    fn next_deadline_ns(&self) -> u64 {
        self.stack.next_deadline_ns()
    }

    fn tick(&mut self, context: &mut Context<'_>) {
        self.stack.tick(context);
    }

    #[inline]
    fn is_done(&self) -> bool {
        if !self.stack.is_done() {
            return false;
        }
        if !self.is_counted.replace(true) {
            self.done.0.fetch_add(1, Ordering::Relaxed);
        }
        self.done.0.load(Ordering::Relaxed) >= self.shard.of()
    }
}
