//! Requests that make the server do something.

use std::sync::Arc;

use api::ApiError;
use api::event::{ClientRequest, ServerApiResponse, decode_request};
use api::monitor::Empty;
use protocol::client::encode;
use protocol::error::CloseReason;
use serde::de::DeserializeOwned;

use super::requests::encode as document;
use super::server_info;
use crate::info;
use crate::reload;
use crate::server::Server;

/// Reads the configuration again.
pub(super) async fn reload(server: &Arc<Server>, body: &[u8]) -> Option<Vec<u8>> {
    match asked::<Empty>(server, body) {
        Asked::OfOthers => None,
        Asked::Unreadable(answer) => answer,
        Asked::OfUs(_) => {
            let outcome = reload::reload(server).await;
            outcome_of(server, outcome.map_err(|error| error.to_string()))
        }
    }
}

/// Closes one client.
pub(super) fn kick(server: &Server, body: &[u8]) -> Option<Vec<u8>> {
    to_client(server, body, "no such client or leafnode id", |client| {
        client.out.finish(b"", CloseReason::Kicked);
    })
}

/// Tells one client to go to another server.
pub(super) fn lame_duck(server: &Server, body: &[u8]) -> Option<Vec<u8>> {
    to_client(server, body, "no such client id", |client| {
        let mut info = info::for_client(&server.info(), client, server.client_urls());
        info.ldm = true;
        client.out.append(&encode::info(&info));
        client.out.flush();
    })
}

fn to_client(
    server: &Server,
    body: &[u8],
    unknown: &str,
    act: impl FnOnce(&crate::net::client::Client),
) -> Option<Vec<u8>> {
    match asked::<ClientRequest>(server, body) {
        Asked::OfOthers => None,
        Asked::Unreadable(answer) => answer,
        Asked::OfUs(request) => {
            let client = server.client(request.cid).ok_or_else(|| unknown.to_owned());
            outcome_of(server, client.map(|client| act(&client)))
        }
    }
}

/// Whom a request is for.
enum Asked<O> {
    OfUs(O),
    OfOthers,
    /// With the answer that says so.
    Unreadable(Option<Vec<u8>>),
}

fn asked<O: DeserializeOwned>(server: &Server, body: &[u8]) -> Asked<O> {
    let info = server_info(server);
    match decode_request::<O>(body) {
        Ok((filter, options)) if filter.selects(&info) => Asked::OfUs(options),
        Ok(_) => Asked::OfOthers,
        Err(error) => Asked::Unreadable(document(&ServerApiResponse::<Empty>::unreadable(info, &error))),
    }
}

fn outcome_of(server: &Server, outcome: Result<(), String>) -> Option<Vec<u8>> {
    document(&ServerApiResponse::action(server_info(server), outcome.map_err(ApiError::internal)))
}
