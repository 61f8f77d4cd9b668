//! The handshake, without its sockets: what a server takes from a client, and what a client says.
//!
//! ```text
//! server   hello ------------------------------------------------------------> client
//!          <- init, add region ..., add ring ..., connect    (each answered by ack, the last one by connected)
//! ```
//! The server checks each claim when it is made; what it refuses becomes the text of a disconnect.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use linerate_sys::shared::{MemoryFile, SharedMapping, Storage};

use crate::link::{Buffers, End, POOL_REGION, Pair, RingEnd};
use crate::message::{AddRing, Hello, Init, MODE_ETHERNET, Message, VERSION};
use crate::offer::{Offer, Rings};
use crate::options::{LOG2_SLOTS_MAX, Options};
use crate::pool::PoolMemory;
use crate::sys::{COOKIE, Doorbell, Regions, Ring};

/// What this program calls itself.
pub(crate) const NAME: &str = concat!("linerate ", env!("CARGO_PKG_VERSION"));

/// Regions of one client. DPDK makes one, and without copies one more for each of its memory areas.
const REGIONS_MAX: u16 = 16;

/// Of a region no more can be named than an offset of 32 bits and a length reach.
const REGION_BYTES_MAX: u64 = 1 << 32;

/// Ordinary memory of one client in all. Its pages may come to be counted as this process's.
const CLIENT_BYTES_MAX: u64 = 1 << 30;

/// Memory that a client has filled with pages is mapped page by page before it is used, up to so much of one client in all: a packet in
/// a page that was not touched before would else wait for a fault, and the first one after a silence for one of each ring.
const MAPPED_BYTES_MAX: u64 = 64 << 20;

/// Why a peer is turned away, in words that it is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) String);

fn refuse<T>(text: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal(text.into()))
}

/// A server's first word, with limits that hold whichever interface the client asks for; what that one takes is checked later.
pub(crate) fn hello() -> Message {
    Message::Hello(Hello {
        name: NAME.into(),
        version_min: VERSION,
        version_max: VERSION,
        region_max: REGIONS_MAX - 1,
        to_client_max: 254,
        to_server_max: 254,
        log2_slots_max: LOG2_SLOTS_MAX,
    })
}

/// Checks what a client says first, against the interface that it named.
pub(crate) fn check_init(init: &Init, options: &Options) -> Result<(), Refusal> {
    if init.version != VERSION {
        return refuse("Incompatible memif version");
    }
    if init.mode != MODE_ETHERNET {
        return refuse("Only Ethernet mode is supported");
    }
    // Each byte is looked at, so that the time says nothing about the secret.
    let differences = init.secret.iter().zip(&options.secret).fold(0, |found, (a, b)| found | (a ^ b));
    if differences != 0 && options.secret != [0; _] {
        return refuse("Incorrect secret");
    }
    Ok(())
}

/// What a client has claimed so far.
pub(crate) struct Claims {
    rings_max: u16,
    regions: Vec<Arc<SharedMapping>>,
    /// Ordinary memory mapped.
    bytes: u64,
    to_server: Vec<Claim>,
    to_client: Vec<Claim>,
}

struct Claim {
    ring: Ring,
    bell: Arc<Doorbell>,
}

impl Claims {
    pub(crate) fn new(options: &Options) -> Claims {
        Claims { rings_max: options.rings, regions: Vec::new(), bytes: 0, to_server: Vec::new(), to_client: Vec::new() }
    }

    pub(crate) fn add_region(&mut self, index: u16, bytes: u64, file: Option<OwnedFd>) -> Result<(), Refusal> {
        let Some(file) = file else { return refuse("Missing region fd") };
        if usize::from(index) != self.regions.len() || index >= REGIONS_MAX {
            return refuse("Invalid region index");
        }
        let facts = MemoryFile::of(file.as_fd()).map_err(|error| Refusal(format!("Region: {error}")))?;
        let mapped = bytes.min(REGION_BYTES_MAX);
        if facts.storage == Storage::Memory {
            self.bytes += mapped;
        }
        if self.bytes > CLIENT_BYTES_MAX {
            return refuse("Regions of more than 1 GiB");
        }
        let mapping = SharedMapping::map(file.as_fd(), mapped as usize);
        let mapping = mapping.map_err(|error| Refusal(format!("Region: {error}")))?;
        if facts.storage == Storage::Memory && facts.held_bytes >= mapped && self.bytes <= MAPPED_BYTES_MAX {
            mapping.map_pages();
        }
        self.regions.push(Arc::new(mapping));
        Ok(())
    }

