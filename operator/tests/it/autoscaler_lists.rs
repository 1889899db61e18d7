//! Consumers that are read by lists, at our server and at the reference server.

use std::time::Duration;

use api::jetstream::consumer::ConsumerAction;
use k8s_openapi::jiff::Timestamp;
use operator::autoscaler::lists::{Lists, SINGLE_MAX};
use operator::autoscaler::need::{Reading, Sample};
use operator::jetstream::api::Js;
use serde_json::json;

use crate::support::broker::Broker;

/// Time between looks; a list is good for half of it.
const INTERVAL: Duration = Duration::from_secs(20);

async fn make_consumers(js: &Js<'_>, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let config = json!({ "durable_name": name(number), "ack_policy": "explicit" });
        let config = serde_json::from_value(config).unwrap();
        js.put_consumer("ORDERS", &name(number), config, ConsumerAction::default()).await.unwrap();
    }
}

fn name(number: usize) -> String {
    format!("c{number}")
}

/// Requests for lists so far.
fn lists_read(js: &Js<'_>) -> u64 {
    js.metrics.request_seconds.with_label_values(&["consumer_list"]).get_sample_count()
}

async fn find(lists: &Lists, js: &Js<'_>, number: usize) -> Option<Reading> {
    lists.find(js, "ORDERS", &name(number), INTERVAL).await
}

async fn lists_tell_what_each_would_be_asked_for(broker: Broker) {
    let person = broker.person("a");
    let js = person.js();
    let config = json!({ "name": "ORDERS", "subjects": ["orders.>"] });
    js.put_stream("CREATE", "ORDERS", &config).await.unwrap();
    make_consumers(&js, 0..SINGLE_MAX + 5).await;
    person.publish("orders.1").await;
    person.publish("orders.2").await;
    person.take("ORDERS", &name(3)).await;

    let lists = Lists::default();
    for number in 0..SINGLE_MAX {
        assert_eq!(find(&lists, &js, number).await, None, "so few are asked for one by one");
    }
    assert_eq!(lists_read(&js), 0);
    let before = Timestamp::now();
    let first = find(&lists, &js, SINGLE_MAX).await.unwrap();
    assert!(first.at >= before);
    for number in [3, SINGLE_MAX] {
        let info = js.consumer("ORDERS", &name(number)).await.unwrap().unwrap();
        let listed = find(&lists, &js, number).await.unwrap();
        assert_eq!((listed.at, listed.sample), (first.at, Sample::of_consumer(&info)));
    }
    assert_eq!(lists_read(&js), 1, "one list for all");
    assert_eq!(find(&lists, &js, 9_999).await, None, "there is no such consumer");
    // Another stream has consumers of its own.
    assert_eq!(lists.find(&js, "OTHER", &name(3), INTERVAL).await, None);

    // A list that is older than half of the shortest interval is read again.
    let quick = lists.find(&js, "ORDERS", &name(3), Duration::ZERO).await.unwrap();
    assert!(quick.at > first.at);
    assert_eq!(lists_read(&js), 2);

    // A list of two pages is read for more than twice as many.
    make_consumers(&js, SINGLE_MAX + 5..300).await;
    let lists = Lists::default();
    for number in 0..2 * SINGLE_MAX {
        assert_eq!(find(&lists, &js, number).await, None);
    }
    assert_eq!(lists_read(&js), 3, "the first page said how many there are");
    assert!(find(&lists, &js, 290).await.is_some(), "it is on the second page");
    assert_eq!(lists_read(&js), 5);
}

#[tokio::test]
async fn lists_of_our_server_tell_what_each_consumer_would_be_asked_for() {
    lists_tell_what_each_would_be_asked_for(Broker::start().await).await;
}

#[tokio::test]
async fn lists_of_the_reference_server_tell_what_each_consumer_would_be_asked_for() {
    lists_tell_what_each_would_be_asked_for(Broker::reference().await).await;
}

#[tokio::test]
async fn a_list_that_does_not_come_leaves_each_to_be_asked_for() {
    let mut broker = Broker::start().await;
    let person = broker.person("a");
    let lists = Lists::default();
    broker.kill().await;
    for number in 0..=2 * SINGLE_MAX {
        assert_eq!(find(&lists, &person.js(), number).await, None);
    }
    assert_eq!(lists_read(&person.js()), 1, "one attempt and not one for each");
}
