//! The datapath of a bridge: packets of one port leave by another, and none is dropped for want of room.

use std::sync::Arc;

use linerate_mem::{Batch, Pool};
use linerate_port::{Context, Datapath, Fitting, PortIndex};
use linerate_worker::Meter;

/// What one worker carries: a lane for each queue that it receives from, an exit for each that packets leave by.
#[derive(Default)]
pub struct Bridge {
    /// The lanes.
    pub lanes: Vec<Lane>,
    /// The exits.
    pub exits: Vec<Exit>,
}

/// From one queue to an exit; several lanes may lead to one.
pub struct Lane {
    /// Queue that packets come from.
    from: PortIndex,
    /// Place of its exit.
    exit: usize,
    /// Packets are copied into the exit's pool, because they cannot, or shall not, be handed over.
    copies: bool,
    /// Packets that came.
    pub received: u64,
    /// Batches that they came in.
    pub batches: u64,
}

/// Packets on their way to one queue. `entered = taken + too_long`, and what it holds.
pub struct Exit {
    /// Number of the direction in the bridge.
    pub way: usize,
    /// Queue that packets go to.
    to: PortIndex,
    /// What has come and not gone.
    outgoing: Batch,
    /// Its pool.
    pool: Pool,
    /// Shows what went.
    meter: Arc<Meter>,
    entered: u64,
    batches: u64,
    /// Packets that the queue took.
    pub taken: u64,
    /// Packets longer than it takes.
    pub too_long: u64,
}

impl Lane {
    /// A lane from a queue to the exit at place `exit`.
    pub fn new(from: PortIndex, exit: usize, copies: bool) -> Lane {
        Lane { from, exit, copies, received: 0, batches: 0 }
    }

    /// Takes packets from the front of the batch, as many as there is room for. They leave before more are received, so the near
    /// port's own ring is the queue. `known`: how many packets the batch holds.
    #[inline]
    fn take(&mut self, batch: &mut Batch, known: Option<usize>, home: &mut Pool, exit: &mut Exit) {
        let packets = match self.copies {
            false => hand_over(batch, known, &mut exit.outgoing),
            true => copy(batch, home, &mut exit.pool, &mut exit.outgoing),
        };
        let batches = u64::from(packets > 0);
        self.received += packets;
        self.batches += batches;
        exit.entered += packets;
        exit.batches += batches;
    }
}

impl Exit {
    /// An exit of direction `way` by a queue. `outgoing` is an empty batch of `pool`, which is that of the port.
    pub fn new(way: usize, to: PortIndex, outgoing: Batch, pool: &Pool, meter: &Arc<Meter>) -> Exit {
        let (pool, meter) = (pool.clone(), Arc::clone(meter));
        Exit { way, to, outgoing, pool, meter, entered: 0, batches: 0, taken: 0, too_long: 0 }
    }

    /// Whether packets leave by this queue.
    pub fn is_to(&self, to: PortIndex) -> bool {
        self.to == to
    }

    /// Packets that it holds.
    #[inline]
    fn held(&self) -> u64 {
        self.entered - self.taken - self.too_long
    }
}

/// Moves whole packets, as many as there is room for, and returns how many.
#[inline]
fn hand_over(batch: &mut Batch, known: Option<usize>, outgoing: &mut Batch) -> u64 {
    if outgoing.is_empty() && outgoing.capacity() == batch.capacity() && outgoing.is_of(batch.region()) {
        // The whole batch goes on as it is, and the worker gets the empty one.
        std::mem::swap(batch, outgoing);
        return known.map_or_else(|| outgoing.totals().packets, |packets| packets as u64);
    }
    let mut slots = batch.len();
    if slots > outgoing.room() {
        slots = Fitting::new(batch, outgoing.room(), usize::MAX, usize::MAX).slots;
    }
    let packets = batch.totals_of(slots).packets;
    batch.move_to(outgoing, slots);
    packets
}

