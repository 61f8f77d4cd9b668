//! Streams that take turns under one run of numbers.

use linerate_gen::{Arrival, CatchUp, Next, Schedule, Sender, SenderPlan, Signature, Sizes, StreamPlan, StreamSpec};
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Caps, Interest, Port, PortError, Readiness, Stats};
use linerate_wire::{Stack, ethernet, ipv4, ipv6, udp};

/// Notes the EtherType, the length and the number of each packet. Keeps each second call's frames until the next one.
struct Sink {
    pool: Pool,
    caps: Caps,
    held: Batch,
    calls: usize,
    got: Vec<([u8; 2], usize, u64)>,
}

impl Port for Sink {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, _batch: &mut Batch) -> Result<usize, PortError> {
        Ok(0)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let count = batch.len();
        for packet in batch.iter() {
            let signature = Signature::read(packet).expect("signed");
            self.got.push(([packet[12], packet[13]], packet.len(), signature.sequence));
        }
        let held = self.held.len();
        self.pool.free_front(&mut self.held, held);
        self.calls += 1;
        if self.calls.is_multiple_of(2) {
            self.pool.free_front(batch, count);
        } else {
            batch.move_to(&mut self.held, count);
        }
        Ok(count)
    }

    fn wait(&mut self, _interest: Interest, _timeout_ns: u64) -> Result<Readiness, PortError> {
        Ok(Readiness::Closed)
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        Ok(Stats::default())
    }
}

fn plans(lens: &[usize]) -> Vec<(StreamPlan, u32)> {
    let plan = |stack: Stack| {
        let stack = stack.with(udp::Header::default());
        let sizes = if lens.len() == 1 { Sizes::One } else { Sizes::InTurn { count: lens.len() } };
        StreamSpec { stack, lens: lens.to_vec(), sizes, rules: Vec::new(), signature: Some(7) }.plan().expect("a plan")
    };
    let of_ipv4 = Stack::new().with(ethernet::Header::default()).with(ipv4::Header::default());
    let of_ipv6 = Stack::new().with(ethernet::Header::default()).with(ipv6::Header::default());
    vec![(plan(of_ipv4), 1), (plan(of_ipv6), 1)]
}

#[test]
fn the_numbers_are_one_run_and_the_streams_alternate() {
    for (lens, frames) in [(&[78][..], 1024), (&[78, 90, 100], 1024)] {
        let mut pool = Pool::new(PoolConfig { frames, ..PoolConfig::default() }).expect("a pool");
        let schedule = Schedule {
            rate_pps: None,
            arrival: Arrival::Constant,
            packets: Some(1_001),
            duration_ns: None,
            catch_up: CatchUp::Burst,
        };
        let plan = SenderPlan { streams: plans(lens), schedule, batch: 101, first_sequence: 5, in_turn: true };
        let held = Batch::new(&pool, 256);
        let mut sink = Sink { pool: pool.clone(), caps: Caps::default(), held, calls: 0, got: Vec::new() };
        let mut sender = Sender::new(&plan, &pool, 0);
        for now_ns in 0.. {
            match sender.poll(now_ns, &mut sink).expect("sent") {
                Next::Done => break,
                Next::NoFrames => {
                    let held = sink.held.len();
                    pool.free_front(&mut sink.held, held);
                }
                Next::At(_) | Next::PortFull => {}
            }
        }
        let report = sender.finish(1 << 40);
        assert_eq!((report.sent, report.sent_by_stream), (1_001, vec![501, 500]));
        for (at, (ethertype, len, sequence)) in sink.got.iter().enumerate() {
            let expected = if at % 2 == 0 { [0x08, 0x00] } else { [0x86, 0xdd] };
            assert_eq!((*ethertype, *len, *sequence), (expected, lens[at / 2 % lens.len()], at as u64 + 5));
        }
        drop(sink);
        assert!(pool.is_whole());
    }
}
