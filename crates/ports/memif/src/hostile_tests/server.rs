//! The villain is a server: the port is the client, and owns the memory.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::Port;
use linerate_sys::shared::SharedMapping;

use super::{LOG2_SLOTS, PATIENCE, Place, corrupt, next, received, until};
use crate::handshake;
use crate::message::{Hello, Message};
use crate::sys::{Channel, Descriptor, ListeningSocket, NEXT, Regions, Ring};

/// What is done to the rings, to the server and to the client.
type Deed = fn(&[Ring; 2]);

/// A server with whose rings this is done loses its connection, whose error says so; the port lends its frames, or copies.
fn loses_its_connection(lends: bool, deed: Deed, says: &str) {
    let (mut place, way) = if lends { (Place::lending(), "zerocopy") } else { (Place::new(), "buffer=256") };
    let listener = ListeningSocket::bind(&place.path).unwrap();
    let mut port = place.open(&format!(",role=client,slots=16,{way}"));
    let channel = accepted(&listener).unwrap();
    let memory = serve(&channel);
    until("connection", || port.is_connected().unwrap());
    deed(&rings_in(&memory[0]));
    let mut batch = Batch::new(&place.pool, 64);
    place.pool.alloc(&mut batch, 64, 60);
    let first = port.transmit(&mut batch);
    let second = received(&mut port, &mut place.pool);
    corrupt(first.and(second), says);
    // All that was lent is here again, while the villain still has the memory.
    drop((port, batch));
    place.pool.flush();
    assert!(place.pool.is_whole(), "{says}");
}

/// A packet of all slots, none of which is the last.
fn without_an_end(to_client: &Ring, region: u16) {
    (0..16).for_each(|slot| to_client.write(slot, Descriptor { flags: NEXT, region, length: 60, offset: 0 }));
    to_client.tail().store(16, Ordering::Release);
}

#[test]
fn a_server_that_writes_nonsense_loses_its_connection() {
    let cases: [(Deed, &str); 4] = [
        (|[_, to_client]| to_client.tail().store(17, Ordering::Release), "index 17"),
        (|[to_server, _]| to_server.tail().store(3, Ordering::Release), "index 3"),
        (
            |[_, to_client]| {
                to_client.write(0, Descriptor { flags: 0, region: 0, length: 257, offset: 0 });
                to_client.tail().store(1, Ordering::Release);
            },
            "257 bytes",
        ),
        (|[_, to_client]| without_an_end(to_client, 0), "without an end"),
    ];
    cases.into_iter().for_each(|(deed, says)| loses_its_connection(false, deed, says));
}

/// As above, of a client whose frames the server has.
#[test]
fn a_server_that_writes_nonsense_about_lent_frames_loses_its_connection() {
    let cases: [(Deed, &str); 6] = [
        (|[_, to_client]| to_client.tail().store(17, Ordering::Release), "index 17"),
        (|[_, to_client]| to_client.tail().store(0xffff, Ordering::Release), "index 65535"),
        (|[to_server, _]| to_server.tail().store(3, Ordering::Release), "index 3"),
        (|[to_server, _]| to_server.tail().store(0xfff0, Ordering::Release), "index 65520"),
        (
            |[_, to_client]| {
                // A frame has 2,048 bytes, of which its pool keeps some to spread packets.
                to_client.write(0, Descriptor { flags: 0, region: 1, length: 1601, offset: 0 });
                to_client.tail().store(1, Ordering::Release);
            },
            "1601 bytes",
        ),
        (|[_, to_client]| without_an_end(to_client, 1), "without an end"),
    ];
    cases.into_iter().for_each(|(deed, says)| loses_its_connection(true, deed, says));
}

/// The rings in a client's first region: to the server, to the client.
fn rings_in(memory: &OwnedFd) -> [Ring; 2] {
    let mapping = Arc::new(mapped(memory));
    [0, 1].map(|ring| Ring::at(&mapping, ring * Ring::bytes(LOG2_SLOTS).next_multiple_of(64), LOG2_SLOTS).unwrap())
}

/// All of a file.
fn mapped(memory: &OwnedFd) -> SharedMapping {
    let bytes = fs::File::from(memory.try_clone().unwrap()).metadata().unwrap().len() as usize;
    SharedMapping::map(memory.as_fd(), bytes).unwrap()
}

