//! The port: slots go out and come in, free frames go back (port/frames.rs), and the other process may go away at any
//! time (port/peer.rs).

mod frames;
mod peer;

use std::os::fd::BorrowedFd;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use linerate_mem::{Batch, InvalidFrame, LOANED, OwnershipTable, Pool};
use linerate_port::{Caps, Drops, FarSide, Interest, LinkState, Port, PortError, Readiness, Stats, complete_checksums};
use linerate_sys::clock;
use linerate_sys::poll::{PollFor, poll};

use crate::layout::{asleep, attached, goes_on};
use crate::link::{Link, PeerChange};
use crate::ring::{Consumer, Corrupt, Producer};
use frames::{GIVE_BACK_MAX, SLACK};
use peer::Peer;

/// Longest packet in bytes: what a slot's length field can say.
const FRAME_LEN_MAX: usize = u16::MAX as usize;
/// A sleeping side of a link inside one process looks again this often: there is no descriptor to sleep on.
const NAP_NS: u64 = 50_000;

/// One side of a link.
pub struct ShmPort {
    pool: Pool,
    ownership: Arc<Mutex<OwnershipTable>>,
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
            frags_max: link.shape.ring as usize,
            zero_copy: true,
            copies: "nothing is copied",
            detail: format!(
                "side {side} of a link between processes, {}-slot rings, {} frames of {} bytes",
                link.shape.ring, link.shape.frames, link.shape.frame_size
            ),
            far_side: FarSide::Peer,
            ..Caps::default()
        };
        let mut port = ShmPort {
            pool: pool.clone(),
            ownership: Arc::clone(pool.ownership()?),
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
        self.caps.check_pool(batch, &self.pool)
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
    fn invalid(&mut self, invalid: InvalidFrame) -> PortError {
        self.cut_off(invalid.to_string())
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
            Ok(false) if self.is_over() => Ok(Some(Readiness::Closed)),
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
        let ShmPort { ownership, packets_in, .. } = self;
        let mut corrupt = None;
        let taken = lock(ownership).import(batch, LOANED, |words| {
            packets_in.take(words, goes_on).unwrap_or_else(|found| {
                corrupt = Some(found);
                0
            })
        });
        let received = batch.totals_after(held);
        self.stats.rx_packets += received.packets;
        self.stats.rx_bytes += received.bytes;
        match (taken, corrupt) {
            (Err(invalid), _) => return Err(self.invalid(invalid)),
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
        complete_checksums(batch);
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

    fn arm_wakeup(&mut self, add: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        // What is wrong shows at the next call.
        let _ = self.look_for_peer();
        if matches!(self.peer, Peer::Leaving(_)) || self.broken.is_some() {
            return false;
        }
        self.link.words.index(asleep(self.side)).store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.link.with_descriptor(add).is_some()
    }

    fn link(&mut self) -> Result<LinkState, PortError> {
        self.look_for_peer()?;
        Ok(if self.peer == Peer::There { LinkState::Up } else { LinkState::Down })
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

/// The table, which a panic elsewhere leaves whole: each step notes one frame.
#[inline]
fn lock(ownership: &Mutex<OwnershipTable>) -> MutexGuard<'_, OwnershipTable> {
    ownership.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for ShmPort {
    /// What came in goes back to the pool; so does what is on its way to a side of this process that is gone.
    fn drop(&mut self) {
        self.link.words.index(attached(self.side)).store(0, Ordering::SeqCst);
        if self.broken.is_some() {
            return;
        }
        let ShmPort { ownership, pool, packets_in, free_in, packets_out, free_out, .. } = self;
        let mut ownership = lock(ownership);
        for ring in [packets_in, free_in] {
            while ring.look().is_ok_and(|count| count > 0) {
                match ownership.import_free(pool, |words| ring.take(words, |_| false).unwrap_or(0), |_| true) {
                    Ok(1..) => {}
                    _ => break,
                }
            }
        }
        let alone = self.link.words.index(attached(1 - self.side)).load(Ordering::SeqCst) == 0;
        if self.link.is_inside() && alone {
            for word in [packets_out.left(), free_out.left()].concat() {
                // One that the other side took at the last moment is back already.
                let read = |words: &mut [u64]| {
                    words[0] = word;
                    1
                };
                let _ = ownership.import_free(pool, read, |_| true);
            }
        }
        if self.link.look(false) == PeerChange::Gone {
            ownership.reclaim(pool);
        }
        self.link.wake();
    }
}
