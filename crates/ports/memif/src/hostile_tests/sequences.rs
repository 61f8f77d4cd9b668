//! Clients that say anything in any order, over the real socket and with any descriptors.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use linerate_mem::Batch;
use linerate_port::Port;
use linerate_sys::shared::memory_file;

use super::client::{Client, exchange};
use super::{LOG2_SLOTS, Place, mutate, next, offer, until};
use crate::message::{AddRing, MESSAGE_BYTES, Message};
use crate::offer::Offer;
use crate::port::MemifPort;
use crate::sys::{Channel, Doorbell, Received};

/// A message: which descriptor comes with it, and its bytes.
const STEP_BYTES: usize = 1 + MESSAGE_BYTES;

/// What a client hands over: memory with rings in it, an eventfd, what is neither.
struct Handed {
    offer: Offer,
    bell: Doorbell,
    short: OwnedFd,
    null: File,
}

impl Handed {
    fn descriptor(&self, which: u8) -> Option<BorrowedFd<'_>> {
        match which % 5 {
            0 => None,
            1 => Some(self.offer.memory.as_fd()),
            2 => Some(self.bell.as_fd()),
            3 => Some(self.short.as_fd()),
            _ => Some(self.null.as_fd()),
        }
    }
}

/// A good handshake, with a ring each way.
fn good(offer: &Offer) -> Vec<u8> {
    let mut steps = vec![(0, Client::init())];
    steps.push((1, Message::AddRegion { index: 0, bytes: offer.memory_bytes as u64 }));
    for ring in &offer.rings {
        let (to_server, index, offset) = (ring.to_server, ring.index, ring.offset);
        steps.push((2, Message::AddRing(AddRing { to_server, index, region: 0, offset, log2_slots: LOG2_SLOTS })));
    }
    steps.push((0, Message::Connect { name: "anybody".into() }));
    steps.iter().flat_map(|(which, message)| [vec![*which], message.encode().to_vec()].concat()).collect()
}

/// Says all of it, whatever is answered, while the port is used; true when a connection came of it.
fn converse(place: &mut Place, port: &mut MemifPort, handed: &Handed, data: &[u8]) -> bool {
    let mut found = None;
    until("a hello", || {
        let hears_hello = |channel: &Channel| matches!(next(channel), Some((Message::Hello(_), _)));
        found = Channel::connect(&place.path).ok().filter(hears_hello);
        found.is_some()
    });
    let Some(channel) = found else { return false };
    let mut connected = false;
    for chunk in data.chunks(STEP_BYTES) {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..chunk.len() - 1].copy_from_slice(&chunk[1..]);
        if channel.send(&bytes, handed.descriptor(chunk[0])).is_err() {
            break;
        }
        use_port(place, port);
        match answer(&channel) {
            Some(Message::Connected { .. }) => connected = true,
            Some(Message::Disconnect { .. }) => break,
            _ => {}
        }
    }
    drop(channel);
    until("the end of the connection", || {
        use_port(place, port);
        !port.is_connected().expect("a port that goes on")
    });
    connected
}

fn use_port(place: &mut Place, port: &mut MemifPort) {
    let mut batch = Batch::new(&place.pool, 8);
    port.receive(&mut batch).expect("a port that goes on");
    place.pool.free(&mut batch);
    place.pool.alloc(&mut batch, 1, 100);
    port.transmit(&mut batch).expect("a port that goes on");
    place.pool.free(&mut batch);
}

/// What is answered within a moment; some messages have no answer.
fn answer(channel: &Channel) -> Option<Message> {
    for _ in 0..20 {
        match channel.receive() {
            Ok(Received::Nothing) => std::thread::sleep(Duration::from_micros(200)),
            Ok(Received::Message { bytes, .. }) => return Message::decode(&bytes),
            _ => return None,
        }
    }
    None
}

fn descriptors_of_this_process() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc").count()
}

#[test]
fn anything_in_any_order_costs_its_connection_and_nothing_else() {
    let mut place = Place::new();
    let mut port = place.open(",corrupt=next");
    let handed = Handed {
        offer: offer(),
        bell: Doorbell::new().expect("an eventfd"),
        short: memory_file(c"short", 1).expect("a file"),
        null: File::options().read(true).write(true).open("/dev/null").expect("/dev/null"),
    };
    let before = descriptors_of_this_process();
    let seeds = [good(&handed.offer)];
    // The seed is good: a connection comes of it, when its answers come in time.
    until("a connection", || converse(&mut place, &mut port, &handed, &seeds[0]));
    mutate::each(&seeds, 3_000, |data| _ = converse(&mut place, &mut port, &handed, data));
    // Of the last client a connection may have come when it was gone: the port has to be used to hear of both.
    until("descriptors closed", || {
        use_port(&mut place, &mut port);
        descriptors_of_this_process() <= before
    });
    exchange(&mut place, &mut port, "");
}
