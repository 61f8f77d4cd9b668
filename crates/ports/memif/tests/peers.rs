//! Peers that come, go, come again, and are killed; several interfaces at one socket, several queues of one interface.

mod common;

use std::time::{Duration, Instant};

use common::{CONFIG, PATIENCE, Socket, connected, open, pool, pool_of, until};
use linerate_mem::{Batch, Pool};
use linerate_port::{Interest, LinkState, Port, Readiness};
use linerate_port_memif::MemifPort;
use linerate_sys::clock;
use linerate_sys::poll::PollSet;
use linerate_testkit::child::{self, Child, Signal};

/// Sends `count` packets that begin with their number and `mark`.
fn send(port: &mut MemifPort, pool: &mut Pool, count: u32, mark: u8) {
    let mut batch = Batch::new(pool, 64);
    let deadline = Instant::now() + PATIENCE;
    let (mut made, mut sent) = (0, 0);
    while sent < count {
        while made < count && batch.room() > 0 && pool.alloc(&mut batch, 1, 64) == 1 {
            let last = batch.len() - 1;
            batch.packet_mut(last)[..4].copy_from_slice(&made.to_be_bytes());
            batch.packet_mut(last)[4..].fill(mark);
            made += 1;
        }
        sent += port.transmit(&mut batch).unwrap() as u32;
        assert!(Instant::now() < deadline, "only {sent} of {count} packets were taken");
    }
}

/// Receives exactly these.
fn expect(port: &mut MemifPort, pool: &mut Pool, count: u32, mark: u8) {
    let mut batch = Batch::new(pool, 64);
    let deadline = Instant::now() + PATIENCE;
    let mut arrived = 0u32;
    while arrived < count {
        assert!(Instant::now() < deadline, "only {arrived} of {count} packets came");
        if port.receive(&mut batch).unwrap() == 0 {
            port.wait(Interest::Receive, 10_000_000).unwrap();
        }
        for packet in batch.iter() {
            assert_eq!((&packet[..4], packet[63]), (&arrived.to_be_bytes()[..], mark));
            arrived += 1;
        }
        pool.free(&mut batch);
    }
    assert_eq!(port.receive(&mut batch).unwrap(), 0);
}

#[test]
fn several_interfaces_share_a_socket() {
    let (socket, mut pool) = (Socket::new(), pool());
    let mut pairs: Vec<(MemifPort, MemifPort)> =
        (0..5).map(|id| socket.pair(&format!(",id={id}"), &format!(",id={id}"), &pool).unwrap()).collect();
    assert!(socket.open(",id=3", &pool).map(|_| ()).unwrap_err().contains("id 3 of this socket is open already"));
    for (id, (server, client)) in pairs.iter_mut().enumerate() {
        send(client, &mut pool, 100, id as u8);
        send(server, &mut pool, 100, 100 + id as u8);
    }
    for (id, (server, client)) in pairs.iter_mut().enumerate() {
        expect(server, &mut pool, 100, id as u8);
        expect(client, &mut pool, 100, 100 + id as u8);
    }
    // The socket stays as long as one of them does.
    pairs.truncate(1);
    assert!(std::fs::exists(socket.path()).unwrap());
    pairs.clear();
    assert!(!std::fs::exists(socket.path()).unwrap());
    assert!(pool.is_whole());
}

#[test]
fn either_side_comes_first_and_comes_again() {
    let (socket, mut pool) = (Socket::new(), pool());
    let mut client = socket.open(",role=client", &pool).unwrap();
    let mut batch = Batch::new(&pool, 4);
    pool.alloc(&mut batch, 4, 60);
    assert_eq!((client.transmit(&mut batch).unwrap(), batch.len()), (0, 4), "nobody is there");
    assert_eq!(client.wait(Interest::Transmit, 1_000_000).unwrap(), Readiness::TimedOut);
    assert_eq!(client.wait(Interest::Receive, 1_000_000).unwrap(), Readiness::TimedOut);
    pool.free(&mut batch);
    for round in 0..3 {
        let mut server = socket.open("", &pool).unwrap();
        connected(&mut [&mut server, &mut client]).unwrap();
        send(&mut client, &mut pool, 200, round);
        expect(&mut server, &mut pool, 200, round);
        send(&mut server, &mut pool, 200, round);
        drop(server);
        // What it sent before it went arrives.
        expect(&mut client, &mut pool, 200, round);
        until("end", || !client.is_connected().unwrap()).unwrap();
    }
    let mut server = socket.open("", &pool).unwrap();
    for round in 0..3 {
        connected(&mut [&mut server, &mut client]).unwrap();
        send(&mut client, &mut pool, 200, round);
        drop(client);
        expect(&mut server, &mut pool, 200, round);
        client = socket.open(",role=client", &pool).unwrap();
    }
    let stats = server.stats().unwrap();
    assert_eq!((stats.rx_packets, stats.rx_dropped()), (600, 0));
}

