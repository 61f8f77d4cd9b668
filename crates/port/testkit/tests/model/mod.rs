//! A port that keeps the whole contract, and the same port with one fault in it.
//!
//! Two rings of slots stand for the wire, a shared cell for the interface that they stand on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use linerate_mem::{Batch, Checksum, Pool, SlotReceiver, SlotSender, slot_ring};
use linerate_port::{Caps, Counted, Drops, Interest, LinkState, Port, PortError, Readiness, RxCounter, Stats};
use linerate_testkit::{Disturbance, Facts, Harness, Hit, Link};

/// What is wrong with the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    LosesPacket(u64),
    LosesUncountedWhenFull,
    FullIsAnError,
    Reorders,
    Duplicates,
    FlipsBit,
    CutsOddLengths,
    StripsVlanTags,
    LosesOnTheWayBack,
    LosesAfterTheWrap,
    ForgetsWhatTheBatchHeld,
    CountsTooManyBytes,
    CountsSlotsAsPackets,
    StartsAtOne,
    DropsWithoutCause,
    NoTimes,
    LeaksFrame,
    NeedsFrameToSend,
    ForgetsPartialChecksums,
    SplitsPackets,
    TakesTooLong,
    WrongNumbers,
    RefusesTheGoodOnesToo,
    DoesNotKnowItsPool,
    NeverReady,
    ReadyWhenFull,
    NeverEnds,
    EndsTooEarly,
    PanicsWithoutPeer,
    ForgetsWhatWasSentToNobody,
    SenderTakesPacketsAlong,
    CallsDownGone,
    ForgetsTotalsWhenDown,
    StaysDown,
    HidesItsLink,
    DoesNotNoticeDeletion,
    LeavesSomethingBehind,
    ReturnsWrongCount,
    FlushNeverEnds,
    SendsWhatItIsShownTwice,
    ForgetsWhatItWasShown,
    ShowsTooMany,
    CountsMoreThanAsked,
    CountsWrongBytes,
    ForgetsWhatItCounted,
}

const RING: usize = 64;
pub const FRAME_LEN_MAX: usize = 4000;

const UP: u8 = 0;
const DOWN: u8 = 1;
const DELETED: u8 = 2;
/// Up, but what is in the ring is gone.
const ROBBED: u8 = 3;

pub struct ModelPort {
    pool: Pool,
    sender: SlotSender,
    receiver: SlotReceiver,
    /// Taken from the ring, not handed out yet: whole packets leave it.
    inbox: Batch,
    caps: Caps,
    stats: Stats,
    lost: u64,
    interface: Arc<AtomicU8>,
    fault: Fault,
    second: bool,
    start: u32,
}

impl ModelPort {
    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn name(&self) -> String {
        self.caps.name.clone()
    }

    fn check_interface(&mut self) -> Result<(), PortError> {
        let (port, interface) = (self.name(), "m0".to_string());
        match self.interface.load(Ordering::Acquire) {
            UP | ROBBED => Ok(()),
            DOWN if self.is(Fault::CallsDownGone) => Err(PortError::Gone { port, what: "m0".into() }),
            DELETED if self.is(Fault::DoesNotNoticeDeletion) => Ok(()),
            DOWN => {
                if self.is(Fault::ForgetsTotalsWhenDown) {
                    self.stats = Stats::default();
                }
                Err(PortError::Down { port, interface })
            }
            _ => Err(PortError::Gone { port, what: "m0 was deleted".into() }),
        }
    }

    fn check_pool(&self, batch: &Batch) -> Result<(), PortError> {
        if batch.is_of(self.pool.region()) || self.is(Fault::DoesNotKnowItsPool) {
            return Ok(());
        }
        Err(PortError::ForeignPool { port: self.name() })
    }

    /// Slots and bytes of the first packet.
    fn first(batch: &Batch) -> (usize, usize) {
        let mut len = 0;
        for index in 0..batch.len() {
            len += batch.packet(index).len();
            if !batch.more(index) {
                return (index + 1, len);
            }
        }
        (batch.len(), len)
    }

