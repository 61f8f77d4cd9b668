//! Stacks that share addresses, one a core: connections are divided among them, and everything that belongs to one reaches its owner.

use super::common;

use std::collections::HashSet;

use common::{A, A6, B, B6, Recorder, address, config};
use linerate_ip::IpConfig;
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Context, Datapath, PortIndex};
use linerate_tcp::{
    Conn, ConnectOptions, Io, ListenOptions, Shard, ShardPort, Sharded, ShardsDone, Stack, StackConfig,
};

/// A host of several shards, of which the first `queues` have a queue of the device, and a peer of one stack.
struct Link {
    pool: Pool,
    shards: Vec<Sharded<Recorder>>,
    peer: Stack<Recorder>,
    queues: usize,
    now_ns: u64,
    /// Which queue a frame arrives by: devices know nothing of shards.
    turn: usize,
    /// Frames that the host sent.
    sent: Vec<Vec<u8>>,
}

fn shard_config(number: u16, of: u16) -> StackConfig {
    let shard = Shard::new(number, of).unwrap();
    let secret = [10 + number as u8; 16];
    let whole = config(1);
    StackConfig { ip: IpConfig { shard, secret, ..whole.ip.clone() }, secret, ..whole }
}

impl Link {
    fn new(of: u16, queues: usize) -> Link {
        let pool = Pool::new(PoolConfig { frames: 16_384, frame_size: 2048 }).unwrap();
        let done = ShardsDone::default();
        let recorder = || Recorder { echoes: true, closes: true, ..Recorder::default() };
        let shard = |number| {
            let stack = Stack::new(shard_config(number, of), &pool, recorder()).unwrap();
            Sharded::new(stack, Shard::new(number, of).unwrap(), done.clone(), &pool)
        };
        let mut shards: Vec<_> = (0..of).map(shard).collect();
        for (number, shard) in shards.iter_mut().enumerate() {
            // In the order in which a program attaches them: what receives, the port, what sends.
            assert!(shard.bind(ShardPort::FromShards).is_some());
            if number < queues {
                assert!(shard.bind(ShardPort::ForPort).is_some());
                assert!(shard.bind(ShardPort::Port).is_some());
                assert!(
                    shard.bind(ShardPort::Port).is_none() && shard.bind(ShardPort::ToPort).is_none(),
                    "one way out"
                );
                for other in (0..of).filter(|other| usize::from(*other) != number) {
                    assert!(shard.bind(ShardPort::ToShard(other)).is_some());
                }
            } else {
                assert!(shard.bind(ShardPort::ToPort).is_some());
            }
        }
        let peer = Stack::new(config(2), &pool, Recorder::default()).unwrap();
        Link { pool, shards, peer, queues, now_ns: 1_000_000_000, turn: 0, sent: Vec::new() }
    }

    /// Moves what leaves by one port of a shard into another stack.
    fn ring(&mut self, from: usize, out: u16, to: usize, port: u16) -> bool {
        let mut batch = Batch::new(&self.pool, 64);
        let Some(output) = self.shards[from].output(PortIndex(out)) else { return false };
        let count = output.len().min(64);
        output.move_to(&mut batch, count);
        if count > 0 {
            let (now_ns, pool) = (self.now_ns, &mut self.pool);
            self.shards[to].input(PortIndex(port), &mut batch, &mut Context { now_ns, pool, ports: &mut () });
            assert!(batch.is_empty());
        }
        count > 0
    }

    /// Frames arrive at the host's queues, at each in turn: one by one, and next time all in one batch.
    fn arrive(&mut self, frames: &[Vec<u8>]) {
        let together = if self.turn / self.queues % 2 == 1 { frames.len().max(1) } else { 1 };
        for frames in frames.chunks(together) {
            let mut batch = Batch::new(&self.pool, frames.len());
            for (at, frame) in frames.iter().enumerate() {
                assert_eq!(self.pool.alloc(&mut batch, 1, frame.len()), 1);
                batch.packet_mut(at).copy_from_slice(frame);
            }
            let queue = self.turn % self.queues;
            let port = self.shards[queue].port().unwrap();
            let (now_ns, pool) = (self.now_ns, &mut self.pool);
            self.shards[queue].input(port, &mut batch, &mut Context { now_ns, pool, ports: &mut () });
        }
        self.turn += 1;
        self.hand_over();
    }

