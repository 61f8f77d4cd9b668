//! The port: slots go out and come in, free frames go back, and the other process may go away at any time.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use linerate_mem::{Batch, Border, Pool, Totals, Trespass};
use linerate_port::{Caps, Drops, Interest, Port, PortError, Readiness, Stats};
use linerate_sys::clock;
use linerate_sys::poll::{PollFor, poll};

use crate::layout::{asleep, attached, goes_on};
use crate::link::{Found, Link};
use crate::ring::{Consumer, Corrupt, Producer};

/// Longest packet in bytes: what a slot's length field can say.
const FRAME_LEN_MAX: usize = u16::MAX as usize;
/// Calls that moved nothing, between two looks whether the other process is still there.
const LOOK_EVERY: u32 = 64;
/// Frames beyond its share that a side keeps before it gives any back.
const SLACK: usize = 64;
/// Free frames given back in one call, at most.
const GIVE_BACK_MAX: usize = 512;
/// A sleeping side of a link inside one process looks again this often: there is no descriptor to sleep on.
const NAP_NS: u64 = 50_000;
/// Looks after which packets of a dead peer that nobody receives are given up.
const GIVE_UP_LOOKS: u32 = 256;

/// The other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    /// There has been none.
    Never,
    /// Its process is there.
    There,
    /// Its process is gone; what it sent is still to be received. Counts the looks since then.
    Leaving(u32),
    /// It is gone, and its packets have been received; the next one is waited for.
    Gone,
}

/// One side of a link.
pub struct ShmPort {
    pool: Pool,
    border: Border,
    side: usize,
    packets_out: Producer,
    packets_in: Consumer,
    free_out: Producer,
    free_in: Consumer,
    peer: Peer,
    /// Frames that this side keeps.
    share: usize,
    /// Nobody is waited for after the first peer.
    once: bool,
    /// The other side's port was open when last looked at.
    was_attached: bool,
    idle_calls: u32,
    /// Slots of the packet that did not fit; waiting for less room than that would be in vain.
    room_wanted: usize,
    caps: Caps,
    stats: Stats,
    /// Packets for a peer that is gone.
    lost: u64,
    /// Packets that a dead peer had sent and that were not received in time.
    unreceived: u64,
    /// What the peer wrote that cannot be.
    broken: Option<String>,
    /// Behind the pool: the connection closes after the mapping is gone.
    link: Arc<Link>,
}

impl ShmPort {
    pub(crate) fn new(
        name: &str,
        pool: &Pool,
        link: Arc<Link>,
        side: usize,
        start: u32,
        once: bool,
    ) -> Option<ShmPort> {
        let rings = link.shape.rings();
        let (words, other) = (&link.words, 1 - side);
        let inside = link.is_inside();
        if inside {
            for place in rings.packets.iter().chain(&rings.free) {
                words.index(place.head).store(start, Ordering::Relaxed);
                words.index(place.tail).store(start, Ordering::Relaxed);
            }
        }
        words.index(attached(side)).store(1, Ordering::SeqCst);
        let caps = Caps {
            name: name.into(),
            backend: "shm",
            receives: true,
            transmits: true,
            frame_len_max: FRAME_LEN_MAX,
            segments_max: link.shape.ring as usize,
            zero_copy: true,
            copies: "nothing is copied",
            detail: format!(
                "side {side} of a link between processes, {}-slot rings, {} frames of {} bytes",
                link.shape.ring, link.shape.frames, link.shape.frame_size
            ),
            queues: 1,
            ..Caps::default()
        };
        let mut port = ShmPort {
            pool: pool.clone(),
            border: pool.border()?,
            side,
            packets_out: Producer::new(words, rings.packets[side], start),
            packets_in: Consumer::new(words, rings.packets[other], start),
            free_out: Producer::new(words, rings.free[side], start),
            free_in: Consumer::new(words, rings.free[other], start),
            peer: if inside || side == 1 { Peer::There } else { Peer::Never },
            // Inside one process both sides have the same frames.
            share: if inside { usize::MAX - SLACK } else { link.shape.frames as usize / 2 },
            once,
            was_attached: inside,
            idle_calls: 0,
            room_wanted: 1,
            caps,
            stats: Stats::default(),
            lost: 0,
            unreceived: 0,
            broken: None,
            link,
        };
        port.give_back(usize::MAX).ok()?;
        Some(port)
    }

