//! What a handshake ends with: the ends of rings, the memory of their packets, and who is rung.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use linerate_sys::shared::{SharedMapping, memory_file};

use crate::options::Options;
use crate::sys::{Doorbell, NO_INTERRUPT, Regions, Ring, Span};

/// One ring in each direction. A client may have made fewer of one kind.
#[derive(Default)]
pub(crate) struct Pair {
    pub(crate) receive: Option<RingEnd>,
    pub(crate) transmit: Option<RingEnd>,
}

/// This side's end of a ring.
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
    regions: Arc<Regions>,
    first: u32,
    stride: u32,
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

/// What a client offers: its memory, ready to be named in messages.
pub(crate) struct Offer {
    pub(crate) memory: OwnedFd,
    pub(crate) memory_bytes: usize,
    pub(crate) rings: Vec<OfferedRing>,
    pub(crate) pairs: Vec<Pair>,
}

pub(crate) struct OfferedRing {
    pub(crate) to_server: bool,
    pub(crate) index: u16,
    pub(crate) offset: u32,
    pub(crate) bell: OwnedFd,
}

const LINE: usize = 64;

impl Offer {
    /// Makes the memory of `to_server` and `to_client` rings, and their buffers.
    ///
    /// ```text
    /// region 0   rings to the server | rings to the client | buffers of the first ring | of the second | ...
    /// buffer     an odd number of cache lines, so that neighbours begin in other sets of a cache
    /// ```
    pub(crate) fn make(options: &Options, to_server: u16, to_client: u16, log2_slots: u8) -> io::Result<Offer> {
        let rings = usize::from(to_server) + usize::from(to_client);
        let ring_bytes = Ring::bytes(log2_slots).next_multiple_of(LINE);
        let stride = (options.buffer_bytes.div_ceil(LINE) | 1) * LINE;
        let buffers_start = rings * ring_bytes;
        let memory_bytes = buffers_start + (rings << log2_slots) * stride;
        let memory = memory_file(c"linerate memif", memory_bytes)?;
        let mapping = Arc::new(SharedMapping::map(memory.as_fd(), memory_bytes)?);
        mapping.populate();
        let regions = Arc::new(Regions::new(vec![Arc::clone(&mapping)]));
        let mut offer = Offer { memory, memory_bytes, rings: Vec::new(), pairs: Vec::new() };
        offer.pairs.resize_with(usize::from(to_server.max(to_client)), Pair::default);
        for number in 0..rings {
            let to_the_server = number < usize::from(to_server);
            let index = if to_the_server { number } else { number - usize::from(to_server) };
            let Some(ring) = Ring::at(&mapping, number * ring_bytes, log2_slots) else {
                return Err(io::Error::other("a ring does not fit into its own memory"));
            };
            // Nobody rings before the receiver asks for it.
            ring.format(NO_INTERRUPT);
            let bell = Doorbell::new()?;
            offer.rings.push(OfferedRing {
                to_server: to_the_server,
                index: index as u16,
                offset: (number * ring_bytes) as u32,
                bell: bell.as_fd().try_clone_to_owned()?,
            });
            let buffers = Buffers::Own(Own {
                regions: Arc::clone(&regions),
                first: (buffers_start + (number << log2_slots) * stride) as u32,
                stride: stride as u32,
                bytes: options.buffer_bytes as u32,
            });
            let end = Some(RingEnd { ring, buffers, bell: Some(Arc::new(bell)) });
            let pair = &mut offer.pairs[index];
            if to_the_server { pair.transmit = end } else { pair.receive = end }
        }
        Ok(offer)
    }
}
