//! What leaves and what waits: Nagle, the peer's window, probes of it, silly windows, the send buffer, segment sizes, FIN.

use super::path::{PathConfig, Simulation};
use super::receiver::ReceiverConfig;
use crate::Flags;
use crate::send::{self, SendConfig, TimerOutcome};

fn quick() -> PathConfig {
    PathConfig { delay_ms: 10, rate: 0, ..PathConfig::default() }
}

fn established(receiver: ReceiverConfig) -> Simulation {
    Simulation::established(quick(), receiver, SendConfig::default())
}

fn lengths(simulation: &Simulation) -> Vec<usize> {
    simulation.sent.iter().map(|(_, segment)| segment.data.len()).collect()
}

#[test]
fn nagle_holds_a_second_short_segment_and_puts_writes_together() {
    let mut simulation = established(ReceiverConfig { ack_delay_ms: 0, ..ReceiverConfig::default() });
    for _ in 0..5 {
        simulation.write(10);
        simulation.emit();
    }
    assert_eq!(lengths(&simulation), [10]);
    simulation.run_ms(25);
    assert_eq!(lengths(&simulation), [10, 40]);
    // A full segment does not wait, and a short one behind full ones does not either (Minshall).
    simulation.run_ms(25);
    simulation.write(1_448 + 5);
    simulation.emit();
    assert_eq!(lengths(&simulation)[2..], [1_448, 5]);
    simulation.write(3);
    simulation.emit();
    assert_eq!(lengths(&simulation).len(), 4);
    simulation.run_until_acknowledged();
    simulation.finish();
}

#[test]
fn without_nagle_everything_leaves_at_once() {
    let mut simulation = established(ReceiverConfig::default());
    simulation.tcb.flags.set(Flags::NODELAY);
    for _ in 0..3 {
        simulation.write(10);
        simulation.emit();
    }
    assert_eq!(lengths(&simulation), [10, 10, 10]);
    // A small write that must wait for the congestion window is put together with the next ones.
    simulation.tcb.cwnd = 30;
    for _ in 0..200 {
        simulation.write(10);
    }
    simulation.emit();
    assert_eq!(lengths(&simulation).len(), 3);
    simulation.run_until_acknowledged();
    assert_eq!(lengths(&simulation)[3..], [1_448, 552]);
    simulation.finish();
}

#[test]
fn push_stands_on_the_last_segment_that_was_written() {
    let mut simulation = established(ReceiverConfig::default());
    simulation.write(4_000);
    let now = simulation.now();
    let mut pushes = Vec::new();
    while let Some(out) = send::next_segment(&mut simulation.tcb, &mut simulation.memory, now) {
        pushes.push((out.data.len(), out.push));
    }
    assert_eq!(pushes, [(1_448, false), (1_448, false), (1_104, true)]);
    simulation.finish();
}

#[test]
fn a_closed_window_is_probed_for_ever_ever_less_often() {
    let mut simulation = established(ReceiverConfig { window: 5_000, ..ReceiverConfig::default() });
    simulation.write(5_000);
    simulation.emit();
    simulation.receiver.config.window = 0;
    simulation.write(3_000);
    simulation.run_ms(100);
    assert_eq!((simulation.tcb.snd_wnd, simulation.tcb.in_flight(), simulation.tcb.queued), (0, 0, 3_000));
    simulation.sent.clear();
    simulation.run_ms(3_600_000);
    assert!(!simulation.gave_up, "the peer answers");
    let times: Vec<u64> = simulation.sent.iter().map(|(at_ns, _)| at_ns / 1_000_000).collect();
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.windows(2).all(|pair| pair[1] >= pair[0]), "{gaps:?}");
    assert!((28..45).contains(&times.len()), "{} probes in an hour: {gaps:?}", times.len());
    assert!(simulation.sent.iter().all(|(_, segment)| segment.data.is_empty() && !segment.fin));
    assert_eq!(simulation.memory.counters().window_probes, times.len() as u64);
    // The window opens: all leaves at once, and time-outs are short again.
    simulation.receiver.config.window = 1 << 20;
    simulation.announce();
    simulation.run_until_acknowledged();
    assert_eq!(simulation.receiver.bytes, 8_001);
    assert!(send::rto_ms(&simulation.tcb, &simulation.memory) < 400);
    simulation.finish();
}

