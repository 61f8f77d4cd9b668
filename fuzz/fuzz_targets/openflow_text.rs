#![no_main]

#[path = "../bodies/openflow_text.rs"]
mod openflow_text;

libfuzzer_sys::fuzz_target!(|data: &[u8]| openflow_text::run(data));