    /// All rings, until they are empty, then the queues of the device.
    fn hand_over(&mut self) {
        let of = self.shards.len();
        loop {
            let mut moved = false;
            for from in 0..of {
                if from >= self.queues {
                    moved |= self.ring(from, 1, from % self.queues, 1);
                    continue;
                }
                for (at, to) in (0..of).filter(|to| *to != from).enumerate() {
                    moved |= self.ring(from, 3 + at as u16, to, 0);
                }
            }
            if !moved {
                break;
            }
        }
        for queue in 0..self.queues {
            let port = self.shards[queue].port().unwrap();
            let mut batch = Batch::new(&self.pool, 2048);
            let output = self.shards[queue].output(port).unwrap();
            output.move_to(&mut batch, 2048);
            self.sent.extend(batch.iter().map(<[u8]>::to_vec));
            self.pool.free(&mut batch);
        }
    }

    /// What the host has sent since the last call reaches the peer, and the peer's answers are returned.
    fn reach_peer(&mut self) -> Vec<Vec<u8>> {
        let (now_ns, pool) = (self.now_ns, &mut self.pool);
        for frame in std::mem::take(&mut self.sent) {
            let mut batch = Batch::new(pool, 1);
            assert_eq!(pool.alloc(&mut batch, 1, frame.len()), 1);
            batch.packet_mut(0).copy_from_slice(&frame);
            self.peer.input(PortIndex(0), &mut batch, &mut Context { now_ns, pool, ports: &mut () });
        }
        let mut batch = Batch::new(pool, 2048);
        self.peer.output(PortIndex(0)).unwrap().move_to(&mut batch, 2048);
        let frames = batch.iter().map(<[u8]>::to_vec).collect();
        pool.free(&mut batch);
        frames
    }

    /// Until nobody has anything to say; then some time passes.
    fn settle(&mut self) {
        for _ in 0..300 {
            self.hand_over();
            let answers = self.reach_peer();
            self.arrive(&answers);
            if answers.is_empty() && self.sent.is_empty() {
                return;
            }
        }
        panic!("they never stop");
    }

    fn run(&mut self, ms: u64) {
        let end_ns = self.now_ns + ms * 1_000_000;
        while self.now_ns < end_ns {
            self.settle();
            self.now_ns += 1_000_000;
            let (now_ns, pool) = (self.now_ns, &mut self.pool);
            for shard in &mut self.shards {
                if shard.next_deadline_ns() <= now_ns {
                    shard.tick(&mut Context { now_ns, pool, ports: &mut () });
                }
            }
            if self.peer.next_deadline_ns() <= now_ns {
                self.peer.tick(&mut Context { now_ns, pool, ports: &mut () });
            }
        }
        self.settle();
    }

