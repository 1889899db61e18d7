//! Queue groups that several look at, at our server and at the reference server.

use std::time::Duration;

use crd::nats_autoscaler::source::{QueueGroupSource, SlowConsumers};
use futures::future::join_all;
use operator::autoscaler::groups::Accounts;
use operator::autoscaler::need::{Reading, Sample};
use operator::jetstream::problem::Problem;

use crate::autoscaler::Plain;
use crate::support::broker::Broker;

/// Time between looks of those who take what others were told.
const INTERVAL: Duration = Duration::from_secs(20);

fn source(queue: &str) -> QueueGroupSource {
    QueueGroupSource { subject: "work.*".to_owned(), queue: queue.to_owned(), ..QueueGroupSource::default() }
}

/// Messages that each member had.
fn counts(reading: &Result<Reading, Problem>) -> Vec<i64> {
    match &reading.as_ref().unwrap().sample {
        Sample::Group { members, .. } => members.values().map(|counts| counts.1).collect(),
        other => panic!("{other:?} is no group"),
    }
}

async fn all_who_look_are_told_by_one_answer(broker: Broker) {
    let address = format!("127.0.0.1:{}", broker.port);
    let mut members = Vec::new();
    for subscriptions in [
        "SUB work.* crew 1\r\nSUB work.* crew 2\r\nSUB other.* crew 3\r\n",
        "SUB work.* crew 1\r\nSUB work.* others 2\r\nSUB work.* 3\r\n",
    ] {
        let mut member = Plain::connect_as(&address, "a", "secret-a").await;
        member.write(subscriptions).await;
        member.settle().await;
        members.push(member);
    }
    let mut elsewhere = Plain::connect_as(&address, "b", "secret-b").await;
    elsewhere.write("SUB work.* crew 1\r\n").await;
    elsewhere.settle().await;
    members[0].write(&"PUB work.x 1\r\nx\r\n".repeat(30)).await;
    members[0].settle().await;
    // Requests pass by everybody of the system account who wants to see them.
    let mut watcher = Plain::connect_as(&address, "sys", "secret-sys").await;
    watcher.write("SUB $SYS.REQ.SERVER.*.CONNZ 1\r\n").await;
    watcher.settle().await;
    let mut requests = async || {
        let lines = watcher.settle().await;
        lines.iter().filter(|line| line.starts_with("MSG ")).count()
    };

    let (accounts, targets) = (Accounts::default(), [broker.system_target()]);
    let account = accounts.of("uid", "A");
    let look = async |queue: &str, interval| account.read(&targets, &source(queue), interval).await;
    let queues = ["crew", "others", "crew", "nobody", "crew"];
    let read = join_all(queues.map(|queue| look(queue, INTERVAL))).await;
    for at in [0, 2, 4] {
        let counts = counts(&read[at]);
        assert_eq!((counts.len(), counts.iter().sum::<i64>()), (3, 30), "{counts:?}");
    }
    assert_eq!(counts(&read[1]), [30]);
    let missing = read[3].as_ref().unwrap_err();
    assert_eq!(missing.reason(), "SourceMissing");
    assert_eq!(missing.to_string(), "queue group nobody of work.* has no members");
    assert_eq!(requests().await, 2, "the first, and one for all who came meanwhile");

    let before = look("crew", INTERVAL).await.unwrap();
    assert_eq!(requests().await, 0, "all of them were told");
    let after = look("crew", Duration::ZERO).await.unwrap();
    assert!(after.at > before.at, "it was too old");
    assert_eq!(requests().await, 1);

    // Who was cut off is another question.
    let slow = QueueGroupSource { slow_consumers: Some(SlowConsumers::default()), ..source("crew") };
    for _ in 0..2 {
        let reading = account.read(&targets, &slow, INTERVAL).await.unwrap();
        assert!(matches!(reading.sample, Sample::Group { slow, .. } if slow.is_empty()));
    }
    assert_eq!(requests().await, 1);
    let elsewhere = accounts.of("uid", "B").read(&targets, &source("crew"), INTERVAL).await;
    assert_eq!(counts(&elsewhere), [0], "nothing of account A");
}

#[tokio::test]
async fn all_who_look_at_an_account_of_our_server_are_told_by_one_answer() {
    all_who_look_are_told_by_one_answer(Broker::start().await).await;
}

#[tokio::test]
async fn all_who_look_at_an_account_of_the_reference_server_are_told_by_one_answer() {
    all_who_look_are_told_by_one_answer(Broker::reference().await).await;
}
