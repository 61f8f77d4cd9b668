//! Front-ends that send any messages in any order, with any descriptors: whatever they send, the port goes on, keeps nothing of theirs, and
//! works for the next one. Message numbers and layouts: QEMU's docs/interop/vhost-user.rst.

mod common;

use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use common::{Driver, GUEST, Place, Shape, USER, memory_file, packet, pool, receive, transmit, until};
use linerate_mem::{Batch, Pool};
use linerate_port::{LinkState, Port};
use linerate_port_vhost::VhostPort;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::sock_ctrl_msg::ScmSocket;

/// A message: its number, the flags of its header, its body, which descriptors come with it, and how much less the header says or is sent.
#[derive(Clone, Debug)]
struct Message {
    request: u32,
    flags: u32,
    body: Vec<u64>,
    descriptors: Vec<u8>,
    size_error: u32,
    cut: usize,
}

/// Numbers that mean something in some message: features, addresses, ring numbers, sizes.
fn word() -> impl Strategy<Value = u64> {
    let known = [
        0,
        1,
        2,
        3,
        0x100,
        0x101,
        256,
        257,
        1 << 20,
        1 << 30,
        1 << 32,
        GUEST,
        GUEST + 0x1000,
        USER,
        USER + 0x1000,
        u64::MAX,
    ];
    let pair = (0_u64..4, 0_u64..300).prop_map(|(low, high)| low | high << 32);
    prop_oneof![4 => proptest::sample::select(known.to_vec()), 3 => pair, 1 => any::<u64>()]
}

fn message() -> impl Strategy<Value = Message> {
    // Version 1; some messages ask for an answer (bit 3), few have a wrong version or say that they are answers.
    let flags = prop_oneof![8 => Just(1_u32), 4 => Just(9), 1 => any::<u32>()];
    let request = prop_oneof![16 => 0_u32..45, 1 => any::<u32>()];
    let body = proptest::collection::vec(word(), 0..8);
    let descriptors = proptest::collection::vec(0_u8..5, 0..4);
    let size_error = prop_oneof![12 => Just(0_u32), 1 => any::<u32>()];
    let cut = prop_oneof![12 => Just(0_usize), 1 => 1_usize..12];
    (request, flags, body, descriptors, size_error, cut).prop_map(
        |(request, flags, body, descriptors, size_error, cut)| Message {
            request,
            flags,
            body,
            descriptors,
            size_error,
            cut,
        },
    )
}

/// What a driver that behaves sends to start a ring: owner, features, memory, and the ring's size, addresses, first index and eventfds.
fn good_start(ring: u64) -> Vec<Message> {
    let features = 1 << 15 | 1 << 28 | 1 << 29 | 1 << 30 | 1 << 32;
    let at = USER + ring * 0x8_0000;
    let message = |request, body: &[u64], descriptors: &[u8]| {
        let (body, descriptors) = (body.to_vec(), descriptors.to_vec());
        Message { request, flags: 1, body, descriptors, size_error: 0, cut: 0 }
    };
    vec![
        message(3, &[], &[]),
        message(2, &[features], &[]),
        message(5, &[1, GUEST, 1 << 21, USER, 0], &[0]),
        message(8, &[ring | 256 << 32], &[]),
        message(9, &[ring, at, at + 0x2_0000, at + 0x1_0000, 0], &[]),
        message(10, &[ring], &[]),
        message(12, &[ring], &[1]),
        message(13, &[ring], &[1]),
        message(18, &[ring | 1 << 32], &[]),
    ]
}

/// Any messages, often behind a part of a good start, or of those of both rings.
fn sequence() -> impl Strategy<Value = Vec<Message>> {
    let start =
        (0_usize..19).prop_map(|len| good_start(0).into_iter().chain(good_start(1).split_off(3)).take(len).collect());
    let starts = prop_oneof![1 => Just(Vec::new()), 3 => start];
    (starts, proptest::collection::vec(message(), 1..12)).prop_map(|(start, rest)| [start, rest].concat())
}

/// What a front-end hands over: memory, an eventfd, what is neither.
struct Handed {
    memory: std::fs::File,
    empty: std::fs::File,
    event: EventFd,
    null: std::fs::File,
    socket: UnixStream,
}

impl Handed {
    fn descriptor(&self, which: u8) -> RawFd {
        match which {
            0 => self.memory.as_raw_fd(),
            1 => self.event.as_raw_fd(),
            2 => self.empty.as_raw_fd(),
            3 => self.null.as_raw_fd(),
            _ => self.socket.as_raw_fd(),
        }
    }
}

impl Message {
    /// Sends it; false when the other side has closed.
    fn send(&self, stream: &UnixStream, handed: &Handed) -> bool {
        let body: Vec<u8> = self.body.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let size = (body.len() as u32).wrapping_add(self.size_error);
        let head = [self.request, self.flags, size].map(u32::to_ne_bytes).concat();
        let bytes = [head, body].concat();
        let descriptors: Vec<RawFd> = self.descriptors.iter().map(|which| handed.descriptor(*which)).collect();
        let bytes = &bytes[..bytes.len() - self.cut];
        stream.send_with_fds(&[bytes], &descriptors).is_ok()
    }
}

/// Packets in both directions while the messages are worked on.
fn run(port: &mut VhostPort, pool: &mut Pool) {
    let mut batch = Batch::new(pool, 64);
    port.receive(&mut batch).unwrap();
    pool.free(&mut batch);
    assert!(pool.append(&mut batch, &packet(1, 60), 0));
    port.transmit(&mut batch).unwrap();
    pool.free(&mut batch);
}

fn descriptors_of_this_process() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn any_messages_in_any_order_cost_their_connection_and_nothing_else() {
    let (place, mut pool) = (Place::new(), pool());
    let mut port = place.open("", &pool);
    let handed = Handed {
        memory: memory_file(1 << 21),
        empty: memory_file(0),
        event: EventFd::new(0).unwrap(),
        null: std::fs::File::options().read(true).write(true).open("/dev/null").unwrap(),
        socket: UnixStream::pair().unwrap().0,
    };
    let before = descriptors_of_this_process();
    // The start is good: a ring works after it.
    let stream = UnixStream::connect(place.path()).unwrap();
    assert!(good_start(0).iter().all(|message| message.send(&stream, &handed)));
    until("a ring that works", || port.link().unwrap() == LinkState::Up);
    drop(stream);
    until("the end of the connection", || !port.peers().connected);
    // The same sequences on every run.
    let mut runner = TestRunner::deterministic();
    let sequences = sequence();
    for _ in 0..300 {
        let messages = sequences.new_tree(&mut runner).expect("a sequence").current();
        let connections = port.peers().connections;
        let stream = UnixStream::connect(place.path()).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
        for message in &messages {
            let sent = message.send(&stream, &handed);
            run(&mut port, &mut pool);
            if !sent {
                break;
            }
        }
        drop(stream);
        until("the end of the connection", || {
            run(&mut port, &mut pool);
            let peers = port.peers();
            peers.connections > connections && !peers.connected
        });
    }
    until("descriptors closed", || descriptors_of_this_process() <= before);
    let mut driver = Driver::connect(&place.path(), Shape::default()).unwrap();
    for number in 0..300 {
        let there = packet(number, 60 + number);
        assert!(driver.send(0, &there));
        assert_eq!(receive(&mut port, &mut pool, 1), std::slice::from_ref(&there));
        transmit(&mut port, &mut pool, std::slice::from_ref(&there));
        assert_eq!(driver.receive(0), Some(there));
    }
}
