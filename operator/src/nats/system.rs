//! Requests to one server through the system account: what it is, and to read its configuration again.

use std::time::Duration;

use api::event::ServerApiResponse;
use api::monitor::{ConnInfo, ConnState, Connz, ConnzOptions, Empty, HealthStatus, Jsz, Varz};
use serde::de::DeserializeOwned;

use super::client::{Connection, Error, Target};
use super::document;
use crate::cluster::render::{HASH_KEY, INBOX_PREFIX};

/// Pages of connections that are asked for at most: some 65,000 connections.
const PAGES_MAX: usize = 64;

/// What a server said about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Identity of the process; a new one at every start.
    pub server_id: String,
    /// Version of the server.
    pub version: String,
    /// Hash of the configuration that the process runs; `None` when it carries none.
    pub config_hash: Option<String>,
    /// Client connections.
    pub connections: i64,
    /// Route connections.
    pub routes: i64,
    /// What it said about JetStream; `None` when it has none or was not asked.
    pub jetstream: Option<JetStreamReport>,
}

/// What a server said about JetStream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JetStreamReport {
    /// Streams of all accounts.
    pub streams: i64,
    /// Their consumers.
    pub consumers: i64,
    /// Bytes of streams in files: in use, and allowed.
    pub storage: (i64, i64),
    /// Bytes of streams in memory: in use, and allowed.
    pub memory: (i64, i64),
    /// What its health check found, in its own words; `None` when it is well.
    pub trouble: Option<String>,
}

/// What came of a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// The server read its file; this is what it runs now.
    Done(Report),
    /// The server refused its file, in its own words, and runs on as before.
    Refused(String),
}

/// Asks a server about itself.
///
/// # Errors
/// When it does not answer.
pub async fn look(target: &Target) -> Result<Report, Error> {
    let mut connection = Connection::open(target, INBOX_PREFIX).await?;
    report(&mut connection).await
}

/// Asks a server about its JetStream; `None` when it has none.
async fn jetstream(connection: &mut Connection) -> Result<Option<JetStreamReport>, Error> {
    let answer = ask::<Jsz>(connection, "JSZ").await?;
    let Some(jsz) = answer.data.document().filter(|jsz| !jsz.disabled) else {
        return Ok(None);
    };
    let answer = ask::<HealthStatus>(connection, "HEALTHZ").await?;
    let Some(health) = answer.data.document() else {
        return Err(Error::Protocol("HEALTHZ without data".to_owned()));
    };
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    Ok(Some(JetStreamReport {
        streams: jsz.streams,
        consumers: jsz.consumers,
        storage: (signed(jsz.stats.storage), jsz.config.max_storage),
        memory: (signed(jsz.stats.memory), jsz.config.max_memory),
        trouble: (health.status_code != 200)
            .then(|| if health.error.is_empty() { health.status.clone() } else { health.error.clone() }),
    }))
}

/// Lets a server read its configuration again, and asks what it runs then.
///
/// # Errors
/// When it does not answer. A refusal is not an error.
pub async fn reload(target: &Target) -> Result<Reloaded, Error> {
    let mut connection = Connection::open(target, INBOX_PREFIX).await?;
    match ask::<Empty>(&mut connection, "RELOAD").await {
        Ok(_) => {}
        Err(Error::Refused(text)) => return Ok(Reloaded::Refused(text)),
        Err(error) => return Err(error),
    }
    // The reload may have closed this connection: the login can have changed with it.
    match report(&mut connection).await {
        Ok(report) => Ok(Reloaded::Done(report)),
        Err(_) => look(target).await.map(Reloaded::Done),
    }
}

async fn report(connection: &mut Connection) -> Result<Report, Error> {
    let answer = ask::<Varz>(connection, "VARZ").await?;
    let Some(varz) = answer.data.document() else {
        return Err(Error::Protocol("VARZ without data".to_owned()));
    };
    // A server with JetStream shows its settings there.
    let jetstream = if varz.jetstream.config.is_some() { jetstream(connection).await? } else { None };
    Ok(Report {
        jetstream,
        server_id: varz.server_id,
        version: varz.version,
        config_hash: varz.metadata.get(HASH_KEY).cloned(),
        connections: varz.connections,
        routes: varz.routes,
    })
}

/// Connections of an account at a server, with their subscriptions; and the identity of the server.
///
/// # Errors
/// When it does not answer.
pub async fn connections(target: &Target, account: &str) -> Result<(String, Vec<ConnInfo>), Error> {
    let mut connection = Connection::open(target, INBOX_PREFIX).await?;
    let mut all = Vec::new();
    for _ in 0..PAGES_MAX {
        let options = ConnzOptions {
            subscriptions_detail: true,
            acc: account.to_owned(),
            offset: i64::try_from(all.len()).unwrap_or(i64::MAX),
            ..ConnzOptions::default()
        };
        let page = page(&mut connection, &options).await?;
        let is_empty = page.connections.is_empty();
        all.extend(page.connections);
        let total = usize::try_from(page.total).unwrap_or(0);
        if is_empty || all.len() >= total {
            break;
        }
    }
    Ok((connection.server_id().to_owned(), all))
}

/// Connections of an account that went `within` a time, as far as the server remembers them, and how long ago; and the identity of the server.
///
/// # Errors
/// When it does not answer.
pub async fn gone(
    target: &Target,
    account: &str,
    within: Duration,
) -> Result<(String, Vec<(ConnInfo, Duration)>), Error> {
    let mut connection = Connection::open(target, INBOX_PREFIX).await?;
    let mut all = Vec::new();
    let mut offset = 0;
    for _ in 0..PAGES_MAX {
        let options = ConnzOptions {
            // The latest first, so that the rest need not be read.
            sort: "stop".to_owned(),
            state: ConnState::Closed,
            subscriptions_detail: true,
            acc: account.to_owned(),
            offset,
            ..ConnzOptions::default()
        };
        let page = page(&mut connection, &options).await?;
        let count = page.connections.len();
        offset += i64::try_from(count).unwrap_or(i64::MAX);
        // By the clock of the server, which is not ours.
        let ago = |info: ConnInfo| {
            let ago = page.now.saturating_since(info.stop);
            (info, ago)
        };
        let before = all.len();
        all.extend(page.connections.into_iter().map(ago).take_while(|(_, ago)| *ago <= within));
        if count == 0 || all.len() - before < count || offset >= page.total {
            break;
        }
    }
    Ok((connection.server_id().to_owned(), all))
}

/// One page of connections.
async fn page(connection: &mut Connection, options: &ConnzOptions) -> Result<Connz, Error> {
    let request = serde_json::to_vec(options)?;
    let answer = ask_with::<Connz>(connection, "CONNZ", &request).await?;
    answer.data.document().ok_or_else(|| Error::Protocol("CONNZ without data".to_owned()))
}

async fn ask<T: Default + DeserializeOwned>(
    connection: &mut Connection,
    what: &str,
) -> Result<ServerApiResponse<T>, Error> {
    ask_with(connection, what, b"").await
}

async fn ask_with<T: Default + DeserializeOwned>(
    connection: &mut Connection,
    what: &str,
    request: &[u8],
) -> Result<ServerApiResponse<T>, Error> {
    let subject = format!("$SYS.REQ.SERVER.{}.{what}", connection.server_id());
    let bytes = connection.request(&subject, request).await?;
    let answer: ServerApiResponse<T> = document::parse(&bytes)?;
    match answer.error {
        Some(error) => Err(Error::Refused(error.description)),
        None => Ok(answer),
    }
}
