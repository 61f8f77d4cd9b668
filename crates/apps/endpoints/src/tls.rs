//! TLS under programs: keys and certificates, and who is trusted. TLS 1.2 and 1.3, with the `ring` provider of rustls. Bytes pass
//! [`Tls`], which is in `linerate_endpoints_loop::tls`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use linerate_tls::{CertificateCheck, Verifier, certificates, private_key, provider};
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, Error, RootCertStore, ServerConfig};

pub use linerate_endpoints_loop::tls::{MaybeTls, Tls};
pub use linerate_tls::TlsError;

/// Where distributions keep the certificates of public authorities.
const SYSTEM_ROOTS: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Whom a client trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The authorities of the system.
    System,
    /// The authorities, or the very certificates, of a file.
    File(PathBuf),
    /// Everybody: certificates are not checked.
    Everybody,
}

/// A server with the key and certificate of these files, both in PEM.
///
/// # Errors
/// One cannot be read, or they do not belong together.
pub fn server_config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = certificates(certificate)?;
    server(chain, private_key(key)?)
        .map_err(|error| TlsError(format!("{} with {}: {error}", key.display(), certificate.display())))
}

/// A server with a certificate for these addresses that is made here, signs itself, and is gone with the process.
///
/// # Errors
/// There are no random numbers.
pub fn self_signed(addresses: impl Iterator<Item = IpAddr>) -> Result<Arc<ServerConfig>, TlsError> {
    /// More names make the handshake slower, and nobody can check this certificate anyway.
    const NAMES_MAX: usize = 16;
    let names = addresses.take(NAMES_MAX).map(|address| address.to_string());
    let made = rcgen::generate_simple_self_signed(names.chain(["localhost".to_owned()]).collect::<Vec<_>>());
    let made = made.map_err(|error| TlsError(format!("a certificate cannot be made: {error}")))?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()).into();
    server(vec![made.cert.der().clone()], key).map_err(|error| TlsError(error.to_string()))
}

fn server(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Arc<ServerConfig>, Error> {
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    Ok(Arc::new(builder.with_no_client_auth().with_single_cert(chain, key)?))
}

/// A client that makes a whole handshake for each connection.
///
/// # Errors
/// The file of the authorities cannot be read.
pub fn client_config(trust: &Trust) -> Result<Arc<ClientConfig>, TlsError> {
    let wrong = |error: Error| TlsError(error.to_string());
    let builder =
        ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().map_err(wrong)?;
    let path = match trust {
        Trust::Everybody => None,
        Trust::File(path) => Some(path.clone()),
        Trust::System => {
            let found = SYSTEM_ROOTS.iter().map(PathBuf::from).find(|path| path.exists());
            let nowhere =
                || TlsError("this system has no certificates of authorities; give --ca FILE or --insecure".into());
            Some(found.ok_or_else(nowhere)?)
        }
    };
    let trusted = path.map(|path| trusted(&path, *trust == Trust::System)).transpose()?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Verifier::new(provider(), ServerCheck(trusted)));
    let mut config = builder.with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// The authorities of a file; its very certificates as well, unless it is the system's.
fn trusted(path: &Path, is_of_system: bool) -> Result<Trusted, TlsError> {
    let (mut roots, very) = (RootCertStore::empty(), certificates(path)?);
    let (added, _) = roots.add_parsable_certificates(very.iter().cloned());
    if added == 0 {
        return Err(TlsError(format!("{} holds no certificate that can be used", path.display())));
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build();
    let by_authorities = verifier.map_err(|error| TlsError(format!("{}: {error}", path.display())))?;
    Ok(Trusted { by_authorities, very: if is_of_system { Vec::new() } else { very } })
}

/// Whom a client trusts; `None`: every certificate is accepted.
#[derive(Debug)]
struct ServerCheck(Option<Trusted>);

/// Whose certificates are accepted.
#[derive(Debug)]
struct Trusted {
    by_authorities: Arc<WebPkiServerVerifier>,
    /// These very certificates, also if they are those of an authority, which webpki takes for no server's: `openssl req -x509` makes such ones.
    very: Vec<CertificateDer<'static>>,
}

impl CertificateCheck for ServerCheck {
    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<(), Error> {
        let Some(Trusted { by_authorities, very }) = &self.0 else { return Ok(()) };
        match by_authorities.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The error of webpki about authorities has no name of its own in rustls; times have been looked at before, and have one.
            Err(Error::InvalidCertificate(CertificateError::Other(_))) if very.contains(certificate) => {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)
            }
            result => result.map(drop),
        }
    }
}
