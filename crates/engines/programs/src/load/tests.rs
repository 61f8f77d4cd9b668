//! Loads against servers without a stack: what is begun when, and that every connection and request is in the account.

use core::net::SocketAddr;
use std::sync::Arc;

use linerate_tcp::{CloseReason, Conn};

use super::*;
use crate::loopback::{Loopback, Weather};
use crate::network::{Network, Program};
use crate::serve::{Addresses, Chargen, Content, Discard, Echo, Files, HttpServer, Server, Site};

const SECOND: u64 = 1_000_000_000;

fn address() -> Vec<SocketAddr> {
    vec!["198.18.5.1:80".parse().unwrap()]
}

fn echo() -> Addresses {
    Addresses { tcp: address(), udp: address() }
}

fn client(text: &str) -> Client {
    let plan = Config::parse(text).unwrap().plan().unwrap();
    Client::new(Arc::new(plan))
}

fn load<S: Program>(text: &str, server: S) -> Loopback<Client, S> {
    let mut net = Loopback::new(client(text), server);
    net.start();
    net
}

/// The accounts, which balance in any case.
fn accounts<S: Program>(net: &Loopback<Client, S>) -> (Account, Account) {
    let (connections, requests) = net.client.accounts();
    assert!(connections.balances() && requests.balances(), "{connections:?}\n{requests:?}");
    (connections, requests)
}

fn first_wrong<S: Program>(net: &Loopback<Client, S>) -> &str {
    &net.client.meters().first_wrong.as_ref().unwrap().what
}

fn lost(account: &Account, cause: Cause) -> u64 {
    account.lost.iter().find(|loss| loss.cause == cause).map_or(0, |loss| loss.count)
}

const HTTP: &str = "[[request]]\nurl = \"http://198.18.5.1/\"\n";
const UDP: &str = "[[request]]\nurl = \"udp://198.18.5.1:80\"\n";
const ECHO: &str = "[[request]]\nurl = \"tcp://198.18.5.1:80\"\n";

#[test]
fn a_closed_loop_asks_again_when_it_has_its_answer() {
    let text = format!("connections = 3\nduration = \"1s\"\n{HTTP}");
    let mut net = load(&text, HttpServer::new(address(), Site::of_len(100), 0));
    net.run(1_000_000, 20 * SECOND);
    let (connections, requests) = accounts(&net);
    assert!(net.client.is_done());
    assert_eq!((connections.begun, connections.completed), (3, 3), "{connections:?}");
    // A round trip takes a round of one millisecond, or two.
    assert!((1_400..=3_100).contains(&requests.completed), "{requests:?}");
    assert_eq!((requests.completed, requests.unbegun), (requests.intended, 0));
    assert_eq!(net.server.served().requests, requests.completed);
    assert_eq!(net.client.meters().statuses.get(&200), Some(&requests.completed));
    assert_eq!(net.client.measured_ns(0), SECOND);
}

#[test]
fn think_time_is_a_pause_between_answer_and_request() {
    let text = format!("connections = 2\nthink = \"100ms\"\nduration = \"1s\"\n{HTTP}");
    let mut net = load(&text, HttpServer::new(address(), Site::of_len(100), 0));
    net.run(10_000, 20 * SECOND);
    let (_, requests) = accounts(&net);
    assert!((18..=20).contains(&requests.completed), "{requests:?}");
}

#[test]
fn an_open_loop_keeps_its_schedule_and_its_times() {
    let text = format!("connections = 4\nrate = \"1k\"\nduration = \"2s\"\n{ECHO}");
    let mut net = load(&text, Echo::new(echo()));
    net.run(10_000, 20 * SECOND);
    let (connections, requests) = accounts(&net);
    assert_eq!((requests.intended, requests.completed, connections.begun), (2_000, 2_000, 4), "{requests:?}");
    assert!(net.client.meters().latency.percentile_ns(99.0).unwrap() < 200_000);
}

#[test]
fn an_overload_shows_as_latency_and_as_requests_that_were_not_begun() {
    // One connection, and a round trip of about 10 ms: a hundred a second of the thousand.
    let text = format!("connections = 1\nrate = \"1k\"\nduration = \"2s\"\n{ECHO}");
    let mut net = load(&text, Echo::new(echo()));
    net.run(10_000_000, 20 * SECOND);
    let (_, requests) = accounts(&net);
    assert_eq!(requests.intended, 2_000);
    assert!((80..=220).contains(&requests.completed) && requests.unbegun > 1_700, "{requests:?}");
    let meters = net.client.meters();
    assert!(meters.latency.max_ns().unwrap() > SECOND, "requests waited for their turn: {:?}", meters.latency.max_ns());
}