    /// True as long as the peer kept the rules, and there is room for a few packets.
    #[cfg(test)]
    pub(crate) fn check_is_whole(&mut self) -> bool {
        self.broken.is_none() && self.packets_out.room(4).is_ok_and(|room| room >= 4)
    }

    fn check(&self, batch: &Batch) -> Result<(), PortError> {
        if let Some(what) = &self.broken {
            return Err(PortError::PeerCorrupt { port: self.caps.name.clone(), what: what.clone() });
        }
        if batch.is_of(self.pool.region()) {
            return Ok(());
        }
        Err(PortError::ForeignPool { port: self.caps.name.clone() })
    }

    /// The peer broke the rules: nothing of it is looked at any more.
    #[cold]
    fn cut_off(&mut self, what: String) -> PortError {
        self.link.cut_off();
        self.link.words.index(attached(self.side)).store(0, Ordering::SeqCst);
        self.broken = Some(what.clone());
        PortError::PeerCorrupt { port: self.caps.name.clone(), what }
    }

    #[cold]
    fn corrupt(&mut self, corrupt: Corrupt) -> PortError {
        self.cut_off(format!("{} {}", corrupt.what, corrupt.value))
    }

    #[cold]
    fn trespass(&mut self, trespass: Trespass) -> PortError {
        self.cut_off(trespass.to_string())
    }

    /// Takes the free frames that came back into the pool.
    #[inline]
    fn collect_free(&mut self) -> Result<(), PortError> {
        match self.free_in.look() {
            Ok(0) => Ok(()),
            Ok(_) => self.collect_some(),
            Err(corrupt) => Err(self.corrupt(corrupt)),
        }
    }

