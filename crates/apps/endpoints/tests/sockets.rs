//! Streams and listeners in tasks of tokio, over two stacks that a memif joins.

use super::link;

use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;

use linerate_control::{Command, Connection};
use linerate_endpoints::sockets::{Host, TcpListener, TcpStream};
use link::{LONG, Link};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

const SERVER: &str = "198.18.5.1:1000";

fn server() -> SocketAddr {
    SERVER.parse().unwrap()
}

/// Two hosts, and a listener of the first one.
struct Hosts {
    two: Arc<Host>,
    listener: TcpListener,
    one: Arc<Host>,
    _link: Link,
}

impl Hosts {
    fn new() -> Hosts {
        let link = Link::new();
        let (one, two) = (Arc::new(link.host(1)), Arc::new(link.host(2)));
        let listener = one.listen(server()).unwrap();
        Hosts { two, listener, one, _link: link }
    }

    /// Both ends of a connection: that of the client, that of the server.
    async fn pair(&self) -> (TcpStream, TcpStream) {
        let (client, accepted) = tokio::join!(self.two.connect(server()), self.listener.accept());
        (client.unwrap(), accepted.unwrap().0)
    }

    /// Waits until the hosts have so many connections.
    async fn has_open(&self, host: &Host, open: u64) {
        while host.running().snapshot().unwrap().program.open != open {
            tokio::task::yield_now().await;
        }
    }
}

/// Runs a test, which must come to its end.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(LONG, test).await.expect("the test does not end") });
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

#[test]
fn bytes_go_both_ways_at_the_same_time() {
    run(async {
        let hosts = Hosts::new();
        let (client, served) = hosts.pair().await;
        assert_eq!(client.local_addr().unwrap(), served.peer_addr().unwrap());
        let sent = bytes(2_000_000);
        let both = async |stream: TcpStream| {
            let (mut reading, mut writing) = tokio::io::split(stream);
            let mut received = Vec::new();
            let write = async {
                writing.write_all(&sent).await.unwrap();
                writing.shutdown().await.unwrap();
            };
            let (_, read) = tokio::join!(write, reading.read_to_end(&mut received));
            read.unwrap();
            assert!(received == sent);
        };
        tokio::join!(both(client), both(served));
    });
}

