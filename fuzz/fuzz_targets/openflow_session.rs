#![no_main]

#[path = "../bodies/openflow_session.rs"]
mod openflow_session;

libfuzzer_sys::fuzz_target!(|data: &[u8]| openflow_session::run(data));
