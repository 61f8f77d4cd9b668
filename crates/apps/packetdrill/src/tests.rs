//! Two stacks, each behind its interface, joined by hand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::calls::{self, Outcome};
use crate::host::{Host, State};
use crate::settings::Settings;

const PORT: u16 = 8080;
/// Descriptors of the tests; no kernel knows them.
const LISTENER: i32 = 3;
const CLIENT: i32 = 4;
const SERVER: i32 = 5;
const EPOLL: i32 = 6;

fn host(local: &str) -> Arc<Host> {
    let flags = format!("local={local}/24,gateway=198.18.0.254");
    Arc::new(Host::new(Settings::read(&flags).expect("flags")))
}

fn address(last: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([198, 18, 0, last], port))
}

fn call<R>(host: &Host, work: impl FnOnce(&mut State) -> Outcome<R>) -> R {
    host.now(work).expect("the call")
}

/// Takes the next `count` packets of one to the other.
fn carry(from: &Host, to: &Host, count: usize) {
    for _ in 0..count {
        let (_, packet) = from.next_packet().expect("a packet");
        assert!(to.now(|state| state.deliver(&packet)));
    }
}

/// A client and a server, connected.
fn connected() -> (Arc<Host>, Arc<Host>) {
    let (client, server) = (host("198.18.0.1"), host("198.18.0.2"));
    call(&server, |state| calls::socket(state, LISTENER, 0));
    call(&server, |state| calls::bind(state, LISTENER, address(2, PORT)));
    call(&server, |state| calls::listen(state, LISTENER, 1));
    assert!(server.now(|state| calls::accept(state, LISTENER)).is_none());
    call(&client, |state| calls::socket(state, CLIENT, libc::O_NONBLOCK));
    call(&client, |state| calls::connect(state, CLIENT, address(2, PORT)));
    assert!(client.now(|state| calls::connected(state, CLIENT)).is_none());
    assert_eq!(client.now(|state| calls::connect(state, CLIENT, address(2, PORT))), Err(libc::EALREADY));
    carry(&client, &server, 1);
    carry(&server, &client, 1);
    carry(&client, &server, 1);
    assert_eq!(client.now(|state| calls::connected(state, CLIENT)), Some(Ok(())));
    let (conn, peer) = server.now(|state| calls::accept(state, LISTENER)).expect("a connection").expect("accept");
    assert_eq!(peer.map(|peer| peer.ip()), Some(address(1, 0).ip()));
    server.now(|state| calls::adopt(state, LISTENER, SERVER, conn));
    (client, server)
}

#[test]
fn bytes_pass_and_both_close() {
    let (client, server) = connected();
    assert_eq!(server.now(|state| calls::read(state, SERVER, 10, false)), None);
    assert_eq!(client.now(|state| calls::write(state, CLIENT, b"hello")), Some(Ok(5)));
    carry(&client, &server, 1);
    assert_eq!(call(&server, |state| calls::queued(state, SERVER, false)), 5);
    assert_eq!(server.now(|state| calls::read(state, SERVER, 4, true)), Some(Ok(b"hell".to_vec())));
    assert_eq!(server.now(|state| calls::read(state, SERVER, 2, false)), Some(Ok(b"he".to_vec())));
    assert_eq!(server.now(|state| calls::read(state, SERVER, 9, false)), Some(Ok(b"llo".to_vec())));
    // The acknowledgment is delayed by 40 ms of virtual time.
    let before_ns = server.now(|state| state.now_ns());
    let (left_ns, packet) = server.next_packet().expect("an acknowledgment");
    assert!((39_000_000..42_000_000).contains(&(left_ns - before_ns)), "{}", left_ns - before_ns);
    assert!(client.now(|state| state.deliver(&packet)));
    assert_eq!(call(&client, |state| calls::queued(state, CLIENT, true)), 0);

    call(&client, |state| calls::close(state, CLIENT));
    assert_eq!(client.now(|state| calls::flags(state, CLIENT)), Err(libc::EBADF));
    carry(&client, &server, 1);
    assert_eq!(server.now(|state| calls::read(state, SERVER, 9, false)), Some(Ok(Vec::new())));
    call(&server, |state| calls::close(state, SERVER));
    // It acknowledges, and closes.
    carry(&server, &client, 2);
    carry(&client, &server, 1);
    assert!(!client.now(|state| state.deliver(&[])), "no packet");
}

