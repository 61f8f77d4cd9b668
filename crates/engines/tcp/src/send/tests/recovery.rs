//! Loss recovery, case by case.

use super::path::{PathConfig, Simulation};
use super::receiver::{ReceiverConfig, Segment};
use crate::Flags;
use crate::send::{self, Phase, SendConfig};

const SEGMENT: usize = 1_448;

fn quick() -> PathConfig {
    PathConfig { delay_ms: 10, rate: 0, ..PathConfig::default() }
}

fn prompt() -> ReceiverConfig {
    ReceiverConfig { ack_delay_ms: 0, ..ReceiverConfig::default() }
}

/// Ten segments leave at once, and `drops` decides; segments of the handshake are numbers 0.
fn ten(receiver: ReceiverConfig, drops: fn(&Segment, u64) -> bool) -> Simulation {
    let mut simulation = Simulation::established(quick(), receiver, SendConfig::default());
    simulation.drops = drops;
    simulation.write(10 * SEGMENT);
    simulation.emit();
    assert_eq!(simulation.sent.len(), 10);
    simulation
}

fn retransmitted(simulation: &Simulation) -> Vec<u32> {
    let first = simulation.sent[0].1.seq;
    let again = simulation.sent.iter().filter(|(_, segment)| segment.retransmission);
    again.map(|(_, segment)| (segment.seq - first) / SEGMENT as u32).collect()
}

#[test]
fn a_hole_is_repaired_in_one_round_trip() {
    for receiver in
        [prompt(), ReceiverConfig { timestamps: false, ..prompt() }, ReceiverConfig { sack: false, ..prompt() }]
    {
        let mut simulation = ten(receiver, |_, number| number == 3);
        simulation.run_until_acknowledged();
        assert_eq!(retransmitted(&simulation), [2], "{receiver:?}");
        // One round trip until the loss shows, another for the repair.
        assert!(simulation.now_ms() < 65, "{} ms", simulation.now_ms());
        let counters = simulation.memory.counters();
        assert_eq!((counters.recoveries, counters.retransmitted_fast, counters.timeouts), (1, 1, 0));
        assert!(
            simulation.tcb.ssthresh < 11 * SEGMENT as u32
                && simulation.tcb.cwnd <= simulation.tcb.ssthresh + 2 * SEGMENT as u32
        );
        simulation.finish();
    }
}

#[test]
fn several_holes_are_repaired_together_with_sack() {
    let mut simulation = ten(prompt(), |_, number| [2, 4, 6].contains(&number));
    simulation.run_until_acknowledged();
    assert_eq!(retransmitted(&simulation), [1, 3, 5]);
    assert!(simulation.now_ms() < 85, "{} ms", simulation.now_ms());
    simulation.finish();
}

#[test]
fn several_holes_take_a_round_trip_each_without_sack() {
    let mut simulation = ten(ReceiverConfig { sack: false, ..prompt() }, |_, number| [2, 4, 6].contains(&number));
    simulation.run_until_acknowledged();
    assert_eq!(retransmitted(&simulation), [1, 3, 5]);
    assert_eq!(simulation.memory.counters().timeouts, 0);
    assert!((90..120).contains(&simulation.now_ms()), "{} ms", simulation.now_ms());
    simulation.finish();
}

#[test]
fn a_lost_retransmission_is_found_by_rack() {
    let mut simulation = Simulation::established(quick(), prompt(), SendConfig::default());
    simulation.drops = |segment, number| number == 2 || (segment.retransmission && number < 16);
    simulation.write(60 * SEGMENT);
    simulation.emit();
    simulation.run_until_acknowledged();
    let again = retransmitted(&simulation);
    assert!(again.len() >= 2 && again.iter().all(|place| *place == 1), "{again:?}");
    assert_eq!(simulation.memory.counters().timeouts, 0);
    simulation.finish();
}

#[test]
fn a_lost_tail_is_probed_for_and_repaired_without_a_timeout() {
    let mut simulation = ten(prompt(), |segment, number| !segment.retransmission && number >= 8);
    simulation.run_until_acknowledged();
    let counters = *simulation.memory.counters();
    assert_eq!((counters.timeouts, counters.retransmitted_probe), (0, 1), "{counters:?}");
    assert_eq!(retransmitted(&simulation)[0], 9, "the probe is the last segment");
    assert!(simulation.now_ms() < 150, "{} ms", simulation.now_ms());
    simulation.finish();
}

#[test]
fn a_probe_that_repairs_the_last_segment_counts_as_a_loss() {
    let mut simulation = ten(prompt(), |segment, number| !segment.retransmission && number == 10);
    simulation.run_until_acknowledged();
    simulation.write(SEGMENT);
    simulation.emit();
    simulation.run_until_acknowledged();
    let counters = simulation.memory.counters();
    assert_eq!((counters.timeouts, counters.retransmitted_probe, counters.probe_losses), (0, 1, 1));
    assert!(simulation.tcb.ssthresh < 20 * SEGMENT as u32);
    simulation.finish();
}

