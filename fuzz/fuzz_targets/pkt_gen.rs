#![no_main]

#[path = "../bodies/pkt_gen.rs"]
mod pkt_gen;

libfuzzer_sys::fuzz_target!(|data: &[u8]| pkt_gen::run(data));