#[test]
fn connections_by_schedule_make_their_requests_and_close() {
    let text = format!("connection-rate = \"100\"\nrequests-per-connection = 3\nduration = \"2s\"\n{HTTP}");
    let mut net = load(&text, HttpServer::new(address(), Site::of_len(10), 0));
    net.run(100_000, 20 * SECOND);
    let (connections, requests) = accounts(&net);
    assert_eq!((connections.intended, connections.completed), (200, 200), "{connections:?}");
    assert_eq!((requests.completed, requests.intended), (600, 600));
    assert_eq!(net.client.meters().handshakes.count(), 200);
}

#[test]
fn a_connection_that_was_due_in_time_makes_its_requests() {
    let text = format!("connection-rate = \"10\"\nrequests-per-connection = 2\nduration = \"1s\"\n{HTTP}");
    let mut net = load(&text, HttpServer::new(address(), Site::of_len(10), 0));
    net.run(400_000_000, 20 * SECOND);
    let (connections, requests) = accounts(&net);
    assert_eq!((connections.completed, requests.completed), (connections.intended, 2 * connections.intended));
    assert!((9..=10).contains(&connections.intended), "{connections:?}");
}

#[test]
fn a_ramp_of_connections_begins_slowly() {
    let text = format!("connections = 100\nramp-up = \"1s\"\nthink = \"10s\"\nduration = \"2s\"\n{HTTP}");
    let mut net = load(&text, HttpServer::new(address(), Site::of_len(10), 0));
    net.run(100_000, SECOND / 2);
    assert!((45..=55).contains(&net.state.begun), "{}", net.state.begun);
    net.run(100_000, 20 * SECOND);
    assert_eq!(accounts(&net).0.completed, 100);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let mut text = "connections = 2\npipeline = 8\ncount = 500\n".to_owned();
    for (path, len) in [("a", 1), ("b", 20_000), ("c", 300)] {
        text +=
            &format!("[[request]]\nurl = \"http://198.18.5.1/{path}\"\nexpect-bytes = {len}\nexpect-status = [200]\n");
    }
    let content = |len: usize| Content { media_type: "text/plain", body: vec![b'x'; len] };
    let mut files = Files::default();
    [("/a", 1), ("/b", 20_000), ("/c", 300)]
        .iter()
        .for_each(|(path, len)| files.add((*path).to_owned(), content(*len)));
    let site = Site::Files(files);
    for (piece, room) in [(1400, 64 * 1024), (13, 1000)] {
        let mut net = Loopback::new(client(&text), HttpServer::new(address(), site.clone(), 0));
        (net.state.piece, net.state.room) = (piece, room);
        net.start();
        net.run(100, 1000 * SECOND);
        let (_, requests) = accounts(&net);
        assert_eq!((requests.completed, requests.begun, requests.intended), (500, 500, 500), "{requests:?}");
        assert!(net.client.meters().kinds.iter().all(|kind| kind.completed > 120));
    }
}

#[test]
fn long_requests_wait_for_room() {
    let text =
        "connections = 2\ncount = 20\npipeline = 3\n[[request]]\nurl = \"tcp://198.18.5.1:80\"\nrequest = \"100k\"\n";
    let mut net = load(text, Echo::new(echo()));
    net.run(1_000, 100 * SECOND);
    let (_, requests) = accounts(&net);
    assert_eq!((requests.completed, net.client.meters().tx_bytes), (20, 2_000_000), "{requests:?}");
}

#[test]
fn a_server_that_refuses_is_asked_ten_times_a_second() {
    let text = format!("connections = 2\nduration = \"1s\"\n{}", HTTP.replace("198.18.5.1/", "198.18.5.1:81/"));
    let mut net = load(&text, HttpServer::new(address(), Site::of_len(10), 0));
    net.run(10_000, 20 * SECOND);
    let (connections, requests) = accounts(&net);
    let refused = lost(&connections, Cause::Refused);
    assert!((18..=22).contains(&refused) && refused == connections.begun, "{connections:?}");
    assert_eq!(requests.intended, 0);
}

