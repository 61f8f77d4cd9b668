//! The bodies of the fuzz targets `tcp_session` and `tcp_script`, on mutations that are the same on every run.

#[path = "../../../../fuzz/bodies/mutate.rs"]
mod mutate;
use super::support;
#[path = "../../../../fuzz/bodies/tcp_script.rs"]
mod tcp_script;
#[path = "../../../../fuzz/bodies/tcp_session.rs"]
mod tcp_session;

use support::program;

/// A handshake, data both ways, a close; then the same with faults; a connect; keep-alive; out of order and SACK.
fn sessions() -> Vec<Vec<u8>> {
    let open = [7, 0, 2, 36 * 4];
    let data = [8 * 4, 0x18, 0, 0, 0, 200, 100, 0];
    let late = [8 * 4, 0x10, 100, 0, 2, 200, 100, 0];
    let fin = [8 * 4, 0x11, 0, 0, 0, 200, 0, 0];
    let send = [44 * 4, 0, 100, 36 * 4];
    let close = [44 * 4, 3, 0, 36 * 4];
    let wait = [54 * 4, 20];
    let idle = [54 * 4, 28];
    let connect = [63 * 4, 8 * 4 + 3, 0x12, 0, 0, 0, 200, 0, 1, 36 * 4 + 3, 44 * 4 + 3, 0, 9];
    let pause = [44 * 4, 5, 1];
    let keep = [44 * 4, 7, 40];
    let parts: [&[&[u8]]; 6] = [
        &[&open, &data, &send, &close, &fin, &wait],
        &[&open, &late, &data, &late, &idle, &send, &wait, &fin],
        &[&[3], &connect, &data, &wait, &close],
        &[&open, &keep, &idle, &idle, &idle],
        &[&open, &pause, &data, &data, &fin, &close, &idle],
        &[&[36], &[0, 3, 1, 0, 2, 0, 36 * 4, 37 * 4, 38 * 4], &send, &idle, &data],
    ];
    parts.map(|parts| parts.concat()).to_vec()
}

#[test]
fn no_session_breaks_it() {
    let seeds = sessions();
    mutate::check_seeds("tcp_session", &seeds);
    let stood: Vec<usize> = seeds.iter().map(|seed| tcp_session::run(seed)).collect();
    assert!(stood.iter().filter(|count| **count > 0).count() >= 5, "{stood:?}");
    mutate::each(&seeds, 1_000, |data| {
        tcp_session::run(data);
    });
}

#[test]
fn no_script_breaks_the_reader() {
    mutate::each(&mutate::seeds("tcp_script"), 3_000, tcp_script::run);
}
