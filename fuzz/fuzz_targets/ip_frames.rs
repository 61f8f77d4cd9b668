#![no_main]

#[path = "../bodies/ip_frames.rs"]
mod ip_frames;

libfuzzer_sys::fuzz_target!(|data: &[u8]| ip_frames::run(data));
