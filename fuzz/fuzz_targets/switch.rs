#![no_main]

#[path = "../bodies/switch.rs"]
mod switch;

libfuzzer_sys::fuzz_target!(|data: &[u8]| switch::run(data));
