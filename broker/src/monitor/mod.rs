//! Monitoring: what the server says about itself over HTTP and, through the system account, over NATS.
//!
//! Each page has one builder, a function from the server to its document. HTTP and system requests differ only in where the
//! options come from and what is put around the document.

pub mod accounts;
pub mod closed;
pub mod connz;
pub mod health;
mod http;
mod index;
pub mod jsz;
pub mod links;
mod metrics;
mod pages;
mod process;
pub mod routez;
pub mod statsz;
pub mod subsz;
pub mod varz;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use api::Time;
use api::monitor::OptionsError;
use api::query::QueryError;
use arc_swap::ArcSwap;
use config::options::Options;
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use crate::clock;
use crate::jetstream::{Health, Progress};
use crate::net::listener;
use crate::server::{Server, StartError};
use crate::tls::{Acceptor, TlsError};

/// A request for a page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// A value has the wrong form.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// Values make no sense.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// No such account.
    #[error("Account {0} does not exist")]
    UnknownAccount(String),
    /// The page is about JetStream.
    #[error("jetstream not enabled")]
    NoJetStream,
    /// The page is about JetStream of an account that is not there.
    #[error("account {0:?} not found")]
    AccountNotFound(String),
    /// The page is about JetStream of an account that has none.
    #[error("account {0:?} not jetstream enabled")]
    AccountWithoutJetStream(String),
    /// `/metrics` knows no such detail.
    #[error("invalid value for 'jetstream': {0:?} is none of accounts, streams and consumers")]
    MetricsDetail(String),
    /// A thread of JetStream does not answer.
    #[error("JetStream did not answer in time")]
    Busy,
    /// The document cannot be written.
    #[error("error encoding the response: {0}")]
    Encode(#[from] serde_json::Error),
}

/// State of monitoring, a part of the server.
#[derive(Debug)]
pub struct Monitoring {
    listener: Mutex<Option<(SocketAddr, AbortHandle)>>,
    tls: ArcSwap<Option<Acceptor>>,
    requests: Mutex<BTreeMap<&'static str, u64>>,
    /// Processor and memory use.
    usage: process::Usage,
    /// How far JetStream is, before it is there.
    recovery: OnceLock<Arc<Health>>,
}

impl Monitoring {
    /// Monitoring that listens to nobody yet.
    pub fn new(options: &Options) -> Result<Self, TlsError> {
        Ok(Self {
            listener: Mutex::default(),
            tls: ArcSwap::from_pointee(load_tls(options)?),
            requests: Mutex::default(),
            usage: process::Usage::default(),
            recovery: OnceLock::new(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.lock().as_ref().map(|(address, _)| *address)
    }

    /// Puts reloaded TLS material in force for new connections.
    pub fn set_tls(&self, tls: Option<Acceptor>) {
        self.tls.store(Arc::new(tls));
    }

    /// Shows how far JetStream is while it starts.
    pub fn watch_recovery(&self, health: Arc<Health>) {
        let first = self.recovery.set(health).is_ok();
        assert!(first, "JetStream started twice");
    }

    /// How far JetStream is with its start; `None` if it was not asked to start.
    pub fn recovery(&self) -> Option<Progress> {
        self.recovery.get().map(|health| health.progress())
    }

    /// Takes no more connections.
    pub fn close(&self) {
        if let Some((_, task)) = self.listener.lock().take() {
            task.abort();
        }
    }

    fn count(&self, path: &'static str) {
        *self.requests.lock().entry(path).or_default() += 1;
    }
}

/// TLS of https monitoring, if configured. It uses the block of the client listener but asks for no certificate: whoever may
/// look at the pages is settled by who can reach the port.
pub fn load_tls(options: &Options) -> Result<Option<Acceptor>, TlsError> {
    let (Some(_), Some(tls)) = (&options.monitoring.https, &options.tls) else { return Ok(None) };
    let mut tls = tls.clone();
    tls.verify = false;
    tls.map = false;
    tls.pinned_certs.clear();
    Acceptor::new(&tls).map(Some)
}

/// Opens the monitoring listener, if one is configured.
pub async fn start(server: &Arc<Server>) -> Result<(), StartError> {
    let options = server.options();
    let (address, scheme) = match (&options.monitoring.http, &options.monitoring.https) {
        (Some(address), _) => (address, "http"),
        (None, Some(address)) => (address, "https"),
        (None, None) => return Ok(()),
    };
    let socket = listener::bind(address).await?;
    let local =
        socket.local_addr().map_err(|source| listener::BindError { address: address.to_string(), source })?;
    tracing::info!("Starting {scheme} monitor on {}", listener::with_port(address, local.port()));
    let task = tokio::spawn(http::accept(Arc::clone(server), socket, scheme == "https"));
    *server.monitoring.listener.lock() = Some((local, task.abort_handle()));
    Ok(())
}

/// The present, as documents write it.
pub(crate) fn now() -> Time {
    time(clock::unix_nanos())
}

/// A point in time, as documents write it.
pub(crate) fn time(unix_nanos: i64) -> Time {
    Time::from_unix_nanos(i128::from(unix_nanos))
}

/// A counter, as documents write it.
pub(crate) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Bytes of the protocol, as documents write them.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
