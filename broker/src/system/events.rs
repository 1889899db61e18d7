//! Events that the server publishes into its system account (monitoring, section 3).
//!
//! Each first asks whether anybody listens, here or on a peer: connections come and go often, and mostly nobody does.

use std::sync::Arc;

use api::Time;
use api::event::{
    AccountConnections, ClientInfo, ConnectEvent, DISCONNECT_TYPE, DataStats, DisconnectEvent, StatszMessage,
};
use serde::Serialize;

use super::requests::encode;
use super::{publish, server_info};
use crate::monitor::connz::{CLIENT_TYPE, KIND, Snapshot};
use crate::monitor::{accounts, now, statsz};
use crate::net::client::Client;
use crate::net::sink::Account;
use crate::server::Server;

/// A client was bound to its account.
pub fn client_connected(server: &Arc<Server>, client: &Arc<Client>) {
    let (Some(system), Some(binding)) = (server.accounts.system(), client.binding()) else { return };
    account_connections(server, &system, &binding.account);
    let subject = format!("$SYS.ACCOUNT.{}.CONNECT", binding.account.name());
    send(server, &system, &subject, || {
        let client = client_info(&Snapshot::open(client));
        let info = server_info(server);
        ConnectEvent::new(id(server), info.time, info, client)
    });
}

/// A client's connection is over.
pub fn client_disconnected(server: &Arc<Server>, client: &Arc<Client>) {
    let Some(system) = server.accounts.system() else { return };
    let binding = client.binding();
    if let Some(binding) = &binding {
        account_connections(server, &system, &binding.account);
    }
    // Who was never let in counts as one of the global account.
    let account = binding.map_or_else(|| server.accounts.global(), |binding| Arc::clone(&binding.account));
    let subject = format!("$SYS.ACCOUNT.{}.DISCONNECT", account.name());
    send(server, &system, &subject, || {
        let snapshot = Snapshot::closed(client, now());
        disconnect_event(server, &snapshot, account.name(), snapshot.reason)
    });
}

/// A client was refused.
pub fn auth_failed(server: &Arc<Server>, client: &Arc<Client>) {
    let Some(system) = server.accounts.system() else { return };
    let subject = format!("$SYS.SERVER.{}.CLIENT.AUTH.ERR", server.identity.id);
    send(server, &system, &subject, || {
        let snapshot = Snapshot::closed(client, now());
        let reason = protocol::error::CloseReason::AuthenticationFailure.as_str();
        disconnect_event(server, &snapshot, server.accounts.global().name(), reason)
    });
}

/// The server is about to stop.
pub fn shutdown(server: &Arc<Server>) {
    about_server(server, "SHUTDOWN");
}

/// The server is about to send its clients away.
pub fn lame_duck(server: &Arc<Server>) {
    about_server(server, "LAMEDUCK");
}

fn about_server(server: &Server, what: &str) {
    let Some(system) = server.accounts.system() else { return };
    let subject = format!("$SYS.SERVER.{}.{what}", server.identity.id);
    send(server, &system, &subject, || server_info(server));
}

/// The figures of the server.
pub(super) fn statistics(server: &Server, system: &Account) {
    send(server, system, &statistics_subject(server), || StatszMessage {
        server: server_info(server),
        statsz: statsz::statsz(server),
    });
}

/// Where the figures of the server go.
pub(super) fn statistics_subject(server: &Server) -> String {
    format!("$SYS.SERVER.{}.STATSZ", server.identity.id)
}

/// The number of connections of an account. Other servers listen on one subject, tools on the other.
pub(super) fn account_connections(server: &Server, system: &Account, account: &Account) {
    let name = account.name();
    for subject in [format!("$SYS.SERVER.ACCOUNT.{name}.CONNS"), format!("$SYS.ACCOUNT.{name}.SERVER.CONNS")]
    {
        send(server, system, &subject, || {
            let info = server_info(server);
            AccountConnections::new(id(server), info.time, info, accounts::stat(account))
        });
    }
}

/// A name for an event.
pub(super) fn id(server: &Server) -> String {
    server.system.event_id(server.seed())
}

fn send<T: Serialize>(server: &Server, system: &Account, subject: &str, event: impl FnOnce() -> T) {
    if !system.interest.has_interest(subject.as_bytes()) {
        return;
    }
    if let Some(payload) = encode(&event()) {
        publish(server, system, subject.as_bytes(), None, &payload);
    }
}

fn disconnect_event(server: &Server, snapshot: &Snapshot, account: &str, reason: &str) -> DisconnectEvent {
    let info = server_info(server);
    DisconnectEvent {
        event_type: DISCONNECT_TYPE.to_owned(),
        id: id(server),
        timestamp: info.time,
        server: info,
        client: ClientInfo {
            account: account.to_owned(),
            name_tag: account.to_owned(),
            stop: snapshot.stop.unwrap_or_default(),
            ..client_info(snapshot)
        },
        sent: DataStats::total(snapshot.in_msgs, snapshot.in_bytes),
        received: DataStats::total(snapshot.out_msgs, snapshot.out_bytes),
        reason: reason.to_owned(),
    }
}

/// A client of this server as advisories describe it; an empty description if it is none, or gone.
pub(crate) fn client_of(server: &Server, id: Option<u64>) -> ClientInfo {
    let client = id.and_then(|id| server.client(id));
    let Some(client) = client else { return ClientInfo::default() };
    ClientInfo {
        server: server.identity.name.clone(),
        name_tag: String::new(),
        ..client_info(&Snapshot::open(&client))
    }
}

/// A client as events describe it. The time of its end belongs to some events only.
pub(crate) fn client_info(snapshot: &Snapshot) -> ClientInfo {
    ClientInfo {
        start: snapshot.start,
        host: snapshot.peer.ip().to_string(),
        id: snapshot.cid,
        account: snapshot.account.clone(),
        user: snapshot.user.clone(),
        name: snapshot.name.clone(),
        lang: snapshot.lang.clone(),
        version: snapshot.version.clone(),
        rtt: snapshot.rtt.unwrap_or_default(),
        stop: Time::ZERO,
        name_tag: snapshot.account.clone(),
        kind: KIND.to_owned(),
        client_type: CLIENT_TYPE.to_owned(),
        ..ClientInfo::default()
    }
}
