//! Mutations of seed inputs, for the tests that stand in for the fuzzer: always the same ones, in a second or two.

use std::path::PathBuf;

/// The seeds of a fuzz target: the files in `fuzz/seeds/TARGET`.
#[allow(dead_code, reason = "some tests have seeds of their own")]
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder(target))
        .expect("the folder of seeds")
        .map(|entry| entry.expect("its entries").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no seeds for {target}");
    paths.iter().map(|path| std::fs::read(path).expect("a seed")).collect()
}

/// Seeds that a test makes: the files must be the same. With `LINERATE_BLESS` in the environment they are written.
#[allow(dead_code, reason = "some tests have seeds that people wrote")]
pub fn check_seeds(target: &str, made: &[Vec<u8>]) {
    if std::env::var_os("LINERATE_BLESS").is_some() {
        std::fs::create_dir_all(folder(target)).expect("making the folder of seeds");
        for (number, seed) in made.iter().enumerate() {
            std::fs::write(folder(target).join(format!("{number:02}")), seed).expect("writing a seed");
        }
    }
    assert!(seeds(target) == made, "fuzz/seeds/{target} is not what this test makes; LINERATE_BLESS=1 writes it anew");
}

/// All crates that use this are three folders deep.
#[allow(dead_code, reason = "as above")]
fn folder(target: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", "..", "fuzz", "seeds", target].iter().collect()
}

/// A small pseudo-random generator (xorshift64*, Vigna 2016); the same numbers on every run.
pub struct Numbers(u64);

impl Numbers {
    /// The next number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }
}

/// Values that break arithmetic.
const EDGES: [u32; 10] = [0, 1, 3, 4, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_fff0, 0xffff_ffff];

/// Calls `run` with each seed, with each seed cut at every length up to 200 bytes, and with `count` mutations.
pub fn each(seeds: &[Vec<u8>], count: usize, mut run: impl FnMut(&[u8])) {
    for seed in seeds {
        run(seed);
        for len in 0..seed.len().min(200) {
            run(&seed[..len]);
        }
    }
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for _ in 0..count {
        let mut data = seeds[numbers.below(seeds.len())].clone();
        for _ in 0..1 + numbers.below(4) {
            mutate(&mut data, &mut numbers, seeds);
        }
        run(&data);
    }
}

fn mutate(data: &mut Vec<u8>, numbers: &mut Numbers, seeds: &[Vec<u8>]) {
    if data.is_empty() {
        data.push(numbers.below(256) as u8);
        return;
    }
    let at = numbers.below(data.len());
    match numbers.below(8) {
        0 => data[at] ^= 1 << numbers.below(8),
        1 => data[at] = numbers.below(256) as u8,
        2 => data.truncate(at),
        3 => data.insert(at, numbers.below(256) as u8),
        4 => {
            let edge = EDGES[numbers.below(EDGES.len())];
            let bytes = if numbers.below(2) == 0 { edge.to_le_bytes() } else { edge.to_be_bytes() };
            let end = data.len().min(at + 4);
            data[at..end].copy_from_slice(&bytes[..end - at]);
        }
        5 => {
            let end = at + numbers.below(data.len() - at).min(64);
            let again = data[at..end].to_vec();
            data.splice(at..at, again);
        }
        6 => {
            let end = at + numbers.below(data.len() - at).min(64);
            data.drain(at..end);
        }
        _ => {
            let other = &seeds[numbers.below(seeds.len())];
            let from = numbers.below(other.len().max(1)).min(other.len());
            data.truncate(at);
            data.extend_from_slice(&other[from..]);
        }
    }
}
