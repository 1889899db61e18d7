//! Requests about one account.

use api::event::AccountConnections;
use api::monitor::{AccstatzOptions, ConnzOptions, Empty, JszOptions, SubszOptions};

use super::requests::{encode, page};
use super::{events, server_info};
use crate::monitor::{accounts, connz, jsz, links, subsz};
use crate::server::Server;

/// Makes the answer to a request about an account, from its name and the body; `None` stays silent.
pub(super) type AccountHandler = fn(&Server, &str, &[u8]) -> Option<Vec<u8>>;

/// Requests about an account.
pub(super) const PAGES: [(&str, AccountHandler); 7] = [
    ("CONNZ", connections),
    ("SUBSZ", subscriptions),
    ("STATZ", counters),
    ("INFO", |server, name, body| page(server, body, |_: &Empty| accounts::detail(server, name))),
    ("CONNS", connection_count),
    ("LEAFZ", |server, _, body| page(server, body, |_: &Empty| Ok(links::leafz(server)))),
    ("JSZ", |server, name, body| {
        page(server, body, |options: &JszOptions| jsz::of_account(server, name, options))
    }),
];

/// Stands for all accounts: the body may name some.
const ALL: &str = "PING";

fn connections(server: &Server, name: &str, body: &[u8]) -> Option<Vec<u8>> {
    page(server, body, |options: &ConnzOptions| {
        let mut options = options.clone();
        if name != ALL {
            options.acc = name.to_owned();
        }
        connz::connz(server, &options)
    })
}

/// Who asks for the subscriptions of an account wants to see them.
fn subscriptions(server: &Server, name: &str, body: &[u8]) -> Option<Vec<u8>> {
    page(server, body, |options: &SubszOptions| {
        let options = SubszOptions { account: name.to_owned(), subscriptions: true, ..options.clone() };
        subsz::subsz(server, &options)
    })
}

/// Silent where none of the accounts has a connection, unless those are asked for.
fn counters(server: &Server, name: &str, body: &[u8]) -> Option<Vec<u8>> {
    let mut is_empty = false;
    let answer = page(server, body, |options: &AccstatzOptions| {
        let mut options = options.clone();
        if name != ALL {
            options.accounts = vec![name.to_owned()];
        }
        let page = accounts::accstatz(server, &options);
        is_empty = page.account_statz.is_empty() && !options.include_unused;
        Ok(page)
    });
    answer.filter(|_| !is_empty)
}

/// Asked by other servers that add up the connections of an account; those without any need not answer.
fn connection_count(server: &Server, name: &str, _: &[u8]) -> Option<Vec<u8>> {
    let account = server.accounts.get(name).filter(|account| account.connections() > 0)?;
    let info = server_info(server);
    let id = events::id(server);
    encode(&AccountConnections::new(id, info.time, info, accounts::stat(&account)))
}
