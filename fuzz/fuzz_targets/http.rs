#![no_main]

#[path = "../bodies/http.rs"]
mod http;

libfuzzer_sys::fuzz_target!(|data: &[u8]| http::run(data));
