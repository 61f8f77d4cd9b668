//! The other side: whether it is there, and what remains to be done when it goes.

use std::sync::atomic::Ordering;

use linerate_port::PortError;

use super::ShmPort;
use crate::layout::{asleep, attached, goes_on};
use crate::link::PeerChange;
use crate::ring::{Consumer, Producer};

/// Calls that moved nothing, between two looks whether the other process is still there.
const LOOK_EVERY: u32 = 64;
/// Looks after which packets of a dead peer that nobody receives are given up.
const GIVE_UP_LOOKS: u32 = 256;

/// The other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// There has been none.
    Never,
    /// Its process is there.
    There,
    /// Its process is gone; what it sent is still to be received. Counts the looks since then.
    Leaving(u32),
    /// It is gone, and its packets have been received; the next one is waited for.
    Gone,
}

impl ShmPort {
    /// True when nothing that is sent will ever be received.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.once && self.peer == Peer::Gone
    }

    /// A call moved nothing: once in a while that is a reason to look for the peer.
    #[inline]
    pub(super) fn idle(&mut self) -> Result<(), PortError> {
        self.idle_calls = self.idle_calls.wrapping_add(1);
        if self.idle_calls.is_multiple_of(LOOK_EVERY) { self.look_for_peer() } else { Ok(()) }
    }

    #[cold]
    pub(super) fn look_for_peer(&mut self) -> Result<(), PortError> {
        if self.is_over() {
            // Its process may have gone on for a while after its port.
            if self.link.look(false) == PeerChange::Gone {
                self.reclaim();
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
            PeerChange::Came => self.peer = Peer::There,
            PeerChange::Gone => return self.see_off(0),
            // Its port is closed, its process goes on: whoever waits for nobody else is done with it.
            PeerChange::There if left && self.once && self.is_drained()? => self.peer = Peer::Gone,
            PeerChange::There | PeerChange::Nobody => {}
        }
        Ok(())
    }

    pub(super) fn is_drained(&mut self) -> Result<bool, PortError> {
        match self.packets_in.look() {
            Ok(count) => Ok(count == 0),
            Err(corrupt) => Err(self.corrupt(corrupt)),
        }
    }

    /// The peer's process is gone: once what it sent has been received, the frames that it had come back.
    pub(super) fn see_off(&mut self, looks: u32) -> Result<(), PortError> {
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
        self.reclaim();
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
}
