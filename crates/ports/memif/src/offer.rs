//! What a client offers: memory that it makes, with rings in it, and buffers or the frames of its pool.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use linerate_sys::shared::{SharedMapping, memory_file};

use crate::link::{Buffers, End, LentEnd, Own, Pair, RingEnd};
use crate::options::Options;
use crate::pool::PoolMemory;
use crate::sys::{Doorbell, NO_INTERRUPT, Regions, Ring};

/// A client's memory, ready to be named in messages.
pub(crate) struct Offer {
    /// Region 0: the rings, and the buffers, if there are any.
    pub(crate) memory: OwnedFd,
    pub(crate) memory_bytes: usize,
    /// Region 1, if packets are not copied.
    pub(crate) pool: Option<Arc<PoolMemory>>,
    pub(crate) rings: Vec<OfferedRing>,
    pub(crate) pairs: Vec<Pair>,
}

pub(crate) struct OfferedRing {
    pub(crate) to_server: bool,
    pub(crate) index: u16,
    pub(crate) offset: u32,
    pub(crate) bell: OwnedFd,
}

/// How many rings, and how large.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rings {
    pub(crate) to_server: u16,
    pub(crate) to_client: u16,
    pub(crate) log2_slots: u8,
}

const LINE: usize = 64;

impl Offer {
    /// Makes the memory of rings, and of their buffers unless there is a pool.
    ///
    /// ```text
    /// region 0   rings to the server | rings to the client | buffers of the first ring | of the second | ...
    /// buffer     an odd number of cache lines, so that neighbours begin in other sets of a cache
    /// region 1   the pool
    /// ```
    pub(crate) fn make(options: &Options, shape: Rings, pool: Option<&Arc<PoolMemory>>) -> io::Result<Offer> {
        let Rings { to_server, to_client, log2_slots } = shape;
        let rings = usize::from(to_server) + usize::from(to_client);
        let ring_bytes = Ring::bytes(log2_slots).next_multiple_of(LINE);
        let stride = (options.buffer_bytes.div_ceil(LINE) | 1) * LINE;
        let buffers_start = rings * ring_bytes;
        let memory_bytes = buffers_start + if pool.is_some() { 0 } else { (rings << log2_slots) * stride };
        let memory = memory_file(c"linerate memif", memory_bytes)?;
        let mapping = Arc::new(SharedMapping::map(memory.as_fd(), memory_bytes)?);
        mapping.populate();
        let regions = Arc::new(Regions::new(vec![Arc::clone(&mapping)]));
        let mut offer = Offer { memory, memory_bytes, pool: pool.cloned(), rings: Vec::new(), pairs: Vec::new() };
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
            let bell = Some(Arc::new(bell));
            let end = if pool.is_some() {
                End::Lent(LentEnd { ring, bell })
            } else {
                let buffers = Buffers::Own(Own {
                    regions: Arc::clone(&regions),
                    first: (buffers_start + (number << log2_slots) * stride) as u32,
                    stride: stride as u32,
                    bytes: options.buffer_bytes as u32,
                });
                End::Copied(RingEnd { ring, buffers, bell })
            };
            let pair = &mut offer.pairs[index];
            *(if to_the_server { &mut pair.transmit } else { &mut pair.receive }) = Some(end);
        }
        Ok(offer)
    }
}
