//! The body of the fuzz target `pipeline_packet`, on mutations that are the same on every run.

#[path = "../../../../fuzz/bodies/mutate.rs"]
mod mutate;
use super::packets;
#[path = "../../../../fuzz/bodies/pipeline_packet.rs"]
mod pipeline_packet;

use packets::make::{self, Random};

/// Packets of all kinds, each with actions.
fn seeds() -> Vec<Vec<u8>> {
    let seed = |number| {
        let mut random = Random::new(number);
        let count = random.below(8) as u8;
        let mut seed = vec![count];
        seed.extend(random.bytes(usize::from(count) * 10));
        seed.extend(make::any(&mut random));
        seed
    };
    (0..30).map(seed).collect()
}

#[test]
fn no_packet_breaks_the_parser_or_an_action() {
    let seeds = seeds();
    mutate::check_seeds("pipeline_packet", &seeds);
    mutate::each(&seeds, 30_000, pipeline_packet::run);
}
