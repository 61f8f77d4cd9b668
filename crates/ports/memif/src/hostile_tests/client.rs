//! The villain is a client: it owns the memory, and the port is the server.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use linerate_mem::Batch;
use linerate_port::{Interest, Port, Readiness};
use linerate_sys::shared::memory_file;

use super::{LOG2_SLOTS, Place, corrupt, next, offer, received, rings, until};
use crate::handshake;
use crate::message::{AddRing, Init, MESSAGE_BYTES, MODE_ETHERNET, Message, VERSION};
use crate::offer::Offer;
use crate::port::MemifPort;
use crate::sys::{Channel, Descriptor, Doorbell, NEXT, Ring};

/// A client that says what it is told to.
pub(super) struct Client {
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

    pub(super) fn init() -> Message {
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
pub(super) fn exchange(place: &mut Place, port: &mut MemifPort, options: &str) {
    let mut client = place.open(&format!("{options},role=client"));
    until("connection", || port.is_connected().unwrap() && client.is_connected().unwrap());
    let mut batch = Batch::new(&place.pool, 8);
    let (mut here, mut there): (&mut MemifPort, &mut MemifPort) = (port, &mut client);
    for _ in 0..2 {
        place.pool.alloc(&mut batch, 8, 100);
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
        place.pool.alloc(&mut batch, 2, 60);
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
            place.pool.alloc(&mut batch, 1, 60);
            assert_eq!(port.transmit(&mut batch).unwrap(), 1);
            file.set_len(4096).unwrap();
            place.pool.alloc(&mut batch, 1, 60);
            // This one may go nowhere; the next call has noticed.
            let _ = port.transmit(&mut batch);
            place.pool.alloc(&mut batch, 1, 60);
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
    place.pool.alloc(&mut batch, 1, 60);
    // Without help this call never comes back.
    assert_eq!(port.transmit(&mut batch).unwrap(), 1);
    until("end of the connection", || !port.is_connected().unwrap());
}

/// A client that hung up but kept its memory: what it sent before is received, what it writes later is not.
#[test]
fn a_client_that_goes_on_writing_after_it_went_is_not_heard() {
    let mut place = Place::new();
    let mut port = place.open("");
    let (client, mut offer) = (Client::new(&place), offer());
    client.connect(&mut offer);
    until("connection", || port.is_connected().unwrap());
    let ring = &rings(&offer)[0];
    let send = |packets: u16| {
        (0..16).for_each(|slot| ring.write(slot, Descriptor { flags: 0, region: 0, length: 60, offset: 1024 }));
        ring.head().fetch_add(packets, Ordering::AcqRel);
    };
    send(3);
    drop(client);
    until("end of the connection", || !port.is_connected().unwrap());
    send(2);
    assert_eq!(received(&mut port, &mut place.pool).unwrap(), 3);
    send(2);
    let mut batch = Batch::new(&place.pool, 8);
    for _ in 0..10 {
        assert_eq!(port.receive(&mut batch).unwrap(), 0);
    }
    assert_eq!(port.stats().unwrap().rx_packets, 3);
}

/// After a fault the next peer has to wait, and is told so. The machine may stand still for longer than a pause; the next is longer.
#[test]
fn a_peer_that_comes_back_at_once_after_a_fault_is_refused() {
    let mut place = Place::new();
    let mut port = place.open(",corrupt=next");
    for _ in 0..8 {
        let (client, mut offer) = (Client::new(&place), offer());
        client.connect(&mut offer);
        until("connection", || port.is_connected().unwrap());
        rings(&offer)[0].head().store(999, Ordering::Release);
        corrupt(received(&mut port, &mut place.pool), "index 999");
        match Client::new(&place).say(&Client::init(), None) {
            Some(Message::Disconnect { text, .. }) if text == "Too soon after a fault" => return,
            answer => assert_eq!(answer, Some(Message::Ack)),
        }
    }
    panic!("it was never refused");
}
