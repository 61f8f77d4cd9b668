#![no_main]

#[path = "../bodies/vhost_rings.rs"]
mod vhost_rings;

libfuzzer_sys::fuzz_target!(|data: &[u8]| vhost_rings::run(data));
