//! Stream files that were tampered with: the body of the fuzz target, on mutations that are the same on every run.

#[path = "../../../../fuzz/bodies/mutate.rs"]
mod mutate;
#[path = "../../../../fuzz/bodies/streams.rs"]
mod streams;

const SEEDS: [&str; 8] = [
    include_str!("../../../../examples/streams/10000-flows.toml"),
    include_str!("../../../../examples/streams/imix.toml"),
    include_str!("../../../../examples/streams/mixed.toml"),
    include_str!("../../../../examples/streams/plain.toml"),
    include_str!("../../../../examples/streams/provider.toml"),
    include_str!("../../../../examples/streams/vxlan.toml"),
    "stream = [{ size = { list = [64, 70], order = 'random', seed = 1 }, signature = false, udp_checksum = false }]",
    "[[stream]]\nid = 65535\nweight = 9\nfill = { hex = 'a5' }\nvary = [{ field = '40+2', values = [1, 2], each = 'cycle' }]",
];

#[test]
fn no_text_breaks_a_stream_file() {
    let seeds: Vec<Vec<u8>> = SEEDS.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    let mut texts = 0;
    mutate::each(&seeds, 6_000, |data| {
        streams::run(data);
        texts += 1;
    });
    assert!(texts > 6_000);
}
