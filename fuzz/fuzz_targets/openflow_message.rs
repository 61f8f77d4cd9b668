#![no_main]

#[path = "../bodies/openflow_message.rs"]
mod openflow_message;

libfuzzer_sys::fuzz_target!(|data: &[u8]| openflow_message::run(data));
