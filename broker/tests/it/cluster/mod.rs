//! Routes between servers: mesh, interest, delivery, faults, and clusters that mix ours with the reference.

mod accounts;
mod delivery;
mod faults;
mod identity;
mod info;
mod mesh;
mod mixed;
mod peer;
mod peer_auth;
mod peer_interest;
mod peer_messages;
mod pool;
mod queue;
mod route_permissions;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use testkit::{Client, eventually};

/// Waits until all that `subscriber` has subscribed to so far is known where `publisher` is connected.
///
/// Interest of one account travels in order, so it is enough to see a probe subscribed to last come through.
pub(crate) async fn settle(publisher: &mut Client, subscriber: &mut Client) {
    static PROBES: AtomicUsize = AtomicUsize::new(0);
    let subject = format!("settle.{}", PROBES.fetch_add(1, Ordering::Relaxed));
    subscriber.op(&format!("SUB {subject} settle")).await;
    eventually("interest has spread", async || {
        publisher.publish(&subject, "").await;
        subscriber.next_within(Duration::from_millis(20)).await
    })
    .await;
    subscriber.op("UNSUB settle").await;
    let rest = subscriber.drain().await;
    assert!(rest.iter().all(|frame| frame.message().sid == "settle"), "unexpected: {rest:?}");
    publisher.flush().await;
}

/// Waits until a request from this client finds nobody.
async fn await_nobody(client: &mut Client, subject: &str) {
    client.subscribe("_NOBODY.*", "nobody").await;
    eventually("the interest is gone", async || {
        client.request(subject, "_NOBODY.1", "").await;
        client.drain().await.iter().any(|frame| frame.line().starts_with("HMSG _NOBODY")).then_some(())
    })
    .await;
    client.op("UNSUB nobody").await;
    client.flush().await;
}