#[test]
fn packets_that_nobody_fetched_are_counted() {
    let (socket, mut pool) = (Socket::new(), pool());
    let mut server = socket.open("", &pool).unwrap();
    for _ in 0..3 {
        let mut client = socket.open(",role=client", &pool).unwrap();
        connected(&mut [&mut server, &mut client]).unwrap();
        send(&mut client, &mut pool, 150, 0);
        drop(client);
        until("end", || !server.is_connected().unwrap()).unwrap();
    }
    // The last one's packets can be fetched; those before are lost, and counted.
    expect(&mut server, &mut pool, 150, 0);
    let stats = server.stats().unwrap();
    assert_eq!((stats.rx_packets, stats.rx_dropped()), (150, 300), "{stats:?}");
}

/// The first of several queues that a sender closes ends the connection for all; the others go on with a new one, which may be over before
/// the receiver looks.
#[test]
fn packets_of_a_connection_that_came_and_went_unseen_arrive() {
    let (socket, mut pool) = (Socket::new(), pool());
    let mut servers = socket.open_all(",queues=2", &pool).unwrap();
    let mut clients = socket.open_all(",queues=2,role=client", &pool).unwrap();
    for (server, client) in servers.iter_mut().zip(&mut clients) {
        connected(&mut [server, client]).unwrap();
    }
    let (first, mut second) = (clients.remove(0), clients.remove(0));
    send(&mut second, &mut pool, 50, 0);
    drop(first);
    until("end", || !second.is_connected().unwrap()).unwrap();
    until("a new connection", || second.is_connected().unwrap()).unwrap();
    send(&mut second, &mut pool, 60, 1);
    drop(second);
    std::thread::sleep(Duration::from_millis(50));
    let (mut batch, mut marks) = (Batch::new(&pool, 256), Vec::new());
    until("packets of both connections", || {
        servers[1].receive(&mut batch).unwrap();
        marks.extend(batch.iter().map(|packet| packet[63]));
        pool.free(&mut batch);
        marks.len() == 110
    })
    .unwrap();
    assert_eq!(marks, [vec![0; 50], vec![1; 60]].concat());
    until("end", || !servers[1].is_connected().unwrap()).unwrap();
    let stats = servers[1].stats().unwrap();
    assert_eq!((stats.rx_packets, stats.rx_dropped()), (110, 0), "{stats:?}");
}

#[test]
fn each_queue_pair_is_a_port_opened_together_or_alone() {
    let (socket, mut pool) = (Socket::new(), pool());
    let spec = |queue: u32, role: &str| format!("memif:{}@{queue},rings=3,role={role}", socket.path());
    // One device for all of them, three devices of one queue each.
    let mut servers = socket.open_all(",rings=3", &pool).unwrap();
    assert_eq!(servers[2].caps().name, spec(2, "server").replace(",role=server", ""));
    let mut clients: Vec<MemifPort> = (0..3).map(|queue| open(&spec(queue, "client"), &pool).unwrap()).collect();
    assert!(open(&spec(1, "client"), &pool).is_err(), "that queue is taken");
    let other = format!("memif:{}@0,rings=4,role=client", socket.path());
    assert!(open(&other, &pool).is_err(), "those are other options");
    for queue in 0..3 {
        connected(&mut [&mut servers[queue], &mut clients[queue]]).unwrap();
        assert_eq!(clients[queue].link().unwrap(), LinkState::Up);
        let (from, to) = (&mut servers[queue], &mut clients[queue]);
        send(from, &mut pool, 50, queue as u8);
        expect(to, &mut pool, 50, queue as u8);
        send(to, &mut pool, 50, 9);
        expect(from, &mut pool, 50, 9);
    }
    drop((servers, clients));
    let mut servers: Vec<MemifPort> = (0..3).map(|queue| open(&spec(queue, "server"), &pool).unwrap()).collect();
    let mut clients = socket.open_all(",queues=3,role=client", &pool).unwrap();
    for queue in 0..3 {
        connected(&mut [&mut servers[queue], &mut clients[queue]]).unwrap();
    }
    // One port of several goes: the others go on with a new connection once it is back.
    drop(servers.remove(1));
    servers.insert(1, open(&spec(1, "server"), &pool).unwrap());
    until("packets on all queues", || {
        (0..3).all(|queue| servers[queue].is_connected().unwrap() && clients[queue].is_connected().unwrap())
    })
    .unwrap();
}

