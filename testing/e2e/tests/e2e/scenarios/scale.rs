//! Growing and shrinking.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::{READY_LIMIT, World, changing};
use crate::client::{Client, Event, is_farewell};
use crate::cluster::NatsCluster;
use crate::wait;

/// A server leaves within the grace period of lame duck and a few seconds.
const LEAVE_LIMIT: Duration = Duration::from_secs(60);
const SUBJECT: &str = "farewell";

pub(super) fn up_and_down(world: &World) -> Result<()> {
    let cluster = changing(world)?;
    let before = cluster.pods()?;
    cluster.kubectl(&["scale", "natscluster/nats", "--replicas=5"])?;
    cluster.await_ready(5, READY_LIMIT)?;
    wait::until("five servers form a mesh", READY_LIMIT, || cluster.check_mesh(5))?;
    ensure!(cluster.pods()?[..3] == before, "growing touched old pods: {:?}", cluster.pods()?);
    cluster.send_across(0, 4)?;
    cluster.send_across(3, 1)?;

    let hosts: Vec<String> = [0, 3, 4].map(|ordinal| cluster.host(ordinal)).into();
    let (_forward, addresses) = cluster.forward_clients(&hosts)?;
    let connect = |address: &String| Client::connect(address, &cluster.user, &cluster.password);
    let mut publisher = connect(&addresses[0])?;
    let mut third = connect(&addresses[1])?;
    let mut fourth = connect(&addresses[2])?;
    for client in [&mut third, &mut fourth] {
        client.subscribe(SUBJECT)?;
    }
    await_interest(&mut publisher, &mut [&mut third, &mut fourth])?;

    cluster.kubectl(&["scale", "natscluster/nats", "--replicas=3"])?;
    leave(&mut publisher, &mut fourth)?;
    // One at a time: when the last server has sent its clients away, the one before has not begun.
    third.flush()?;
    ensure!(!third.was_sent_away(), "two servers left at the same time");
    leave(&mut publisher, &mut third)?;

    cluster.await_ready(3, READY_LIMIT)?;
    wait::until("three servers form a mesh", READY_LIMIT, || cluster.check_mesh(3))?;
    ensure!(cluster.pods()? == before, "shrinking touched other pods: {:?}", cluster.pods()?);
    check_events(&cluster, &["ScaledUp", "ScaledDown"])?;
    cluster.send_across(2, 0)
}

/// Publishes until both subscribers had a message.
fn await_interest(publisher: &mut Client, subscribers: &mut [&mut Client]) -> Result<()> {
    for subscriber in subscribers {
        wait::until("a subscriber is heard of", Duration::from_secs(20), || {
            publisher.publish([(SUBJECT, "are you there".to_owned())])?;
            publisher.flush()?;
            let message = |event: &Event| matches!(event, Event::Message(..));
            subscriber.await_event(Duration::from_secs(1), message)
        })?;
    }
    Ok(())
}

/// A server that leaves tells its client, still delivers, and closes only then.
fn leave(publisher: &mut Client, subscriber: &mut Client) -> Result<()> {
    subscriber.await_event(LEAVE_LIMIT, is_farewell)?;
    publisher.publish([(SUBJECT, "last words".to_owned())])?;
    publisher.flush()?;
    let last = |event: &Event| matches!(event, Event::Message(_, text) if text == "last words");
    subscriber.await_event(Duration::from_secs(5), last)?;
    subscriber.await_event(LEAVE_LIMIT, |event| *event == Event::Closed)?;
    Ok(())
}

/// Events of these reasons were written about the cluster.
pub(super) fn check_events(cluster: &NatsCluster<'_>, reasons: &[&str]) -> Result<()> {
    wait::until("events are written", Duration::from_secs(20), || {
        let columns = "--output=custom-columns=R:.reason,K:.involvedObject.kind";
        let list = cluster.kubectl(&["get", "events", "--no-headers", columns])?;
        for reason in reasons {
            let found = list.lines().any(|line| line.split_whitespace().eq([*reason, "NatsCluster"]));
            ensure!(found, "no event {reason} among {list}");
        }
        Ok(())
    })
}
