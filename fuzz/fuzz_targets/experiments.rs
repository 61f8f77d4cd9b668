#![no_main]

#[path = "../bodies/experiments.rs"]
mod experiments;

libfuzzer_sys::fuzz_target!(|data: &[u8]| experiments::run(data));
