//! Memory that is taken when the stack is made, and not when connections are. The one test of its process, whose memory it measures.

#[path = "common/mod.rs"]
mod common;

use common::{B, address, config};
use linerate_mem::{Pool, PoolConfig};
use linerate_port::Datapath;
use linerate_tcp::{App, CloseReason, Conn, ConnectOptions, Io, Stack, StackConfig, StackError};

/// Less than the ports of one address.
const CONNECTIONS: usize = 40_000;

struct Nobody;

impl App for Nobody {
    fn connected(&mut self, _: Conn, _: &mut Io<'_>) {}

    fn received(&mut self, _: Conn, data: &[u8], _: &mut Io<'_>) -> usize {
        data.len()
    }

    fn peer_closed(&mut self, _: Conn, _: &mut Io<'_>) {}

    fn closed(&mut self, _: Conn, _: CloseReason, _: &mut Io<'_>) {}
}

fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// Bytes that resident memory grows by while the stack is made, and while connections begin.
fn growth(pool: &Pool, preallocated_connections: usize) -> (usize, usize) {
    let before = resident_bytes();
    let config = StackConfig { connections_max: 2 * CONNECTIONS, preallocated_connections, ..config(1) };
    let mut stack = Stack::new(config, pool, Nobody).unwrap();
    let made = resident_bytes();
    for number in 0..CONNECTIONS {
        let options = ConnectOptions::new(address(B, 80));
        stack.with(1_000_000_000, |_, io| io.connect(options)).unwrap_or_else(|error| panic!("{number}: {error}"));
        if let Some(output) = stack.output(common::PORT) {
            pool.clone().free(output);
        }
    }
    (made.saturating_sub(before), resident_bytes().saturating_sub(made))
}

#[test]
fn memory_of_preallocated_connections_is_taken_at_the_start() {
    let pool = Pool::new(PoolConfig { frames: 4096, frame_size: 2048 }).unwrap();
    // What a process takes once, whatever stack it makes.
    growth(&pool, 0);
    let (made, grown) = growth(&pool, 0);
    let (made_in_advance, grown_then) = growth(&pool, CONNECTIONS);
    let least = CONNECTIONS * 160;
    assert!(grown > least && made_in_advance > made + least, "{grown}, {made_in_advance} {made}");
    assert!(grown_then < 1 << 20, "{grown_then} bytes were taken while connections began");
    let config = StackConfig { connections_max: 1000, preallocated_connections: 1001, ..config(1) };
    let refused = Stack::new(config, &pool, Nobody).err().map(|error| error.to_string());
    assert_eq!(refused.as_deref(), Some("preallocated_connections must be from 0 to 1000"));
    let config = StackConfig { connections_max: 1000, preallocated_connections: 1000, ..common::config(1) };
    assert!(!matches!(Stack::new(config, &pool, Nobody), Err(StackError::Preallocate { .. })));
}
