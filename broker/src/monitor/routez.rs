//! `/routez`: the connections to other servers of the cluster.

use std::sync::atomic::Ordering::Relaxed;

use api::Time;
use api::duration::{short_text, uptime_text};
use api::monitor::{RouteInfo, Routez, RoutezOptions, SubDetail, SubjectPermission};
use config::options;

use super::accounts::count;
use super::{now, signed, text, time};
use crate::cluster::Route;
use crate::cluster::route::InterestKey;
use crate::server::Server;

/// What is said of compression: it is not done.
const COMPRESSION: &str = "off";

/// `/routez`.
pub fn routez(server: &Server, options: &RoutezOptions) -> Routez {
    let configured = server.options();
    let permissions = configured.cluster.as_ref().and_then(|cluster| cluster.permissions.as_ref());
    let mut routes = server.routes().all();
    routes.sort_unstable_by_key(|route| route.id);
    let now = now();
    Routez {
        server_id: server.identity.id.clone(),
        server_name: server.identity.name.clone(),
        now,
        import: permissions.and_then(|permissions| permission(&permissions.import)),
        export: permissions.and_then(|permissions| permission(&permissions.export)),
        num_routes: signed(routes.len() as u64),
        routes: routes.iter().map(|route| describe(route, *options, now)).collect(),
    }
}

fn describe(route: &Route, options: RoutezOptions, now: Time) -> RouteInfo {
    let start = time(route.started_unix);
    let last =
        time(route.started_unix.saturating_add(i64::try_from(route.last_active().as_nanos()).unwrap_or(0)));
    let sent = route.out.sent();
    let mut info = RouteInfo {
        rid: route.id,
        remote_id: route.agreement.peer_id.clone(),
        remote_name: route.agreement.peer_name.clone(),
        did_solicit: route.solicited,
        is_configured: route.configured,
        ip: route.peer.ip().to_canonical().to_string(),
        port: i32::from(route.peer.port()),
        start,
        last_activity: last,
        rtt: route.rtt().map(short_text).unwrap_or_default(),
        uptime: uptime_text(now.saturating_since(start)),
        idle: uptime_text(now.saturating_since(last)),
        pending_size: signed(route.out.pending() as u64),
        in_msgs: signed(route.received.messages.load(Relaxed)),
        out_msgs: signed(sent.messages),
        in_bytes: signed(route.received.bytes.load(Relaxed)),
        out_bytes: signed(sent.bytes),
        account: route.account().unwrap_or_default().to_owned(),
        compression: COMPRESSION.to_owned(),
        ..RouteInfo::default()
    };
    let interest = route.interest.lock();
    info.subscriptions = count(interest.len());
    if options.subscriptions_detail {
        info.subscriptions_list_detail = interest.keys().map(|key| subscription(key, route)).collect();
    } else if options.subscriptions {
        info.subscriptions_list = interest.keys().map(|key| text(&key.subject)).collect();
    }
    drop(interest);
    info.subscriptions_list.sort_unstable();
    info.subscriptions_list_detail.sort_unstable_by(|a, b| a.sid.cmp(&b.sid));
    info
}

/// A peer names its interest by account, subject and queue, not by a number of its own.
fn subscription(key: &InterestKey, route: &Route) -> SubDetail {
    let parts = [Some(&b"R"[..]), Some(&key.account), Some(&key.subject), key.queue.as_deref()];
    SubDetail {
        subject: text(&key.subject),
        queue: key.queue.as_deref().map(text).unwrap_or_default(),
        sid: text(&parts.into_iter().flatten().collect::<Vec<_>>().join(&b' ')),
        cid: route.id,
        ..SubDetail::default()
    }
}

/// Configured permissions as the page shows them; nothing if they restrict nothing.
fn permission(configured: &options::SubjectPermission) -> Option<SubjectPermission> {
    let texts = |rules: &[options::SubjectRule]| rules.iter().map(|rule| rule.subject.clone()).collect();
    let permission = SubjectPermission {
        allow: texts(configured.allow.as_deref().unwrap_or(&[])),
        deny: texts(&configured.deny),
    };
    (permission != SubjectPermission::default()).then_some(permission)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_show_only_where_there_are_some() {
        assert_eq!(permission(&options::SubjectPermission::default()), None);
        let rule = |subject: &str| options::SubjectRule { subject: subject.to_owned(), queue: None };
        let configured =
            options::SubjectPermission { allow: Some(vec![rule("a.>")]), deny: vec![rule("a.b")] };
        let shown = permission(&configured).unwrap();
        assert_eq!((shown.allow, shown.deny), (vec!["a.>".to_owned()], vec!["a.b".to_owned()]));
    }
}
