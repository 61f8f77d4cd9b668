#![no_main]

#[path = "../bodies/results.rs"]
mod results;

libfuzzer_sys::fuzz_target!(|data: &[u8]| results::run(data));