#[test]
fn unread_bytes_reset_the_connection() {
    let (client, server) = connected();
    assert_eq!(client.now(|state| calls::write(state, CLIENT, b"for nobody")), Some(Ok(10)));
    carry(&client, &server, 1);
    call(&server, |state| calls::close(state, SERVER));
    carry(&server, &client, 1);
    assert_eq!(client.now(|state| calls::read(state, CLIENT, 9, false)), Some(Err(libc::ECONNRESET)));
    assert_eq!(client.now(|state| calls::read(state, CLIENT, 9, false)), Some(Ok(Vec::new())));
    assert_eq!(client.now(|state| calls::write(state, CLIENT, b"x")), Some(Err(libc::EPIPE)));
}

#[test]
fn a_call_that_waits_returns_when_its_bytes_come_and_time_passes_only_then() {
    let (client, server) = connected();
    let waiting = server.clone();
    let reader = thread::spawn(move || {
        let read = waiting.until(None, |state| calls::read(state, SERVER, 9, false));
        (read, waiting.look())
    });
    // It waits, however late it came to that.
    while !server.has_waiter() && !reader.is_finished() {
        thread::sleep(Duration::from_millis(1));
    }
    server.sleep(5_000_000_000);
    let before_ns = server.look();
    assert!(!reader.is_finished());
    assert_eq!(client.now(|state| calls::write(state, CLIENT, b"now")), Some(Ok(3)));
    carry(&client, &server, 1);
    server.sleep(5_000_000_000);
    let (read, at_ns) = reader.join().expect("no panic");
    assert_eq!(read, Some(Ok(b"now".to_vec())));
    assert!(at_ns - before_ns < 1_000_000, "{} ns late", at_ns - before_ns);
}

#[test]
fn what_is_ready_is_reported_once_by_edge_and_always_by_level() {
    let (client, server) = connected();
    call(&server, |state| calls::epoll(state, EPOLL));
    let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
    call(&server, |state| calls::epoll_control(state, EPOLL, libc::EPOLL_CTL_ADD, SERVER, (events, 7)));
    let add = |state: &mut State| calls::epoll_control(state, EPOLL, libc::EPOLL_CTL_ADD, SERVER, (events, 7));
    assert_eq!(server.now(add), Err(libc::EEXIST));
    let wait = || server.until(Some(1_000), |state| calls::epoll_events(state, EPOLL, 4));
    assert_eq!(wait(), None);
    for _ in 0..2 {
        assert_eq!(client.now(|state| calls::write(state, CLIENT, b"more")), Some(Ok(4)));
        carry(&client, &server, 1);
        assert_eq!(wait(), Some(Ok(vec![(libc::EPOLLIN as u32, 7)])));
        assert_eq!(wait(), None);
        let polled = server.now(|state| calls::poll(state, &[(SERVER, libc::POLLIN), (99, 0)]));
        assert_eq!(polled, Some(vec![libc::POLLIN, libc::POLLNVAL]));
    }
}

#[test]
fn options_are_kept_or_refused() {
    let (client, _server) = connected();
    let get = |level, name| client.now(|state| calls::option(state, CLIENT, level, name));
    let set = |level, name, values: &[i32]| client.now(|state| calls::set_option(state, CLIENT, level, name, values));
    let number = |value: i32| Ok(value.to_ne_bytes().to_vec());
    assert_eq!(set(libc::IPPROTO_TCP, libc::TCP_NODELAY, &[1]), Ok(()));
    assert_eq!(get(libc::IPPROTO_TCP, libc::TCP_NODELAY), number(1));
    assert_eq!(get(libc::SOL_SOCKET, libc::SO_KEEPALIVE), number(0));
    assert_eq!(set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, &[5]), Ok(()));
    assert_eq!(get(libc::SOL_SOCKET, libc::SO_KEEPALIVE), number(0), "a time is no switch");
    assert_eq!(set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, &[1]), Ok(()));
    assert_eq!(get(libc::SOL_SOCKET, libc::SO_KEEPALIVE), number(1));
    assert_eq!(set(libc::IPPROTO_TCP, libc::TCP_CORK, &[1]), Err(libc::ENOPROTOOPT));
    assert_eq!(set(libc::SOL_SOCKET, libc::SO_LINGER, &[]), Err(libc::EINVAL));
    let info = get(libc::IPPROTO_TCP, libc::TCP_INFO).expect("TCP_INFO");
    let word = |at: usize| u32::from_ne_bytes(info[at..at + 4].try_into().expect("four bytes"));
    assert_eq!((info[0], word(16), word(80)), (1, 1448, 10), "established, MSS, window in segments");
    assert_eq!(get(libc::SOL_SOCKET, libc::SO_BROADCAST), Err(libc::ENOPROTOOPT));
}
