//! Peers that break the protocol, over real sockets: each loses its connection, and the port is as the user wanted it.

mod client;
mod sequences;
mod server;
mod walks;

pub(crate) use walks::count_look;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Port, PortError};
use linerate_sys::shared::SharedMapping;

use crate::handshake;
use crate::link::{Buffers, End};
use crate::message::{AddRing, Message};
use crate::offer::{Offer, Rings};
use crate::options::Options;
use crate::port::MemifPort;
use crate::sys::{Channel, Descriptor, Received, Regions, Ring};
use client::Client;

#[path = "../../../../../fuzz/bodies/memif.rs"]
mod body;
#[path = "../../../../../fuzz/bodies/mutate.rs"]
mod mutate;

const PATIENCE: Duration = Duration::from_secs(60);
const LOG2_SLOTS: u8 = 4;

fn options(text: &str) -> Options {
    Options::take(&mut text.parse().unwrap()).unwrap_or_else(|error| panic!("{error}"))
}

/// A folder, a path in it, a pool.
struct Place {
    _folder: tempfile::TempDir,
    path: String,
    pool: Pool,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s").display().to_string();
        Place { _folder: folder, path, pool: Pool::new(Default::default()).unwrap() }
    }

    /// With the pool of a client that copies nothing.
    fn lending() -> Place {
        let mut place = Place::new();
        let spec = format!("memif:{},role=client,zerocopy", place.path).parse().unwrap();
        let config = PoolConfig { frames: 256, ..PoolConfig::default() };
        place.pool = crate::pool(&spec, config).unwrap_or_else(|error| panic!("{error}"));
        place
    }

    fn open(&self, options: &str) -> MemifPort {
        let spec = format!("memif:{}{options}", self.path).parse().unwrap();
        crate::open(spec, &self.pool).unwrap_or_else(|error| panic!("{error}")).into_port()
    }
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "no {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn next(channel: &Channel) -> Option<(Message, Option<OwnedFd>)> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match channel.receive() {
            Ok(Received::Message { bytes, file, .. }) => return Message::decode(&bytes).map(|message| (message, file)),
            Ok(Received::Nothing) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            _ => return None,
        }
    }
}

fn offer() -> Offer {
    offer_of("memif:/nowhere,role=client,buffer=256", LOG2_SLOTS)
}

/// One ring each way, with copies.
fn offer_of(text: &str, log2_slots: u8) -> Offer {
    Offer::make(&options(text), Rings { to_server: 1, to_client: 1, log2_slots }, None).unwrap()
}

/// The rings of an offer: to the server, to the client.
fn rings(offer: &Offer) -> [Ring; 2] {
    let mapping = Arc::new(SharedMapping::map(offer.memory.as_fd(), offer.memory_bytes).unwrap());
    [0, 1].map(|ring| Ring::at(&mapping, ring * Ring::bytes(LOG2_SLOTS).next_multiple_of(64), LOG2_SLOTS).unwrap())
}

/// Receives until the port says something else than "nothing".
fn received(port: &mut MemifPort, pool: &mut Pool) -> Result<usize, PortError> {
    let mut batch = Batch::new(pool, 64);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let result = port.receive(&mut batch);
        pool.free(&mut batch);
        if !matches!(result, Ok(0)) || Instant::now() > deadline {
            return result;
        }
    }
}

fn corrupt<T: std::fmt::Debug>(result: Result<T, PortError>, says: &str) {
    match result {
        Err(PortError::PeerCorrupt { what, .. }) if what.contains(says) => {}
        other => panic!("wanted PeerCorrupt with {says:?}, got {other:?}"),
    }
}

/// Whatever a peer says or writes, nothing panics, and every frame comes back.
#[test]
fn no_input_breaks_it() {
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    let mut said = vec![0];
    let ring = AddRing { to_server: true, index: 0, region: 0, offset: 0, log2_slots: 3 };
    for message in [
        handshake::hello(),
        Client::init(),
        Message::AddRegion { index: 0, bytes: 8192 },
        Message::AddRing(ring),
        Message::AddRing(AddRing { to_server: false, ..ring }),
        Message::Connect { name: "a".into() },
    ] {
        said.extend(message.encode());
    }
    seeds.push(said);
    for kind in [1u8, 2, 3] {
        let offer = offer_of("memif:/nowhere,role=client,buffer=128,slots=8", 3);
        let mapping = Arc::new(SharedMapping::map(offer.memory.as_fd(), offer.memory_bytes).unwrap());
        let regions = Regions::new(vec![Arc::clone(&mapping)]);
        let ring = Ring::at(&mapping, 0, 3).unwrap();
        let mut seed = vec![kind];
        for step in 1..4u16 {
            (0..8).for_each(|slot| {
                ring.write(
                    slot,
                    Descriptor { flags: slot % 2, region: 0, length: 60, offset: 512 + 128 * u32::from(slot) },
                );
            });
            ring.head().store(step * 4, Ordering::Release);
            ring.tail().store(step * 4, Ordering::Release);
            let mut image = vec![0; 300];
            assert!(regions.span(0, 0, 300).unwrap().read(0, &mut image));
            seed.extend(image);
        }
        seeds.push(seed);
    }
    mutate::check_seeds("memif", &seeds);
    mutate::each(&mutate::seeds("memif"), 3000, body::run);
}

/// Buffers of the peer's rings are what the peer says; those of our own are not.
#[test]
fn own_buffers_stay_where_they_are() {
    let offer = offer();
    let pair = &offer.pairs[0];
    let Some(End::Copied(end)) = &pair.receive else { panic!("copies") };
    let Buffers::Own(own) = &end.buffers else { panic!("own buffers") };
    assert!(own.span(15, 256).is_some() && own.span(15, 257).is_none());
    assert!((own.offset(15) + own.bytes) as usize <= offer.memory_bytes);
}
