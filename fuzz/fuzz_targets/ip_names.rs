#![no_main]

#[path = "../bodies/ip_names.rs"]
mod ip_names;

libfuzzer_sys::fuzz_target!(|data: &[u8]| ip_names::run(data));
