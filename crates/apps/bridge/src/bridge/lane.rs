//! The datapath of a bridge: packets of one port leave by another, and none is dropped for want of room.

use std::sync::Arc;

use linerate_mem::{Batch, Pool};
use linerate_port::{Context, Datapath, Fitting, PortIndex};
use linerate_worker::Meter;

/// The lanes of one worker; each has its own two ports in its own direction.
pub struct Bridge(pub Vec<Lane>);

/// One direction between two ports of a worker.
pub struct Lane {
    /// Number of the direction in the bridge.
    pub way: usize,
    /// Port that packets come from.
    from: PortIndex,
    /// Port that they go to.
    to: PortIndex,
    /// What has come and not gone.
    outgoing: Batch,
    /// Pool of `to`, where slots cannot be handed over.
    copies_into: Option<Pool>,
    /// Shows what went.
    meter: Arc<Meter>,
    /// What has happened.
    pub counts: Counts,
}

/// Packets of a lane. `received = taken + too_long`, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// That came from the near port.
    pub received: u64,
    /// That the far port took.
    pub taken: u64,
    /// Longer than the far port takes.
    pub too_long: u64,
    /// Batches that they came in.
    pub batches: u64,
}

impl Lane {
    /// A part of direction `way`, from one port to another. `outgoing` is an empty batch of the pool of the port that packets go
    /// to; with `copies_into`, which is that pool, packets are copied, else they are of this pool and handed over.
    pub fn new(
        way: usize,
        [from, to]: [PortIndex; 2],
        outgoing: Batch,
        copies_into: Option<&Pool>,
        meter: &Arc<Meter>,
    ) -> Lane {
        let (copies_into, meter) = (copies_into.cloned(), Arc::clone(meter));
        Lane { way, from, to, outgoing, copies_into, meter, counts: Counts::default() }
    }

    /// Takes packets from the front of the batch, as many as there is room for. They leave before more are received, so the near
    /// port's own ring is the queue.
    #[inline]
    fn take(&mut self, batch: &mut Batch, home: &mut Pool) {
        let packets = match &mut self.copies_into {
            None => hand_over(batch, &mut self.outgoing),
            Some(pool) => copy(batch, home, pool, &mut self.outgoing),
        };
        self.counts.received += packets;
        self.counts.batches += u64::from(packets > 0);
    }

    /// Packets that it holds.
    #[inline]
    fn held(&self) -> u64 {
        self.counts.received - self.counts.taken - self.counts.too_long
    }
}

/// Moves whole packets, as many as there is room for, and returns how many.
#[inline]
fn hand_over(batch: &mut Batch, outgoing: &mut Batch) -> u64 {
    if outgoing.is_empty() && outgoing.capacity() == batch.capacity() && outgoing.is_of(batch.region()) {
        // The whole batch goes on as it is, and the worker gets the empty one.
        std::mem::swap(batch, outgoing);
        return outgoing.totals().packets;
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
    fn to(&mut self, to: PortIndex) -> Option<&mut Lane> {
        self.0.iter_mut().find(|lane| lane.to == to)
    }
}

impl Datapath for Bridge {
    #[inline]
    fn input(&mut self, from: PortIndex, batch: &mut Batch, context: &mut Context<'_>) {
        if let Some(lane) = self.0.iter_mut().find(|lane| lane.from == from) {
            lane.take(batch, context.pool);
        }
    }

    #[inline]
    fn output(&mut self, to: PortIndex) -> Option<&mut Batch> {
        self.to(to).map(|lane| &mut lane.outgoing)
    }

    #[inline]
    fn tx_done(&mut self, to: PortIndex, packets: usize, _: u64) {
        if let Some(lane) = self.to(to) {
            lane.counts.taken += packets as u64;
            lane.meter.set(lane.counts.taken, 0, lane.counts.batches);
        }
    }

    fn waiting(&self, to: PortIndex) -> u64 {
        self.0.iter().find(|lane| lane.to == to).map_or(0, Lane::held)
    }

    fn too_long(&mut self, to: PortIndex, _: usize, context: &mut Context<'_>) {
        if let Some(lane) = self.to(to)
            && let Some(span) = lane.outgoing.span(0)
        {
            context.pool.free_front(&mut lane.outgoing, span.slots);
            lane.counts.too_long += 1;
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
        let outgoing = Batch::with_times(pool, slots);
        Bridge(vec![Lane::new(0, [PortIndex(0), PortIndex(1)], outgoing, copies.then_some(pool), &Arc::default())])
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
}
