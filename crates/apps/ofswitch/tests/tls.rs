//! Encrypted channels, both ways, with certificates that are made here.

use super::common;

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{Controller, LONG, address, config, show, start_in, stop};
use linerate_ofswitch::Config;
use linerate_ofswitch::request::What;
use linerate_ofswitch::tls::{TlsConfigs, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection, StreamOwned};

/// An authority in a folder, and those whose certificates it signed.
struct Authority {
    folder: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new(folder: &Path, name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = folder.join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("ca.pem"), issuer.pem()).unwrap();
        Authority { folder, issuer }
    }

    /// Files of somebody with a certificate of this authority, who trusts `trusted`.
    fn files(&self, name: &str, trusted: &Authority) -> TlsFiles {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_string()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let [key_file, certificate_file] = ["key", "pem"].map(|kind| self.folder.join(format!("{name}.{kind}")));
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        std::fs::write(&certificate_file, certificate.pem()).unwrap();
        TlsFiles {
            private_key: Some(key_file),
            certificate: Some(certificate_file),
            ca_cert: Some(trusted.folder.join("ca.pem")),
        }
    }
}

fn encrypted(test: &str, files: &TlsFiles) -> Config {
    let mut config = config(test, 1);
    config.listen = vec!["pssl:0:127.0.0.1".into()];
    config.private_key = files.private_key.clone();
    config.certificate = files.certificate.clone();
    config.ca_cert = files.ca_cert.clone();
    config
}

fn timed(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.set_write_timeout(Some(LONG)).unwrap();
    stream
}

fn client(stream: TcpStream, files: &TlsFiles) -> StreamOwned<ClientConnection, TcpStream> {
    let configs = TlsConfigs::read(files).unwrap();
    let name = ServerName::try_from("whatever.example").unwrap();
    StreamOwned::new(ClientConnection::new(configs.client, name).unwrap(), timed(stream))
}

fn server(stream: TcpStream, files: &TlsFiles) -> StreamOwned<ServerConnection, TcpStream> {
    let configs = TlsConfigs::read(files).unwrap();
    StreamOwned::new(ServerConnection::new(Arc::clone(&configs.server)).unwrap(), timed(stream))
}

#[test]
fn channels_are_encrypted_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "own");
    let files = ["switch", "controller"].map(|name| authority.files(name, &authority));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = encrypted("tls", &files[0]);
    config.controllers.push(format!("ssl:{}", listener.local_addr().unwrap()));
    let running = start_in(folder.path(), &config);

    let mut passive = Controller::of(Box::new(client(TcpStream::connect(address(&running)).unwrap(), &files[1])));
    let mut active = Controller::of(Box::new(server(listener.accept().unwrap().0, &files[1])));
    for controller in [&mut passive, &mut active] {
        controller.barrier();
        for priority in 0..500 {
            let flow = format!("priority={priority},in_port=1,actions=drop");
            let flow = linerate_openflow_text::parse_flow(&flow, linerate_openflow::FlowCommand::Add).unwrap();
            controller.send(&linerate_openflow::Message::FlowMod(flow));
        }
        controller.barrier();
    }
    assert_eq!(show(&running, What::Table)[0]["entries"], 500);
    stop(running);
}

#[test]
fn certificates_of_another_authority_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (own, other) = (Authority::new(folder.path(), "own"), Authority::new(folder.path(), "other"));
    let switch = own.files("switch", &own);
    // It shows a certificate of another authority, and believes the switch.
    let stranger = other.files("stranger", &own);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = encrypted("stranger", &switch);
    config.controllers.push(format!("ssl:{}", listener.local_addr().unwrap()));
    let running = start_in(folder.path(), &config);

    let mut stream = client(TcpStream::connect(address(&running)).unwrap(), &stranger);
    let mut byte = [0];
    assert!(std::io::Read::read_exact(&mut stream, &mut byte).is_err(), "the switch ends it");
    let mut stream = server(listener.accept().unwrap().0, &stranger);
    assert!(std::io::Read::read_exact(&mut stream, &mut byte).is_err(), "the switch ends it");
    let mut controllers = String::new();
    let deadline = std::time::Instant::now() + LONG;
    while !controllers.contains("UnknownIssuer") {
        assert!(std::time::Instant::now() < deadline, "the reason is not shown: {controllers}");
        controllers = show(&running, What::Controller).to_string();
    }
    // Plain text is none of TLS.
    let mut plain = timed(TcpStream::connect(address(&running)).unwrap());
    std::io::Write::write_all(&mut plain, &[4, 0, 0, 8, 0, 0, 0, 1]).unwrap();
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut plain, &mut rest).unwrap();
    stop(running);
}

#[test]
fn files_that_are_missing_or_wrong_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "own");
    let files = authority.files("switch", &authority);
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    for (files, word) in [
        (TlsFiles { ca_cert: None, ..files.clone() }, "--ca-cert is missing"),
        (TlsFiles { certificate: Some(empty.clone()), ..files.clone() }, "holds no certificate"),
        (TlsFiles { private_key: Some(empty), ..files.clone() }, "a private key"),
        (TlsFiles { ca_cert: Some("/none.pem".into()), ..files }, "/none.pem"),
    ] {
        let error = TlsConfigs::read(&files).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}