    #[cold]
    fn collect_some(&mut self) -> Result<(), PortError> {
        loop {
            let ShmPort { border, pool, free_in, .. } = self;
            // A word of free frames has no run, so taking it cannot fail.
            match border.take_in_free(pool, |words| free_in.take(words, |_| false).unwrap_or(0)) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(trespass) => return Err(self.trespass(trespass)),
            }
        }
    }

    /// Gives free frames beyond this side's share to the other one, `most` at most.
    #[inline]
    fn give_back(&mut self, most: usize) -> Result<(), PortError> {
        let beyond = self.border.here().saturating_sub(self.share);
        if beyond < SLACK { Ok(()) } else { self.give_back_some(beyond.min(most)) }
    }

    fn give_back_some(&mut self, mut beyond: usize) -> Result<(), PortError> {
        while beyond > 0 {
            if let Err(corrupt) = self.free_out.room(beyond.min(SLACK)) {
                return Err(self.corrupt(corrupt));
            }
            let ShmPort { border, pool, free_out, .. } = self;
            match border.hand_out_free(pool, beyond.min(SLACK), |words| free_out.put(words)) {
                0 => break,
                went => beyond -= went,
            }
        }
        Ok(())
    }

    /// Wakes the other side if it sleeps. The fence orders what was written before with the look at its wish; it puts one
    /// between its wish and its last look at the rings.
    #[inline]
    fn ring_bell(&self) {
        fence(Ordering::SeqCst);
        let wish = self.link.words.index(asleep(1 - self.side));
        if wish.load(Ordering::Relaxed) != 0 {
            self.wake(wish);
        }
    }

    #[cold]
    fn wake(&self, wish: &std::sync::atomic::AtomicU32) {
        wish.store(0, Ordering::Relaxed);
        self.link.wake();
    }

    /// True when nothing that is sent will ever be received.
    #[inline]
    fn is_over(&self) -> bool {
        self.once && self.peer == Peer::Gone
    }

    /// A call moved nothing: once in a while that is a reason to look for the peer.
    #[inline]
    fn idle(&mut self) -> Result<(), PortError> {
        self.idle_calls = self.idle_calls.wrapping_add(1);
        if self.idle_calls.is_multiple_of(LOOK_EVERY) { self.look_for_peer() } else { Ok(()) }
    }

    #[cold]
    fn look_for_peer(&mut self) -> Result<(), PortError> {
        if self.is_over() {
            // Its process may have gone on for a while after its port.
            if self.link.look(false) == Found::Gone {
                self.border.reclaim();
            }
            return Ok(());
        }
        let is_attached = self.link.words.index(attached(1 - self.side)).load(Ordering::SeqCst) != 0;
        let left = self.was_attached && !is_attached;
        self.was_attached |= is_attached;
        if self.link.is_inside() {
            if left {
                self.peer = Peer::Gone;
            }
            return Ok(());
        }
        if let Peer::Leaving(looks) = self.peer {
            return self.see_off(looks + 1);
        }
        let admit = self.peer == Peer::Never || self.peer == Peer::Gone && !self.once;
        match self.link.look(admit) {
            Found::Came => self.peer = Peer::There,
            Found::Gone => return self.see_off(0),
            // Its port is closed, its process goes on: whoever waits for nobody else is done with it.
            Found::There if left && self.once && self.is_drained()? => self.peer = Peer::Gone,
            Found::There | Found::Nobody => {}
        }
        Ok(())
    }

    fn is_drained(&mut self) -> Result<bool, PortError> {
        match self.packets_in.look() {
            Ok(count) => Ok(count == 0),
            Err(corrupt) => Err(self.corrupt(corrupt)),
        }
    }

    /// The peer's process is gone: once what it sent has been received, the frames that it had come back.
    fn see_off(&mut self, looks: u32) -> Result<(), PortError> {
        if looks < GIVE_UP_LOOKS && !self.is_drained()? {
            self.peer = Peer::Leaving(looks);
            return Ok(());
        }
        let packets = |words: &[u64]| words.iter().filter(|word| !goes_on(**word)).count() as u64;
        let unread = self.packets_out.left();
        let lost = packets(&unread).min(self.stats.tx_packets);
        let bytes: u64 = unread.iter().map(|word| word & 0xffff).sum();
        self.lost += lost;
        self.stats.tx_packets -= lost;
        self.stats.tx_bytes -= bytes.min(self.stats.tx_bytes);
        self.unreceived += self.packets_in.look().unwrap_or(0) as u64;
        self.border.reclaim();
        self.peer = Peer::Gone;
        self.was_attached = false;
        if self.once {
            return Ok(());
        }
        // The rings begin anew for the next one, which finds its share of the frames in them.
        let (rings, words, other) = (self.link.shape.rings(), &self.link.words, 1 - self.side);
        for place in rings.packets.iter().chain(&rings.free) {
            words.index(place.head).store(0, Ordering::Relaxed);
            words.index(place.tail).store(0, Ordering::Relaxed);
        }
        words.index(attached(other)).store(0, Ordering::Relaxed);
        words.index(asleep(other)).store(0, Ordering::Relaxed);
        self.packets_out = Producer::new(words, rings.packets[self.side], 0);
        self.packets_in = Consumer::new(words, rings.packets[other], 0);
        self.free_out = Producer::new(words, rings.free[self.side], 0);
        self.free_in = Consumer::new(words, rings.free[other], 0);
        self.give_back(usize::MAX)
    }

    #[inline]
    fn count_sent(&mut self, before: Totals, after: Totals) -> usize {
        let packets = before.packets - after.packets;
        self.stats.tx_packets += packets;
        self.stats.tx_bytes += before.bytes - after.bytes;
        packets as usize
    }

    /// Hands out the first slots of the batch, `count` at most, which the ring has room for.
    #[inline]
    fn send(&mut self, batch: &mut Batch, count: usize) {
        let ShmPort { border, packets_out, .. } = self;
        border.hand_out(batch, count, |words| packets_out.put(words));
        self.ring_bell();
    }

    /// The batch holds packets of several slots: sends those that fit as a whole, up to one that is too long.
    #[cold]
    fn transmit_long(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let room = match self.packets_out.room(self.packets_out.capacity()) {
            Ok(room) => room,
            Err(corrupt) => return Err(self.corrupt(corrupt)),
        };
        let room = if self.is_over() { usize::MAX } else { room };
        let (mut slots, mut packets, mut too_long) = (0, 0, None);
        self.room_wanted = 1;
        while let Some(span) = batch.span(slots) {
            if span.len > FRAME_LEN_MAX || span.slots > self.caps.segments_max {
                too_long = Some(span.len);
                break;
            }
            if slots + span.slots > room {
                self.room_wanted = span.slots;
                break;
            }
            slots += span.slots;
            packets += 1;
        }
        let before = batch.totals();
        if self.is_over() {
            self.pool.put_front(batch, slots);
            self.lost += packets as u64;
        } else if slots > 0 {
            self.send(batch, slots);
            self.count_sent(before, batch.totals());
        } else {
            self.idle()?;
        }
        match too_long {
            Some(len) => Err(PortError::FrameTooLong { port: self.caps.name.clone(), len, max: FRAME_LEN_MAX }),
            None => Ok(packets),
        }
    }

    #[cold]
    fn lose(&mut self, batch: &mut Batch, totals: Totals) -> usize {
        self.pool.put(batch);
        self.lost += totals.packets;
        totals.packets as usize
    }

    /// What a waiting caller would find; always looks.
    fn readiness(&mut self, interest: Interest) -> Result<Option<Readiness>, PortError> {
        let found = match interest {
            Interest::Receive => self.packets_in.look().map(|count| count > 0),
            Interest::Transmit => self.packets_out.room(usize::MAX).map(|room| room >= self.room_wanted),
        };
        match found {
            Err(corrupt) => Err(self.corrupt(corrupt)),
            Ok(true) => Ok(Some(Readiness::Ready)),
            Ok(false) if self.is_over() && interest == Interest::Transmit => Ok(Some(Readiness::Ready)),
            Ok(false) if self.is_over() => Ok(Some(Readiness::Ended)),
            Ok(false) => Ok(None),
        }
    }
}