    fn each<R>(&mut self, work: impl Fn(&mut Recorder, &mut Io<'_>) -> R) -> Vec<R> {
        let now_ns = self.now_ns;
        self.shards.iter_mut().map(|shard| shard.with(now_ns, &work)).collect()
    }

    /// Nothing is left, and no frame is lost.
    fn assert_clean(self) {
        let Link { pool, shards, peer, .. } = self;
        drop((shards, peer));
        assert!(pool.is_whole());
    }
}

fn pattern(seed: usize) -> Vec<u8> {
    (0..5000).map(|at| (at * 7 + seed * 13 + (at >> 8)) as u8).collect()
}

/// Servers on every shard; connections of the peer, whose bytes come back in order.
#[test]
fn a_server_has_connections_on_all_shards() {
    for (of, queues) in [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (5, 5)] {
        let mut link = Link::new(of, queues);
        for listening in
            link.each(|_, io| [A, A6].map(|own| io.listen(address(own, 80), ListenOptions::default()).is_ok()))
        {
            assert_eq!(listening, [true, true]);
        }
        let now_ns = link.now_ns;
        let conns: Vec<Conn> = (0..100)
            .map(|number| {
                let remote = address(if number % 2 == 0 { A } else { A6 }, 80);
                link.peer.with(now_ns, |_, io| io.connect(ConnectOptions::new(remote))).unwrap()
            })
            .collect();
        link.run(50);
        for (seed, conn) in conns.iter().enumerate() {
            let bytes = pattern(seed);
            assert_eq!(link.peer.with(link.now_ns, |_, io| io.send(*conn, &bytes)), bytes.len());
        }
        link.run(300);
        for (seed, conn) in conns.iter().enumerate() {
            assert_eq!(link.peer.app().data[conn], pattern(seed), "{of} shards, {queues} queues");
        }
        let standing = link.each(|_, io| io.connections());
        assert_eq!(standing.iter().sum::<usize>(), 100);
        let least = 100 / usize::from(of) / 2;
        assert!(standing.iter().all(|connections| *connections >= least), "{standing:?}");
        for conn in conns {
            link.peer.with(link.now_ns, |_, io| io.close(conn));
        }
        link.run(100);
        assert_eq!(link.each(|_, io| io.connections()).iter().sum::<usize>(), 0);
        let resets = link.each(|_, io| io.counters().out_rsts);
        assert_eq!(resets.iter().sum::<u64>(), 0, "a segment came to a shard that does not know it");
        link.assert_clean();
    }
}

/// Each shard begins connections from ports whose answers come to it, over both families, and by UDP.
#[test]
fn answers_come_to_the_shard_that_asked() {
    for (of, queues) in [(2, 1), (2, 2), (3, 2)] {
        let mut link = Link::new(of, queues);
        let now_ns = link.now_ns;
        for own in [B, B6] {
            link.peer.with(now_ns, |_, io| io.listen(address(own, 80), ListenOptions::default())).unwrap();
            link.peer.with(now_ns, |_, io| io.udp_open(Some(address(own, 7)), None)).unwrap();
        }
        link.peer.app_mut().echoes = true;
        let begun = link.each(|recorder, io| {
            recorder.echoes = false;
            for number in 0..60 {
                let own = if number % 2 == 0 { B } else { B6 };
                io.connect(ConnectOptions::new(address(own, 80))).unwrap();
                let socket = io.udp_open(None, Some(address(own, 7))).unwrap();
                io.udp_send(socket, None, None, b"x").unwrap();
            }
        });
        assert_eq!(begun.len(), usize::from(of));
        link.run(100);
        let told = link.each(|recorder, io| (recorder.connections().len(), recorder.datagrams.len(), io.connections()));
        assert_eq!(told, vec![(60, 60, 60); usize::from(of)]);
        let ports: HashSet<_> = (link.peer.app().connections().into_iter())
            .map(|conn| link.peer.with(now_ns, |_, io| io.info(conn)).map(|info| info.remote))
            .collect();
        assert_eq!(ports.len(), 60 * usize::from(of), "no port is used twice");
        link.assert_clean();
    }
}

/// The internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    (!(fold(fold(words.sum())) as u16)).to_be_bytes()
}

/// A packet of the peer to the host.
fn frame(protocol: u8, identification: u16, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let len = (20 + payload.len()) as u16;
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 198, 18, 0, 2, 198, 18, 0, 1];
    ip[2..4].copy_from_slice(&len.to_be_bytes());
    ip[4..6].copy_from_slice(&identification.to_be_bytes());
    ip[6..8].copy_from_slice(&fragment.to_be_bytes());
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum);
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &ip, payload].concat()
}

fn icmp(kind: u8, code: u8, word: u32, quoted: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, code, 0, 0][..], &word.to_be_bytes(), quoted].concat();
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum);
    frame(1, 1, 0, &message)
}

