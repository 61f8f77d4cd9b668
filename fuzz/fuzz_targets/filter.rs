#![no_main]

#[path = "../bodies/filter.rs"]
mod filter;

libfuzzer_sys::fuzz_target!(|data: &[u8]| filter::run(data));