/// A process that sends, or receives, until it is killed.
#[test]
fn child_port() {
    let Some(task) = child::task() else { return };
    let (work, spec) = task.split_once(' ').unwrap();
    let mut pool = pool_of(spec, CONFIG).unwrap();
    let mut port = open(spec, &pool).unwrap();
    connected(&mut [&mut port]).unwrap();
    println!("testkit child is ready");
    let mut batch = Batch::new(&pool, 64);
    // Its parent kills it; should the parent die, it ends by itself.
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if work == "send" {
            let room = batch.room();
            let from = batch.len();
            let taken = pool.alloc(&mut batch, room, 64);
            for index in from..from + taken {
                batch.packet_mut(index).fill(0x55);
            }
            port.transmit(&mut batch).unwrap();
        } else {
            port.receive(&mut batch).unwrap();
            pool.free(&mut batch);
        }
    }
}

/// Kills children at moments that fall anywhere in their work, and goes on with the next.
fn kill_under_load(socket: &Socket, child_options: &str, port: &mut MemifPort, pool: &mut Pool, child_sends: bool) {
    let work = if child_sends { "send" } else { "receive" };
    let task = format!("{work} memif:{}{child_options}", socket.path());
    let mut batch = Batch::new(pool, 64);
    for round in 0..6u64 {
        let child = Child::start("child_port", &task).unwrap();
        let (mut moved, wanted) = (0, 500 + round * 937);
        let deadline = Instant::now() + PATIENCE;
        while moved < wanted {
            assert!(Instant::now() < deadline, "{moved} of {wanted} packets in round {round}");
            if child_sends {
                moved += port.receive(&mut batch).unwrap() as u64;
                assert!(batch.iter().all(|packet| packet == [0x55; 64]));
                pool.free(&mut batch);
            } else {
                let room = batch.room();
                pool.alloc(&mut batch, room, 64);
                moved += port.transmit(&mut batch).unwrap() as u64;
            }
            if moved == 0 {
                port.wait(if child_sends { Interest::Receive } else { Interest::Transmit }, 1_000_000).unwrap();
            }
        }
        child.end(Signal::Kill).unwrap();
        until("end of a killed peer", || !port.is_connected().unwrap()).unwrap();
        // What was in the ring still comes, whole; then nothing does.
        while port.receive(&mut batch).unwrap() > 0 {
            assert!(batch.iter().all(|packet| packet == [0x55; 64]));
            pool.free(&mut batch);
        }
        pool.free(&mut batch);
    }
}

#[test]
fn clients_that_are_killed_under_load() {
    for (client, child_sends) in
        [",role=client", ",role=client,zerocopy"].into_iter().flat_map(|client| [(client, true), (client, false)])
    {
        let (socket, mut pool) = (Socket::new(), pool());
        let mut server = socket.open("", &pool).unwrap();
        kill_under_load(&socket, client, &mut server, &mut pool, child_sends);
        drop(server);
        pool.flush();
        assert!(pool.is_whole());
    }
}

#[test]
fn servers_that_are_killed_under_load() {
    for child_sends in [true, false] {
        let (socket, mut pool) = (Socket::new(), pool());
        let mut client = socket.open(",role=client", &pool).unwrap();
        kill_under_load(&socket, "", &mut client, &mut pool, child_sends);
        drop(client);
        pool.flush();
        assert!(pool.is_whole());
    }
}

