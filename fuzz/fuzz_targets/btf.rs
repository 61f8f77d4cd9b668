#![no_main]

#[path = "../bodies/btf.rs"]
mod btf;

libfuzzer_sys::fuzz_target!(|data: &[u8]| btf::run(data));
