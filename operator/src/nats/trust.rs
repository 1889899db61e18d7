//! Which certificates of servers are believed: those of the cluster's authority, and the very ones in its Secrets.

use std::sync::Arc;

use base64::Engine;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::Error;

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Certificate(error.to_string())
}

/// Settings of a connection to a server whose certificate is, or is about to become, `chain`; it may also show one of
/// the `known` ones. The pair of `chain` and `key` is shown to a server that asks.
///
/// # Errors
/// When a text holds no certificate or no key.
pub fn client_config(
    authority: Option<&str>,
    known: &str,
    chain: &str,
    key: &str,
) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(ring::default_provider());
    let chain = certificates(chain)?;
    let trusted = match authority {
        Some(pem) => Some(authority_verifier(pem, &provider)?),
        None => None,
    };
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(failed)?;
    let mut known = certificates(known)?;
    known.extend(chain.first().cloned());
    let verifier = Verifier { known, trusted, provider: Arc::clone(&provider) };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_auth_cert(chain, key)
        .map_err(failed)?;
    Ok(Arc::new(config))
}

/// Settings of a connection to servers with certificates of the authorities in `roots`, or of the system's when there is no such text.
/// The pair of certificate and key is shown to a server that asks.
///
/// # Errors
/// When a text holds no certificate or no key.
pub fn with_roots(roots: Option<&str>, pair: Option<(&str, &str)>) -> Result<Arc<ClientConfig>, Error> {
    let mut store = RootCertStore::empty();
    match roots {
        Some(pem) => {
            for certificate in certificates(pem)? {
                store.add(certificate).map_err(failed)?;
            }
        }
        // A system without certificates trusts nobody, which shows when somebody has to be trusted.
        None => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_root_certificates(store);
    let config = match pair {
        Some((chain, key)) => {
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(failed)?;
            builder.with_client_auth_cert(certificates(chain)?, key).map_err(failed)?
        }
        None => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().map_err(failed)
}

fn authority_verifier(pem: &str, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(failed)?;
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build().map_err(failed)
}

/// Believes the very certificates that were given to the servers, and what the cluster's authority signed for the name.
/// The first covers certificates of public authorities and self-signed ones.
#[derive(Debug)]
struct Verifier {
    known: Vec<CertificateDer<'static>>,
    trusted: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.known.contains(end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        match &self.trusted {
            Some(trusted) => {
                trusted.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            None => Err(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Certificates remembered: the current one, the one before, and one more for a rotation within a rotation.
const KNOWN_MAX: usize = 3;

/// The leaf of `chain` before those already known, as PEM.
///
/// # Errors
/// When a text cannot be read.
pub fn remember(chain: &str, known: &str) -> Result<String, Error> {
    let mut leaves: Vec<CertificateDer<'static>> = certificates(chain)?.into_iter().take(1).collect();
    for certificate in certificates(known)? {
        if !leaves.contains(&certificate) && leaves.len() < KNOWN_MAX {
            leaves.push(certificate);
        }
    }
    let pem = |der: &CertificateDer<'_>| {
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        let lines: Vec<&str> =
            text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
    };
    Ok(leaves.iter().map(pem).collect())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::cluster::tls;

    fn verify(config_of: &tls::KeyedCertificate, authority: Option<&str>, shown: &str, name: &str) -> bool {
        let provider = Arc::new(ring::default_provider());
        let verifier = Verifier {
            known: certificates(&config_of.certificate).unwrap(),
            trusted: authority.map(|pem| authority_verifier(pem, &provider).unwrap()),
            provider,
        };
        let shown = certificates(shown).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        verifier.verify_server_cert(&shown[0], &[], &name, &[], UnixTime::now()).is_ok()
    }

    #[test]
    fn the_known_certificate_and_those_of_the_authority_are_believed_and_no_others() {
        let now = Timestamp::now();
        let (ours, theirs) = (tls::new_authority("a", now).unwrap(), tls::new_authority("b", now).unwrap());
        let names = ["x.svc".to_owned()];
        let current = tls::issue(&ours, &names, now).unwrap();
        let renewed = tls::issue(&ours, &names, now).unwrap();
        let foreign = tls::issue(&theirs, &names, now).unwrap();
        let authority = Some(ours.certificate.as_str());

        assert!(verify(&current, None, &current.certificate, "anything"));
        assert!(verify(&current, authority, &renewed.certificate, "x.svc"));
        assert!(!verify(&current, authority, &renewed.certificate, "y.svc"));
        assert!(!verify(&current, authority, &foreign.certificate, "x.svc"));
        assert!(!verify(&current, None, &renewed.certificate, "x.svc"));
    }

    #[test]
    fn the_last_certificates_are_remembered_newest_first() {
        let now = Timestamp::now();
        let authority = tls::new_authority("a", now).unwrap();
        let mut known = String::new();
        let mut issued = Vec::new();
        for _ in 0..KNOWN_MAX + 1 {
            let one = tls::issue(&authority, &["x".to_owned()], now).unwrap().certificate;
            known = remember(&one, &known).unwrap();
            assert_eq!(remember(&one, &known).unwrap(), known);
            issued.insert(0, certificates(&one).unwrap().remove(0));
        }
        issued.truncate(KNOWN_MAX);
        assert_eq!(certificates(&known).unwrap(), issued);
    }

    #[test]
    fn texts_without_certificate_or_key_are_refused() {
        let now = Timestamp::now();
        let authority = tls::new_authority("a", now).unwrap();
        assert!(client_config(None, "", &authority.certificate, &authority.key).is_ok());
        assert!(client_config(None, "", &authority.certificate, "").is_err());
    }
}
