//! `/connz`: clients, open and closed, filtered, ordered and paged.

mod snapshot;

pub(crate) use snapshot::{CLIENT_TYPE, KIND};
pub use snapshot::{Snapshot, lost};

use std::cmp::Reverse;
use std::sync::Arc;

use api::Time;
use api::monitor::{ConnInfo, ConnSort, ConnState, Connz, ConnzOptions, SubDetail};
use subject::overlaps;

use super::{PageError, now, signed, subsz};
use crate::net::client::Client;
use crate::net::sink::Subscription;
use crate::server::Server;

/// A client that the request is about: its facts and, while it is open, itself.
#[derive(Debug)]
struct Row {
    facts: Arc<Snapshot>,
    client: Option<Arc<Client>>,
}

/// `/connz`.
pub fn connz(server: &Server, options: &ConnzOptions) -> Result<Connz, PageError> {
    let sort = options.sort_key()?;
    let now = now();
    let mut rows = rows(server, options);
    order(&mut rows, sort, now);
    let page = options.page();
    let shown = &rows[page.range(rows.len())];
    Ok(Connz {
        server_id: server.identity.id.clone(),
        now,
        num_connections: signed(shown.len() as u64),
        total: signed(rows.len() as u64),
        offset: page.offset,
        limit: page.limit,
        connections: shown.iter().map(|row| describe(row, options, now)).collect(),
    })
}

/// All connections that the filters let through.
fn rows(server: &Server, options: &ConnzOptions) -> Vec<Row> {
    let mut rows = Vec::new();
    if options.state != ConnState::Closed {
        let clients = match options.cid {
            0 => server.clients(),
            cid => server.client(cid).into_iter().collect(),
        };
        let wanted = clients.into_iter().filter(|client| has_subscription(client, &options.filter_subject));
        rows.extend(
            wanted.map(|client| Row { facts: Arc::new(Snapshot::open(&client)), client: Some(client) }),
        );
    }
    // Of a closed client hardly any subscriptions are kept, so a question about them is about open ones.
    if options.state != ConnState::Open && options.filter_subject.is_empty() {
        rows.extend(server.closed.all().into_iter().map(|facts| Row { facts, client: None }));
    }
    rows.retain(|row| matches(&row.facts, options));
    rows
}

fn matches(facts: &Snapshot, options: &ConnzOptions) -> bool {
    let fits = |wanted: &str, actual: &str| wanted.is_empty() || wanted == actual;
    (options.cid == 0 || options.cid == facts.cid)
        && fits(&options.user, &facts.user)
        && fits(&options.acc, &facts.account)
        // No client speaks MQTT.
        && options.mqtt_client.is_empty()
}

fn has_subscription(client: &Client, filter: &str) -> bool {
    let filter = filter.as_bytes();
    filter.is_empty()
        || client.subscriptions.lock().iter().any(|subscription| overlaps(filter, &subscription.subject))
}

/// What a page is ordered by.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(i128),
    Text(&'static str),
}

impl Key {
    fn new(facts: &Snapshot, sort: ConnSort, now: Time) -> Self {
        let end = facts.stop.unwrap_or(now);
        Self::Number(match sort {
            ConnSort::Cid => i128::from(facts.cid),
            ConnSort::Start => facts.start.unix_nanos(),
            ConnSort::Subs => i128::from(facts.subscriptions),
            ConnSort::Pending => i128::from(facts.pending_bytes),
            ConnSort::MsgsTo => i128::from(facts.out_msgs),
            ConnSort::MsgsFrom => i128::from(facts.in_msgs),
            ConnSort::BytesTo => i128::from(facts.out_bytes),
            ConnSort::BytesFrom => i128::from(facts.in_bytes),
            ConnSort::Last => facts.last_activity.unix_nanos(),
            ConnSort::Idle => end.unix_nanos() - facts.last_activity.unix_nanos(),
            ConnSort::Uptime => end.unix_nanos() - facts.start.unix_nanos(),
            ConnSort::Stop => facts.stop.unwrap_or_default().unix_nanos(),
            ConnSort::Rtt => i128::try_from(facts.rtt.unwrap_or_default().as_nanos()).unwrap_or(i128::MAX),
            ConnSort::Reason => return Self::Text(facts.reason),
        })
    }
}

/// Puts rows in the order asked for; equal ones by their number.
fn order(rows: &mut [Row], sort: ConnSort, now: Time) {
    let key = |row: &Row| Key::new(&row.facts, sort, now);
    if sort.is_ascending() {
        rows.sort_by_cached_key(|row| (key(row), row.facts.cid));
    } else {
        rows.sort_by_cached_key(|row| (Reverse(key(row)), row.facts.cid));
    }
}

