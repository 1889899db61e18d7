//! Requests to one server through the system account: what it is, and to read its configuration again.

use api::event::ServerApiResponse;
use api::monitor::{Empty, Varz};
use serde::de::DeserializeOwned;

use super::client::{Connection, Error, Target};
use crate::cluster::render::{HASH_KEY, INBOX_PREFIX};

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
    Ok(Report {
        server_id: varz.server_id,
        version: varz.version,
        config_hash: varz.metadata.get(HASH_KEY).cloned(),
        connections: varz.connections,
        routes: varz.routes,
    })
}

async fn ask<T: Default + DeserializeOwned>(
    connection: &mut Connection,
    what: &str,
) -> Result<ServerApiResponse<T>, Error> {
    let subject = format!("$SYS.REQ.SERVER.{}.{what}", connection.server_id());
    let bytes = connection.request(&subject, b"").await?;
    let answer: ServerApiResponse<T> = serde_json::from_slice(&bytes)?;
    match answer.error {
        Some(error) => Err(Error::Refused(error.description)),
        None => Ok(answer),
    }
}
