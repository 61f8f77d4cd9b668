//! Anything at all in the place of a peer: what it says, and what it writes into rings. For the fuzzer and for tests.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_sys::shared::{SharedMapping, memory_file};

use crate::handshake::{Claims, Speech, check_init};
use crate::link::{Buffers, End, RingEnd};
use crate::message::{MESSAGE_BYTES, Message};
use crate::offer::{Offer, Rings};
use crate::options::Options;
use crate::pool::PoolMemory;
use crate::receive::{Received, Store};
use crate::sides::{Receiver, Sender};
use crate::sys::{Doorbell, Regions, Ring};
use crate::transmit::Sent;

const LOG2_SLOTS: u8 = 3;
const MEMORY_BYTES: usize = 8192;

/// Does with the bytes what their first one says. Panics when something that must hold does not.
pub fn run(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    let outcome = match kind % 4 {
        0 => say(rest),
        1 => write_as_client(rest),
        2 => write_as_server(rest, "buffer=128"),
        _ => write_as_server(rest, "zerocopy"),
    };
    outcome.expect("memory and descriptors");
}

const SERVER: &str = "memif:/nowhere,rings=2,slots=8,secret=abc";

fn options(text: &str) -> Options {
    Options::take(&mut text.parse().expect("a spec")).expect("options")
}

fn private_pool() -> Pool {
    Pool::new(PoolConfig { frames: 16, frame_size: 512 }).expect("a small pool")
}

/// The bytes as messages, to a server that takes claims, and to a client that hears hello.
fn say(data: &[u8]) -> io::Result<()> {
    let (options, mut claims) = (options(SERVER), None);
    for chunk in data.chunks(MESSAGE_BYTES) {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..chunk.len()].copy_from_slice(chunk);
        let Some(message) = Message::decode(&bytes) else { continue };
        let again = Message::decode(&message.encode()).expect("what was read can be written");
        assert_eq!(std::mem::discriminant(&again), std::mem::discriminant(&message));
        let taking = claims.get_or_insert_with(|| Claims::new(&options));
        let _ = match message {
            Message::Init(init) => check_init(&init, &options),
            Message::Hello(hello) => {
                Speech::answer(&hello, &options, None).map(|mut speech| while speech.next().is_some() {})
            }
            Message::AddRegion { index, bytes } => taking.add_region(index, bytes, Some(region()?)),
            Message::AddRing(ring) => taking.add_ring(ring, Some(Doorbell::new()?.as_fd().try_clone_to_owned()?)),
            Message::Connect { .. } => claims.take().map_or(Ok(()), |claims| claims.finish().map(|_| ())),
            _ => Ok(()),
        };
    }
    Ok(())
}

/// A file whose first ring has the right mark.
fn region() -> io::Result<OwnedFd> {
    let file = memory_file(c"region", MEMORY_BYTES)?;
    let mapping = Arc::new(SharedMapping::map(file.as_fd(), MEMORY_BYTES)?);
    if let Some(ring) = Ring::at(&mapping, 0, LOG2_SLOTS) {
        ring.format(0);
    }
    Ok(file)
}

/// The bytes as all that a client can write: a ring of its own, and what it points to.
fn write_as_client(data: &[u8]) -> io::Result<()> {
    let file = memory_file(c"client", MEMORY_BYTES)?;
    let mapping = Arc::new(SharedMapping::map(file.as_fd(), MEMORY_BYTES)?);
    let regions = Arc::new(Regions::new(vec![Arc::clone(&mapping)]));
    let end = || -> io::Result<End> {
        let ring = Ring::at(&mapping, 0, LOG2_SLOTS).ok_or(io::ErrorKind::Other)?;
        Ok(End::Copied(RingEnd { ring, buffers: Buffers::Peers(Arc::clone(&regions)), bell: None }))
    };
    let written = regions.span(0, 0, MEMORY_BYTES as u32).map(|span| move |at, bytes: &[u8]| span.write(at, bytes));
    use_rings(end()?, end()?, private_pool(), data, |step| _ = written.map(|write| write(0, step)));
    Ok(())
}

/// The bytes as all that a server can write: the rings of a client that copies, or of one that does not.
fn write_as_server(data: &[u8], mode: &str) -> io::Result<()> {
    let text = format!("memif:/nowhere,role=client,slots=8,{mode}");
    let options = options(&text);
    let config = PoolConfig { frames: 64, frame_size: 1024 };
    let pool = if options.zero_copy {
        crate::pool(&text.parse().expect("a spec"), config).map_err(io::Error::other)?
    } else {
        private_pool()
    };
    let shape = Rings { to_server: 1, to_client: 1, log2_slots: LOG2_SLOTS };
    let offer = Offer::make(&options, shape, PoolMemory::of(&pool, &options.key).as_ref())?;
    let mapping = Arc::new(SharedMapping::map(offer.memory.as_fd(), offer.memory_bytes)?);
    let regions = Regions::new(vec![mapping]);
    let Some((receive, transmit)) = offer.pairs.into_iter().next().and_then(|pair| pair.receive.zip(pair.transmit))
    else {
        return Ok(());
    };
    let at = [0, Ring::bytes(LOG2_SLOTS).next_multiple_of(64)];
    use_rings(receive, transmit, pool, data, |step| {
        let bytes = step.len().min(Ring::bytes(LOG2_SLOTS)) as u32;
        for at in at {
            let _ = regions.span(0, at as u32, bytes).map(|span| span.write(0, &step[..bytes as usize]));
        }
    });
    Ok(())
}

/// Lets a peer write 300 bytes at a time, and receives and sends after each.
fn use_rings(receive: End, transmit: End, mut pool: Pool, data: &[u8], mut write: impl FnMut(&[u8])) {
    let mut batch = Batch::new(&pool, 8);
    let mut receiver = Receiver::new(receive, &mut pool, 1);
    let mut sender = Sender::new(transmit, &pool, 1);
    receiver.enable_interrupts(true);
    let frame_size = pool.region().frame_size();
    let (mut received, mut sent) = (Received::default(), Sent::default());
    let (mut appended, mut taken) = (0, 0);
    for step in data.chunks(300) {
        write(step);
        let before = received.packets;
        let counted = receiver.count(step.len() as u64 % 5, &mut received).unwrap_or(0);
        assert!(counted < 5 && received.packets - before == counted);
        appended += counted;
        let mut store = Store { pool: &mut pool, totals: &mut received };
        let result = receiver.receive(&mut batch, &mut store);
        appended += batch.totals().packets;
        assert_eq!(result.unwrap_or(0) as u64, batch.totals().packets);
        assert!(batch.iter().map(<[u8]>::len).all(|len| len > 0 && len <= frame_size));
        receiver.waiting();
        pool.free(&mut batch);
        write(step);
        assert_eq!(pool.alloc(&mut batch, 3, 200), 3, "frames were lost");
        batch.set_more(0, step.len() % 2 == 0);
        let before = batch.totals().packets;
        let (count, _) = sender.transmit(&mut batch, &mut pool, &mut sent);
        taken += count as u64;
        assert_eq!(before - batch.totals().packets, count as u64);
        let _ = sender.has_room(&mut pool);
        pool.free(&mut batch);
    }
    receiver.enable_interrupts(false);
    assert_eq!((received.packets, sent.packets + sent.unfit + sent.empty), (appended, taken));
    drop((batch, receiver, sender));
    pool.flush();
    assert!(pool.is_whole(), "frames were lost");
}