/// Nothing of what was lent to the dead is missed: neither frames that were filled, nor those that were not, nor packets on
/// their way.
#[test]
fn servers_that_had_our_frames_are_killed_under_load() {
    for child_sends in [true, false] {
        let socket = Socket::new();
        let mut pool = socket.pool(CONFIG).unwrap();
        let mut client = socket.open(",role=client,zerocopy", &pool).unwrap();
        assert!(client.caps().zero_copy && client.caps().copies.contains("nothing is copied here"));
        kill_under_load(&socket, "", &mut client, &mut pool, child_sends);
        drop(client);
        pool.flush();
        assert!(pool.is_whole());
    }
}

/// What is with the peer is its own no longer than it needs it: frames come back without anything being sent.
#[test]
fn frames_that_were_sent_come_back() {
    let socket = Socket::new();
    let mut pool = socket.pool(CONFIG).unwrap();
    let (mut server, mut client) = socket.pair("", ",zerocopy", &pool).unwrap();
    let free = |client: &mut MemifPort, pool: &mut Pool| {
        client.flush().unwrap();
        pool.flush();
        pool.available()
    };
    let before = free(&mut client, &mut pool);
    send(&mut client, &mut pool, 700, 3);
    assert!(free(&mut client, &mut pool) <= before - 700, "they are with the server");
    expect(&mut server, &mut pool, 700, 3);
    // A handle on a pool keeps a few.
    until("frames back", || free(&mut client, &mut pool) + 320 >= before).unwrap();
    drop((server, client));
    pool.flush();
    assert!(pool.is_whole());
}

#[test]
fn several_queues_lend_frames_of_one_pool() {
    let socket = Socket::new();
    let mut pool = socket.pool(CONFIG).unwrap();
    let mut servers = socket.open_all(",rings=2", &pool).unwrap();
    let mut clients = socket.open_all(",rings=2,role=client,zerocopy", &pool).unwrap();
    for (queue, (server, client)) in servers.iter_mut().zip(&mut clients).enumerate() {
        connected(&mut [server, client]).unwrap();
        send(client, &mut pool, 50, queue as u8);
        expect(server, &mut pool, 50, queue as u8);
        send(server, &mut pool, 50, 9);
        expect(client, &mut pool, 50, 9);
    }
    drop((servers, clients));
    pool.flush();
    assert!(pool.is_whole());
}

/// A sleeper is woken by its peer, and by a peer that comes.
#[test]
fn sleeping_together_with_others() {
    let (socket, mut pool) = (Socket::new(), pool());
    let (mut server, mut client) = (socket.open("", &pool).unwrap(), socket.open(",role=client", &pool).unwrap());
    connected(&mut [&mut server, &mut client]).unwrap();
    let mut batch = Batch::new(&pool, 8);
    for _ in 0..3 {
        let mut set = linerate_sys::poll::PollSet::default();
        assert!(server.arm_wakeup(&mut |fd| _ = set.add(fd, true, false)));
        assert_eq!(server.receive(&mut batch).unwrap(), 0);
        send(&mut client, &mut pool, 1, 1);
        let deadline = Instant::now() + PATIENCE;
        while server.receive(&mut batch).unwrap() == 0 {
            set.wait(PATIENCE.as_nanos() as u64).unwrap();
            assert!(Instant::now() < deadline, "nothing came");
        }
        pool.free(&mut batch);
    }
    let mut polling = socket.open(",id=1,mode=poll", &pool).unwrap();
    let mut other = socket.open(",id=1,role=client", &pool).unwrap();
    connected(&mut [&mut polling, &mut other]).unwrap();
    assert!(!polling.arm_wakeup(&mut |_| ()), "nobody rings a port that polls");
}

