//! Peers that break the protocol, over real sockets: each loses its connection, and the port is as the user wanted it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Interest, Port, PortError, Readiness};
use linerate_sys::shared::{SharedMapping, memory_file};

use crate::handshake;
use crate::link::{Buffers, End};
use crate::message::{AddRing, Hello, Init, MESSAGE_BYTES, MODE_ETHERNET, Message, VERSION};
use crate::offer::{Offer, Rings};
use crate::options::Options;
use crate::port::MemifPort;
use crate::sys::{Channel, Descriptor, Doorbell, ListeningSocket, NEXT, Received, Regions, Ring};

#[path = "../../../../fuzz/bodies/memif.rs"]
mod body;
#[path = "../../../../fuzz/bodies/mutate.rs"]
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
        crate::open(spec, &self.pool).unwrap_or_else(|error| panic!("{error}"))
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

/// A client that says what it is told to.
struct Client {
    channel: Channel,
}

impl Client {
    fn new(place: &Place) -> Client {
        let channel = Channel::connect(&place.path).unwrap();
        assert!(matches!(next(&channel), Some((Message::Hello(_), None))));
        Client { channel }
    }

    /// Says something and returns the answer.
    fn say(&self, message: &Message, file: Option<OwnedFd>) -> Option<Message> {
        // The port may have hung up already; then there is no answer.
        let _ = self.channel.send(&message.encode(), file.as_ref().map(|file| file.as_fd()));
        next(&self.channel).map(|(message, _)| message)
    }

    fn init() -> Message {
        let (id, secret) = (0, [0; 24]);
        Message::Init(Init { version: VERSION, id, mode: MODE_ETHERNET, secret, name: "villain".into() })
    }