impl Port for ShmPort {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.check(batch)?;
        match self.packets_in.available() {
            Ok(0) => {
                self.collect_free()?;
                self.idle()?;
                return Ok(0);
            }
            Ok(_) => {}
            Err(corrupt) => return Err(self.corrupt(corrupt)),
        }
        let held = batch.len();
        let ShmPort { border, packets_in, .. } = self;
        let mut corrupt = None;
        let taken = border.take_in(batch, |words| {
            packets_in.take(words, goes_on).unwrap_or_else(|found| {
                corrupt = Some(found);
                0
            })
        });
        let received = batch.totals_after(held);
        self.stats.rx_packets += received.packets;
        self.stats.rx_bytes += received.bytes;
        match (taken, corrupt) {
            (Err(trespass), _) => return Err(self.trespass(trespass)),
            (_, Some(corrupt)) => return Err(self.corrupt(corrupt)),
            _ => {}
        }
        self.give_back(GIVE_BACK_MAX)?;
        self.ring_bell();
        Ok(received.packets as usize)
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.check(batch)?;
        self.collect_free()?;
        let before = batch.totals();
        if before.packets != batch.len() as u64 {
            return self.transmit_long(batch);
        }
        if self.link.is_inside() {
            self.look_for_peer()?;
        }
        if self.is_over() {
            return Ok(self.lose(batch, before));
        }
        match self.packets_out.room(batch.len()) {
            Ok(0) if !batch.is_empty() => {
                self.room_wanted = 1;
                self.idle()?;
                Ok(0)
            }
            Ok(room) => {
                self.send(batch, room.min(batch.len()));
                Ok(self.count_sent(before, batch.totals()))
            }
            Err(corrupt) => Err(self.corrupt(corrupt)),
        }
    }

    fn flush(&mut self) -> Result<usize, PortError> {
        if self.broken.is_none() {
            // Whoever has no frames, or no packets for this port, calls nothing else.
            self.collect_free()?;
            if self.peer == Peer::There {
                self.idle()?;
            } else {
                self.look_for_peer()?;
            }
        }
        Ok(0)
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        if let Some(what) = &self.broken {
            return Err(PortError::PeerCorrupt { port: self.caps.name.clone(), what: what.clone() });
        }
        let until_ns = clock::now_ns().saturating_add(timeout_ns);
        loop {
            self.look_for_peer()?;
            self.collect_free()?;
            if let Some(found) = self.readiness(interest)? {
                return Ok(found);
            }
            let now_ns = clock::now_ns();
            if now_ns >= until_ns {
                return Ok(Readiness::TimedOut);
            }
            let wish = self.link.words.index(asleep(self.side));
            wish.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if let Some(found) = self.readiness(interest)? {
                return Ok(found);
            }
            // A peer that is leaving is looked at again soon.
            let leaving = matches!(self.peer, Peer::Leaving(_));
            let left_ns = (until_ns - now_ns).min(if leaving { NAP_NS } else { u64::MAX });
            match self.link.with_descriptor(|descriptor| poll(descriptor, PollFor::Reading, left_ns)) {
                Some(Ok(polled)) if !leaving && !polled.ready && !polled.failed => return self.woken(interest),
                Some(Ok(_)) => {}
                Some(Err(source)) => {
                    return Err(PortError::Io { port: self.caps.name.clone(), operation: "cannot sleep on", source });
                }
                None => std::thread::sleep(Duration::from_nanos(left_ns.min(NAP_NS))),
            }
        }
    }

    fn sleep_on(&mut self, add: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        // What is wrong shows at the next call.
        let _ = self.look_for_peer();
        if matches!(self.peer, Peer::Leaving(_)) || self.broken.is_some() {
            return false;
        }
        self.link.words.index(asleep(self.side)).store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.link.with_descriptor(add).is_some()
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        let mut stats = self.stats.clone();
        let drops = |cause: &str, packets: u64| Drops { place: self.caps.name.clone(), cause: cause.into(), packets };
        if self.lost > 0 {
            stats.tx_drops.push(drops("the other side is gone", self.lost));
        }
        if self.unreceived > 0 {
            stats.rx_drops.push(drops("not received before the other side was given up", self.unreceived));
        }
        Ok(stats)
    }
}