#[test]
fn a_probe_that_was_not_needed_is_no_loss() {
    // The last acknowledgments are lost, so the probe is answered by a duplicate report.
    let mut simulation = ten(prompt(), |_, _| false);
    simulation.run_ms(15);
    simulation.path.ack_loss = 1_000;
    simulation.run_ms(15);
    simulation.path.ack_loss = 0;
    simulation.run_until_acknowledged();
    simulation.write(SEGMENT);
    simulation.emit();
    simulation.run_until_acknowledged();
    let counters = simulation.memory.counters();
    assert_eq!((counters.probe_losses, counters.timeouts, simulation.tcb.ssthresh), (0, 0, u32::MAX), "{counters:?}");
    simulation.finish();
}

#[test]
fn a_silent_peer_is_tried_ever_less_often_and_given_up() {
    let mut simulation = ten(prompt(), |segment, _| !segment.syn);
    simulation.run_ms(3_000_000);
    assert!(simulation.gave_up);
    let times: Vec<u64> = simulation.sent.iter().skip(10).map(|(at_ns, _)| at_ns / 1_000_000).collect();
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().skip(2).zip(gaps.iter().skip(3)).all(|(a, b)| b * 10 >= a * 19 || *b >= 119_000), "{gaps:?}");
    assert!((900_000..1_100_000).contains(&simulation.now_ms().min(1_050_000)));
    assert_eq!(simulation.memory.counters().given_up, 1);
    simulation.finish();
}

#[test]
fn a_syn_is_repeated_after_a_second_and_given_up_after_three_minutes() {
    let mut simulation = Simulation::new(quick(), prompt(), SendConfig::default());
    simulation.drops = |_, _| true;
    assert!(send::open(&mut simulation.tcb, &mut simulation.memory));
    simulation.emit();
    simulation.run_ms(600_000);
    assert!(simulation.gave_up);
    let first = simulation.sent[0].0;
    let times: Vec<u64> = simulation.sent.iter().map(|(at_ns, _)| (at_ns - first) / 1_000_000_000).collect();
    assert_eq!(times[..6], [0, 1, 3, 7, 15, 31]);
    simulation.finish();
}

#[test]
fn after_a_lost_syn_the_window_is_one_segment_and_the_timeout_three_seconds() {
    let receiver = ReceiverConfig { timestamps: false, ..prompt() };
    let mut simulation = Simulation::new(quick(), receiver, SendConfig::default());
    simulation.drops = |_, number| number == 0;
    simulation.handshake();
    assert_eq!(simulation.tcb.cwnd, u32::from(super::path::MSS));
    assert_eq!(send::rto_ms(&simulation.tcb, &simulation.memory), 3_001);
    simulation.transfer(100_000);
    simulation.finish();
}

#[test]
fn a_timeout_that_was_only_a_delay_is_taken_back() {
    for receiver in [prompt(), ReceiverConfig { timestamps: false, ..prompt() }] {
        // All is written at once, and more than leaves at once: F-RTO wants new data after the time-out.
        let config = SendConfig { unsent_max: 512 << 10, ..SendConfig::default() };
        let mut simulation = Simulation::established(quick(), receiver, config);
        simulation.transfer(200_000);
        let cwnd = simulation.tcb.cwnd;
        // The path gets slower by 500 ms at once.
        simulation.path.delay_ms = 500;
        simulation.write(300 * SEGMENT);
        simulation.emit();
        simulation.run_ms(900);
        assert!(simulation.memory.counters().timeouts >= 1);
        simulation.run_until_acknowledged();
        assert_eq!(simulation.memory.counters().undone, 1, "{receiver:?} {:?}", simulation.memory.counters());
        assert!(simulation.tcb.cwnd >= cwnd / 2, "{} of {cwnd}", simulation.tcb.cwnd);
        simulation.finish();
    }
}

#[test]
fn a_fast_recovery_that_was_only_reordering_is_taken_back() {
    for timestamps in [true, false] {
        let mut simulation =
            Simulation::established(quick(), ReceiverConfig { timestamps, ..prompt() }, SendConfig::default());
        simulation.drops = |_, number| number == 2;
        simulation.write(10 * SEGMENT);
        simulation.emit();
        let late = simulation.sent[1].clone();
        // The segment was only late, by more than a quarter of the round trip.
        simulation.run_ms(23);
        let reply = simulation.receiver.receive(&late.1, simulation.now_ns).unwrap();
        simulation.acknowledge(&reply);
        simulation.run_until_acknowledged();
        simulation.run_ms(100);
        let counters = simulation.memory.counters();
        assert_eq!((counters.recoveries, counters.undone), (1, 1), "timestamps {timestamps}: {counters:?}");
        assert_eq!(simulation.tcb.ssthresh, u32::MAX);
        simulation.finish();
    }
}

