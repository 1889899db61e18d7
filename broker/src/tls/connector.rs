//! The client side of TLS on links that this server dials.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use config::options::Tls;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::session::Session;
use super::{TlsError, check_pins, material};
use crate::net::stream::Socket;

/// Client side of TLS for the links of one block.
pub struct Connector {
    tls: TlsConnector,
    timeout: Duration,
    pins: BTreeSet<String>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Connector {
    /// Loads the material that the options name. Its certificates are shown to peers that ask for one.
    pub fn new(options: &Tls) -> Result<Self, TlsError> {
        let provider = material::provider(options);
        let certificates = material::certificates(options, &provider)?;
        let verifier: Arc<dyn ServerCertVerifier> = if options.insecure {
            Arc::new(Unverified(Arc::clone(&provider)))
        } else {
            let roots = Arc::new(material::roots(options.ca_file.as_deref())?);
            let builder = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
            builder.build().map_err(|e| TlsError::NoAuthorities(e.to_string()))?
        };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(material::versions(options))
            .map_err(TlsError::Settings)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::new(certificates));
        // Links live long; a full handshake each time means that trust is always that of now.
        config.resumption = Resumption::disabled();
        let tls = TlsConnector::from(Arc::new(config));
        Ok(Self { tls, timeout: options.timeout, pins: options.pinned_certs.clone() })
    }

    /// Time for a handshake.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Makes the handshake with the peer that is known as `host`, a name or an address, within the configured time.
    pub async fn connect(
        &self,
        host: &str,
        socket: Socket,
    ) -> Result<(TlsStream<Socket>, Session), TlsError> {
        let name =
            ServerName::try_from(host.to_owned()).map_err(|_| TlsError::ServerName(host.to_owned()))?;
        let handshake = async {
            let stream = self.tls.connect(name, socket).await?;
            let session = Session::new(stream.get_ref().1)?;
            check_pins(&self.pins, &session)?;
            Ok((stream, session))
        };
        timeout(self.timeout, handshake).await.unwrap_or(Err(TlsError::Timeout))
    }
}

/// `insecure`: takes any certificate. The peer still has to hold the key of the one it shows, so that pins mean something.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