impl ShmPort {
    /// After a sleep without a bell: the time is over, or a signal came.
    fn woken(&mut self, interest: Interest) -> Result<Readiness, PortError> {
        self.look_for_peer()?;
        Ok(self.readiness(interest)?.unwrap_or(Readiness::TimedOut))
    }
}

impl Drop for ShmPort {
    /// What came in goes back to the pool; so does what is on its way to a side of this process that is gone.
    fn drop(&mut self) {
        self.link.words.index(attached(self.side)).store(0, Ordering::SeqCst);
        if self.broken.is_some() {
            return;
        }
        let ShmPort { border, pool, packets_in, free_in, packets_out, free_out, .. } = self;
        for ring in [packets_in, free_in] {
            while ring.look().is_ok_and(|count| count > 0) {
                match border.take_in_free(pool, |words| ring.take(words, |_| false).unwrap_or(0)) {
                    Ok(1..) => {}
                    _ => break,
                }
            }
        }
        let alone = self.link.words.index(attached(1 - self.side)).load(Ordering::SeqCst) == 0;
        if self.link.is_inside() && alone {
            for word in [packets_out.left(), free_out.left()].concat() {
                // One that the other side took at the last moment is back already.
                let _ = border.take_in_free(pool, |words| {
                    words[0] = word;
                    1
                });
            }
        }
        if self.link.look(false) == Found::Gone {
            self.border.reclaim();
        }
        self.link.wake();
    }
}
