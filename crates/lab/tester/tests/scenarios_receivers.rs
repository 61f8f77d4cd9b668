//! Receivers that are too slow or stand still: their own rows name the loss, and the ledger balances.

use super::support;

use std::time::Duration;

use linerate_ledger::attribution::PortRows;
use linerate_ledger::counters::CounterSources;
use linerate_ledger::ledger::{Ends, Ledger, close};
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::Port;
use linerate_report::{Counted, Loss};
use linerate_testbed::topology::{Topology, TopologySpec};
use linerate_testkit::or_skip;
use support::scenario::assert_named;
use support::{Datagram, RawSocket, built};

/// Sends bursts over a router to the port that `spec` names, which is emptied after each burst if `reads`, and else once at
/// the end.
fn trial(spec: &str, bursts: usize, burst: usize, reads: bool) -> Option<Ledger> {
    let topology = built(Topology::router(&TopologySpec::default()))?;
    let pool = Pool::new(PoolConfig { frames: 16_384, ..PoolConfig::default() }).expect("pool");
    let opened = topology.receiver.namespace.run(|| linerate_ports::open(spec, &pool)).expect("enter");
    let mut port = or_skip("no port", opened)?;
    let mut sources = CounterSources::open(&topology).expect("counters");
    let before = sources.snapshot().expect("snapshot");
    let generator = RawSocket::sender(&topology.generator);
    let frame = Datagram::default().frame(&topology);
    let mut delivered = 0;
    for _ in 0..bursts {
        for _ in 0..burst {
            generator.send(&frame).expect("send");
        }
        if reads {
            delivered += empty(port.as_mut(), &pool);
        }
    }
    let rest = sources.snapshot_at_rest(Duration::from_millis(50), Duration::from_secs(60));
    let (after, at_rest) = rest.expect("snapshot");
    assert!(at_rest, "the path came to rest");
    delivered += empty(port.as_mut(), &pool);
    let drops = port.stats().expect("totals").rx_drops;
    let receiver = drops.into_iter().map(|drops| Loss::new(drops.place, drops.cause, drops.packets)).collect();
    let sent = (bursts * burst) as u64;
    let counted = Counted { intended: sent, sent, delivered, ..Counted::default() };
    let ports = PortRows { receiver, ..PortRows::default() };
    Some(close(&Ends { counted, received: delivered }, Some(&after.since(&before)), &ports).expect("balances"))
}

/// Takes what is there. A block of a packet ring that is not full comes some milliseconds later.
fn empty(port: &mut dyn Port, pool: &Pool) -> u64 {
    let mut pool = pool.clone();
    let mut batch = Batch::with_times(&pool, 256);
    let mut taken = 0;
    let mut empty_turns = 0;
    while empty_turns < 10 {
        match port.receive(&mut batch).expect("receive") {
            0 => {
                empty_turns += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            count => {
                taken += count as u64;
                pool.free(&mut batch);
            }
        }
    }
    taken
}

#[test]
fn a_tiny_ring_of_a_packet_socket() {
    let Some(ledger) = trial("packet:lr-recv,ring=65536", 4, 4_000, true) else { return };
    assert_named(&ledger, &[("AF_PACKET ring", "ring full")]);
    assert!(ledger.account.delivered() > 0, "{ledger:?}");
}

#[test]
fn a_tiny_ring_of_af_xdp() {
    let Some(ledger) = trial("xdp:lr-recv,ring=64", 4, 4_000, true) else { return };
    assert_named(&ledger, &[("", "ring")]);
    assert!(ledger.account.delivered() > 0, "{ledger:?}");
}

#[test]
fn a_receiver_that_stands_still() {
    for spec in ["packet:lr-recv,ring=1048576", "xdp:lr-recv"] {
        let Some(ledger) = trial(spec, 1, 30_000, false) else { return };
        assert_named(&ledger, &[("", "ring")]);
    }
}
