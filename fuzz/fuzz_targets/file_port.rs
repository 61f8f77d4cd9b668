#![no_main]

#[path = "../bodies/file_port.rs"]
mod file_port;

libfuzzer_sys::fuzz_target!(|data: &[u8]| file_port::run(data));