/// The first packets after a silence are handed out before anything is done about the ringing that told of them. Nothing is lost by
/// that: a port that is asked again for what it sleeps on, before it was looked at, is still woken by the next packet.
#[test]
fn packets_that_wake_a_sleeper_come_before_the_bell_is_silenced() {
    let (socket, mut pool) = (Socket::new(), pool());
    let (mut server, mut client) = (socket.open("", &pool).unwrap(), socket.open(",role=client", &pool).unwrap());
    connected(&mut [&mut server, &mut client]).unwrap();
    let mut batch = Batch::new(&pool, 8);
    let mut set = PollSet::default();
    let arm = |server: &mut MemifPort, set: &mut PollSet| {
        set.clear();
        assert!(server.arm_wakeup(&mut |fd| _ = set.add(fd, true, false)));
    };
    arm(&mut server, &mut set);
    assert_eq!(server.receive(&mut batch).unwrap(), 0);
    send(&mut client, &mut pool, 1, 1);
    assert_eq!(server.receive(&mut batch).unwrap(), 1);
    assert_eq!(set.wait(0).unwrap(), 1, "the bell still rings");
    // It sleeps again before it has looked once more.
    arm(&mut server, &mut set);
    assert_eq!(server.receive(&mut batch).unwrap(), 0);
    assert_eq!(set.wait(0).unwrap(), 0, "the ringing was for a packet that was received");
    send(&mut client, &mut pool, 1, 2);
    assert_eq!(set.wait(PATIENCE.as_nanos() as u64).unwrap(), 1);
    assert_eq!(server.receive(&mut batch).unwrap(), 1);
    // It looks once more: it is awake then, and its peer need not ring.
    assert_eq!(server.receive(&mut batch).unwrap(), 0);
    send(&mut client, &mut pool, 1, 3);
    assert_eq!(set.wait(0).unwrap(), 0);
    assert_eq!(server.receive(&mut batch).unwrap(), 1);
    assert_eq!(batch.iter().map(|packet| packet[63]).collect::<Vec<_>>(), [1, 2, 3]);
}

/// A sleeper looks again by itself now and then, because a peer may look at whether it has to ring before its packet is there. Each look
/// comes later than the one before.
#[test]
fn a_sleeper_looks_again_though_nobody_rings() {
    let (socket, mut pool) = (Socket::new(), pool());
    let (mut server, mut client) = (socket.open("", &pool).unwrap(), socket.open(",role=client", &pool).unwrap());
    connected(&mut [&mut server, &mut client]).unwrap();
    let mut batch = Batch::new(&pool, 8);
    assert_eq!(server.next_deadline_ns(), None, "who is awake looks all the time");
    let mut pauses_ns = Vec::new();
    assert!(server.arm_wakeup(&mut |_| ()));
    for _ in 0..3 {
        assert_eq!(server.receive(&mut batch).unwrap(), 0);
        let due_ns = server.next_deadline_ns().unwrap();
        pauses_ns.push(due_ns - clock::now_ns());
        clock::sleep_until_ns(due_ns);
    }
    assert!(pauses_ns.is_sorted() && pauses_ns[0] <= 10_000_000 && pauses_ns[2] > 10_000_000, "{pauses_ns:?}");
    send(&mut client, &mut pool, 1, 1);
    assert_eq!(server.receive(&mut batch).unwrap(), 1);
    assert_eq!(server.receive(&mut batch).unwrap(), 0);
    assert_eq!(server.next_deadline_ns(), None);
}

/// The pages of a client's memory are mapped before packets come: of each mapping of it in this process all bytes are resident.
#[test]
fn a_server_maps_the_memory_of_its_client_before_packets_come() {
    let (socket, pool) = (Socket::new(), pool());
    let size = ",role=client,slots=512,buffer=1984";
    let (mut server, mut client) = (socket.open("", &pool).unwrap(), socket.open(size, &pool).unwrap());
    connected(&mut [&mut server, &mut client]).unwrap();
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let kilobytes = |line: &str| line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0u64);
    let mut lines = maps.lines();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if line.contains("linerate memif") {
            let mut next = |key: &str| lines.find(|line| line.starts_with(key)).map_or(0, kilobytes);
            found.push((next("Size:"), next("Rss:")));
        }
    }
    // 512 buffers of 1,984 bytes (31 lines, which is odd) in each direction, behind two rings of 512 descriptors of 16 bytes and a line.
    let ours: Vec<_> = found.into_iter().filter(|(size, _)| (1984..2048).contains(size)).collect();
    assert_eq!(ours.len(), 2, "{maps}");
    assert!(ours.iter().all(|(size, resident)| size == resident), "{ours:?}");
}