/// A server that says where a packet is gets no say in it: what was lent comes back, whatever is written beside it.
#[test]
fn what_a_server_says_about_places_is_not_heard() {
    let mut place = Place::lending();
    let listener = ListeningSocket::bind(&place.path).unwrap();
    let mut port = place.open(",role=client,slots=16,zerocopy");
    let channel = accepted(&listener).unwrap();
    let memory = serve(&channel);
    until("connection", || port.is_connected().unwrap());
    let frames = Regions::new(vec![Arc::new(mapped(&memory[1]))]);
    let [_, to_client] = &rings_in(&memory[0]);
    for slot in 0..3 {
        let lent = to_client.read(slot);
        assert_eq!((lent.region, lent.length, lent.flags), (1, 1600, 0));
        assert!(frames.span(0, lent.offset, 60).unwrap().write(0, &[slot as u8; 60]));
        // The last one's other flags, whose meaning nobody knows, mean nothing.
        let flags = if slot == 2 { !NEXT } else { 0 };
        to_client.write(slot, Descriptor { flags, region: 9 * slot, length: 60, offset: u32::MAX - u32::from(slot) });
    }
    to_client.tail().store(3, Ordering::Release);
    let mut batch = Batch::new(&place.pool, 8);
    assert_eq!(port.receive(&mut batch).unwrap(), 3);
    for (number, packet) in batch.iter().enumerate() {
        assert_eq!(packet, [number as u8; 60]);
    }
    // A packet over three slots, of which one is empty, and one without a byte.
    for (slot, length, flags) in [(3, 700, NEXT), (4, 0, NEXT), (5, 11, 0), (6, 0, 0)] {
        to_client.write(slot, Descriptor { flags, region: 1, length, offset: 0 });
    }
    to_client.tail().store(7, Ordering::Release);
    place.pool.free(&mut batch);
    assert_eq!(port.receive(&mut batch).unwrap(), 1);
    let parts: Vec<(usize, bool)> = batch.parts().map(|part| (part.bytes.len(), part.more)).collect();
    assert_eq!(parts, [(700, true), (11, false)]);
    let stats = port.stats().unwrap();
    assert_eq!((stats.rx_packets, stats.rx_bytes, stats.rx_dropped()), (4, 3 * 60 + 711, 1));
    // Nobody can make the memory smaller.
    assert!(memory.iter().all(|file| fs::File::from(file.try_clone().unwrap()).set_len(4096).is_err()));
    drop((port, batch));
    place.pool.flush();
    assert!(place.pool.is_whole());
}

/// Frames are lent to one process at a time: whoever keeps the memory of a connection that ended holds up the next one, and does not
/// see its packets.
#[test]
fn lent_memory_is_lent_to_one_at_a_time() {
    let place = Place::lending();
    let listener = ListeningSocket::bind(&place.path).unwrap();
    let mut port = place.open(",role=client,slots=16,zerocopy");
    let channel = accepted(&listener).unwrap();
    let mut memory = serve(&channel);
    until("connection", || port.is_connected().unwrap());
    let kept = mapped(&memory[1]);
    memory.clear();
    drop(channel);
    until("end", || !port.is_connected().unwrap());
    // It tries twenty times a second.
    std::thread::sleep(Duration::from_millis(300));
    assert!(listener.accept().unwrap().is_none() && !port.is_connected().unwrap());
    drop(kept);
    let channel = accepted(&listener).unwrap();
    let _memory = serve(&channel);
    until("connection", || port.is_connected().unwrap());
}

fn accepted(listener: &ListeningSocket) -> io::Result<Channel> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match listener.accept()? {
            Some(channel) => return Ok(channel),
            None if Instant::now() > deadline => return Err(io::ErrorKind::TimedOut.into()),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// A server that takes whatever is offered; returns the memory, by region.
fn serve(channel: &Channel) -> Vec<OwnedFd> {
    channel.send(&handshake::hello().encode(), None).unwrap();
    let mut memory = Vec::new();
    loop {
        let (message, file) = next(channel).expect("a client that goes on");
        if let Message::AddRegion { .. } = message {
            memory.extend(file);
        }
        let last = matches!(message, Message::Connect { .. });
        let answer = if last { Message::Connected { name: "villain".into() } } else { Message::Ack };
        channel.send(&answer.encode(), None).unwrap();
        if last {
            return memory;
        }
    }
}

#[test]
fn hello_that_suits_nobody() {
    let place = Place::new();
    let listener = ListeningSocket::bind(&place.path).unwrap();
    let _port = place.open(",role=client");
    let sound = match handshake::hello() {
        Message::Hello(hello) => hello,
        other => panic!("{other:?}"),
    };
    for (hello, says) in [
        (Hello { version_min: 0x0300, version_max: 0x0300, ..sound.clone() }, "Incompatible"),
        (Hello { log2_slots_max: 0, ..sound.clone() }, "ring size"),
    ] {
        let channel = accepted(&listener).unwrap();
        channel.send(&Message::Hello(hello).encode(), None).unwrap();
        let answer = next(&channel);
        assert!(matches!(&answer, Some((Message::Disconnect { text, .. }, _)) if text.contains(says)), "{answer:?}");
    }
    // It comes again, and tries once more.
    let channel = accepted(&listener).unwrap();
    serve(&channel);
    // What comes out of turn ends it.
    channel.send(&Message::Ack.encode(), None).unwrap();
    assert!(matches!(next(&channel), Some((Message::Disconnect { .. }, _))));
}

#[test]
fn a_pool_is_for_the_port_that_it_was_made_for() {
    let place = Place::lending();
    let open = |options: &str, pool: &Pool| {
        crate::open(format!("memif:{}{options}", place.path).parse().unwrap(), pool).map(drop)
    };
    let other = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
    for refused in [open(",role=client,zerocopy", &other), open(",role=client,zerocopy,id=1", &place.pool)] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("needs a pool made for it") && error.contains("leave out zerocopy"), "{error}");
    }
    // One that copies may use any pool, and queues of one interface share one.
    open(",role=client", &place.pool).unwrap();
    let _first = place.open("@0,role=client,zerocopy,rings=2");
    let spec = format!("memif:{}@1,role=client,zerocopy,rings=2", place.path);
    let another = crate::pool(&spec.parse().unwrap(), PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
    let error = open("@1,role=client,zerocopy,rings=2", &another).unwrap_err();
    assert!(error.cause.contains("on another pool"), "{error}");
    open("@1,role=client,zerocopy,rings=2", &place.pool).unwrap();
}