fn describe(row: &Row, options: &ConnzOptions, now: Time) -> ConnInfo {
    let mut info = row.facts.describe(options.auth, now);
    if !options.subscriptions && !options.subscriptions_detail {
        return info;
    }
    let Some(client) = row.client.as_ref() else {
        if options.subscriptions_detail {
            info.subscriptions_list_detail = row.facts.lost.to_vec();
        } else {
            info.subscriptions_list = row.facts.lost.iter().map(|lost| lost.subject.clone()).collect();
        }
        return info;
    };
    let mut subscriptions: Vec<Arc<Subscription>> = client.subscriptions.lock().iter().cloned().collect();
    subscriptions.sort_unstable_by(|a, b| a.subject.cmp(&b.subject));
    if options.subscriptions_detail {
        let detail =
            |subscription: &Arc<Subscription>| SubDetail { cid: client.id, ..subsz::describe(subscription) };
        info.subscriptions_list_detail = subscriptions.iter().map(detail).collect();
    } else {
        info.subscriptions_list = subscriptions.iter().map(|sub| super::text(&sub.subject)).collect();
    }
    info
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: i128) -> Time {
        Time::from_unix_nanos(seconds * 1_000_000_000)
    }

    /// Three clients: 1 the oldest and quiet, 2 loud, 3 closed.
    fn rows() -> Vec<Row> {
        let quiet = Snapshot {
            cid: 1,
            start: at(100),
            last_activity: at(110),
            user: "ann".to_owned(),
            account: "A".to_owned(),
            rtt: Some(Duration::from_millis(1)),
            ..Snapshot::default()
        };
        let loud = Snapshot {
            cid: 2,
            start: at(200),
            last_activity: at(290),
            in_msgs: 9,
            out_bytes: 5,
            pending_bytes: 4,
            subscriptions: 3,
            user: "bob".to_owned(),
            account: "B".to_owned(),
            rtt: Some(Duration::from_millis(5)),
            ..Snapshot::default()
        };
        let gone = Snapshot {
            cid: 3,
            start: at(150),
            last_activity: at(160),
            stop: Some(at(280)),
            reason: "Client Closed",
            ..Snapshot::default()
        };
        [loud, gone, quiet].into_iter().map(|facts| Row { facts: Arc::new(facts), client: None }).collect()
    }

    fn ordered(sort: ConnSort) -> Vec<u64> {
        let mut rows = rows();
        order(&mut rows, sort, at(300));
        rows.iter().map(|row| row.facts.cid).collect()
    }

    #[test]
    fn every_order_has_its_direction() {
        for (sort, expected) in [
            (ConnSort::Cid, [1, 2, 3]),
            (ConnSort::Start, [1, 3, 2]),
            (ConnSort::Subs, [2, 1, 3]),
            (ConnSort::Pending, [2, 1, 3]),
            (ConnSort::MsgsFrom, [2, 1, 3]),
            (ConnSort::MsgsTo, [1, 2, 3]),
            (ConnSort::BytesTo, [2, 1, 3]),
            (ConnSort::Last, [2, 3, 1]),
            (ConnSort::Idle, [1, 3, 2]),
            (ConnSort::Uptime, [2, 3, 1]),
            (ConnSort::Stop, [3, 1, 2]),
            (ConnSort::Reason, [1, 2, 3]),
            (ConnSort::Rtt, [2, 1, 3]),
        ] {
            assert_eq!(ordered(sort), expected, "{sort:?}");
        }
    }

    #[test]
    fn filters_join() {
        let found = |options: &ConnzOptions| -> Vec<u64> {
            rows()
                .iter()
                .map(|row| &row.facts)
                .filter(|facts| matches(facts, options))
                .map(|facts| facts.cid)
                .collect()
        };
        let text = str::to_owned;
        assert_eq!(found(&ConnzOptions::default()), [2, 3, 1]);
        assert_eq!(found(&ConnzOptions { user: text("ann"), ..Default::default() }), [1]);
        assert_eq!(found(&ConnzOptions { acc: text("B"), cid: 2, ..Default::default() }), [2]);
        assert!(found(&ConnzOptions { acc: text("B"), user: text("ann"), ..Default::default() }).is_empty());
        assert!(found(&ConnzOptions { mqtt_client: text("m"), ..Default::default() }).is_empty());
    }

    #[test]
    fn user_and_account_show_only_on_request() {
        let rows = rows();
        let options = |auth| ConnzOptions { auth, ..ConnzOptions::default() };
        let info = describe(&rows[0], &options(true), at(300));
        assert_eq!((info.authorized_user.as_str(), info.account.as_str()), ("bob", "B"));
        assert_eq!((info.uptime.as_str(), info.idle.as_str(), info.rtt.as_str()), ("1m40s", "10s", "5ms"));
        let info = describe(&rows[0], &options(false), at(300));
        assert_eq!(
            (info.authorized_user.as_str(), info.account.as_str(), info.name_tag.as_str()),
            ("", "", "")
        );
        let gone = describe(&rows[1], &options(true), at(999));
        assert_eq!((gone.uptime.as_str(), gone.reason.as_str()), ("2m10s", "Client Closed"));
    }
}