#[test]
fn errors_reach_the_connection_that_they_are_about() {
    for queues in [1, 2] {
        let mut link = Link::new(2, queues);
        link.each(|recorder, io| {
            recorder.echoes = false;
            io.listen(address(A, 80), ListenOptions::default()).unwrap();
        });
        let now_ns = link.now_ns;
        for _ in 0..20 {
            link.peer.with(now_ns, |_, io| io.connect(ConnectOptions::new(address(A, 80)))).unwrap();
        }
        link.run(50);
        // Each connection has a long segment on the way, about which a router on the way complains.
        link.each(|recorder, io| {
            for conn in recorder.connections() {
                assert_eq!(io.send(conn, &[7; 1400]), 1400);
            }
        });
        link.hand_over();
        let segments = std::mem::take(&mut link.sent);
        assert_eq!(segments.len(), 20);
        let errors: Vec<_> = segments.iter().map(|segment| icmp(3, 4, 700, &segment[14..42])).collect();
        link.arrive(&errors);
        link.run(1000);
        let mss = link.each(|recorder, io| {
            let mss = |conn: &Conn| io.info(*conn).unwrap().mss;
            recorder.connections().iter().map(mss).collect::<Vec<_>>()
        });
        assert!(mss.iter().all(|of_shard| of_shard.len() >= 5), "{mss:?}");
        assert!(mss.iter().flatten().all(|mss| *mss <= 700 - 40), "{mss:?}");
        assert!(link.peer.app().data.values().all(|data| data.len() == 1400));
        link.assert_clean();
    }
}

/// What belongs to no connection is answered once, and fragments are put together once for their owner, whatever else comes.
#[test]
fn one_shard_answers_for_all_and_hostile_packets_do_no_harm() {
    for queues in [1, 3] {
        let mut link = Link::new(3, queues);
        link.each(|_, io| {
            io.listen(address(A, 80), ListenOptions::default()).unwrap();
            [A, A6].map(|own| io.udp_open(Some(address(own, 7)), None).unwrap())
        });
        link.run(10);
        // An ARP request, by which the host learns who asks.
        let arp = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 198, 18, 0, 2, 0, 0, 0, 0, 0, 0, 198, 18, 0, 1];
        link.arrive(&[[&[0xff; 6][..], &[2, 0, 0, 0, 0, 2, 8, 6], &arp].concat()]);
        assert_eq!(link.sent.len(), 1, "a question has one answer");
        link.sent.clear();
        // Whole pings and pings in fragments.
        let ping = |len: usize| {
            let mut message = [&[8, 0, 0, 0, 0, 1, 0, 1][..], &vec![9; len]].concat();
            let sum = checksum(&message);
            message[2..4].copy_from_slice(&sum);
            message
        };
        link.arrive(&[frame(1, 5, 0, &ping(100))]);
        assert_eq!(link.sent.len(), 1, "an echo is answered once");
        link.sent.clear();
        let long = ping(3000);
        link.arrive(&[
            frame(1, 6, 0x2000, &long[..1480]),
            frame(1, 6, 0x2000 | 185, &long[1480..2960]),
            frame(1, 6, 370, &long[2960..]),
        ]);
        assert_eq!(link.sent.len(), 3, "one answer, in three fragments");
        link.sent.clear();
        // Datagrams in fragments, of many senders.
        // Short ones first, by which each shard finds the neighbour.
        for number in 0..60 {
            let own = if number % 2 == 0 { A } else { A6 };
            let len = if number < 30 { 1 } else { 4000 };
            link.peer.with(link.now_ns, |_, io| {
                let socket = io.udp_open(None, Some(address(own, 7))).unwrap();
                io.udp_send(socket, None, None, &[number; 4000][..len]).unwrap();
            });
            link.run(2);
        }
        link.peer.app_mut().datagrams.retain(|(_, len)| *len > 1);
        link.each(|recorder, _| recorder.datagrams.retain(|(_, len)| *len > 1));
        assert_eq!(link.peer.app().datagrams.iter().map(|(_, len)| *len).collect::<Vec<_>>(), [4000; 30]);
        let taken = link.each(|recorder, _| recorder.datagrams.len());
        assert!(taken.iter().sum::<usize>() == 30 && taken.iter().all(|datagrams| *datagrams > 3), "{taken:?}");
        // First fragments without end, fragments that overlap, errors about errors and about nothing.
        let nonsense: Vec<u8> = (0..60).collect();
        let mut hostile = Vec::new();
        for number in 0..1500_u16 {
            hostile.push(frame(6, number, 0x2000 | 1, &nonsense[..56]));
            hostile.push(frame(17, number, 0x2000, &[&[0, 9, 0, 7][..], &nonsense, &nonsense, &[0; 4]].concat()));
            hostile.push(icmp(3, 4, 68, &nonsense[..number as usize % 60]));
            hostile.push(icmp(11, 1, 0, &icmp(3, 3, 0, &nonsense)[14..]));
        }
        for part in hostile.chunks(50) {
            link.arrive(part);
        }
        let answered = link.sent.len();
        assert!(answered < 100, "{answered} packets about nonsense");
        link.sent.clear();
        // A minute later each fragment is given up, of which a sender is told once at most.
        link.run(61_000);
        // A connection stands after all this.
        let conn = link.peer.with(link.now_ns, |_, io| io.connect(ConnectOptions::new(address(A, 80)))).unwrap();
        link.run(50);
        link.peer.with(link.now_ns, |_, io| io.send(conn, b"still here"));
        link.run(50);
        assert_eq!(link.peer.app().data[&conn], b"still here");
        link.assert_clean();
    }
}

