//! Two stacks under a virtual clock, and a link with seeded faults between them: connections of random life, by the million.
//!
//! What must hold: each stream arrives whole and in order, or its connection ends with an error on that side; the program is called as `App`
//! says; something that is outstanding has a timer; at the end no connection, no byte of buffers and no frame is held.
//!
//! `LINERATE_LIVES` sets the number of lives of each world, `LINERATE_SEED` the first seed:
//! `LINERATE_LIVES=10000000 cargo test --release -p linerate-tcp --test simulator`.

#[path = "../support/mod.rs"]
mod support;

mod life;
mod link;
mod numbers;
mod world;

use life::{Ends, Habits};
use link::Faults;
use world::{Shape, World};

/// Lives of all worlds together, unless the environment says otherwise.
const LIVES: u64 = 1_000_000;

const SHORT: Habits = Habits { len_max: 200, long_max: 4_000, aborts: 3, pauses: 5 };
const LONG: Habits = Habits { len_max: 20_000, long_max: 400_000, aborts: 3, pauses: 5 };
const CLEAN: Faults = Faults { lost: 0, copied: 0, damaged: 0, reordered: 0, delay_us: 100, jitter_us: 0 };
const BAD: Faults = Faults { lost: 200, copied: 100, damaged: 100, reordered: 500, delay_us: 5_000, jitter_us: 500 };
const TERRIBLE: Faults =
    Faults { lost: 1_500, copied: 1_000, damaged: 500, reordered: 2_000, delay_us: 20_000, jitter_us: 20_000 };

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name)
        .ok()
        .map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Plays `share` of a thousand of all lives, in worlds of at most 20,000 with seeds of their own.
fn play(share: u64, shape: Shape, habits: Habits, faults: Faults) -> (Ends, Ends) {
    let first_seed = number("LINERATE_SEED", 1);
    let mut left = number("LINERATE_LIVES", LIVES) * share / 1000;
    let mut total = (Ends::default(), Ends::default());
    let mut seed = first_seed;
    while left > 0 {
        let lives = left.min(20_000);
        let (client, server) = World::new(shape, habits, faults, seed, lives).run();
        total = (add(total.0, client), add(total.1, server));
        left -= lives;
        seed += 1;
    }
    (total.0, total.1)
}

fn add(a: Ends, b: Ends) -> Ends {
    Ends {
        begun: a.begun + b.begun,
        refused_at_once: a.refused_at_once + b.refused_at_once,
        connected: a.connected + b.connected,
        normal: a.normal + b.normal,
        reset: a.reset + b.reset,
        refused: a.refused + b.refused,
        timed_out: a.timed_out + b.timed_out,
        unreachable: a.unreachable + b.unreachable,
        aborted: a.aborted + b.aborted,
        bytes: a.bytes + b.bytes,
        whole_streams: a.whole_streams + b.whole_streams,
    }
}

/// With no fault and enough of everything, connections end as the programs wanted, and in no other way.
#[test]
fn a_million_random_lives() {
    let (client, server) = play(800, Shape::AMPLE, SHORT, CLEAN);
    assert_eq!(
        (client.refused, client.timed_out, client.unreachable, server.timed_out),
        (0, 0, 0, 0),
        "{client:?} {server:?}"
    );
    assert_eq!(client.begun, client.normal + client.reset + client.aborted, "{client:?}");
    assert!(client.normal > client.begun * 8 / 10, "{client:?}");
    assert!(client.whole_streams >= client.normal && server.bytes > 0, "{client:?} {server:?}");
}

#[test]
fn lives_on_a_bad_link() {
    let (client, server) = play(100, Shape::AMPLE, SHORT, BAD);
    assert!(client.normal > client.begun * 8 / 10, "{client:?} {server:?}");
}

#[test]
fn lives_on_a_terrible_link() {
    let (client, server) = play(20, Shape::AMPLE, SHORT, TERRIBLE);
    assert!(client.normal > client.begun / 2, "{client:?} {server:?}");
}

#[test]
fn long_streams_on_a_bad_link() {
    let (client, server) = play(5, Shape::AMPLE, LONG, BAD);
    assert!(client.normal > client.begun * 8 / 10, "{client:?} {server:?}");
}

/// Tables, budgets and pools that are too small: connections are refused or wait, and nothing else breaks.
#[test]
fn lives_with_too_little_of_everything() {
    let (client, server) = play(50, Shape::SCARCE, LONG, CLEAN);
    assert!(client.normal > 0 && server.normal > 0, "{client:?} {server:?}");
    let (client, server) = play(20, Shape::SCARCE, SHORT, BAD);
    assert!(client.normal > 0 && server.normal > 0, "{client:?} {server:?}");
}

#[test]
fn lives_over_ipv6() {
    let (client, server) = play(25, Shape { v6: true, ..Shape::AMPLE }, SHORT, BAD);
    assert!(client.normal > client.begun * 8 / 10, "{client:?} {server:?}");
}