    pub(crate) fn add_ring(&mut self, claim: AddRing, bell: Option<OwnedFd>) -> Result<(), Refusal> {
        let Some(bell) = bell else { return refuse("Missing interrupt fd") };
        let rings = if claim.to_server { &mut self.to_server } else { &mut self.to_client };
        if usize::from(claim.index) != rings.len() || claim.index >= self.rings_max {
            return refuse("Invalid ring index");
        }
        if !(1..=LOG2_SLOTS_MAX).contains(&claim.log2_slots) {
            return refuse("Invalid ring size");
        }
        let Some(region) = self.regions.get(usize::from(claim.region)) else { return refuse("Invalid ring region") };
        let Some(ring) = Ring::at(region, claim.offset as usize, claim.log2_slots) else {
            return refuse("Invalid ring offset");
        };
        let bell = Doorbell::of_peer(bell).map_err(|error| Refusal(format!("Interrupt fd: {error}")))?;
        rings.push(Claim { ring, bell: Arc::new(bell) });
        Ok(())
    }

    /// The rings, ready to be used.
    pub(crate) fn finish(self) -> Result<Vec<Pair>, Refusal> {
        let Claims { regions, to_server, to_client, .. } = self;
        if to_server.is_empty() && to_client.is_empty() {
            return refuse("No rings");
        }
        if to_server
            .iter()
            .chain(&to_client)
            .any(|claim| claim.ring.cookie().load(std::sync::atomic::Ordering::Acquire) != COOKIE)
        {
            return refuse("Wrong cookie");
        }
        let regions = Arc::new(Regions::new(regions));
        let mut pairs: Vec<Pair> = Vec::new();
        pairs.resize_with(to_server.len().max(to_client.len()), Pair::default);
        let end = |claim: Claim| {
            let buffers = Buffers::Peers(Arc::clone(&regions));
            Some(End::Copied(RingEnd { ring: claim.ring, buffers, bell: Some(claim.bell) }))
        };
        for (pair, claim) in pairs.iter_mut().zip(to_server) {
            pair.receive = end(claim);
        }
        for (pair, claim) in pairs.iter_mut().zip(to_client) {
            pair.transmit = end(claim);
        }
        Ok(pairs)
    }
}

/// A client's part: what is left to say, and what it ends with.
pub(crate) struct Speech {
    rest: VecDeque<(Message, Option<OwnedFd>)>,
    pairs: Vec<Pair>,
}

impl Speech {
    /// Makes memory that suits both sides, and all messages about it; `pool` is what is lent, if packets are not copied.
    pub(crate) fn answer(hello: &Hello, options: &Options, pool: Option<&Arc<PoolMemory>>) -> Result<Speech, Refusal> {
        if hello.version_min > VERSION || hello.version_max < VERSION {
            return refuse("Incompatible memif version");
        }
        let to_server = options.rings.min(hello.to_server_max.saturating_add(1));
        let to_client = options.rings.min(hello.to_client_max.saturating_add(1));
        let log2_slots = options.log2_slots.min(hello.log2_slots_max);
        if log2_slots == 0 {
            return refuse("No ring size suits both");
        }
        if pool.is_some() && hello.region_max < POOL_REGION {
            return refuse("No second region");
        }
        let failed = |error| Refusal(format!("Cannot make shared memory: {error}"));
        let offer = Offer::make(options, Rings { to_server, to_client, log2_slots }, pool).map_err(failed)?;
        let mut rest = VecDeque::new();
        let (id, secret) = (options.key.id, options.secret);
        let init = Init { version: VERSION, id, mode: MODE_ETHERNET, secret, name: NAME.into() };
        rest.push_back((Message::Init(init), None));
        rest.push_back((Message::AddRegion { index: 0, bytes: offer.memory_bytes as u64 }, Some(offer.memory)));
        if let Some(pool) = offer.pool {
            let message = Message::AddRegion { index: POOL_REGION, bytes: pool.bytes() as u64 };
            rest.push_back((message, Some(pool.lend().map_err(failed)?)));
        }
        for ring in offer.rings {
            let claim =
                AddRing { to_server: ring.to_server, index: ring.index, region: 0, offset: ring.offset, log2_slots };
            rest.push_back((Message::AddRing(claim), Some(ring.bell)));
        }
        rest.push_back((Message::Connect { name: format!("memif{id}") }, None));
        Ok(Speech { rest, pairs: offer.pairs })
    }

    /// What to say next.
    pub(crate) fn next(&mut self) -> Option<(Message, Option<OwnedFd>)> {
        self.rest.pop_front()
    }

    /// The rings, once the server has taken them.
    pub(crate) fn finish(self) -> Result<Vec<Pair>, Refusal> {
        if self.rest.is_empty() { Ok(self.pairs) } else { refuse("Connected too early") }
    }
}
