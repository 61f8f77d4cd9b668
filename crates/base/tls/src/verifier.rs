//! Whether a server has the key of a certificate, and whether its user trusts that certificate.

use std::fmt::Debug;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// Which certificates are accepted.
pub trait CertificateCheck: Debug + Send + Sync {
    /// Looks at a server's certificate, with the others that it sent, the name that the client asked for, what it sent of OCSP, and the time.
    ///
    /// # Errors
    /// It is not accepted.
    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<(), Error>;
}

/// Accepts servers that have the key of their certificate, which the check accepts.
#[derive(Debug)]
pub struct Verifier<C> {
    provider: Arc<CryptoProvider>,
    check: C,
}

impl<C: CertificateCheck> Verifier<C> {
    /// A verifier over a check of certificates.
    pub fn new(provider: Arc<CryptoProvider>, check: C) -> Arc<Verifier<C>> {
        Arc::new(Verifier { provider, check })
    }
}

impl<C: CertificateCheck> ServerCertVerifier for Verifier<C> {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check.check(certificate, intermediates, name, ocsp, now).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