    fn send_one(&mut self, batch: &mut Batch, slots: usize, len: usize) {
        let number = self.stats.tx_packets;
        self.stats.tx_packets += 1;
        self.stats.tx_bytes += len as u64 + u64::from(self.is(Fault::CountsTooManyBytes));
        let wrapped = self.start != 0 && number == 40;
        let loses = match self.fault {
            Fault::LosesPacket(which) => number == which,
            Fault::LosesOnTheWayBack => self.second && number == 7,
            Fault::LosesAfterTheWrap => wrapped,
            _ => false,
        };
        if loses {
            self.pool.free_front(batch, slots);
            return;
        }
        if self.is(Fault::LeaksFrame) && number == 3 {
            let _never_returned = self.pool.alloc_slot(60);
        }
        let mut one = Batch::new(&self.pool, slots);
        batch.move_to(&mut one, slots);
        self.sender.send(&mut one);
    }

    fn spoil(&mut self, batch: &mut Batch, first: usize) {
        match self.fault {
            Fault::ForgetsPartialChecksums => batch.set_checksum(first, Checksum::Unknown),
            Fault::FlipsBit => batch.packet_mut(first)[13] ^= 1,
            Fault::CutsOddLengths if batch.packet(first).len() % 2 == 1 => {
                batch.set_len(first, batch.packet(first).len() - 1);
            }
            Fault::StripsVlanTags if batch.packet(first)[12..14] == [0x81, 0] => {
                let packet = batch.packet_mut(first);
                packet.copy_within(16.., 12);
                let len = packet.len() - 4;
                batch.set_len(first, len);
            }
            Fault::Reorders if self.inbox.len() >= 2 => {
                let len = self.inbox.packet(0).len().min(batch.packet(first).len());
                let other = self.inbox.packet(0)[..len].to_vec();
                let mine = batch.packet(first)[..len].to_vec();
                batch.packet_mut(first)[..len].copy_from_slice(&other);
                self.inbox.packet_mut(0)[..len].copy_from_slice(&mine);
            }
            Fault::Duplicates if self.stats.rx_packets == 5 && batch.room() > 0 => {
                let copy = batch.packet(first).to_vec();
                let at = batch.len();
                self.pool.alloc(batch, 1, copy.len());
                batch.packet_mut(at).copy_from_slice(&copy);
                self.stats.rx_packets += 1;
                self.stats.rx_bytes += copy.len() as u64;
            }
            _ => {}
        }
    }
}

