#![no_main]

#[path = "../bodies/memif.rs"]
mod memif;

libfuzzer_sys::fuzz_target!(|data: &[u8]| memif::run(data));
