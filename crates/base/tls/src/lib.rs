//! What all that has TLS needs: certificates and private keys in PEM files (RFC 7468), and a verifier of servers that asks a check of its user's
//! about certificates. TLS is rustls with the `ring` provider.

mod verifier;

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

pub use verifier::{CertificateCheck, Verifier};

/// Why TLS is not possible, with the path of the file that is to blame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(pub String);

/// Who does the arithmetic.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Reads all certificates of a file, at least one.
///
/// # Errors
/// The file cannot be read, is no PEM, or holds no certificate.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = all.map_err(|error| unreadable(path, &error, "certificates"))?;
    if all.is_empty() {
        return Err(TlsError(format!("{} holds no certificate in PEM", path.display())));
    }
    Ok(all)
}

/// Reads the first private key of a file.
///
/// # Errors
/// The file cannot be read, is no PEM, or holds no private key.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unreadable(path, &error, "a private key"))
}

fn unreadable(path: &Path, error: &impl Display, what: &str) -> TlsError {
    TlsError(format!("{} cannot be read as {what} in PEM: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_be_used_are_named_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pem");
        let said = |text: &str| {
            std::fs::write(&path, text).unwrap();
            [certificates(&path).map(drop), private_key(&path).map(drop)].map(|read| read.err().map(|e| e.to_string()))
        };
        let [certificates_of_nothing, key_of_nothing] = said("nothing\n");
        assert!(certificates_of_nothing.unwrap().ends_with("a.pem holds no certificate in PEM"));
        assert!(key_of_nothing.unwrap().contains("a.pem cannot be read as a private key in PEM"));
        let one = "-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n";
        let [read, key] = said(&format!("{one}{one}"));
        assert!(read.is_none() && key.is_some());
        assert_eq!(certificates(&path).unwrap(), [CertificateDer::from(vec![0, 1, 2]), vec![0, 1, 2].into()]);
        let [read, key] = said("-----BEGIN PRIVATE KEY-----\nAAEC\n-----END PRIVATE KEY-----\n");
        assert!(read.is_some() && key.is_none());
        let missing = certificates(&folder.path().join("b.pem")).unwrap_err().to_string();
        assert!(missing.contains("b.pem cannot be read as certificates"), "{missing}");
    }
}
