//! The port: batches in and out of the guest's rings.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use linerate_mem::{Batch, Pool};
use linerate_port::{Caps, Drops, Interest, LinkState, Port, PortError, Readiness, Stats, complete_checksums};
use linerate_sys::clock;
use linerate_wire::FlowKey;

use crate::device::{Device, Kick, Shared};
use crate::receive::{Receiver, Refused};
use crate::ring::{Budget, Corrupt};
use crate::serve::{Peers, Server};
use crate::transmit::{Layout, send};
use crate::virtio;

/// Most slots of one packet.
pub(crate) const SLOTS_MAX: usize = 128;
/// A driver that does not notify is looked at so often.
const NAP_NS: u64 = 100_000;

/// A vhost-user device.
pub struct VhostPort {
    caps: Caps,
    pool: Pool,
    shared: Arc<Shared>,
    server: Server,
    stats: Stats,
    refused: Refused,
    unsent: Unsent,
    /// Queue that the next `receive` begins with.
    turn: usize,
    /// The last `receive` spent its budget, so that entries wait of which no driver will notify.
    cut_short: bool,
}

/// Packets that were taken and not sent, by cause.
#[derive(Clone, Copy, Debug, Default)]
struct Unsent {
    no_peer: u64,
    not_ready: u64,
    too_short: u64,
    unfitting: u64,
}

/// What became of a batch.
struct Round {
    packets: usize,
    too_long: Option<usize>,
}

impl VhostPort {
    pub(crate) fn new(caps: Caps, pool: &Pool, shared: Arc<Shared>, server: Server) -> VhostPort {
        VhostPort {
            caps,
            pool: pool.clone(),
            shared,
            server,
            stats: Stats::default(),
            refused: Refused::default(),
            unsent: Unsent::default(),
            turn: 0,
            cut_short: false,
        }
    }

    /// What became of the front-ends so far. Takes a lock; not for every batch.
    pub fn peers(&self) -> Peers {
        self.server.peers()
    }
}

/// Gives the connection up over what was found; also when the guest took away memory.
fn judge(device: &mut Device, result: Result<(), Corrupt>) {
    if device.memory.is_broken() {
        device.fail(Corrupt("a memory region that it then cut short".into()));
    } else if let Err(corrupt) = result {
        device.fail(corrupt);
    }
}

/// Receiving.
impl VhostPort {
    fn receive_rings(&mut self, device: &mut Device, batch: &mut Batch) -> usize {
        let Device { memory, features, queues, .. } = device;
        let mut receiver = Receiver {
            pool: &mut self.pool,
            batch,
            frame_len_max: self.caps.frame_len_max,
            header_bytes: virtio::header_bytes(*features),
            packets: 0,
            bytes: 0,
            refused: self.refused,
            budget: Budget::new(),
        };
        let pairs = queues.len() / 2;
        let mut result = Ok(());
        for pair in 0..pairs {
            let queue = &mut queues[2 * ((self.turn + pair) % pairs) + 1];
            if !queue.enabled {
                continue;
            }
            let Some(ring) = &mut queue.ring else { continue };
            result = receiver.receive(ring, memory);
            ring.finish(queue.call.as_deref());
            if result.is_err() {
                break;
            }
        }
        self.turn = if pairs > 1 { (self.turn + 1) % pairs } else { 0 };
        let packets = receiver.packets;
        self.stats.rx_packets += packets;
        self.stats.rx_bytes += receiver.bytes;
        self.refused = receiver.refused;
        self.cut_short = receiver.budget.is_spent();
        judge(device, result);
        packets as usize
    }
}

/// Transmitting.
impl VhostPort {
    /// Sends from the front of the batch; the slots that are done with are given back to the pool.
    fn transmit_rings(&mut self, device: &mut Device, batch: &mut Batch) -> Round {
        let layout = Layout::new(device.features, self.caps.frame_len_max);
        let enabled = device.queues.iter().step_by(2).filter(|queue| queue.enabled && queue.ring.is_some()).count();
        if enabled == 0 {
            return self.discard(device, batch);
        }
        let (mut done, mut packets, mut too_long) = (0, 0, None);
        let mut result = Ok(());
        // One for all queues: they are of one guest.
        let mut budget = Budget::new();
        while done < batch.len() && too_long.is_none() {
            let (end, chosen) = if enabled == 1 { (batch.len(), 0) } else { same_queue(batch, done, enabled) };
            let Device { memory, queues, .. } = &mut *device;
            let ring = queues.iter_mut().step_by(2).filter_map(|queue| queue.running()).nth(chosen);
            let Some(ring) = ring else { break };
            let (sent, found) = send(ring, memory, layout, batch, done..end, &mut budget);
            done += sent.slots;
            packets += sent.packets + sent.unfitting + sent.too_short;
            self.stats.tx_packets += sent.packets;
            self.stats.tx_bytes += sent.bytes;
            self.unsent.unfitting += sent.unfitting;
            self.unsent.too_short += sent.too_short;
            too_long = sent.too_long;
            result = found;
            if result.is_err() || done < end {
                break;
            }
        }
        for queue in device.queues.iter_mut().step_by(2) {
            if let Some(ring) = &mut queue.ring {
                ring.finish(queue.call.as_deref());
            }
        }
        judge(device, result);
        self.pool.free_front(batch, done);
        Round { packets: packets as usize, too_long }
    }

