//! Experiment files that were tampered with: the body of the fuzz target, on mutations that are the same on every run.

#[path = "../../../../fuzz/bodies/experiments.rs"]
mod experiments;
#[path = "../../../../fuzz/bodies/mutate.rs"]
mod mutate;

/// Those of the fuzzer and the experiments that come with Linerate.
fn seeds() -> Vec<Vec<u8>> {
    let shipped = [
        include_str!("../../../../experiments/full-rfc2544.toml"),
        include_str!("../../../../experiments/linux-router-2019.toml"),
        include_str!("../../../../experiments/netmap-bpf-2013.toml"),
        include_str!("../../../../experiments/quick.toml"),
    ];
    let shipped = shipped.iter().map(|text| text.as_bytes().to_vec());
    mutate::seeds("experiments").into_iter().chain(shipped).collect()
}

#[test]
fn no_text_breaks_an_experiment_file() {
    let mut texts = 0;
    mutate::each(&seeds(), 4_000, |data| {
        experiments::run(data);
        texts += 1;
    });
    assert!(texts > 4_000);
}

#[test]
fn seeds_can_be_read() {
    for seed in seeds() {
        let text = String::from_utf8(seed).expect("text");
        if let Err(errors) = linerate_testbed::dut::parse(&text, "seed") {
            panic!("{errors}");
        }
    }
}
