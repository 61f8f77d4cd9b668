#![no_main]

#[path = "../bodies/pipeline_packet.rs"]
mod pipeline_packet;

libfuzzer_sys::fuzz_target!(|data: &[u8]| pipeline_packet::run(data));
