//! Bulk transfers beside the response functions: goodput under random loss, reordering and both, in virtual time.

use super::path::{MSS, PathConfig, Simulation};
use super::receiver::ReceiverConfig;
use crate::send::{Congestion, SendConfig};

/// Megabits a second of `total` bytes over `path`.
fn goodput(path: PathConfig, receiver: ReceiverConfig, config: SendConfig, total: u64) -> f64 {
    let mut simulation = Simulation::established(path, receiver, config);
    simulation.keep_log = false;
    let ms = simulation.transfer(total);
    let (counters, count) = (*simulation.memory.counters(), simulation.sent_count);
    println!(
        "loss {} reorder {}: {:.2} Mbit/s; {count} segments, {counters:?}, longest pause {} ms",
        path.loss,
        path.reorder,
        total as f64 * 8.0 / 1_000.0 / ms as f64,
        simulation.longest_pause_ns / 1_000_000
    );
    simulation.finish();
    total as f64 * 8.0 / 1_000.0 / ms as f64
}

/// Megabits a second of Reno with so much loss: sqrt(3 / 2p) segments a round trip (Mathis et al. 1997), an acknowledgment for each
/// segment.
fn reno_response(loss: f64, rtt_ms: f64) -> f64 {
    (1.5 / loss).sqrt() * f64::from(MSS - 12) * 8.0 / rtt_ms / 1_000.0
}

/// RTT of 20 ms, and nothing else in the way.
fn long_path(loss: u32, reorder: u32, seed: u64) -> PathConfig {
    PathConfig { delay_ms: 10, rate: 125_000_000, queue: 8 << 20, loss, reorder, seed, ..PathConfig::default() }
}

#[test]
fn goodput_under_loss_is_that_of_the_response_function() {
    for congestion in [Congestion::NewReno, Congestion::Cubic] {
        for (loss, total) in [(1, 20_000_000), (10, 5_000_000), (50, 2_000_000)] {
            let config = SendConfig { congestion, ..SendConfig::default() };
            let rate = goodput(long_path(loss, 0, 11), ReceiverConfig::default(), config, total);
            let response = reno_response(f64::from(loss) / 1_000.0, 20.0);
            println!("  {congestion:?}: {:.2} of {response:.2}", rate / response);
            // At 5 % the window is of five segments: time-outs, which the function leaves out, cost as much again.
            let share = if loss == 50 { 0.5 } else { 0.75 };
            assert!(rate > share * response, "{congestion:?} at {loss} per mille: {rate:.2} of {response:.2} Mbit/s");
        }
    }
}

#[test]
fn reordering_alone_costs_little() {
    let straight = goodput(long_path(0, 0, 5), ReceiverConfig::default(), SendConfig::default(), 20_000_000);
    let crooked = goodput(long_path(0, 50, 5), ReceiverConfig::default(), SendConfig::default(), 20_000_000);
    assert!(crooked > 0.5 * straight, "{crooked:.1} of {straight:.1} Mbit/s");
}

#[test]
fn segments_that_overtake_all_others_are_no_losses() {
    let path = PathConfig { early: 50, rate: 12_500_000, ..long_path(0, 0, 3) };
    let rate = goodput(path, ReceiverConfig::default(), SendConfig::default(), 20_000_000);
    assert!(rate > 40.0, "{rate:.1} of 100 Mbit/s");
}

#[test]
fn reordering_and_loss_together_still_move() {
    for loss in [1, 10, 50] {
        let both = goodput(long_path(loss, 50, 9), ReceiverConfig::default(), SendConfig::default(), 3_000_000);
        let response = reno_response(f64::from(loss) / 1_000.0, 20.0);
        assert!(both > 0.4 * response, "{loss} per mille: {both:.2} of {response:.2} Mbit/s");
    }
}

#[test]
fn a_bottleneck_is_filled() {
    for (sack, marks) in [(true, false), (false, false), (true, true)] {
        let path = PathConfig { rate: 1_250_000, queue: 50_000, marks, ..PathConfig::default() };
        let receiver = ReceiverConfig { sack, ..ReceiverConfig::default() };
        let rate = goodput(path, receiver, SendConfig::default(), 5_000_000);
        assert!(rate > 8.0, "{rate:.2} of 10 Mbit/s, sack {sack}, marks {marks}");
    }
}
