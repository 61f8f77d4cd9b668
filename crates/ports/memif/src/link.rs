//! What a handshake ends with: the ends of rings, the memory of their packets, and who is rung.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::sys::{Doorbell, NO_INTERRUPT, Regions, Ring, RingWatch, Span};

/// Looks after ports that ring.
pub(crate) static RING_WATCH: RingWatch = RingWatch::new();

/// Region that is the pool, where packets are not copied.
pub(crate) const POOL_REGION: u16 = 1;

/// Longest packet in bytes: what other ports can take, over several buffers.
pub(crate) const PACKET_LEN_MAX: usize = u16::MAX as usize;

/// Most slots of one packet. A call that went through so many slots of packets that are not plain begins no other such packet, so that a
/// peer cannot keep it: the rest waits for the next call.
pub(crate) const SLOTS_MAX: u16 = 1024;

/// One ring in each direction. A client may have made fewer of one kind.
#[derive(Default)]
pub(crate) struct Pair {
    pub(crate) receive: Option<End>,
    pub(crate) transmit: Option<End>,
}

/// This side's end of a ring, by what becomes of packets there.
pub(crate) enum End {
    /// They are copied.
    Copied(RingEnd),
    /// They stay where they are: in frames of the pool, which the peer has, too.
    Lent(LentEnd),
}

impl End {
    pub(crate) fn bell(&self) -> Option<&Arc<Doorbell>> {
        match self {
            End::Copied(end) => end.bell.as_ref(),
            End::Lent(end) => end.bell.as_ref(),
        }
    }
}

/// End of a ring whose buffers are frames of the pool.
pub(crate) struct LentEnd {
    pub(crate) ring: Ring,
    pub(crate) bell: Option<Arc<Doorbell>>,
}

impl LentEnd {
    /// Rings, if the peer sleeps.
    #[inline]
    pub(crate) fn wake_peer(&self) {
        wake_peer(&self.ring, self.bell.as_deref());
    }
}

/// Rings for what was put into a ring, if the peer sleeps. It first asks to be rung, then looks at the index a last time; this side
/// does the two the other way round.
#[inline]
pub(crate) fn wake_peer(ring: &Ring, bell: Option<&Doorbell>) {
    fence(Ordering::SeqCst);
    if ring.flags().load(Ordering::Relaxed) & NO_INTERRUPT == 0
        && let Some(bell) = bell
    {
        bell.ring_peer(&RING_WATCH);
    }
}

/// End of a ring whose packets are copied.
pub(crate) struct RingEnd {
    pub(crate) ring: Ring,
    pub(crate) buffers: Buffers,
    /// Rung by whoever puts something into the ring; without one, nobody sleeps on it.
    pub(crate) bell: Option<Arc<Doorbell>>,
}

/// Where the packets of a ring lie.
pub(crate) enum Buffers {
    /// The peer made the memory: each descriptor says where, and is checked.
    Peers(Arc<Regions>),
    /// This process made the memory: each slot has a buffer for good, whatever the peer writes into descriptors.
    Own(Own),
}

/// Buffers of equal size, one a slot, in region 0.
#[derive(Clone)]
pub(crate) struct Own {
    pub(crate) regions: Arc<Regions>,
    /// Place of the first in region 0.
    pub(crate) first: u32,
    /// From one to the next.
    pub(crate) stride: u32,
    pub(crate) bytes: u32,
}

impl Own {
    /// Place of a slot's buffer in region 0.
    #[inline]
    pub(crate) fn offset(&self, slot: u16) -> u32 {
        self.first + u32::from(slot) * self.stride
    }

    /// The first `length` bytes of a slot's buffer; `None` if it has fewer.
    #[inline]
    pub(crate) fn span(&self, slot: u16, length: u32) -> Option<Span<'_>> {
        if length > self.bytes {
            return None;
        }
        self.regions.span(0, self.offset(slot), length)
    }
}

impl Buffers {
    /// True once the peer took away memory.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Buffers::Peers(regions) | Buffers::Own(Own { regions, .. }) => regions.is_lost(),
        }
    }
}
