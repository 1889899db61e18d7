//! Who gets a message: plain copies, one queue member, one line per route.

use super::*;
use crate::interest::Interest;

#[derive(Default)]
struct Record {
    local: Vec<u32>,
    routes: Vec<(u32, Vec<String>)>,
    closed: Vec<u32>,
}

impl Deliver<u32> for Record {
    fn local(&mut self, subscription: &Arc<Subscription<u32>>) -> bool {
        let open = !self.closed.contains(&subscription.sink);
        if open {
            self.local.push(subscription.sink);
        }
        open
    }

    fn route(&mut self, route: &u32, queues: &[&[u8]]) -> bool {
        self.routes.push((*route, queues.iter().map(|q| String::from_utf8_lossy(q).into_owned()).collect()));
        true
    }
}

fn local(interest: &Interest<u32>, sink: u32, subject: &str, queue: Option<&str>) {
    let queue = queue.map(str::as_bytes);
    interest.insert("A", &Arc::new(Subscription::local(sink, subject.as_bytes(), queue, b"1"))).unwrap();
}

fn route(interest: &Interest<u32>, sink: u32, subject: &str, queue: Option<(&str, u32)>) {
    let queue = queue.map(|(name, weight)| (name.as_bytes(), weight));
    interest.insert("A", &Arc::new(Subscription::route(sink, subject.as_bytes(), queue))).unwrap();
}

fn publish(interest: &Interest<u32>, random: &mut Random, closed: &[u32]) -> (Record, u32) {
    let mut record = Record { closed: closed.to_vec(), ..Record::default() };
    let (_, plan) = interest.plan(b"foo.bar");
    let receivers = from_client(&plan, random, &mut record);
    (record, receivers)
}

#[test]
fn overlapping_plain_subscriptions_each_get_a_copy() {
    let interest = Interest::default();
    for (sink, subject) in [(1, "foo.bar"), (1, "foo.*"), (2, ">"), (3, "foo.baz")] {
        local(&interest, sink, subject, None);
    }
    let (mut record, receivers) = publish(&interest, &mut Random::new(1), &[]);
    record.local.sort_unstable();
    assert_eq!((record.local, receivers), (vec![1, 1, 2], 3));
}

#[test]
fn a_queue_group_is_one_group_over_all_matching_subjects() {
    let interest = Interest::default();
    local(&interest, 1, "foo.*", Some("q"));
    local(&interest, 2, "foo.bar", Some("q"));
    let mut random = Random::new(3);
    let mut seen = [0; 3];
    for _ in 0..10_000 {
        let (record, receivers) = publish(&interest, &mut random, &[]);
        assert_eq!((record.local.len(), receivers), (1, 1));
        seen[record.local[0] as usize] += 1;
    }
    assert!((4_700..5_300).contains(&seen[1]), "{seen:?}");
}

#[test]
fn a_closed_member_is_passed_over() {
    let interest = Interest::default();
    local(&interest, 1, "foo.bar", Some("q"));
    local(&interest, 2, "foo.bar", Some("q"));
    let mut random = Random::new(3);
    for _ in 0..100 {
        assert_eq!(publish(&interest, &mut random, &[1]).0.local, [2]);
    }
    assert_eq!(publish(&interest, &mut random, &[1, 2]).1, 0);
}

#[test]
fn members_on_peers_count_by_weight_without_preference_for_local_ones() {
    let interest = Interest::default();
    local(&interest, 1, "foo.bar", Some("q"));
    route(&interest, 7, "foo.bar", Some(("q", 3)));
    let mut random = Random::new(5);
    let mut on_peer = 0;
    for _ in 0..10_000 {
        let (record, receivers) = publish(&interest, &mut random, &[]);
        assert_eq!(receivers, 1);
        assert_eq!(record.local.len() + record.routes.len(), 1);
        on_peer += record.routes.len();
    }
    assert!((7_200..7_800).contains(&on_peer), "{on_peer}");
}

#[test]
fn a_route_gets_one_line_for_plain_and_queue_interest() {
    let interest = Interest::default();
    route(&interest, 7, "foo.bar", None);
    route(&interest, 7, "foo.>", None);
    route(&interest, 7, "foo.bar", Some(("a", 1)));
    route(&interest, 7, "foo.*", Some(("b", 1)));
    let (record, receivers) = publish(&interest, &mut Random::new(1), &[]);
    assert_eq!(receivers, 1);
    let (sink, mut queues) = record.routes[0].clone();
    queues.sort();
    assert_eq!((record.routes.len(), sink, queues), (1, 7, vec!["a".to_owned(), "b".to_owned()]));
}

#[test]
fn a_message_from_a_route_stays_here_and_serves_only_named_groups() {
    let interest = Interest::default();
    local(&interest, 1, "foo.bar", None);
    local(&interest, 2, "foo.bar", Some("a"));
    local(&interest, 3, "foo.bar", Some("b"));
    route(&interest, 7, "foo.bar", None);
    let (_, plan) = interest.plan(b"foo.bar");
    let mut record = Record::default();
    let queues = [b"b".as_slice(), b"unknown".as_slice()];
    let receivers = from_route(&plan, queues.into_iter(), &mut Random::new(1), &mut record);
    assert_eq!((record.local, record.routes.len(), receivers), (vec![1, 3], 0, 2));
}

#[test]
fn when_every_local_member_refuses_a_peer_serves_the_group() {
    let interest = Interest::default();
    local(&interest, 1, "foo.bar", Some("q"));
    route(&interest, 7, "foo.bar", Some(("q", 1)));
    let mut random = Random::new(2);
    for _ in 0..50 {
        let (record, receivers) = publish(&interest, &mut random, &[1]);
        assert_eq!((record.routes.len(), receivers), (1, 1));
    }
}
