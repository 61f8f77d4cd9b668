#![no_main]

#[path = "../../crates/engines/tcp/tests/support/program.rs"]
#[allow(dead_code)]
mod program;
#[path = "../bodies/tcp_session.rs"]
mod tcp_session;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tcp_session::run(data);
});