    /// A whole handshake with what was made; the eventfds are those given.
    fn connect(&self, offer: &mut Offer) {
        let acked = |answer| assert_eq!(answer, Some(Message::Ack));
        acked(self.say(&Client::init(), None));
        let memory = offer.memory.try_clone().unwrap();
        acked(self.say(&Message::AddRegion { index: 0, bytes: offer.memory_bytes as u64 }, Some(memory)));
        for ring in offer.rings.drain(..) {
            let (to_server, index, offset) = (ring.to_server, ring.index, ring.offset);
            let claim = AddRing { to_server, index, region: 0, offset, log2_slots: LOG2_SLOTS };
            acked(self.say(&Message::AddRing(claim), Some(ring.bell)));
        }
        let answer = self.say(&Message::Connect { name: "villain".into() }, None);
        assert!(matches!(answer, Some(Message::Connected { .. })), "{answer:?}");
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

fn refused(place: &Place, message: &Message, file: Option<OwnedFd>, prelude: &[(Message, bool)]) -> String {
    let client = Client::new(place);
    for (message, with_file) in prelude {
        let file = with_file.then(|| memory_file(c"x", 1 << 16).unwrap());
        assert_eq!(client.say(message, file), Some(Message::Ack), "{message:?}");
    }
    match client.say(message, file) {
        Some(Message::Disconnect { text, .. }) => text,
        other => panic!("{message:?} was answered by {other:?}"),
    }
}

/// A message, the file that goes with it, what was said before (with or without a file), and what the answer says.
type Case<'a> = (Message, Option<OwnedFd>, &'a [(Message, bool)], &'a str);

#[test]
fn what_a_client_may_not_say() {
    let place = Place::new();
    let mut port = place.open(",rings=2");
    let init = Client::init;
    let with = |change: fn(&mut Init)| {
        let Message::Init(mut init) = Client::init() else { unreachable!() };
        change(&mut init);
        Message::Init(init)
    };
    let file = || Some(memory_file(c"x", 1 << 16).unwrap());
    let bell = || Some(Doorbell::new().unwrap().as_fd().try_clone_to_owned().unwrap());
    let region = |index, bytes| Message::AddRegion { index, bytes };
    let sound = AddRing { to_server: true, index: 0, region: 0, offset: 0, log2_slots: 4 };
    let ring = Message::AddRing;
    let hello = handshake::hello();
    let started: &[(Message, bool)] = &[(init(), false), (region(0, 1 << 16), true)];
    let cases: Vec<Case> = vec![
        (with(|init| init.version = 0x0100), None, &[], "Incompatible"),
        (with(|init| init.id = 9), None, &[], "ID not found"),
        (with(|init| init.mode = 1), None, &[], "Only Ethernet"),
        (hello, None, &[], "Unexpected"),
        (Message::Ack, None, &[], "Unexpected"),
        (Message::Connect { name: String::new() }, None, &[], "Unexpected"),
        (region(0, 4096), None, &started[..1], "Missing region"),
        (region(1, 4096), file(), &started[..1], "Invalid region"),
        (region(0, 1 << 20), file(), &started[..1], "65536 bytes"),
        (region(0, u64::MAX), file(), &started[..1], "more than 1 GiB"),
        (region(0, 0), file(), &started[..1], "not 0"),
        (
            region(0, 4096),
            Some(fs::File::open("/proc/self/status").unwrap().into()),
            &started[..1],
            "no file in memory",
        ),
        (region(0, 4096), bell(), &started[..1], "no file in memory"),
        (ring(sound), None, started, "Missing interrupt"),
        (ring(sound), file(), started, "no eventfd"),
        (ring(AddRing { index: 1, ..sound }), bell(), started, "Invalid ring index"),
        (ring(AddRing { region: 1, ..sound }), bell(), started, "Invalid ring region"),
        (ring(AddRing { log2_slots: 0, ..sound }), bell(), started, "Invalid ring size"),
        (ring(AddRing { log2_slots: 15, ..sound }), bell(), started, "Invalid ring size"),
        (ring(AddRing { log2_slots: 255, ..sound }), bell(), started, "Invalid ring size"),
        (ring(AddRing { offset: 1, ..sound }), bell(), started, "Invalid ring offset"),
        (ring(AddRing { offset: 0xffff_fff8, ..sound }), bell(), started, "Invalid ring offset"),
        (ring(AddRing { log2_slots: 14, ..sound }), bell(), started, "Invalid ring offset"),
        (Message::Connect { name: String::new() }, None, started, "No rings"),
    ];
    for (message, file, prelude, says) in cases {
        let text = refused(&place, &message, file, prelude);
        assert!(text.contains(says), "{message:?}: {text:?}, not {says:?}");
        // The interface is free again, and the port knows nothing of all this.
        assert!(!port.is_connected().unwrap());
    }
    // A ring without the mark, a second client, and messages that are none.
    let client = Client::new(&place);
    for (message, with_file) in started {
        client.say(message, with_file.then(|| memory_file(c"x", 1 << 16).unwrap()));
    }
    client.say(&ring(sound), bell());
    assert!(refused(&place, &init(), None, &[]).contains("Already connected"));
    let answer = client.say(&Message::Connect { name: String::new() }, None);
    assert!(matches!(&answer, Some(Message::Disconnect { text, .. }) if text == "Wrong cookie"), "{answer:?}");
    let client = Client::new(&place);
    client.channel.send(&[0xff; MESSAGE_BYTES], None).unwrap();
    assert!(matches!(next(&client.channel), Some((Message::Disconnect { text, .. }, _)) if text.contains("Unknown")));
}

#[test]
fn a_secret_is_asked_for() {
    let place = Place::new();
    let mut port = place.open(",secret=sesame");
    assert_eq!(refused(&place, &Client::init(), None, &[]), "Incorrect secret");
    let mut client = place.open(",role=client,secret=sesame");
    until("connection", || port.is_connected().unwrap() && client.is_connected().unwrap());
}

/// Receives until the port says something else than "nothing".
fn received(port: &mut MemifPort, pool: &mut Pool) -> Result<usize, PortError> {
    let mut batch = Batch::new(pool, 64);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let result = port.receive(&mut batch);
        pool.put(&mut batch);
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

/// What a client may not write into the ring that a server receives from.
#[test]
fn a_client_that_writes_nonsense_loses_its_connection_and_nothing_else() {
    type Deed = fn(&Ring);
    let sound = Descriptor { flags: 0, region: 0, length: 60, offset: 1024 };
    assert_eq!(sound.offset, 1024);
    let cases: [(Deed, &str); 6] = [
        (|ring| ring.head().store(17, Ordering::Release), "index 17"),
        (|ring| ring.head().store(0xffff, Ordering::Release), "index 65535"),
        (
            |ring| {
                ring.write(0, Descriptor { flags: 0, region: 9, length: 60, offset: 0 });
                ring.head().store(1, Ordering::Release);
            },
            "region 9",
        ),
        (
            |ring| {
                ring.write(0, Descriptor { flags: 0, region: 0, length: u32::MAX, offset: u32::MAX });
                ring.head().store(1, Ordering::Release);
            },
            "4294967295 bytes",
        ),
        (
            |ring| {
                ring.write(0, Descriptor { flags: 0, region: 0, length: 60, offset: u32::MAX - 3 });
                ring.head().store(1, Ordering::Release);
            },
            "0xfffffffc",
        ),
        (
            |ring| {
                (0..16).for_each(|slot| {
                    ring.write(slot, Descriptor { flags: NEXT, region: 0, length: 60, offset: 1024 });
                });
                ring.head().store(16, Ordering::Release);
            },
            "without an end",
        ),
    ];
    for (deed, says) in cases {
        let mut place = Place::new();
        let (mut port, mut bystander) = (place.open(",corrupt=next"), place.open(",id=1"));
        let (client, mut offer) = (Client::new(&place), offer());
        client.connect(&mut offer);
        until("connection", || port.is_connected().unwrap());
        deed(&rings(&offer)[0]);
        corrupt(received(&mut port, &mut place.pool), says);
        let Some((Message::Disconnect { text, .. }, _)) = next(&client.channel) else { panic!("no goodbye") };
        assert!(text.contains("You wrote"), "{text}");
        // The port waits for the next peer, and works with it.
        exchange(&mut place, &mut port, "");
        exchange(&mut place, &mut bystander, ",id=1");
    }
}

/// A sound client comes, and packets go both ways.
fn exchange(place: &mut Place, port: &mut MemifPort, options: &str) {
    let mut client = place.open(&format!("{options},role=client"));
    until("connection", || port.is_connected().unwrap() && client.is_connected().unwrap());
    let mut batch = Batch::new(&place.pool, 8);
    let (mut here, mut there): (&mut MemifPort, &mut MemifPort) = (port, &mut client);
    for _ in 0..2 {
        place.pool.take(&mut batch, 8, 100);
        assert_eq!(here.transmit(&mut batch).unwrap(), 8);
        assert_eq!(there.wait(Interest::Receive, u64::MAX).unwrap(), Readiness::Ready);
        assert_eq!(received(there, &mut place.pool).unwrap(), 8);
        (here, there) = (there, here);
    }
}

#[test]
fn without_the_option_a_fault_closes_the_port_for_good() {
    let mut place = Place::new();
    let mut port = place.open("");
    let (client, mut offer) = (Client::new(&place), offer());
    client.connect(&mut offer);
    until("connection", || port.is_connected().unwrap());
    rings(&offer)[0].head().store(999, Ordering::Release);
    corrupt(received(&mut port, &mut place.pool), "index 999");
    let mut batch = Batch::new(&place.pool, 4);
    corrupt(port.transmit(&mut batch), "index 999");
    corrupt(port.wait(Interest::Receive, 0), "index 999");
    assert!(port.stats().is_ok());
    assert_eq!(refused(&place, &Client::init(), None, &[]), "Port closed");
    // A new one on the same name starts anew.
    drop(port);
    let mut port = place.open("");
    exchange(&mut place, &mut port, "");
}

/// What a client may not write into the ring that a server sends into.
#[test]
fn buffers_that_a_client_does_not_have_are_not_written() {
    for (posted, says) in [
        (Descriptor { flags: 0, region: 1, length: 2048, offset: 0 }, "region 1"),
        (Descriptor { flags: 0, region: 0, length: 2048, offset: u32::MAX }, "0xffffffff"),
        (Descriptor { flags: 0, region: 0, length: 0, offset: 0 }, "0 bytes"),
        (Descriptor { flags: 0, region: 0, length: 61, offset: 12_000_000 }, "61 bytes"),
    ] {
        let mut place = Place::new();
        let mut port = place.open("");
        let (client, mut offer) = (Client::new(&place), offer());
        client.connect(&mut offer);
        until("connection", || port.is_connected().unwrap());
        let ring = &rings(&offer)[1];
        ring.write(0, posted);
        ring.head().store(1, Ordering::Release);
        let mut batch = Batch::new(&place.pool, 4);
        place.pool.take(&mut batch, 2, 60);
        corrupt(port.transmit(&mut batch), says);
        assert_eq!(batch.len(), 2);
    }
    // More posted than there are slots.
    let place = Place::new();
    let mut port = place.open("");
    let (client, mut offer) = (Client::new(&place), offer());
    client.connect(&mut offer);
    until("connection", || port.is_connected().unwrap());
    rings(&offer)[1].head().store(40_000, Ordering::Release);
    corrupt(port.wait(Interest::Transmit, u64::MAX), "index 40000");
}

/// Memory that goes away under the port: it reads zeros, and the process lives.
#[test]
fn a_file_that_is_cut_short_while_it_is_in_use() {
    for sends in [false, true] {
        let mut place = Place::new();
        let mut port = place.open("");
        let (client, mut offer) = (Client::new(&place), offer());
        // The same memory, but in a file that is not sealed.
        let path = format!("/dev/shm/linerate-memif-{}-{sends}", std::process::id());
        let file = match fs::File::options().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => file,
            Err(error) => return eprintln!("skipped: no file in /dev/shm: {error}"),
        };
        fs::remove_file(&path).unwrap();
        file.set_len(offer.memory_bytes as u64).unwrap();
        offer.memory = file.try_clone().unwrap().into();
        rings(&offer).iter().for_each(|ring| ring.format(0));
        client.connect(&mut offer);
        until("connection", || port.is_connected().unwrap());
        if sends {
            let ring = &rings(&offer)[1];
            (0..16).for_each(|slot| ring.write(slot, Descriptor { flags: 0, region: 0, length: 256, offset: 8192 }));
            ring.head().store(16, Ordering::Release);
            let mut batch = Batch::new(&place.pool, 4);
            place.pool.take(&mut batch, 1, 60);
            assert_eq!(port.transmit(&mut batch).unwrap(), 1);
            file.set_len(4096).unwrap();
            place.pool.take(&mut batch, 1, 60);
            // This one may go nowhere; the next call has noticed.
            let _ = port.transmit(&mut batch);
            place.pool.take(&mut batch, 1, 60);
            corrupt(port.transmit(&mut batch), "cut short");
        } else {
            let ring = &rings(&offer)[0];
            (0..16).for_each(|slot| ring.write(slot, Descriptor { flags: 0, region: 0, length: 60, offset: 8192 }));
            ring.head().store(1, Ordering::Release);
            assert_eq!(received(&mut port, &mut place.pool).unwrap(), 1);
            ring.head().store(3, Ordering::Release);
            file.set_len(0).unwrap();
            let result = received(&mut port, &mut place.pool);
            let result = if result.is_ok() { received(&mut port, &mut place.pool) } else { result };
            corrupt(result, "cut short");
        }
    }
}

#[test]
fn a_peer_that_jams_its_eventfd_holds_nobody_up() {
    let mut place = Place::new();
    let mut port = place.open("");
    let (client, mut offer) = (Client::new(&place), offer());
    let bell = offer.rings[1].bell.try_clone().unwrap();
    client.connect(&mut offer);
    until("connection", || port.is_connected().unwrap());
    let ring = &rings(&offer)[1];
    ring.flags().store(0, Ordering::SeqCst);
    (0..16).for_each(|slot| ring.write(slot, Descriptor { flags: 0, region: 0, length: 256, offset: 8192 }));
    ring.head().store(16, Ordering::Release);
    Doorbell::of_peer(bell).unwrap().jam();
    let mut batch = Batch::new(&place.pool, 4);
    place.pool.take(&mut batch, 1, 60);
    // Without help this call never comes back.
    assert_eq!(port.transmit(&mut batch).unwrap(), 1);
    until("end of the connection", || !port.is_connected().unwrap());
}

/// What a server may not write: here the port is the client, and owns the memory.
#[test]
fn a_server_that_writes_nonsense_loses_its_connection() {
    type Deed = fn(&[Ring; 2]);
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
        (
            |[_, to_client]| {
                (0..16).for_each(|slot| {
                    to_client.write(slot, Descriptor { flags: NEXT, region: 0, length: 60, offset: 0 });
                });
                to_client.tail().store(16, Ordering::Release);
            },
            "without an end",
        ),
    ];
    for (deed, says) in cases {
        let mut place = Place::new();
        let listener = ListeningSocket::bind(&place.path).unwrap();
        let mut port = place.open(",role=client,slots=16,buffer=256");
        let channel = accepted(&listener).unwrap();
        let memory = serve(&channel);
        until("connection", || port.is_connected().unwrap());
        deed(&rings_in(&memory[0]));
        let mut batch = Batch::new(&place.pool, 64);
        place.pool.take(&mut batch, 64, 60);
        let first = port.transmit(&mut batch);
        let second = received(&mut port, &mut place.pool);
        corrupt(first.and(second), says);
    }
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

/// As above, of a client whose frames the server has.
#[test]
fn a_server_that_writes_nonsense_about_lent_frames_loses_its_connection() {
    type Deed = fn(&[Ring; 2]);
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
        (
            |[_, to_client]| {
                (0..16).for_each(|slot| {
                    to_client.write(slot, Descriptor { flags: NEXT, region: 1, length: 60, offset: 0 });
                });
                to_client.tail().store(16, Ordering::Release);
            },
            "without an end",
        ),
    ];
    for (deed, says) in cases {
        let mut place = Place::lending();
        let listener = ListeningSocket::bind(&place.path).unwrap();
        let mut port = place.open(",role=client,slots=16,zerocopy");
        let channel = accepted(&listener).unwrap();
        let memory = serve(&channel);
        until("connection", || port.is_connected().unwrap());
        deed(&rings_in(&memory[0]));
        let mut batch = Batch::new(&place.pool, 64);
        place.pool.take(&mut batch, 64, 60);
        let first = port.transmit(&mut batch);
        let second = received(&mut port, &mut place.pool);
        corrupt(first.and(second), says);
        // All that was lent is here again, while the villain still has the memory.
        drop((port, batch));
        place.pool.flush();
        assert!(place.pool.is_whole(), "{says}");
    }
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
    place.pool.put(&mut batch);
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