#[test]
fn a_lost_window_update_is_found_by_a_probe() {
    let mut simulation = established(ReceiverConfig { window: 2_000, ..ReceiverConfig::default() });
    simulation.write(2_000);
    simulation.emit();
    simulation.receiver.config.window = 0;
    simulation.run_ms(100);
    simulation.write(500);
    simulation.emit();
    simulation.receiver.config.window = 1 << 20;
    simulation.run_until_acknowledged();
    assert!(simulation.now_ms() < 1_000);
    simulation.finish();
}

#[test]
fn a_peer_that_does_not_answer_probes_is_given_up() {
    let mut simulation = established(ReceiverConfig { window: 2_000, ..ReceiverConfig::default() });
    simulation.write(2_000);
    simulation.emit();
    simulation.receiver.config.window = 0;
    simulation.run_ms(100);
    simulation.write(500);
    simulation.emit();
    simulation.drops = |_, _| true;
    simulation.run_ms(2_000_000);
    assert!(simulation.gave_up);
    simulation.finish();
}

#[test]
fn a_small_window_is_not_used_until_half_of_the_largest_or_the_time_is_over() {
    let mut simulation = established(ReceiverConfig { window: 4_000, ..ReceiverConfig::default() });
    simulation.write(4_000);
    simulation.emit();
    simulation.receiver.config.window = 600;
    simulation.run_ms(100);
    simulation.sent.clear();
    simulation.write(2_000);
    simulation.emit();
    assert_eq!(lengths(&simulation), [0; 0], "600 of 4,000 bytes are a silly window");
    simulation.run_ms(400);
    assert_eq!(lengths(&simulation)[0], 600, "rule 4: after a while what fits");
    simulation.receiver.config.window = 8_000;
    simulation.announce();
    simulation.run_until_acknowledged();
    simulation.finish();
    // A peer that never had more than 600 is served at once.
    let mut simulation = established(ReceiverConfig { window: 600, ..ReceiverConfig::default() });
    simulation.tcb.max_wnd = 1;
    simulation.write(2_000);
    simulation.emit();
    assert_eq!(lengths(&simulation), [600]);
    simulation.run_until_acknowledged();
    simulation.finish();
}

#[test]
fn a_window_that_is_taken_back_is_no_reason_to_end() {
    let receiver = ReceiverConfig { ack_delay_ms: 0, takes_back: true, ..ReceiverConfig::default() };
    let mut simulation = established(receiver);
    simulation.write(5_000);
    simulation.emit();
    simulation.receiver.config.window = 0;
    simulation.announce();
    let cwnd = simulation.tcb.cwnd;
    simulation.run_ms(2_000_000);
    assert!(!simulation.gave_up, "gave up on a closed window of a peer that answers");
    assert_eq!((simulation.tcb.snd_wnd, simulation.tcb.in_flight()), (0, 5_000));
    simulation.receiver.config.window = 1 << 20;
    simulation.announce();
    simulation.run_until_acknowledged();
    assert_eq!((simulation.receiver.bytes, simulation.tcb.ssthresh), (5_001, u32::MAX));
    assert!(simulation.tcb.cwnd >= cwnd);
    simulation.finish();
}

#[test]
fn a_write_is_cut_short_at_the_buffer_and_told_when_there_is_room() {
    let config = SendConfig { buffer_max: 20_000, ..SendConfig::default() };
    let mut simulation = Simulation::established(quick(), ReceiverConfig::default(), config);
    assert_eq!((simulation.write(15_000), simulation.write(15_000), simulation.write(1)), (15_000, 5_000, 0));
    assert!(simulation.tcb.flags.has(Flags::SEND_BLOCKED));
    simulation.emit();
    simulation.run_ms(21);
    assert!(!simulation.tcb.flags.has(Flags::SEND_BLOCKED));
    assert!(send::room(&simulation.tcb, &simulation.memory) >= 5_000);
    simulation.run_until_acknowledged();
    simulation.finish();
}

#[test]
fn a_write_is_cut_short_at_what_may_wait_and_what_is_in_flight_does_not_count() {
    let config = SendConfig { buffer_max: 100_000, unsent_max: 20_000, ..SendConfig::default() };
    let mut simulation = Simulation::established(quick(), ReceiverConfig::default(), config);
    // 13 whole segments of 1,448 bytes may wait.
    assert_eq!((simulation.write(15_000), simulation.write(15_000), simulation.write(1)), (15_000, 3_824, 0));
    assert!(simulation.tcb.flags.has(Flags::SEND_BLOCKED));
    simulation.emit();
    // The initial window has left.
    assert_eq!((simulation.tcb.in_flight(), simulation.write(30_000)), (14_480, 14_480));
    simulation.run_ms(21);
    assert!(!simulation.tcb.flags.has(Flags::SEND_BLOCKED));
    simulation.run_until_acknowledged();
    // The SYN counts as one.
    assert_eq!(simulation.receiver.bytes, 33_305);
    simulation.finish();
}