#[test]
fn a_number_of_requests_ends_a_load_that_is_refused() {
    for connections in 1..=4 {
        let url = HTTP.replace("198.18.5.1/", "198.18.5.1:81/");
        let text = format!("connections = {connections}\ncount = 5\n{url}");
        let mut net = load(&text, HttpServer::new(address(), Site::of_len(10), 0));
        net.run(10_000, 20 * SECOND);
        let (connections, requests) = accounts(&net);
        assert_eq!((connections.begun, lost(&connections, Cause::Refused)), (5, 5), "{connections:?}");
        assert_eq!((requests.begun, net.client.stage()), (0, Stage::Done));
    }
}

#[test]
fn what_does_not_answer_times_out() {
    let text = format!("connections = 2\nduration = \"2s\"\ntimeout = \"500ms\"\n{ECHO}");
    let mut net = load(&text, Discard::new(echo()));
    net.run(10_000, 20 * SECOND);
    let (connections, requests) = accounts(&net);
    assert_eq!((lost(&requests, Cause::TimedOut), requests.completed), (8, 0), "{requests:?}");
    assert_eq!(lost(&connections, Cause::TimedOut), 8, "{connections:?}");

    let mut net = Loopback::new(client(&text), Discard::new(echo()));
    net.state.weather = Weather::Silent;
    net.start();
    net.run(10_000, 20 * SECOND);
    let (connections, requests) = accounts(&net);
    assert_eq!((lost(&connections, Cause::TimedOut), requests.begun), (8, 0), "{connections:?}");
}

#[test]
fn resets_are_counted_once_for_each_request_and_connection() {
    let text = format!("connections = 5\npipeline = 2\nduration = \"10s\"\n{ECHO}");
    let mut net = load(&text, Discard::new(echo()));
    net.run(10_000, SECOND);
    net.reset_all();
    net.run(10_000, SECOND);
    let (connections, requests) = net.client.accounts();
    assert_eq!((lost(&connections, Cause::Reset), lost(&requests, Cause::Reset)), (5, 10), "{connections:?}");
    assert_eq!((connections.open, requests.open), (5, 10));
    assert!(connections.balances() && requests.balances());
}

/// Answers each segment twice.
struct Twice;

impl Program for Twice {
    fn start<N: Network>(&mut self, network: &mut N) -> Result<(), String> {
        network.listen(address()[0], 0).map(drop).map_err(|error| error.to_string())
    }

    fn connected<N: Network>(&mut self, _: Conn, _: &mut N) {}