/// Copies packets from the front of `batch`, as many as there are room and frames for, gives their frames back to `home`, and returns how
/// many packets that were.
fn copy(batch: &mut Batch, home: &mut Pool, pool: &mut Pool, outgoing: &mut Batch) -> u64 {
    let (mut slots, mut packets) = (0, 0);
    while let Some(span) = batch.span(slots)
        && pool.copy(batch, slots, outgoing)
    {
        slots += span.slots;
        packets += 1;
    }
    home.free_front(batch, slots);
    packets
}

impl Bridge {
    /// The lane of a queue that packets come from.
    pub fn lane(&self, from: PortIndex) -> Option<&Lane> {
        self.lanes.iter().find(|lane| lane.from == from)
    }

    /// The exit by a queue.
    pub fn exit(&self, to: PortIndex) -> Option<&Exit> {
        self.exits.iter().find(|exit| exit.to == to)
    }

    #[inline]
    fn take(&mut self, from: PortIndex, batch: &mut Batch, known: Option<usize>, pool: &mut Pool) {
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.from == from)
            && let Some(exit) = self.exits.get_mut(lane.exit)
        {
            lane.take(batch, known, pool, exit);
        }
    }

    #[inline]
    fn exit_mut(&mut self, to: PortIndex) -> Option<&mut Exit> {
        self.exits.iter_mut().find(|exit| exit.to == to)
    }
}

impl Datapath for Bridge {
    #[inline]
    fn input(&mut self, from: PortIndex, batch: &mut Batch, context: &mut Context<'_>) {
        self.take(from, batch, None, context.pool);
    }

    #[inline]
    fn input_counted(&mut self, from: PortIndex, batch: &mut Batch, packets: usize, context: &mut Context<'_>) {
        self.take(from, batch, Some(packets), context.pool);
    }

    fn passes_to(&self, from: PortIndex) -> Option<PortIndex> {
        let lane = self.lane(from).filter(|lane| !lane.copies)?;
        let exit = self.exits.get(lane.exit)?;
        (exit.held() == 0).then_some(exit.to)
    }