    /// Nobody is there: what is not too long is lost.
    #[cold]
    fn discard(&mut self, device: &Device, batch: &mut Batch) -> Round {
        let mut round = Round { packets: 0, too_long: None };
        let mut slots = 0;
        while let Some(span) = batch.span(slots) {
            if span.len > self.caps.frame_len_max {
                round.too_long = Some(span.len);
                break;
            }
            slots += span.slots;
            round.packets += 1;
            if slots == batch.len() {
                break;
            }
        }
        self.pool.free_front(batch, slots);
        let lost = if device.connection.is_some() { &mut self.unsent.not_ready } else { &mut self.unsent.no_peer };
        *lost += round.packets as u64;
        round
    }
}

/// The slots from `start` on whose packets go to one queue of `queues`: where they end, and which queue. All packets of a flow go
/// to one, so that they stay in order.
fn same_queue(batch: &Batch, start: usize, queues: usize) -> (usize, usize) {
    let queue_at = |index: usize| {
        let hash = FlowKey::from_frame(batch.packet(index)).map_or(0, |key| key.hash_symmetric());
        ((hash >> 32) as usize) % queues
    };
    let chosen = queue_at(start);
    let mut end = start;
    while end < batch.len() && (end == start || queue_at(end) == chosen) {
        end += batch.span(end).map_or(batch.len() - end, |span| span.slots);
    }
    (end, chosen)
}

/// Waiting.
impl VhostPort {
    /// True when trying is worth it. With `ask`, drivers are asked to notify when that changes.
    fn look(&self, device: &mut Device, interest: Interest, ask: bool) -> bool {
        let first = if interest == Interest::Receive { 1 } else { 0 };
        let mut running = 0;
        let mut ready = false;
        for queue in device.queues.iter_mut().skip(first).step_by(2) {
            let Some(ring) = queue.running() else { continue };
            running += 1;
            if ask {
                ring.ask_for_notification();
            }
            // What cannot be is found by the next batch.
            ready |= ring.waiting() != Ok(0);
        }
        // Without a guest packets can be had for nothing, and be lost.
        ready || running == 0 && interest == Interest::Transmit
    }

    fn polled(&self, device: &Device) -> bool {
        device.queues.iter().any(|queue| queue.ring.is_some() && matches!(queue.kick, Kick::Polled))
    }

    fn wait_until(&mut self, interest: Interest, timeout_ns: u64) -> io::Result<Readiness> {
        if self.look(&mut self.shared.device(), interest, false) {
            return Ok(Readiness::Ready);
        }
        if timeout_ns == 0 {
            return Ok(Readiness::TimedOut);
        }
        let deadline_ns = clock::now_ns().saturating_add(timeout_ns);
        loop {
            let mut device = self.shared.device();
            let (ready, polled) = (self.look(&mut device, interest, true), self.polled(&device));
            drop(device);
            let left_ns = deadline_ns.saturating_sub(clock::now_ns());
            if ready || left_ns == 0 {
                return Ok(if ready { Readiness::Ready } else { Readiness::TimedOut });
            }
            self.shared.bells.wait(if polled { left_ns.min(NAP_NS) } else { left_ns })?;
        }
    }
}

impl Port for VhostPort {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        let shared = Arc::clone(&self.shared);
        let Some(mut device) = shared.try_device() else { return Ok(0) };
        Ok(self.receive_rings(&mut device, batch))
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        complete_checksums(batch);
        if batch.is_empty() {
            return Ok(0);
        }
        let shared = Arc::clone(&self.shared);
        let Some(mut device) = shared.try_device() else { return Ok(0) };
        let round = self.transmit_rings(&mut device, batch);
        match round.too_long {
            Some(len) => {
                let (port, max) = (self.caps.name.clone(), self.caps.frame_len_max);
                Err(PortError::FrameTooLong { port, len, max })
            }
            None => Ok(round.packets),
        }
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        let waited = self.wait_until(interest, timeout_ns);
        let port = self.caps.name.as_str();
        waited.map_err(|source| PortError::Io { port: port.into(), operation: "epoll_pwait2", source })
    }

    fn arm_wakeup(&mut self, add: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        let mut device = self.shared.device();
        if self.polled(&device) || self.shared.bells.clear().is_err() {
            return false;
        }
        self.look(&mut device, Interest::Receive, true);
        add(self.shared.bells.as_fd());
        !self.cut_short
    }

    /// Up while the guest's driver has a ring that packets can pass through.
    fn link(&mut self) -> Result<LinkState, PortError> {
        let running = self.shared.device().queues.iter_mut().any(|queue| queue.running().is_some());
        Ok(if running { LinkState::Up } else { LinkState::Down })
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        let drops = |causes: &[(&str, u64)]| {
            let place = format!("vhost port {}", self.caps.name);
            let seen = causes.iter().filter(|(_, packets)| *packets > 0);
            seen.map(|(cause, packets)| Drops { place: place.clone(), cause: (*cause).into(), packets: *packets })
                .collect()
        };
        let mut stats = self.stats.clone();
        stats.rx_drops = drops(&[
            ("shorter than an ethernet header", self.refused.too_short),
            ("longer than the mtu allows", self.refused.too_long),
            ("checksum or segments left to the device", self.refused.incomplete),
        ]);
        stats.tx_drops = drops(&[
            ("no peer", self.unsent.no_peer),
            ("the guest's driver is not ready", self.unsent.not_ready),
            ("shorter than an ethernet header", self.unsent.too_short),
            ("the guest's buffers are too short", self.unsent.unfitting),
        ]);
        Ok(stats)
    }
}
