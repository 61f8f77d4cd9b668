#![no_main]

#[path = "../bodies/tcp_script.rs"]
mod tcp_script;

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcp_script::run(data));
