//! After a reload: which clients stay, and with which rights.

use std::collections::HashMap;
use std::sync::Arc;

use protocol::client::encode;
use protocol::error::{self, CloseReason};
use routing::permission::Permissions;

use crate::auth::{Authenticator, Renewal};
use crate::net::client::{Binding, Client};
use crate::net::flush::DirtySet;
use crate::net::sink::Account;
use crate::server::Server;

/// Start of the text for a lost subscription; the rest names it.
const SUBSCRIPTION_VIOLATION: &str = "Permissions Violation for Subscription to ";

/// Holds every client to the users, accounts and limits that are in force now. `old` are the users before.
///
/// Clients that are being authenticated meanwhile look by themselves whether the users have changed under them.
pub(super) async fn sweep(server: &Arc<Server>, old: &Authenticator) {
    for client in server.clients() {
        if let Some(binding) = client.binding() {
            renew(server, &client, &binding, old).await;
        }
    }
    hold_to_account_limits(server);
    hold_to_connection_limit(server);
}

async fn renew(server: &Arc<Server>, client: &Arc<Client>, binding: &Arc<Binding>, old: &Authenticator) {
    let (presented, tls) = {
        let identity = client.identity.lock();
        (identity.credentials.clone(), identity.tls.clone())
    };
    match server.auth().renew(old, &presented, tls.as_ref(), binding).await {
        Renewal::Unchanged => {
            // Bound again all the same, so that the session looks at limits that may have changed.
            client.rebind(binding, Arc::clone(binding));
        }
        Renewal::Changed(new) => {
            let new = Arc::new(new);
            if client.rebind(binding, Arc::clone(&new)) {
                retain_permitted(server, client, &new);
            }
        }
        Renewal::Gone => client.out.finish(b"", CloseReason::ClientClosed),
        Renewal::Refused(refusal) => {
            server.on_auth_error(client, &refusal);
            client.refuse(error::AUTHORIZATION_VIOLATION, CloseReason::AuthenticationFailure);
        }
    }
}

/// Ends the subscriptions that the new rights do not cover and tells the client of each.
fn retain_permitted(server: &Arc<Server>, client: &Arc<Client>, binding: &Binding) {
    let everything = Permissions::default();
    let permissions = binding.permissions.as_deref().unwrap_or(&everything);
    let lost = client.subscriptions.lock().retain_permitted(&binding.account, permissions);
    let mut dirty = DirtySet::default();
    for text in &lost {
        client.out.append(&encode::err(text));
        let subscription = text.strip_prefix(SUBSCRIPTION_VIOLATION).unwrap_or(text);
        let user = binding.user.as_deref().unwrap_or_default();
        tracing::info!("Removed sub {subscription} for User {user:?} - not authorized");
    }
    if !lost.is_empty() {
        dirty.mark(&client.out);
    }
    server.routes().mark_dirty(&mut dirty);
}

/// Closes what exceeds the limits of its account: the newest connections, and those with too many subscriptions.
fn hold_to_account_limits(server: &Arc<Server>) {
    let mut members: HashMap<String, (Arc<Account>, Vec<Arc<Client>>)> = HashMap::new();
    for client in server.clients().into_iter().filter(|client| !client.out.is_closing()) {
        let Some(binding) = client.binding() else { continue };
        let name = binding.account.name().to_owned();
        members.entry(name).or_insert_with(|| (Arc::clone(&binding.account), Vec::new())).1.push(client);
    }
    for (account, mut clients) in members.into_values() {
        let limits = account.limits();
        if let Some(max) = limits.subscriptions_max {
            clients.retain(|client| {
                let keep = client.subscriptions.lock().len() <= max as usize;
                if !keep {
                    refuse(
                        server,
                        client,
                        error::SUBSCRIPTIONS_EXCEEDED,
                        CloseReason::MaximumSubscriptionsExceeded,
                    );
                }
                keep
            });
        }
        if let Some(max) = limits.connections_max {
            for client in beyond(clients, max) {
                let reason = CloseReason::MaximumAccountConnectionsExceeded;
                refuse(server, &client, error::ACCOUNT_CONNECTIONS_EXCEEDED, reason);
            }
        }
    }
}

fn hold_to_connection_limit(server: &Arc<Server>) {
    let max = server.options().limits.max_connections;
    let open = server.clients().into_iter().filter(|client| !client.out.is_closing()).collect();
    let excess = beyond(open, max);
    for client in &excess {
        refuse(server, client, error::CONNECTIONS_EXCEEDED, CloseReason::MaximumConnectionsExceeded);
    }
    if !excess.is_empty() {
        tracing::info!("Closed {} connections to fall within max_connections", excess.len());
    }
}

/// The newest of these, if there are more than `max`.
fn beyond(mut clients: Vec<Arc<Client>>, max: u32) -> Vec<Arc<Client>> {
    clients.sort_by_key(|client| client.id);
    clients.split_off(clients.len().min(max as usize))
}

fn refuse(server: &Arc<Server>, client: &Arc<Client>, text: &str, reason: CloseReason) {
    server.log_client_error(client, text);
    client.refuse(text, reason);
}
