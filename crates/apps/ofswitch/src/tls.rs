//! Keys and certificates of the connections to controllers: rustls with the `ring` provider, TLS 1.2 and 1.3.
//!
//! Both sides show a certificate, and both check that it was signed by the authority that they trust (`--ca-cert`), as in Open vSwitch. The
//! name in a certificate is not compared with the host's, because controllers are mostly given by their addresses: whoever has a
//! certificate of that authority may control the switch.

use std::path::PathBuf;
use std::sync::Arc;

use linerate_tls::{CertificateCheck, Verifier, certificates, private_key, provider};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, Error, RootCertStore, ServerConfig};

pub use linerate_tls::TlsError;

/// Files for TLS, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The switch's private key.
    pub private_key: Option<PathBuf>,
    /// The switch's certificate, possibly with intermediate ones.
    pub certificate: Option<PathBuf>,
    /// Certificates of the authorities that sign controllers' certificates.
    pub ca_cert: Option<PathBuf>,
}

/// What both kinds of TLS connections are made with.
#[derive(Clone, Debug)]
pub struct TlsConfigs {
    /// For connections to controllers.
    pub client: Arc<ClientConfig>,
    /// For connections of controllers to the switch.
    pub server: Arc<ServerConfig>,
}

impl TlsConfigs {
    /// Reads the files.
    ///
    /// # Errors
    /// One is missing, cannot be read, or has no key or certificate of a kind that TLS 1.2 or 1.3 knows.
    pub fn read(files: &TlsFiles) -> Result<TlsConfigs, TlsError> {
        let path = |path: &Option<PathBuf>, flag: &str| {
            let error =
                || TlsError(format!("ssl: needs --private-key, --certificate and --ca-cert; --{flag} is missing"));
            path.clone().ok_or_else(error)
        };
        let key_path = path(&files.private_key, "private-key")?;
        let key = private_key(&key_path)?;
        let chain = certificates(&path(&files.certificate, "certificate")?)?;
        let ca_path = path(&files.ca_cert, "ca-cert")?;
        let mut roots = RootCertStore::empty();
        for root in certificates(&ca_path)? {
            roots.add(root).map_err(|error| TlsError(format!("{}: {error}", ca_path.display())))?;
        }
        let (roots, provider) = (Arc::new(roots), provider());
        let wrong = |error: Error| TlsError(format!("{} with {}: {error}", key_path.display(), "its certificate"));
        let by_authority =
            SignedByAuthority { roots: Arc::clone(&roots), algorithms: provider.signature_verification_algorithms };
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .dangerous()
            .with_custom_certificate_verifier(Verifier::new(Arc::clone(&provider), by_authority))
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(wrong)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
        let verifier = verifier.map_err(|error| TlsError(format!("{}: {error}", ca_path.display())))?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(wrong)?;
        Ok(TlsConfigs { client: Arc::new(client), server: Arc::new(server) })
    }
}

/// Accepts every controller whose certificate was signed by an authority of the list, whatever its name.
#[derive(Debug)]
struct SignedByAuthority {
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl CertificateCheck for SignedByAuthority {
    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<(), Error> {
        let certificate = ParsedCertificate::try_from(certificate)?;
        verify_server_cert_signed_by_trust_anchor(&certificate, &self.roots, intermediates, now, self.algorithms.all)
    }
}
