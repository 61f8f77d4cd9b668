//! How ports share a worker's time, on a clock that goes on with the descriptors that ports look at.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Caps, Context, Datapath, Interest, Port, PortError, PortIndex, Readiness, Stats};
use linerate_worker::{Config, Role, Worker};

thread_local!(static NOW_NS: Cell<u64> = const { Cell::new(0) });

fn now_ns() -> u64 {
    NOW_NS.get()
}

/// Time passes in the calling thread.
fn work(ns: u64) {
    NOW_NS.set(NOW_NS.get() + ns);
}

/// A packet of a peer that behaves is one descriptor, and costs so much with all that follows.
const PACKET_NS: u64 = 36;
/// A descriptor of a peer that has its packets in pieces.
const PIECE_NS: u64 = 40;
/// A look at a port that has nothing.
const LOOK_NS: u64 = 10;

/// What a peer does.
#[derive(Clone, Copy, Debug)]
enum Peer {
    /// It always has packets of one descriptor.
    Plain,
    /// So many packets come in a microsecond.
    Slow(u64),
    /// Each call brings so many packets and looks at so many descriptors.
    Pieces(usize, u64),
}

struct Descriptors {
    peer: Peer,
    pool: Pool,
    caps: Caps,
    /// Packets that it brought.
    packets: Arc<AtomicU64>,
    /// Descriptors that sending to it takes, for each packet.
    sending: u64,
}

impl Port for Descriptors {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let brought = self.packets.load(Ordering::Relaxed);
        let (packets, ns) = match self.peer {
            Peer::Plain => (batch.room(), PACKET_NS * batch.room() as u64),
            Peer::Slow(rate) => {
                let came = (now_ns() * rate / 1000).saturating_sub(brought).min(batch.room() as u64);
                (came as usize, PACKET_NS * came)
            }
            Peer::Pieces(packets, looks) => (packets, PIECE_NS * looks),
        };
        work(LOOK_NS + ns);
        assert_eq!(self.pool.alloc(batch, packets, 60), packets);
        self.packets.fetch_add(packets as u64, Ordering::Relaxed);
        Ok(packets)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        // One call looks at 512 descriptors at most.
        let packets = if self.sending == 0 { batch.len() } else { batch.len().min(512 / self.sending as usize) };
        work(PIECE_NS * if packets < batch.len() { 512 } else { self.sending * packets as u64 });
        self.pool.free_front(batch, packets);
        Ok(packets)
    }

    fn wait(&mut self, _: Interest, _: u64) -> Result<Readiness, PortError> {
        Ok(Readiness::TimedOut)
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        Ok(Stats::default())
    }
}

/// Packets of port 0 leave by the last port, if they leave; those of others come to their end.
struct Sink {
    queue: Batch,
    to: Option<PortIndex>,
}

impl Datapath for Sink {
    fn input(&mut self, from: PortIndex, batch: &mut Batch, context: &mut Context<'_>) {
        if from.0 == 0 && self.to.is_some() {
            batch.move_to(&mut self.queue, batch.len());
        }
        context.pool.free(batch);
    }

    fn output(&mut self, to: PortIndex) -> Option<&mut Batch> {
        (self.to == Some(to)).then_some(&mut self.queue)
    }

    fn tx_done(&mut self, _: PortIndex, _: usize, _: u64) {}

    fn waiting(&self, to: PortIndex) -> u64 {
        if self.to == Some(to) { self.queue.len() as u64 } else { 0 }
    }

    fn too_long(&mut self, _: PortIndex, _: usize, _: &mut Context<'_>) {}
}

/// Packets a millisecond that each port brings in 30 ms; sending to the last one takes so many descriptors a packet.
fn rates(peers: &[Peer], sending: u64) -> Vec<f64> {
    let pool = Pool::new(PoolConfig { frames: 1024, ..PoolConfig::default() }).unwrap();
    NOW_NS.set(1);
    let last = PortIndex(peers.len() as u16 - 1);
    let datapath = Sink { queue: Batch::new(&pool, 256), to: (sending > 0).then_some(last) };
    let config = Config { clock: now_ns, ..Config::default() };
    let (mut worker, _) = Worker::new(datapath, &pool, config, Box::new(|_| {})).unwrap();
    let counts: Vec<_> = peers.iter().map(|_| Arc::new(AtomicU64::new(0))).collect();
    for (place, (peer, packets)) in peers.iter().zip(&counts).enumerate() {
        let caps = Caps { name: "peer".into(), receives: true, transmits: true, frags_max: 1, ..Caps::default() };
        let sending = if place == usize::from(last.0) { sending } else { 0 };
        let port = Descriptors { peer: *peer, pool: pool.clone(), caps, packets: Arc::clone(packets), sending };
        worker.attach(Box::new(port), &pool, Role::default()).unwrap();
    }
    let end_ns = 30_000_000;
    while now_ns() < end_ns {
        work(LOOK_NS);
        worker.round(now_ns());
    }
    counts.iter().map(|count| count.load(Ordering::Relaxed) as f64 / (now_ns() / 1_000_000) as f64).collect()
}

#[test]
fn a_port_whose_packets_cost_more_takes_no_more_time() {
    use Peer::{Pieces, Plain};
    let beside_plain = rates(&[Plain; 3], 0)[0];
    // 256 pieces a packet; packets that are all refused; four descriptors each; a call as long as a few packets.
    for hostile in [Pieces(2, 512), Pieces(0, 512), Pieces(1, 767), Pieces(64, 256), Pieces(1, 100), Pieces(40, 320)] {
        let beside = rates(&[Plain, Plain, hostile], 0);
        let kept = beside[0].min(beside[1]) / beside_plain;
        assert!(kept > 0.97, "{hostile:?}: {kept:.2} of {beside_plain:.0} packets a ms");
        // It gets its own share.
        assert!(kept < 1.1, "{hostile:?} is starved: {kept:.2}");
    }
    // Each of many gets the same.
    let kept = rates(&[Plain, Pieces(2, 512), Pieces(0, 300), Pieces(64, 256)], 0)[0] / rates(&[Plain; 4], 0)[0];
    assert!((0.97..1.1).contains(&kept), "{kept:.2}");
}

#[test]
fn time_that_others_do_not_want_is_not_lost() {
    use Peer::{Pieces, Plain, Slow};
    let alone = rates(&[Pieces(2, 512), Slow(0), Slow(0)], 0)[0];
    assert!(alone > 0.97 * 2.0 * 1e6 / (512 * PIECE_NS) as f64, "{alone}");
    // A third of the core is wanted by who comes now and then: it gets that, and the hostile one the rest.
    let beside = rates(&[Pieces(2, 512), Slow(9)], 0);
    assert!(beside[1] > 0.99 * 9_000.0, "{beside:?}");
    assert!(beside[0] / alone > 0.6, "{:.2}", beside[0] / alone);
    // Who had nothing for long does not keep the others waiting afterwards.
    assert!(rates(&[Plain, Slow(1), Plain], 0)[0] > 0.45 * 1e6 / PACKET_NS as f64);
}

#[test]
fn a_port_that_packets_are_hard_to_send_to_takes_no_more_time() {
    let peers = [Peer::Plain; 3];
    // Packets of port 0 go to port 2, each of them over 250 buffers.
    let kept = rates(&peers, 250)[1] / rates(&peers, 1)[1];
    assert!(kept > 0.7, "{kept:.2}");
    // Easy ones leave as they come.
    assert!(rates(&peers, 2)[0] > 0.9 * rates(&peers, 2)[1]);
}