impl Port for ModelPort {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.check_pool(batch)?;
        self.check_interface()?;
        if self.is(Fault::ForgetsWhatTheBatchHeld) {
            self.pool.free(batch);
        }
        self.receiver.receive(&mut self.inbox);
        if self.interface.load(Ordering::Acquire) == ROBBED {
            self.pool.free(&mut self.inbox);
        }
        let before = self.stats.rx_packets;
        let mut slots_moved = 0;
        while !self.inbox.is_empty() {
            let (slots, len) = ModelPort::first(&self.inbox);
            let splits = self.is(Fault::SplitsPackets) && batch.room() > 0;
            if slots > batch.room() && !splits {
                break;
            }
            let at = batch.len();
            slots_moved += self.inbox.move_to(batch, slots);
            if !self.is(Fault::NoTimes) {
                batch.set_time_ns(at, 1 + self.stats.rx_packets);
            }
            self.stats.rx_packets += 1;
            self.stats.rx_bytes += len as u64;
            self.spoil(batch, at);
        }
        if self.is(Fault::CountsSlotsAsPackets) {
            self.stats.rx_packets = before + slots_moved as u64;
        }
        let count = (self.stats.rx_packets - before) as usize;
        Ok(if self.is(Fault::ReturnsWrongCount) { count / 2 } else { count })
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.check_pool(batch)?;
        self.check_interface()?;
        if self.is(Fault::NeedsFrameToSend) && self.pool.available() == 0 {
            return Err(PortError::Unsupported { port: self.name(), what: "no frame".into() });
        }
        let mut count = 0;
        while !batch.is_empty() {
            let (slots, len) = ModelPort::first(batch);
            if len > FRAME_LEN_MAX && !self.is(Fault::TakesTooLong) {
                let max = FRAME_LEN_MAX - usize::from(self.is(Fault::WrongNumbers));
                return Err(PortError::FrameTooLong { port: self.name(), len, max });
            }
            let has_long = batch.len() == 6 && batch.more(2) && count == 0;
            if has_long && self.is(Fault::RefusesTheGoodOnesToo) {
                return Err(PortError::FrameTooLong { port: self.name(), len: FRAME_LEN_MAX + 1, max: FRAME_LEN_MAX });
            }
            if !self.sender.peer_alive() {
                assert!(!self.is(Fault::PanicsWithoutPeer), "nobody is there");
                self.pool.free_front(batch, slots);
                self.lost += u64::from(!self.is(Fault::ForgetsWhatWasSentToNobody));
                count += 1;
                continue;
            }
            if self.sender.room() < slots {
                if self.is(Fault::FullIsAnError) {
                    return Err(PortError::Unsupported { port: self.name(), what: "full".into() });
                }
                if !self.is(Fault::LosesUncountedWhenFull) {
                    break;
                }
                self.pool.free_front(batch, slots);
                self.stats.tx_packets += 1;
                self.stats.tx_bytes += len as u64;
                count += 1;
                continue;
            }
            self.send_one(batch, slots, len);
            count += 1;
        }
        Ok(count)
    }

    /// The first packets of one slot each, as long as there is room.
    fn transmit_ref(&mut self, batch: &Batch, from: usize) -> Result<usize, PortError> {
        self.check_interface()?;
        let mut count = 0;
        while from + count < batch.len() && !batch.more(from + count) && self.sender.room() > 2 {
            for _ in 0..if self.is(Fault::SendsWhatItIsShownTwice) { 2 } else { 1 } {
                let mut copy = Batch::new(&self.pool, 8);
                self.pool.copy(batch, from + count, &mut copy);
                self.sender.send(&mut copy);
            }
            if !self.is(Fault::ForgetsWhatItWasShown) {
                self.stats.tx_packets += 1;
                self.stats.tx_bytes += batch.packet(from + count).len() as u64;
            }
            count += 1;
        }
        Ok(if self.is(Fault::ShowsTooMany) { batch.len() + 1 } else { count })
    }

    fn flush(&mut self) -> Result<usize, PortError> {
        Ok(usize::from(self.is(Fault::FlushNeverEnds)))
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        self.check_interface()?;
        let mut left_ns = timeout_ns.min(1_000_000_000_000);
        loop {
            // First whether the peer lives: what it sent before it went is in the ring then.
            let alive = self.receiver.peer_alive();
            let waiting = self.receiver.available() > 0 || !self.inbox.is_empty();
            let room = self.sender.room() > 0 || !self.sender.peer_alive() || self.is(Fault::ReadyWhenFull);
            let ready = if interest == Interest::Receive { waiting } else { room };
            let over = !alive && !self.is(Fault::NeverEnds) && (!waiting || self.is(Fault::EndsTooEarly));
            if interest == Interest::Receive && over {
                return Ok(Readiness::Closed);
            }
            if ready && !(self.is(Fault::NeverReady) && interest == Interest::Receive) {
                return Ok(Readiness::Ready);
            }
            if left_ns == 0 {
                return Ok(Readiness::TimedOut);
            }
            let nap_ns = left_ns.min(50_000);
            std::thread::sleep(Duration::from_nanos(nap_ns));
            left_ns -= nap_ns;
        }
    }

    fn link(&mut self) -> Result<LinkState, PortError> {
        let down = self.interface.load(Ordering::Acquire) == DOWN && !self.is(Fault::HidesItsLink);
        Ok(if down { LinkState::Down } else { LinkState::Up })
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        let mut stats = self.stats.clone();
        if self.lost > 0 {
            let cause = if self.is(Fault::DropsWithoutCause) { "" } else { "nobody is there" };
            stats.tx_drops.push(Drops { place: "model".into(), cause: cause.into(), packets: self.lost });
        }
        if self.is(Fault::StartsAtOne) {
            stats.tx_packets += 1;
        }
        Ok(stats)
    }

    fn rx_counter(&mut self) -> Option<&mut dyn RxCounter> {
        Some(self)
    }
}

