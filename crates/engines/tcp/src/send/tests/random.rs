//! Random faults and random use, from seeds: every byte arrives, a deadline stands whenever something is in flight (`audit`), memory
//! comes back, and retransmissions stay in proportion to what was lost.

use proptest::prelude::*;

use super::path::{PathConfig, Simulation};
use super::receiver::ReceiverConfig;
use crate::Flags;
use crate::send::{Congestion, SendConfig};

fn paths() -> impl Strategy<Value = PathConfig> {
    let rate = prop_oneof![Just(0), Just(125_000), Just(1_250_000), Just(12_500_000)];
    let chance = || prop_oneof![3 => Just(0u32), 2 => 1..20u32, 1 => 20..200u32];
    (1..100u64, rate, prop_oneof![Just(20_000u64), Just(1 << 20)], chance(), chance(), chance(), chance(), any::<u64>())
        .prop_map(|(delay_ms, rate, queue, loss, ack_loss, reorder, copies, seed)| PathConfig {
            delay_ms,
            rate,
            queue,
            loss,
            ack_loss,
            reorder,
            copies,
            seed,
            marks: seed % 3 == 0,
            ..PathConfig::default()
        })
}

fn receivers() -> impl Strategy<Value = ReceiverConfig> {
    let window = prop_oneof![Just(3_000u32), Just(20_000), Just(16 << 20)];
    (any::<bool>(), any::<bool>(), any::<bool>(), prop_oneof![Just(0u64), Just(40), Just(200)], window).prop_map(
        |(sack, duplicate_sack, timestamps, ack_delay_ms, window)| ReceiverConfig {
            sack: sack || window % 2 == 0,
            duplicate_sack,
            timestamps,
            ack_delay_ms,
            window,
            takes_back: false,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_and_all_memory_comes_back(
        path in paths(),
        receiver in receivers(),
        writes in prop::collection::vec((1..20_000usize, 0..300u64), 1..20),
        reno in any::<bool>(),
        nodelay in any::<bool>(),
        ecn in any::<bool>(),
        sack in any::<bool>(),
    ) {
        let congestion = if reno { Congestion::NewReno } else { Congestion::Cubic };
        let config = SendConfig { congestion, budget_bytes: 4 << 20, ..SendConfig::default() };
        let mut simulation = Simulation::new(path, ReceiverConfig { sack, ..receiver }, config);
        simulation.handshake();
        simulation.tcb.flags.put(Flags::NODELAY, nodelay);
        simulation.tcb.flags.put(Flags::ECN, ecn);
        for (len, pause_ms) in writes {
            simulation.write(len);
            simulation.emit();
            simulation.run_ms(pause_ms);
        }
        simulation.close();
        simulation.emit();
        simulation.run_until_acknowledged();
        prop_assert!(simulation.receiver.fin && !simulation.gave_up);
        prop_assert_eq!(simulation.receiver.bytes, simulation.written + 2);
        simulation.finish();
    }
}

/// Without faults nothing is sent twice, whatever the delay and the use.
#[test]
fn nothing_is_sent_twice_without_a_fault() {
    for delay_ms in [0, 1, 10, 100, 400] {
        for (sack, timestamps) in [(true, true), (true, false), (false, false)] {
            for ack_delay_ms in [0, 40, 200] {
                let path = PathConfig { delay_ms, rate: 0, seed: delay_ms + 3, ..PathConfig::default() };
                let receiver = ReceiverConfig { sack, timestamps, ack_delay_ms, ..ReceiverConfig::default() };
                let mut simulation = Simulation::established(path, receiver, SendConfig::default());
                for len in [1, 100, 5_000, 1, 1_500, 2_200, 300_000] {
                    simulation.write(len);
                    simulation.emit();
                    simulation.run_ms(700);
                }
                simulation.run_until_acknowledged();
                let twice = simulation.sent.iter().filter(|(_, segment)| segment.retransmission).count();
                assert_eq!(twice, 0, "delay {delay_ms} ms, sack {sack}, ack delay {ack_delay_ms} ms");
                assert_eq!(simulation.receiver.duplicates, 0);
                simulation.finish();
            }
        }
    }
}

/// Under loss alone, few segments are sent that had arrived.
#[test]
fn what_arrived_is_rarely_sent_again() {
    for loss in [1, 10, 50] {
        let path = PathConfig { loss, seed: 77 + u64::from(loss), ..PathConfig::default() };
        let mut simulation = Simulation::established(path, ReceiverConfig::default(), SendConfig::default());
        simulation.keep_log = false;
        simulation.transfer(3_000_000);
        let segments = simulation.sent_count;
        assert!(
            simulation.receiver.duplicates * 100 <= segments,
            "{} of {segments} were not needed at {loss} per mille",
            simulation.receiver.duplicates
        );
        simulation.finish();
    }
}
