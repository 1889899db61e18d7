//! The server side of TLS on one listener.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use config::options::Tls;
use rustls::ServerConfig;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use tokio::io::AsyncReadExt;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::rate::{RateLimit, Verdict, WINDOW};
use super::session::Session;
use super::{HANDSHAKE_RECORD, TlsError, check_pins, material};
use crate::clock;
use crate::net::stream::Socket;

/// Server side of TLS on one listener.
pub struct Acceptor {
    tls: TlsAcceptor,
    timeout: Duration,
    not_after: Option<i64>,
    pins: BTreeSet<String>,
    rate: Option<Arc<RateLimit>>,
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acceptor").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Acceptor {
    /// Loads the material that the options of a client or monitoring listener name.
    pub fn new(options: &Tls) -> Result<Self, TlsError> {
        Self::build(options, options.verify)
    }

    /// The same for a listener of peers, which must always show a certificate.
    pub fn for_peers(options: &Tls) -> Result<Self, TlsError> {
        Self::build(options, true)
    }

    fn build(options: &Tls, verify: bool) -> Result<Self, TlsError> {
        let provider = material::provider(options);
        let certificates = material::certificates(options, &provider)?;
        if certificates.is_empty() {
            return Err(TlsError::NoCertificate);
        }
        let not_after = certificates.not_after();
        let verifier = if verify {
            let roots = Arc::new(material::roots(options.ca_file.as_deref())?);
            let builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
            builder.build().map_err(|e| TlsError::NoAuthorities(e.to_string()))?
        } else {
            Arc::new(NoClientAuth)
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(material::versions(options))
            .map_err(TlsError::Settings)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(certificates));
        config.ignore_client_order = !options.cipher_suites.is_empty();
        Ok(Self {
            tls: TlsAcceptor::from(Arc::new(config)),
            timeout: options.timeout,
            not_after,
            pins: options.pinned_certs.clone(),
            rate: options.connection_rate_limit.map(|max| Arc::new(RateLimit::new(max))),
        })
    }

    /// When the certificate expires, in seconds since 1970.
    pub fn not_after(&self) -> Option<i64> {
        self.not_after
    }

    /// Time for a handshake.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// May another handshake begin now? Without `connection_rate_limit` always.
    pub fn admit(&self) -> bool {
        let Some(rate) = &self.rate else { return true };
        match rate.admit(clock::now()) {
            Verdict::Admitted => true,
            Verdict::Rejected { first } => {
                if first {
                    tokio::spawn(report(Arc::clone(rate)));
                }
                false
            }
        }
    }

    /// Makes the handshake, within the configured time.
    pub async fn accept(&self, socket: Socket) -> Result<(TlsStream<Socket>, Session), TlsError> {
        timeout(self.timeout, self.handshake(socket)).await.unwrap_or(Err(TlsError::Timeout))
    }

    async fn handshake(&self, mut socket: Socket) -> Result<(TlsStream<Socket>, Session), TlsError> {
        // Looked at here, because the library answers other protocols with an alert that their peers cannot read.
        let mut first = [0];
        if socket.read(&mut first).await? == 0 {
            return Err(TlsError::Eof);
        }
        if first[0] != HANDSHAKE_RECORD {
            return Err(TlsError::NotTls);
        }
        socket.unread(&first);
        let stream = self.tls.accept(socket).await?;
        let session = Session::new(stream.get_ref().1)?;
        check_pins(&self.pins, &session)?;
        Ok((stream, session))
    }
}

/// Says once per second how many were sent away.
async fn report(rate: Arc<RateLimit>) {
    sleep(WINDOW).await;
    let rejected = rate.take_rejected();
    tracing::warn!("Rejected {rejected} connections due to TLS rate limiting");
}
