#![no_main]

#[path = "../bodies/headers.rs"]
mod headers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| headers::run(data));
