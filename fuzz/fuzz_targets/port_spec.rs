#![no_main]

#[path = "../bodies/port_spec.rs"]
mod port_spec;

libfuzzer_sys::fuzz_target!(|data: &[u8]| port_spec::run(data));