    fn received<N: Network>(&mut self, conn: Conn, data: &[u8], network: &mut N) -> usize {
        network.send(conn, &b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".repeat(2));
        data.len()
    }

    fn sendable<N: Network>(&mut self, _: Conn, _: &mut N) {}

    fn peer_closed<N: Network>(&mut self, conn: Conn, network: &mut N) {
        network.close(conn);
    }

    fn closed<N: Network>(&mut self, _: Conn, _: CloseReason, _: &mut N) {}
}

/// The second one was there before the next request, so it is no answer to that.
#[test]
fn an_answer_that_nobody_asked_for_is_wrong() {
    let mut net = load(&format!("connections = 1\ncount = 10\n{HTTP}"), Twice);
    net.run(10_000, 20 * SECOND);
    let (_, requests) = accounts(&net);
    assert_eq!((requests.begun, requests.completed, lost(&requests, Cause::WrongAnswer)), (10, 5, 5), "{requests:?}");
    assert_eq!(
        first_wrong(&net),
        "bytes that no request asked for: `HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok`"
    );
}

#[test]
fn a_connection_that_the_server_closes_is_replaced() {
    let text =
        "connections = 2\ncount = 40\n[[request]]\nurl = \"http://198.18.5.1/\"\nheaders = [\"Connection: close\"]\n";
    let mut net = load(text, HttpServer::new(address(), Site::of_len(10), 0));
    net.run(10_000, 20 * SECOND);
    let (connections, requests) = accounts(&net);
    // One more may have been begun before the last answer was there.
    assert_eq!((requests.completed, connections.completed), (40, connections.begun), "{connections:?} {requests:?}");
    assert!((40..=41).contains(&connections.begun));
    assert!(connections.lost.is_empty() && requests.lost.is_empty());
}

#[test]
fn wrong_answers_are_no_completed_ones() {
    let text = "connections = 1\ncount = 10\n[[request]]\nurl = \"http://198.18.5.1/\"\nexpect-bytes = 11\n";
    let mut net = load(text, HttpServer::new(address(), Site::of_len(10), 0));
    net.run(10_000, 20 * SECOND);
    let (_, requests) = accounts(&net);
    assert_eq!((requests.completed, lost(&requests, Cause::WrongAnswer)), (0, 10));
    assert_eq!(net.client.meters().latency.count(), 0);
    assert_eq!(first_wrong(&net), "10 bytes of content where 11 are expected");

    let mut net = load(&format!("count = 5\n{HTTP}"), Echo::new(echo()));
    net.run(10_000, 20 * SECOND);
    let (_, requests) = accounts(&net);
    assert_eq!((requests.completed, lost(&requests, Cause::WrongAnswer)), (0, 5), "an echo is no HTTP response");
    assert!(first_wrong(&net).contains("tcp://"), "{}", first_wrong(&net));
}

#[test]
fn the_end_waits_for_answers_and_then_aborts() {
    let text = format!("connections = 3\nduration = \"1s\"\n{ECHO}");
    let mut net = load(&text, Discard::new(echo()));
    net.run(10_000, 100 * SECOND);
    let (connections, requests) = accounts(&net);
    assert!(net.client.is_done());
    assert_eq!((lost(&requests, Cause::Unfinished), lost(&connections, Cause::Unfinished)), (3, 3), "{requests:?}");
    assert!((5 * SECOND..8 * SECOND).contains(&(net.state.now_ns - SECOND)), "5 s after the end: {}", net.state.now_ns);
}

#[test]
fn after_a_number_of_requests_each_has_all_its_time() {
    let mut net = load(&format!("connections = 3\ncount = 3\ntimeout = \"8s\"\n{ECHO}"), Discard::new(echo()));
    net.run(10_000, 100 * SECOND);
    let (connections, requests) = accounts(&net);
    assert!(net.client.is_done());
    assert_eq!((lost(&requests, Cause::TimedOut), lost(&connections, Cause::TimedOut)), (3, 3), "{requests:?}");
    assert!((8 * SECOND..9 * SECOND).contains(&(net.state.now_ns - SECOND)), "{}", net.state.now_ns);
}

/// Echoes, and leaves connections open that their clients have closed.
struct Unclosing(Echo);

impl Program for Unclosing {
    fn start<N: Network>(&mut self, network: &mut N) -> Result<(), String> {
        self.0.start(network)
    }

    fn connected<N: Network>(&mut self, conn: Conn, network: &mut N) {
        self.0.connected(conn, network);
    }

    fn received<N: Network>(&mut self, conn: Conn, data: &[u8], network: &mut N) -> usize {
        self.0.received(conn, data, network)
    }

    fn sendable<N: Network>(&mut self, conn: Conn, network: &mut N) {
        self.0.sendable(conn, network);
    }

    fn peer_closed<N: Network>(&mut self, _: Conn, _: &mut N) {}