#[test]
fn limited_transmit_sends_new_data_for_the_first_duplicates() {
    for sack in [true, false] {
        let mut simulation =
            Simulation::established(quick(), ReceiverConfig { sack, ..prompt() }, SendConfig::default());
        simulation.tcb.cwnd = 4 * SEGMENT as u32;
        simulation.tcb.ssthresh = simulation.tcb.cwnd;
        simulation.drops = |_, number| number == 1;
        simulation.write(20 * SEGMENT);
        simulation.emit();
        assert_eq!(simulation.sent.len(), 4);
        simulation.run_until_acknowledged();
        let new = simulation.sent.iter().skip(4).take(2).filter(|(_, segment)| !segment.retransmission).count();
        assert!(new >= 1, "sack {sack}");
        assert_eq!(simulation.memory.counters().timeouts, 0);
        simulation.finish();
    }
}

#[test]
fn a_peer_that_drops_what_it_reported_gets_it_again() {
    let mut simulation = ten(prompt(), |_, number| number == 1);
    simulation.run_ms(11);
    // All but the first arrived; the peer reports them, and forgets them.
    simulation.run_ms(12);
    assert!(send::info(&simulation.tcb, &simulation.memory).sacked > 0);
    simulation.receiver.forget();
    simulation.run_until_acknowledged();
    assert_eq!(simulation.receiver.bytes, 10 * SEGMENT as u64 + 1);
    simulation.finish();
}

#[test]
fn a_mark_of_the_path_reduces_once_a_round_trip_and_is_answered_by_cwr() {
    let mut simulation = Simulation::established(quick(), prompt(), SendConfig::default());
    simulation.tcb.flags.set(Flags::ECN);
    simulation.transfer(100_000);
    let cwnd = simulation.tcb.cwnd;
    simulation.write(200 * SEGMENT);
    simulation.emit();
    let mut reply = simulation.receiver.delayed();
    reply.ece = true;
    simulation.acknowledge(&reply);
    simulation.acknowledge(&reply);
    assert_eq!(send::info(&simulation.tcb, &simulation.memory).phase, Phase::Reduced);
    assert!(simulation.tcb.cwnd < cwnd * 8 / 10 && simulation.tcb.cwnd >= cwnd * 6 / 10);
    simulation.sent.clear();
    simulation.run_until_acknowledged();
    let answers = simulation.sent.iter().filter(|(_, segment)| segment.cwr).count();
    assert_eq!((answers, simulation.memory.counters().ecn_reductions), (1, 1));
    simulation.finish();
}

#[test]
fn hostile_acknowledgments_change_nothing() {
    use crate::send::Ack;
    let mut simulation = ten(prompt(), |_, _| false);
    let (una, nxt) = (simulation.tcb.snd_una, simulation.tcb.snd_nxt);
    let ranges = [
        [(nxt, nxt + 1_000), (una - 50_000, una - 1)],
        [(una + 2_000, una + 1_000), (una, una)],
        [(una - 1_000_000, nxt + 1_000_000), (una + 1, una + 2)],
        [(nxt - 1, nxt + 1), (una - 1, nxt)],
    ];
    for sack in &ranges {
        for ack in [una - 1, una, nxt + 1] {
            let ack = Ack { ack, seq: una, wnd: 1 << 20, sack, ts_echo: Some(3), ece: true, len: 0 };
            let now = simulation.now();
            send::on_ack(&mut simulation.tcb, &mut simulation.memory, &ack, now);
            simulation.emit();
        }
    }
    let info = send::info(&simulation.tcb, &simulation.memory);
    assert_eq!((info.sacked, info.lost), (0, 0));
    simulation.run_until_acknowledged();
    simulation.finish();
}

#[test]
fn an_idle_connection_gives_its_state_back() {
    let mut simulation = ten(prompt(), |_, number| number == 3);
    simulation.run_until_acknowledged();
    assert_eq!(simulation.memory.recoveries(), 1);
    simulation.run_ms(5_000);
    simulation.write(SEGMENT);
    simulation.emit();
    assert_eq!(simulation.memory.recoveries(), 0);
    simulation.run_until_acknowledged();
    simulation.finish();
}

#[test]
fn a_trickle_of_new_data_does_not_put_the_timeout_off() {
    for had_loss in [false, true] {
        let mut simulation = Simulation::established(quick(), prompt(), SendConfig::default());
        simulation.tcb.flags.set(Flags::NODELAY);
        if had_loss {
            simulation.drops = |_, number| number == 3;
        }
        simulation.transfer(10 * SEGMENT as u64);
        simulation.drops = |_, _| true;
        simulation.sent.clear();
        for _ in 0..20 {
            simulation.write(10);
            simulation.emit();
            simulation.run_ms(15);
        }
        let again = simulation.sent.iter().filter(|(_, segment)| segment.retransmission).count();
        assert!(again > 0, "300 ms without an answer, and nothing was sent again");
        simulation.finish();
    }
}
