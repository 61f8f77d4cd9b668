//! The certificate that a server makes for itself: version 3 (RFC 5280), ECDSA over P-256 (RFC 5480, RFC 5758), signed with its own key.

use std::net::IpAddr;

use ring::digest::{SHA256, digest};
use ring::error::Unspecified;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

/// Tags of DER (X.690 section 8).
mod tag {
    pub const INTEGER: u8 = 0x02;
    pub const BIT_STRING: u8 = 0x03;
    pub const OCTET_STRING: u8 = 0x04;
    pub const OBJECT: u8 = 0x06;
    pub const UTF8_STRING: u8 = 0x0c;
    pub const UTC_TIME: u8 = 0x17;
    pub const GENERALIZED_TIME: u8 = 0x18;
    pub const SEQUENCE: u8 = 0x30;
    pub const SET: u8 = 0x31;
    /// `[0]` and `[3]` of a certificate: its version, its extensions.
    pub const VERSION: u8 = 0xa0;
    pub const EXTENSIONS: u8 = 0xa3;
    /// Kinds of a subject's names.
    pub const DNS_NAME: u8 = 0x82;
    pub const IP_ADDRESS: u8 = 0x87;
}

const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// A new key, and a certificate of it for these addresses and `localhost`, from 1975 to 4096.
///
/// # Errors
/// There are no random numbers.
pub(super) fn self_signed(
    addresses: &[IpAddr],
) -> Result<(CertificateDer<'static>, PrivatePkcs8KeyDer<'static>), Unspecified> {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random)?;
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.as_ref(), &random)?;
    let content = content(key.public_key().as_ref(), addresses);
    let signature = key.sign(&random, &content)?;
    let certificate = der(tag::SEQUENCE, &[&content, &algorithm(), &bits(signature.as_ref())]);
    Ok((certificate.into(), pkcs8.as_ref().to_vec().into()))
}

/// What is signed (RFC 5280 section 4.1.2).
fn content(public_key: &[u8], addresses: &[IpAddr]) -> Vec<u8> {
    let version = der(tag::VERSION, &[&der(tag::INTEGER, &[&[2]])]);
    let mut number = [0; 16];
    number.copy_from_slice(&digest(&SHA256, public_key).as_ref()[..16]);
    // An integer above 0 in its shortest form.
    number[0] = number[0] & 0x3f | 0x40;
    let serial = der(tag::INTEGER, &[&number]);
    let name = der(tag::SEQUENCE, &[&object(COMMON_NAME), &der(tag::UTF8_STRING, &[b"linerate self signed"])]);
    let name = der(tag::SEQUENCE, &[&der(tag::SET, &[&name])]);
    let times = [der(tag::UTC_TIME, &[b"750101000000Z"]), der(tag::GENERALIZED_TIME, &[b"40960101000000Z"])];
    let validity = der(tag::SEQUENCE, &[&times[0], &times[1]]);
    let of_key = der(tag::SEQUENCE, &[&object(EC_PUBLIC_KEY), &object(P256)]);
    let key = der(tag::SEQUENCE, &[&of_key, &bits(public_key)]);
    let mut names: Vec<u8> = addresses
        .iter()
        .flat_map(|address| match address {
            IpAddr::V4(address) => der(tag::IP_ADDRESS, &[&address.octets()]),
            IpAddr::V6(address) => der(tag::IP_ADDRESS, &[&address.octets()]),
        })
        .collect();
    names.extend(der(tag::DNS_NAME, &[b"localhost"]));
    let names = der(tag::OCTET_STRING, &[&der(tag::SEQUENCE, &[&names])]);
    let names = der(tag::SEQUENCE, &[&object(SUBJECT_ALT_NAME), &names]);
    let extensions = der(tag::EXTENSIONS, &[&der(tag::SEQUENCE, &[&names])]);
    // The name twice: of who signed, and of whose key it is.
    der(tag::SEQUENCE, &[&version, &serial, &algorithm(), &name, &validity, &name, &key, &extensions])
}

fn algorithm() -> Vec<u8> {
    der(tag::SEQUENCE, &[&object(ECDSA_WITH_SHA256)])
}

fn object(identifier: &[u8]) -> Vec<u8> {
    der(tag::OBJECT, &[identifier])
}

/// Whole bytes.
fn bits(bytes: &[u8]) -> Vec<u8> {
    der(tag::BIT_STRING, &[&[0], bytes])
}

/// A value that consists of these parts, of at most 65,535 bytes together.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = vec![tag];
    match len {
        0..0x80 => out.push(len as u8),
        0x80..0x100 => out.extend([0x81, len as u8]),
        _ => out.extend([0x82, (len >> 8) as u8, len as u8]),
    }
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::crypto::ring::default_provider;
    use rustls::pki_types::{ServerName, UnixTime};

    use super::*;

    /// What a client says that has this very certificate among its authorities: it looks at the form, the signature, the times and the names.
    #[test]
    fn a_client_that_trusts_the_certificate_takes_it_for_its_names_only() {
        for count in [0, 2, 16] {
            let addresses: Vec<IpAddr> = (0..count)
                .map(|at| {
                    if at % 2 == 0 { [198, 18, 5, at].into() } else { [0xfd00, 0, 0, 0, 0, 0, 5, u16::from(at)].into() }
                })
                .collect();
            let (certificate, _) = self_signed(&addresses).unwrap();
            let mut roots = RootCertStore::empty();
            roots.add(certificate.clone()).unwrap();
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()))
                .build()
                .unwrap();
            let check = |name: &str| {
                let name = ServerName::try_from(name.to_owned()).unwrap();
                verifier.verify_server_cert(&certificate, &[], &name, &[], UnixTime::now())
            };
            for name in addresses.iter().map(IpAddr::to_string).chain(["localhost".to_owned()]) {
                assert!(check(&name).is_ok(), "{name} of {count}: {:?}", check(&name));
            }
            assert!(check("198.18.6.1").is_err() && check("example.org").is_err(), "of {count}");
        }
    }
}
