#![no_main]

#[path = "../bodies/streams.rs"]
mod streams;

libfuzzer_sys::fuzz_target!(|data: &[u8]| streams::run(data));
