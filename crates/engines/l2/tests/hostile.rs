//! Hostile packets: the body of the fuzz target, on mutations that are the same on every run.

#[path = "../../../../fuzz/bodies/mutate.rs"]
mod mutate;
#[path = "../../../../fuzz/bodies/switch.rs"]
mod switch;

/// Ports of five kinds, then packets of a few shapes at each, and all of it taken out; twice, the second time with mirrors.
fn script(packets: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for kind in 0..5u8 {
        bytes.extend([0, kind, 1, kind * 9]);
    }
    for round in 0..2u8 {
        for (number, packet) in packets.iter().enumerate() {
            bytes.extend([64, (number % 2) as u8, packet.len() as u8]);
            bytes.extend(*packet);
            bytes.extend([160, number as u8 % 6]);
        }
        bytes.extend((0..6).flat_map(|port| [48, port]));
        bytes.extend([32, round, 0, 4, 32, 4, 17, 3]);
    }
    bytes.extend([24, 1, 24, 4, 40, 255]);
    bytes
}

fn seeds() -> Vec<Vec<u8>> {
    let head = |destination: u8, source: u8| [[2, 0, 0, 0, 0, destination], [2, 0, 0, 0, 0, source]].concat();
    let packet = |destination, source, rest: &[u8]| [head(destination, source), rest.to_vec()].concat();
    let plain = packet(
        1,
        2,
        &[8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 1, 0, 2, 0, 8, 0, 0],
    );
    let back = packet(2, 1, &[0x88, 0xb5, 1, 2, 3, 4]);
    let tagged = packet(1, 3, &[0x81, 0, 0x60, 17, 8, 0, 9, 9]);
    let double = packet(3, 1, &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 17, 8, 0]);
    let cut = packet(1, 2, &[0x81, 0, 0]);
    let mut broadcast = packet(0, 2, &[8, 6, 1]);
    broadcast[..6].fill(0xff);
    let mut reserved = packet(0, 2, &[0x88, 0xcc]);
    reserved[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 0x0e]);
    let first: [&[u8]; 4] = [&plain, &back, &tagged, &double];
    let second: [&[u8]; 5] = [&broadcast, &reserved, &cut, &plain[..9], &tagged];
    vec![script(&first), script(&second)]
}

#[test]
fn no_packet_breaks_the_switch_or_its_account() {
    let seeds = seeds();
    mutate::check_seeds("switch", &seeds);
    let count = if cfg!(debug_assertions) { 200 } else { 20_000 };
    let mut inputs = 0;
    mutate::each(&seeds, count, |data| {
        switch::run(data);
        inputs += 1;
    });
    assert!(inputs > count);
}