    fn passed(&mut self, from: PortIndex, to: PortIndex, packets: usize) {
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.from == from) {
            lane.received += packets as u64;
            lane.batches += 1;
        }
        if let Some(exit) = self.exit_mut(to) {
            exit.entered += packets as u64;
            exit.batches += 1;
        }
        self.tx_done(to, packets, 0);
    }

    #[inline]
    fn output(&mut self, to: PortIndex) -> Option<&mut Batch> {
        self.exit_mut(to).map(|exit| &mut exit.outgoing)
    }

    #[inline]
    fn tx_done(&mut self, to: PortIndex, packets: usize, _: u64) {
        if let Some(exit) = self.exit_mut(to) {
            exit.taken += packets as u64;
            exit.meter.set(exit.taken, 0, exit.batches);
        }
    }

    fn waiting(&self, to: PortIndex) -> u64 {
        self.exit(to).map_or(0, Exit::held)
    }

    fn too_long(&mut self, to: PortIndex, _: usize, context: &mut Context<'_>) {
        if let Some(exit) = self.exit_mut(to)
            && let Some(span) = exit.outgoing.span(0)
        {
            context.pool.free_front(&mut exit.outgoing, span.slots);
            exit.too_long += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_mem::PoolConfig;

    fn pool(frames: usize, frame_size: usize) -> Pool {
        Pool::new(PoolConfig { frames, frame_size }).unwrap()
    }

    fn lane(pool: &Pool, copies: bool, slots: usize) -> Bridge {
        let exit = Exit::new(0, PortIndex(1), Batch::with_times(pool, slots), pool, &Arc::default());
        Bridge { lanes: vec![Lane::new(PortIndex(0), 0, copies)], exits: vec![exit] }
    }

    fn input(bridge: &mut Bridge, batch: &mut Batch, pool: &mut Pool) {
        bridge.input(PortIndex(0), batch, &mut Context { now_ns: 0, pool, ports: &mut () });
    }

    fn whole(batch: &Batch) -> Vec<Vec<u8>> {
        let mut packets = vec![Vec::new()];
        for part in batch.parts() {
            packets.last_mut().unwrap().extend_from_slice(part.bytes);
            if !part.more {
                packets.push(Vec::new());
            }
        }
        packets.pop();
        packets
    }

    #[test]
    fn copies_arrive_unchanged_in_frames_of_any_size() {
        for (from_size, to_size) in [(2048, 2048), (1024, 2048), (2048, 1024), (1024, 1024)] {
            let (mut near, far) = (pool(256, from_size), pool(256, to_size));
            let mut batch = Batch::with_times(&near, 128);
            let lens = [60, 1400, 0, 63, 9, 3000, 60, 64];
            let sent: Vec<Vec<u8>> = lens.iter().enumerate().map(|(n, len)| vec![n as u8; *len]).collect();
            for (index, packet) in sent.iter().enumerate() {
                assert!(near.append(&mut batch, packet, index as u64 + 1));
            }
            let mut bridge = lane(&far, true, 128);
            input(&mut bridge, &mut batch, &mut near);
            assert_eq!(bridge.waiting(PortIndex(1)), lens.len() as u64, "{from_size} to {to_size}");
            let outgoing = bridge.output(PortIndex(1)).unwrap();
            assert_eq!((whole(outgoing), outgoing.time_ns(0)), (sent, Some(1)));
            assert!(batch.is_empty() && near.is_whole());
            drop(bridge);
            assert!(far.is_whole());
        }
    }

    #[test]
    fn a_packet_stays_in_the_batch_as_a_whole_if_there_is_no_room_or_no_frame() {
        for copies in [false, true] {
            let mut near = pool(64, 2048);
            let mut batch = Batch::new(&near, 64);
            for len in [60, 3000, 60, 60] {
                assert!(near.append(&mut batch, &vec![7; len], 0));
            }
            // Room for the first packet and a part of the second.
            let far = if copies { pool(8, 2048) } else { near.clone() };
            let mut bridge = lane(&far, copies, 2);
            input(&mut bridge, &mut batch, &mut near);
            assert_eq!((bridge.waiting(PortIndex(1)), batch.totals().packets), (1, 3), "copies: {copies}");
        }
        let (mut near, far) = (pool(64, 2048), pool(8, 2048));
        let mut batch = Batch::new(&near, 64);
        near.alloc(&mut batch, 20, 60);
        let mut bridge = lane(&far, true, 16);
        input(&mut bridge, &mut batch, &mut near);
        assert_eq!((bridge.waiting(PortIndex(1)), batch.len()), (8, 12), "so many frames there are");
    }

    #[test]
    fn lanes_that_lead_to_one_exit_share_its_room() {
        let mut pool = pool(64, 2048);
        let exit = Exit::new(0, PortIndex(2), Batch::with_times(&pool, 8), &pool, &Arc::default());
        let lanes = [0, 1].map(|from| Lane::new(PortIndex(from), 0, false));
        let mut bridge = Bridge { lanes: lanes.into(), exits: vec![exit] };
        let mut batches = [Batch::with_times(&pool, 8), Batch::with_times(&pool, 8)];
        for (from, batch) in batches.iter_mut().enumerate() {
            pool.alloc(batch, 5, 60);
            let home = &mut pool;
            bridge.input(PortIndex(from as u16), batch, &mut Context { now_ns: 0, pool: home, ports: &mut () });
        }
        assert_eq!([batches[0].len(), batches[1].len()], [0, 2], "what found no room stays");
        let received = [0, 1].map(|from| bridge.lane(PortIndex(from)).unwrap().received);
        assert_eq!((received, bridge.waiting(PortIndex(2))), ([5, 3], 8));
        bridge.tx_done(PortIndex(2), 8, 0);
        assert_eq!((bridge.exit(PortIndex(2)).unwrap().taken, bridge.waiting(PortIndex(2))), (8, 0));
    }
}
