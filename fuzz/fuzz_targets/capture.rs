#![no_main]

#[path = "../bodies/capture.rs"]
mod capture;

libfuzzer_sys::fuzz_target!(|data: &[u8]| capture::run(data));