#[test]
fn a_budget_that_is_used_up_refuses_and_tells_later() {
    let config = SendConfig { budget_bytes: 8_192, ..SendConfig::default() };
    let mut simulation = Simulation::established(quick(), ReceiverConfig::default(), config);
    // Somebody else has it all.
    let others: Vec<u32> = std::iter::from_fn(|| simulation.memory.alloc(1_448)).collect();
    assert_eq!(simulation.write(100), 0);
    assert!(simulation.tcb.flags.has(Flags::SEND_BLOCKED));
    simulation.close();
    let now = simulation.now();
    assert!(send::next_segment(&mut simulation.tcb, &mut simulation.memory, now).is_none());
    for handle in others {
        simulation.memory.free(handle);
    }
    simulation.run_until_acknowledged();
    simulation.run_ms(200);
    assert!(simulation.receiver.fin, "the FIN leaves when there is memory");
    simulation.finish();
}

#[test]
fn a_refused_write_with_nothing_in_flight_is_told_by_the_timer() {
    let config = SendConfig { budget_bytes: 8_192, ..SendConfig::default() };
    let mut simulation = Simulation::established(quick(), ReceiverConfig::default(), config);
    let others: Vec<u32> = std::iter::from_fn(|| simulation.memory.alloc(1_448)).collect();
    assert_eq!(simulation.write(100), 0);
    simulation.now_ns += 100_000_000;
    let now = simulation.now();
    let nothing = send::on_timer(&mut simulation.tcb, &mut simulation.memory, None, now);
    assert_eq!(nothing, TimerOutcome::Nothing);
    for handle in others {
        simulation.memory.free(handle);
    }
    simulation.now_ns += 100_000_000;
    let now = simulation.now();
    assert_eq!(send::on_timer(&mut simulation.tcb, &mut simulation.memory, None, now), TimerOutcome::Room);
    assert!(!simulation.tcb.flags.has(Flags::SEND_BLOCKED));
    simulation.finish();
}

#[test]
fn a_smaller_mtu_splits_what_is_in_flight_without_a_reduction() {
    let mut simulation = established(ReceiverConfig::default());
    simulation.write(10_000);
    simulation.drops = |segment, _| segment.data.len() > 1_000;
    simulation.emit();
    let cwnd = simulation.tcb.cwnd;
    let now = simulation.now();
    send::mtu_changed(&mut simulation.tcb, &mut simulation.memory, 1_012, now);
    simulation.emit();
    simulation.run_until_acknowledged();
    assert!(simulation.now_ms() < 200, "{} ms", simulation.now_ms());
    assert!(simulation.tcb.cwnd >= cwnd && simulation.memory.counters().retransmitted_harmless >= 10);
    assert_eq!(simulation.receiver.bytes, 10_001);
    simulation.finish();
}

#[test]
fn a_fin_leaves_with_the_last_data_or_alone() {
    let mut simulation = established(ReceiverConfig::default());
    simulation.write(100);
    simulation.close();
    simulation.emit();
    assert!(simulation.sent.len() == 1 && simulation.sent[0].1.fin);
    assert_eq!(simulation.write(5), 0, "nothing is taken behind a FIN");
    simulation.run_until_acknowledged();
    simulation.finish();
    let mut simulation = established(ReceiverConfig::default());
    simulation.write(100);
    simulation.emit();
    simulation.close();
    simulation.emit();
    assert!(simulation.sent.len() == 2 && simulation.sent[1].1.fin && simulation.sent[1].1.data.is_empty());
    simulation.run_until_acknowledged();
    simulation.finish();
}

#[test]
fn data_written_before_the_handshake_is_over_follows_it() {
    let mut simulation = Simulation::new(quick(), ReceiverConfig::default(), SendConfig::default());
    simulation.write(3_000);
    assert!(!simulation.tcb.is_synchronized());
    simulation.finish();
    let mut simulation = Simulation::new(quick(), ReceiverConfig::default(), SendConfig::default());
    assert!(send::open(&mut simulation.tcb, &mut simulation.memory));
    simulation.write(3_000);
    simulation.close();
    simulation.emit();
    assert!(simulation.sent.len() == 1 && simulation.sent[0].1.syn && simulation.sent[0].1.data.is_empty());
    simulation.run_until_acknowledged();
    assert_eq!(simulation.receiver.bytes, 3_002);
    simulation.finish();
}
