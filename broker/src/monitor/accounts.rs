//! `/accountz` and `/accstatz`: the accounts of this server and their counters.

mod links;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use api::event::{DataStats, MsgBytes};
use api::monitor::{
    AccountDetail, AccountStat, Accountz, AccountzOptions, Accstatz, AccstatzOptions, SublistStats,
};
use config::options::GLOBAL_ACCOUNT;
use routing::account::Traffic;
use subject::Stats;

use super::{PageError, now, signed, time};
use crate::net::sink::Account;
use crate::server::Server;

/// `/accountz`: all names, or one account in detail.
pub fn accountz(server: &Server, options: &AccountzOptions) -> Result<Accountz, PageError> {
    let mut page = Accountz {
        server_id: server.identity.id.clone(),
        now: now(),
        system_account: server.accounts.system().map(|account| account.name().to_owned()).unwrap_or_default(),
        ..Accountz::default()
    };
    if options.account.is_empty() {
        page.accounts = server.accounts.all().iter().map(|account| account.name().to_owned()).collect();
    } else {
        page.account_detail = Some(Box::new(detail(server, &options.account)?));
    }
    Ok(page)
}

/// One account in detail.
pub fn detail(server: &Server, name: &str) -> Result<AccountDetail, PageError> {
    let account = server.accounts.get(name).ok_or_else(|| PageError::UnknownAccount(name.to_owned()))?;
    let stats = account.interest.stats();
    let options = server.options();
    let configured = options.account(name);
    let mappings = match configured {
        Some(configured) => &configured.mappings,
        None if name == GLOBAL_ACCOUNT => &options.mappings,
        None => &Vec::new(),
    };
    Ok(AccountDetail {
        account_name: name.to_owned(),
        update_time: time(server.config_loaded().0),
        is_system: account.is_system(),
        complete: true,
        jetstream_enabled: has_jetstream(server, name),
        client_connections: i64::from(account.connections()),
        subscriptions: count(stats.len),
        mappings: links::mappings(mappings),
        exports: configured.map(|configured| links::exports(&configured.exports)).unwrap_or_default(),
        imports: configured.map(|configured| links::imports(&configured.imports)).unwrap_or_default(),
        name_tag: name.to_owned(),
        sublist_stats: Some(sublist_stats(stats)),
        ..AccountDetail::default()
    })
}

fn has_jetstream(server: &Server, name: &str) -> bool {
    server.jetstream.get().is_some_and(|jetstream| jetstream.shared.directory.account(name).is_some())
}

/// `/accstatz`: counters of the accounts that have connections, or of all.
pub fn accstatz(server: &Server, options: &AccstatzOptions) -> Accstatz {
    let asked = |account: &Account| {
        (options.accounts.is_empty() || options.accounts.iter().any(|name| name == account.name()))
            && (options.include_unused || account.connections() > 0)
    };
    let accounts = server.accounts.all();
    Accstatz {
        server_id: server.identity.id.clone(),
        now: now(),
        account_statz: accounts
            .iter()
            .filter(|account| asked(account))
            .map(|account| stat(account))
            .collect(),
    }
}

/// Counters of one account.
pub fn stat(account: &Account) -> AccountStat {
    let connections = i64::from(account.connections());
    let (sent, received) = traffic(&account.traffic);
    AccountStat {
        account: account.name().to_owned(),
        name: account.name().to_owned(),
        conns: connections,
        total_conns: connections,
        num_subscriptions: count(account.interest.len()),
        sent,
        received,
        slow_consumers: signed(account.traffic.slow_consumers.load(Relaxed)),
        ..AccountStat::default()
    }
}

/// What the server sent to connections of the account, and what it received from them.
fn traffic(traffic: &Traffic) -> (DataStats, DataStats) {
    let get = |counter: &AtomicU64| signed(counter.load(Relaxed));
    let with_routes = |clients: (&AtomicU64, &AtomicU64), routes: (&AtomicU64, &AtomicU64)| {
        let routes = MsgBytes { msgs: get(routes.0), bytes: get(routes.1) };
        let msgs = get(clients.0).saturating_add(routes.msgs);
        DataStats::with_routes(msgs, get(clients.1).saturating_add(routes.bytes), routes)
    };
    let sent = with_routes(
        (&traffic.sent_messages, &traffic.sent_bytes),
        (&traffic.route_sent_messages, &traffic.route_sent_bytes),
    );
    let received = with_routes(
        (&traffic.received_messages, &traffic.received_bytes),
        (&traffic.route_received_messages, &traffic.route_received_bytes),
    );
    (sent, received)
}

/// Figures of a subscription trie. The fields about a cache of results are zero: plans are cached by connections.
pub(super) fn sublist_stats(stats: Stats) -> SublistStats {
    SublistStats {
        num_subscriptions: count(stats.len),
        num_inserts: stats.inserts,
        num_removes: stats.removes,
        ..SublistStats::default()
    }
}

/// A size, as documents write it.
pub(super) fn count(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use routing::account::Limits;

    use super::*;

    #[test]
    fn totals_include_the_share_of_routes() {
        let account = Account::new("A", false, Limits::default());
        for (counter, value) in [
            (&account.traffic.sent_messages, 5),
            (&account.traffic.sent_bytes, 50),
            (&account.traffic.route_sent_messages, 2),
            (&account.traffic.route_sent_bytes, 20),
            (&account.traffic.received_messages, 1),
            (&account.traffic.route_received_bytes, 7),
            (&account.traffic.slow_consumers, 3),
        ] {
            counter.store(value, Relaxed);
        }
        assert!(account.try_connect());
        let stat = stat(&account);
        assert_eq!((stat.sent.msgs, stat.sent.bytes), (7, 70));
        assert_eq!(stat.sent.routes, Some(MsgBytes { msgs: 2, bytes: 20 }));
        assert_eq!((stat.received.msgs, stat.received.bytes), (1, 7));
        assert_eq!((stat.conns, stat.total_conns, stat.slow_consumers), (1, 1, 3));
    }
}