    fn closed<N: Network>(&mut self, conn: Conn, why: CloseReason, network: &mut N) {
        self.0.closed(conn, why, network);
    }
}

#[test]
fn a_server_that_does_not_close_is_waited_for_a_second_after_the_last_answer() {
    for (text, connections_wanted) in
        [("count = 30\nconnections = 3", 3), ("count = 30\nrequests-per-connection = 1", 30)]
    {
        // All but one connection of the second load are closed long before its end, and time out after 10 s.
        let mut net = load(&format!("{text}\n{ECHO}"), Unclosing(Echo::new(echo())));
        net.run(10_000, 100 * SECOND);
        let (connections, requests) = accounts(&net);
        assert!(net.client.is_done());
        assert_eq!(
            (requests.completed, lost(&connections, Cause::Unclosed)),
            (30, connections_wanted),
            "{connections:?}"
        );
        let ended_ns = net.state.now_ns - SECOND;
        assert!((SECOND..SECOND * 3 / 2).contains(&ended_ns), "1 s after the last answer: {ended_ns}");
    }
}

#[test]
fn the_warm_up_is_in_the_account_and_not_in_the_latency() {
    let text = format!("connections = 1\nrate = \"100\"\nwarmup = \"1s\"\nduration = \"3s\"\n{ECHO}");
    let mut net = load(&text, Echo::new(echo()));
    net.run(10_000, 20 * SECOND);
    let (_, requests) = accounts(&net);
    let meters = net.client.meters();
    assert_eq!((requests.completed, meters.latency.count(), net.client.measured_ns(0)), (300, 200, 2 * SECOND));
    // Bytes go by the same time as answers.
    assert_eq!((meters.rx_bytes / requests.completed, meters.measured_rx_bytes), (64, 64 * meters.answered));
}

#[test]
fn connections_of_one_request_are_as_many_as_requests() {
    let text = format!("connections = 20\ncount = 100\nrequests-per-connection = 1\n{HTTP}");
    let mut net = load(&text, HttpServer::new(address(), Site::of_len(100), 0));
    net.run(1_000_000, 20 * SECOND);
    let (connections, requests) = accounts(&net);
    assert!(net.client.is_done());
    assert_eq!((requests.completed, connections.begun, connections.completed), (100, 100, 100), "{connections:?}");
}

#[test]
fn datagrams_are_asked_and_answered() {
    let text = format!("connections = 3\nduration = \"1s\"\n{UDP}");
    let mut net = load(&text, Echo::new(echo()));
    net.run(1_000_000, 20 * SECOND);
    let (connections, requests) = accounts(&net);
    assert!(net.client.is_done());
    assert_eq!((connections.begun, connections.completed), (3, 3), "{connections:?}");
    assert!(requests.completed > 1_000 && requests.completed == requests.intended, "{requests:?}");
    assert_eq!(net.server.served().datagrams, requests.completed);
    assert_eq!(net.client.meters().rx_bytes, 64 * requests.completed);
}

#[test]
fn a_datagram_that_is_lost_costs_its_request_and_a_copy_answers_nothing() {
    let text = format!("connections = 2\ncount = 90\ntimeout = \"100ms\"\n{UDP}");
    let mut net = load(&text, Echo::new(echo()));
    net.state.copies = vec![1, 2, 0];
    net.run(1_000_000, 60 * SECOND);
    let (connections, requests) = accounts(&net);
    assert_eq!((requests.begun, requests.completed, lost(&requests, Cause::TimedOut)), (90, 60, 30), "{requests:?}");
    // Each time-out gives a socket up; those that are left close in order.
    assert_eq!(lost(&connections, Cause::TimedOut), 30, "{connections:?}");
    // The last copy may come when its socket is closed already.
    assert!((29..=30).contains(&net.client.meters().strays), "{}", net.client.meters().strays);
}

#[test]
fn a_port_at_which_nobody_listens_refuses_datagrams() {
    let text = format!("connections = 1\ncount = 5\n{UDP}");
    let mut net = load(&text, Echo::new(Addresses { tcp: address(), udp: Vec::new() }));
    net.run(1_000_000, 60 * SECOND);
    let (connections, requests) = accounts(&net);
    assert!(net.client.is_done());
    assert_eq!((requests.begun, lost(&requests, Cause::Refused)), (5, 5), "{requests:?}");
    assert_eq!(lost(&connections, Cause::Refused), 5, "{connections:?}");
}

#[test]
fn a_datagram_with_another_answer_is_wrong() {
    let text = "count = 3\n[[request]]\nurl = \"udp://198.18.5.1:80\"\nresponse = 443\n";
    let mut net = load(text, Chargen::new(echo()));
    net.run(1_000_000, 60 * SECOND);
    assert_eq!(lost(&accounts(&net).1, Cause::WrongAnswer), 3);
    assert!(
        first_wrong(&net).starts_with("a datagram of 444 bytes where 443 are expected: `"),
        "{}",
        first_wrong(&net)
    );
    let mut net = load(&text.replace("443", "444"), Chargen::new(echo()));
    net.run(1_000_000, 60 * SECOND);
    assert_eq!(accounts(&net).1.completed, 3);
}

#[test]
fn datagrams_are_not_pipelined() {
    let config = Config::parse(&format!("pipeline = 2\n{UDP}")).unwrap();
    assert!(config.plan().unwrap_err().contains("connections"));
}
