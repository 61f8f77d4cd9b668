//! Certificates and private keys in PEM files (RFC 7468), for all that has TLS.

use std::fmt::Display;
use std::path::Path;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Why a file cannot be used, with its path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PemError(String);

/// Reads all certificates of a file, at least one.
///
/// # Errors
/// The file cannot be read, is no PEM, or holds no certificate.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = all.map_err(|error| unreadable(path, &error, "certificates"))?;
    if all.is_empty() {
        return Err(PemError(format!("{} holds no certificate in PEM", path.display())));
    }
    Ok(all)
}

/// Reads the first private key of a file.
///
/// # Errors
/// The file cannot be read, is no PEM, or holds no private key.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, PemError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unreadable(path, &error, "a private key"))
}

fn unreadable(path: &Path, error: &impl Display, what: &str) -> PemError {
    PemError(format!("{} cannot be read as {what} in PEM: {error}", path.display()))
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
