//! Who hears of a server's address first finds it listening.

use super::link;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use linerate_endpoints::{NetworkConfig, start};
use linerate_programs::serve::ServeDocument;
use linerate_programs::{Network, Program, Reports};
use linerate_tcp::{CloseReason, Conn, UdpId};
use link::Link;

/// Tells when it was started.
struct Starts<const ONLY_LISTENS: bool>(Arc<OnceLock<Instant>>);

impl<const ONLY_LISTENS: bool> Program for Starts<ONLY_LISTENS> {
    fn start<N: Network>(&mut self, _: &mut N) -> Result<(), String> {
        self.0.set(Instant::now()).map_err(|_| "started twice".to_owned())
    }

    fn connected<N: Network>(&mut self, _: Conn, _: &mut N) {}

    fn received<N: Network>(&mut self, _: Conn, data: &[u8], _: &mut N) -> usize {
        data.len()
    }

    fn sendable<N: Network>(&mut self, _: Conn, _: &mut N) {}

    fn peer_closed<N: Network>(&mut self, _: Conn, _: &mut N) {}

    fn closed<N: Network>(&mut self, _: Conn, _: CloseReason, _: &mut N) {}

    fn datagram<N: Network>(&mut self, _: UdpId, _: SocketAddr, _: SocketAddr, _: &[u8], _: &mut N) {}
}

impl<const ONLY_LISTENS: bool> Reports for Starts<ONLY_LISTENS> {
    type Document = ServeDocument;
    type Reading = ();
    const SCHEMA: &'static str = "test";
    const SAVES_CPU: bool = false;
    const ONLY_LISTENS: bool = ONLY_LISTENS;

    fn reading(&self, _: u64) {}

    fn document(_: &[()]) -> ServeDocument {
        ServeDocument::default()
    }
}

/// When the program was started and when its addresses could be used, since it was asked for.
fn times<const ONLY_LISTENS: bool>() -> [Duration; 2] {
    let (link, started, asked) = (Link::new(), Arc::new(OnceLock::new()), Instant::now());
    let network = NetworkConfig { port: "null:".into(), no_duplicate_detection: false, ..link.network(1) };
    let program = Starts::<ONLY_LISTENS>(started.clone());
    let _running = start(program, &network, link.options("end1")).unwrap();
    [*started.get().expect("it was started") - asked, asked.elapsed()]
}

#[test]
fn a_server_listens_while_its_addresses_are_probed_for() {
    // Three probes, and a wait after the last: two seconds at least (RFC 5227 section 1.1).
    const PROBED: Duration = Duration::from_secs(2);
    let [started, usable] = times::<true>();
    assert!(started + PROBED < usable, "started after {started:?}, usable after {usable:?}");
    let [started, usable] = times::<false>();
    assert!(started > PROBED, "what begins to send waits for its addresses: {started:?} of {usable:?}");
}