/// A batch of all kinds of packets is divided as its packets are that come one by one.
#[test]
fn a_batch_is_divided_as_its_packets_are() {
    let announcement = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 198, 18, 0, 2, 0, 0, 0, 0, 0, 0, 198, 18, 0, 2];
    let announcement = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 2, 8, 6], &announcement].concat();
    let segment = |number: u16| frame(6, 1, 0, &[&number.to_be_bytes()[..], &[0, 80], &[0; 16]].concat());
    let datagram = |number: u16| frame(17, 1, 0, &[&number.to_be_bytes()[..], &[0, 7, 0, 9, 0, 0, 1]].concat());
    let mut frames: Vec<_> =
        (0..40).map(|number| if number % 5 == 4 { datagram(number) } else { segment(number) }).collect();
    frames.insert(7, announcement.clone());
    frames.insert(20, icmp(3, 4, 700, &segment(3)[14..42]));
    frames.push(announcement);
    frames.push(frame(6, 9, 0x2000, &[0; 24]));
    let mut counters = Vec::new();
    for is_whole in [false, true] {
        let mut link = Link::new(3, 1);
        link.turn = usize::from(is_whole);
        link.arrive(&frames);
        let of_first = link.shards[0].shard_counters();
        assert_eq!((of_first.arrived, of_first.lost), (44, 0));
        assert!(of_first.handed_over > 20 && of_first.handed_over < 44, "{of_first:?}");
        let taken = link.shards.iter().map(|shard| shard.shard_counters().taken_over).collect::<Vec<_>>();
        let seen = link.each(|_, io| (io.counters().in_segs, io.counters().in_errs));
        counters.push((of_first, taken, seen));
        link.assert_clean();
    }
    assert_eq!(counters[0], counters[1]);
}

/// Packets for a shard whose ring is full are counted, and others pass.
#[test]
fn a_full_ring_loses_and_counts() {
    let mut link = Link::new(2, 1);
    let port = link.shards[0].port().unwrap();
    let frames: Vec<_> =
        (0..4096_u16).map(|number| frame(6, 1, 0, &[&number.to_be_bytes()[..], &[0, 80], &[0; 16]].concat())).collect();
    for part in frames.chunks(64) {
        let mut batch = Batch::new(&link.pool, 64);
        assert_eq!(link.pool.alloc(&mut batch, part.len(), 54), part.len());
        for (at, frame) in part.iter().enumerate() {
            batch.packet_mut(at).copy_from_slice(frame);
        }
        let (now_ns, pool) = (link.now_ns, &mut link.pool);
        link.shards[0].input(port, &mut batch, &mut Context { now_ns, pool, ports: &mut () });
        assert!(batch.is_empty());
    }
    let counters = link.shards[0].shard_counters();
    assert_eq!((counters.arrived, counters.handed_over), (4096, 1024));
    assert!((900..1200).contains(&counters.lost), "{counters:?}");
    link.hand_over();
    assert_eq!(link.shards[1].shard_counters().taken_over, 1024);
    link.shards.iter_mut().for_each(|shard| {
        let (now_ns, pool) = (link.now_ns, &mut link.pool);
        (0..4).for_each(|index| shard.removed(PortIndex(index), &mut Context { now_ns, pool, ports: &mut () }));
        assert!(shard.port().is_none() && shard.bind(ShardPort::Port) == Some(PortIndex(0)), "numbers are free again");
    });
    link.assert_clean();
}