#[test]
fn half_of_a_connection_closes() {
    run(async {
        let hosts = Hosts::new();
        let (mut client, mut served) = hosts.pair().await;
        client.write_all(b"question").await.unwrap();
        client.shutdown().await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(client.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        let mut question = String::new();
        served.read_to_string(&mut question).await.unwrap();
        assert_eq!(question, "question");
        // The other half stands as long as it is used.
        for _ in 0..3 {
            served.write_all(b"answer").await.unwrap();
            let mut answer = [0; 6];
            client.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"answer");
        }
        drop(served);
        assert_eq!(client.read(&mut [0; 6]).await.unwrap(), 0);
        hosts.has_open(&hosts.two, 0).await;
        hosts.has_open(&hosts.one, 0).await;
        assert_eq!(client.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_reset_reaches_reader_and_writer() {
    run(async {
        let Hosts { two, listener, one, _link } = Hosts::new();
        let (client, accepted) = tokio::join!(two.connect(server()), listener.accept());
        let (mut client, accepted) = (client.unwrap(), accepted.unwrap().0);
        let mut waiting = tokio::spawn(async move { client.read(&mut [0; 1]).await.map_err(|error| (error, client)) });
        assert!(tokio::time::timeout(std::time::Duration::from_millis(1), &mut waiting).await.is_err());
        // A host that ends resets its connections.
        tokio::task::spawn_blocking(move || drop(one)).await.unwrap();
        let (error, mut client) = waiting.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert_eq!(client.write(b"x").await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(listener.accept().await.map(drop).unwrap_err().kind(), ErrorKind::NotConnected);
        drop(accepted);
    });
}

#[test]
fn a_host_that_was_stopped_refuses_at_once() {
    run(async {
        let hosts = Hosts::new();
        let (mut client, mut served) = hosts.pair().await;
        let host = Arc::clone(&hosts.two);
        tokio::task::spawn_blocking(move || {
            Connection::to(host.running().dir()).unwrap().ask(&Command::Stop {}).unwrap();
        })
        .await
        .unwrap();
        while !hosts.two.running().has_ended() {
            tokio::task::yield_now().await;
        }
        // Its peers are told, too.
        assert_eq!(client.read(&mut [0; 1]).await.unwrap_err().kind(), ErrorKind::ConnectionAborted);
        assert_eq!(served.read(&mut [0; 1]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(hosts.two.connect(server()).await.map(drop).unwrap_err().kind(), ErrorKind::ConnectionAborted);
        assert!(hosts.two.listen("198.18.5.2:1".parse().unwrap()).is_err());
    });
}

#[test]
fn a_writer_waits_for_its_reader() {
    run(async {
        let hosts = Hosts::new();
        let (mut client, mut served) = hosts.pair().await;
        let sent = bytes(20_000_000);
        let expected = sent.clone();
        let writer = tokio::spawn(async move {
            client.write_all(&sent).await.unwrap();
            client.flush().await.unwrap();
        });
        // Both queues, the send buffer and the window fill, and then nothing moves.
        let sent_until_now = || hosts.two.running().snapshot().unwrap().packets.sent_bytes;
        let (mut before, mut same) = (0, 0);
        while same < 50 {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            let now = sent_until_now();
            same = if now == before && now > 100_000 { same + 1 } else { 0 };
            before = now;
        }
        assert!(!writer.is_finished());
        assert!(before < 10_000_000, "{before} bytes left though nobody reads");
        let mut received = vec![0; expected.len()];
        served.read_exact(&mut received).await.unwrap();
        assert!(received == expected);
        writer.await.unwrap();
    });
}

#[test]
fn futures_that_are_dropped_lose_nothing() {
    run(async {
        let hosts = Hosts::new();
        let (mut client, mut served) = hosts.pair().await;
        let mut received = Vec::new();
        for at in 0..100u8 {
            // A read that is given up, before a byte came or after it.
            let mut byte = [0; 1];
            tokio::select! {
                biased;
                read = served.read(&mut byte) => received.extend_from_slice(&byte[..read.unwrap()]),
                () = tokio::task::yield_now() => {}
            }
            client.write_all(&[at]).await.unwrap();
        }
        client.shutdown().await.unwrap();
        served.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, (0..100).collect::<Vec<u8>>());
        // Two wait for a connection, one gives up; the other one gets it.
        let (one, two) = (hosts.two.connect(server()), hosts.listener.accept());
        tokio::select! {
            biased;
            _ = hosts.listener.accept() => panic!("nobody connects yet"),
            () = tokio::task::yield_now() => {}
        }
        let (_client, accepted) = tokio::join!(one, two);
        accepted.unwrap();
    });
}

#[test]
fn a_connection_that_nobody_waits_for_is_given_up() {
    run(async {
        let hosts = Hosts::new();
        // Nobody has this address, so the handshake would take its time.
        let silent = "198.18.5.77:1".parse().unwrap();
        let waited = tokio::time::timeout(std::time::Duration::from_millis(20), hosts.two.connect(silent)).await;
        assert!(waited.is_err());
        hosts.has_open(&hosts.two, 0).await;
        // One that is given up before the stack heard of it.
        drop(Box::pin(hosts.two.connect(silent)));
        let (_client, _served) = hosts.pair().await;
        hosts.has_open(&hosts.two, 1).await;
    });
}

#[test]
fn a_listener_that_is_dropped_frees_its_address() {
    run(async {
        let Hosts { two, listener, one, _link } = Hosts::new();
        drop(listener);
        let refused = two.connect(server()).await.map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let listener = one.listen(server()).unwrap();
        let (client, accepted) = tokio::join!(two.connect(server()), listener.accept());
        assert!(client.is_ok() && accepted.is_ok());
    });
}

#[test]
fn several_tasks_accept_from_one_listener() {
    run(async {
        let hosts = Hosts::new();
        let listener = Arc::new(hosts.listener);
        let mut accepting = JoinSet::new();
        for _ in 0..8 {
            let listener = Arc::clone(&listener);
            accepting.spawn(async move { listener.accept().await.unwrap().0 });
        }
        tokio::task::yield_now().await;
        let mut clients = Vec::new();
        for _ in 0..8 {
            clients.push(hosts.two.connect(server()).await.unwrap());
        }
        assert_eq!(accepting.join_all().await.len(), 8);
    });
}

#[test]
fn hundreds_of_connections_at_a_time() {
    const CONNECTIONS: usize = 400;
    run(async {
        let Hosts { two, listener, one, _link } = Hosts::new();
        let serving = tokio::spawn(async move {
            let mut streams = JoinSet::new();
            for _ in 0..CONNECTIONS {
                let (stream, _) = listener.accept().await.unwrap();
                streams.spawn(async move {
                    let (mut reading, mut writing) = tokio::io::split(stream);
                    tokio::io::copy(&mut reading, &mut writing).await.unwrap();
                    writing.shutdown().await.unwrap();
                });
            }
            streams.join_all().await;
        });
        let mut clients = JoinSet::new();
        for number in 0..CONNECTIONS {
            let two = Arc::clone(&two);
            clients.spawn(async move {
                let mut stream = two.connect(server()).await.unwrap();
                let question = bytes(number * 7 + 1);
                stream.write_all(&question).await.unwrap();
                stream.shutdown().await.unwrap();
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).await.unwrap();
                assert_eq!(answer, question);
            });
        }
        clients.join_all().await;
        serving.await.unwrap();
        drop(one);
    });
}
