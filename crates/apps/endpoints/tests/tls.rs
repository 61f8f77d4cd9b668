//! Programs over TLS, over two stacks that a memif joins.

use super::link;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use linerate_endpoints::document::Snapshot;
use linerate_endpoints::tls::{Tls, Trust, client_config, self_signed, server_config};
use linerate_programs::load::{Cause, Client, Config, LoadDocument};
use linerate_programs::serve::{Addresses, Discard, Echo, HttpServer, ServeDocument, Server, Site};
use linerate_programs::{Reports, TlsDocument};
use link::{LONG, Link, any};

/// A server's certificate and key, and the certificate as a file that a client may trust.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Files {
        let files = Files(tempfile::tempdir().unwrap());
        let made = rcgen::generate_simple_self_signed(["198.18.5.1".to_owned(), "fd00:5::1".to_owned()]).unwrap();
        std::fs::write(files.path("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(files.path("key.pem"), made.signing_key.serialize_pem()).unwrap();
        files
    }

    /// One that is also an authority, as `openssl req -x509` makes it.
    fn of_an_authority(names: &[&str], last_year: i32) -> Files {
        let files = Files(tempfile::tempdir().unwrap());
        let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.not_after = rcgen::date_time_ymd(last_year, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        std::fs::write(files.path("cert.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(files.path("key.pem"), key.serialize_pem()).unwrap();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Runs a load against a server over TLS.
fn load<S: Reports<Document = ServeDocument> + Server>(
    text: &str,
    server: S,
    files: &Files,
    trust: &Trust,
) -> (Snapshot<LoadDocument>, Snapshot<ServeDocument>) {
    let link = Link::new();
    let config = server_config(&files.path("cert.pem"), &files.path("key.pem")).unwrap();
    let server = link.start(1, Tls::server(server, config));
    let plan = Config::parse(text).unwrap().plan().unwrap();
    let client = link.start(2, Tls::client(Client::new(Arc::new(plan)), client_config(trust).unwrap()));
    let began = Instant::now();
    while !client.has_ended() {
        assert!(began.elapsed() < LONG, "the load does not end: {:?}", client.snapshot().map(|one| one.program));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let (client, server) = (client.stop().unwrap(), server.stop().unwrap());
    assert_eq!((client.frames_missing, server.frames_missing), (0, 0));
    (client.snapshot, server.snapshot)
}

#[test]
fn a_load_over_tls_is_answered_and_accounted_for() {
    let files = Files::new();
    for host in ["198.18.5.1", "[fd00:5::1]"] {
        let text = format!(
            "connections = 10\npipeline = 2\nrequests-per-connection = 20\ncount = 600\n[[request]]\n\
             url = \"https://{host}/\"\nexpect-bytes = 30000\n[[request]]\nurl = \"https://{host}/x\"\nbody = \"hello\"\n"
        );
        let server = HttpServer::new(any(443), Site::of_len(30_000), 0);
        let (client, served) = load(&text, server, &files, &Trust::File(files.path("cert.pem")));
        let load = &client.program;
        assert!(load.is_well(), "{load:?}");
        assert_eq!((load.requests.completed, served.program.served.requests), (600, 600));
        let handshakes = client.tls.unwrap().handshakes;
        assert!(handshakes >= 30 && handshakes == served.tls.as_ref().unwrap().handshakes, "{handshakes} {served:?}");
        assert_eq!(load.handshakes.count, handshakes);
    }
}

#[test]
fn long_echoes_over_tls_are_compared() {
    // More than all buffers hold, so that each side has to wait for the other one.
    let text = "connections = 3\ncount = 6\n[[request]]\nurl = \"tls://198.18.5.1:7\"\nrequest = \"8M\"\n";
    let (client, _) =
        load(text, Echo::new(Addresses { tcp: any(7), udp: Vec::new() }), &Files::new(), &Trust::Everybody);
    assert!(client.program.is_well(), "{:?}", client.program);
    assert_eq!(client.program.rx_bytes, 48_000_000);
}

#[test]
fn connections_by_schedule_close_in_order() {
    let text = "connection-rate = 100\nduration = \"1s\"\n[[request]]\nurl = \"https://198.18.5.1/\"\n";
    let (client, served) = load(text, HttpServer::new(any(443), Site::of_len(10), 0), &Files::new(), &Trust::Everybody);
    assert!(client.program.is_well(), "{:?}", client.program);
    assert_eq!((served.program.served.failed, served.program.open), (0, 0));
}

#[test]
fn a_certificate_of_somebody_else_is_not_trusted() {
    let (files, others) = (Files::new(), Files::new());
    let text = "connections = 2\ncount = 5\n[[request]]\nurl = \"https://198.18.5.1/\"\n";
    let trust = Trust::File(others.path("cert.pem"));
    let (client, served) = load(text, HttpServer::new(any(443), Site::of_len(10), 0), &files, &trust);
    let load = &client.program;
    assert!(load.requests.intended == 0 && load.connections.balances() && !load.is_well(), "{load:?}");
    assert!(load.connections.lost.iter().all(|loss| loss.cause == Cause::Tls && loss.count >= 5), "{load:?}");
    let TlsDocument { failed, errors, .. } = client.tls.unwrap();
    assert!(failed >= 5 && errors.keys().all(|error| error.contains("certificate")), "{errors:?}");
    // The server is told by an alert.
    let TlsDocument { handshakes, errors, .. } = served.tls.unwrap();
    assert!(handshakes == 0 && errors.keys().all(|error| error.contains("alert")), "{errors:?}");
}

/// The very certificate of the file that is trusted may be one of an authority, if its name and its times are right.
#[test]
fn a_certificate_that_signs_itself_is_trusted_by_its_file() {
    let text = "connections = 1\ncount = 2\n[[request]]\nurl = \"https://198.18.5.1/\"\n";
    let result = |names: &[&str], last_year| {
        let files = Files::of_an_authority(names, last_year);
        let trust = Trust::File(files.path("cert.pem"));
        let (client, _) = load(text, HttpServer::new(any(443), Site::of_len(10), 0), &files, &trust);
        let errors = client.tls.unwrap().errors;
        (client.program.is_well(), errors.into_keys().collect::<Vec<_>>().concat())
    };
    assert_eq!(result(&["198.18.5.1"], 4000), (true, String::new()));
    let (is_well, error) = result(&["198.18.5.2"], 4000);
    assert!(!is_well && error.contains("not valid for name"), "{error}");
    let (is_well, error) = result(&["198.18.5.1"], 2001);
    assert!(!is_well && error.contains("expired"), "{error}");
}

#[test]
fn clients_that_speak_no_tls_are_turned_away() {
    let link = Link::new();
    let addresses = ["198.18.5.1".parse().unwrap()].into_iter();
    let server = link.start(
        1,
        Tls::server(Discard::new(Addresses { tcp: any(9), udp: Vec::new() }), self_signed(addresses).unwrap()),
    );
    let host = link.host(2);
    let connect = || host.connect_blocking("198.18.5.1:9".parse().unwrap()).unwrap();
    let mut plain = connect();
    plain.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut alert = Vec::new();
    plain.read_to_end(&mut alert).unwrap();
    // A fatal alert (RFC 8446 section 6), then the end.
    assert_eq!((alert.len(), alert[0], alert[5]), (7, 21, 2), "{alert:?}");
    // One that closes without a word.
    drop(connect());
    let began = Instant::now();
    let tls = loop {
        let snapshot = server.snapshot().unwrap();
        if snapshot.tls.as_ref().unwrap().failed == 2 && snapshot.stack_connections == 0 {
            break snapshot.tls.unwrap();
        }
        assert!(began.elapsed() < LONG, "{snapshot:?}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    assert_eq!(tls.errors.len(), 2, "{tls:?}");
    // The service under TLS heard of none.
    assert_eq!(server.stop().unwrap().snapshot.program.served.connections, 0);
}