impl RxCounter for ModelPort {
    fn count(&mut self, packets: u64, timeout_ns: u64) -> Result<Counted, PortError> {
        self.wait(Interest::Receive, timeout_ns)?;
        self.receiver.receive(&mut self.inbox);
        let mut counted = Counted::default();
        while !self.inbox.is_empty() && (counted.packets < packets || self.is(Fault::CountsMoreThanAsked)) {
            let (slots, len) = ModelPort::first(&self.inbox);
            self.pool.free_front(&mut self.inbox, slots);
            counted.packets += 1;
            counted.bytes += len as u64 + u64::from(self.is(Fault::CountsWrongBytes));
        }
        if !self.is(Fault::ForgetsWhatItCounted) {
            self.stats.rx_packets += counted.packets;
            self.stats.rx_bytes += counted.bytes;
        }
        Ok(counted)
    }
}

/// Opens links of model ports with one fault.
pub struct ModelHarness {
    pub fault: Fault,
    pub patience: Duration,
    interface: Arc<AtomicU8>,
}

impl ModelHarness {
    pub fn new(fault: Fault, patience: Duration) -> ModelHarness {
        ModelHarness { fault, patience, interface: Arc::new(AtomicU8::new(UP)) }
    }

    fn port(&self, pool: &Pool, ends: (SlotSender, SlotReceiver), start: u32, second: bool) -> ModelPort {
        let caps = Caps {
            name: "model:a".into(),
            backend: "model",
            receives: true,
            transmits: true,
            frame_len_max: FRAME_LEN_MAX,
            frags_max: 5,
            timestamps: true,
            ..Caps::default()
        };
        ModelPort {
            pool: pool.clone(),
            sender: ends.0,
            receiver: ends.1,
            inbox: Batch::new(pool, RING),
            caps,
            stats: Stats::default(),
            lost: 0,
            interface: Arc::clone(&self.interface),
            fault: self.fault,
            second,
            start,
        }
    }
}

impl Harness for ModelHarness {
    fn name(&self) -> String {
        format!("a model with fault {:?}", self.fault)
    }

    fn facts(&self) -> Facts {
        Facts {
            starts: vec![0, u32::MAX - 20],
            window: 48,
            wrap_packets: 300,
            lossless: true,
            ends: true,
            patience: self.patience,
            ..Facts::default()
        }
    }

    fn open(&mut self, pool: &Pool, start: u32) -> Result<Link, String> {
        self.interface = Arc::new(AtomicU8::new(UP));
        let (a_sender, b_receiver) = slot_ring(pool, RING, start);
        let (b_sender, a_receiver) = slot_ring(pool, RING, start);
        let sender = Box::new(self.port(pool, (a_sender, a_receiver), start, false));
        let receiver = Box::new(self.port(pool, (b_sender, b_receiver), start, true));
        Ok(Link::Pair { sender, receiver })
    }

    fn disturb(&mut self, what: Disturbance) -> Result<Option<Hit>, String> {
        let state = match what {
            Disturbance::Down => DOWN,
            Disturbance::Up if self.fault == Fault::StaysDown => DOWN,
            Disturbance::Up => UP,
            Disturbance::Delete => DELETED,
        };
        self.interface.store(state, Ordering::Release);
        Ok(Some(Hit { sender: true, receiver: true }))
    }

    fn left_behind(&mut self) -> Option<Result<Vec<String>, String>> {
        let left = if self.fault == Fault::LeavesSomethingBehind { vec!["m0".to_string()] } else { Vec::new() };
        Some(Ok(left))
    }
}

impl Drop for ModelPort {
    fn drop(&mut self) {
        if self.is(Fault::SenderTakesPacketsAlong) {
            self.interface.store(ROBBED, Ordering::Release);
        }
    }
}
