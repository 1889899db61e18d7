//! Shadows follow subscriptions, and replies are waited for no longer than they have to be.
#![expect(clippy::disallowed_methods, reason = "a test may read the clock")]

use std::time::{Duration, Instant};

use super::*;
use crate::account::{Account, Limits};
use crate::deliver::{Deliver, from_client, from_route};
use crate::interest::{Side, Subscription};
use crate::permission::{Pattern, Permissions, Rules};
use crate::random::Random;
use crate::session::client::Subscriptions;

/// A client by its number, or an import.
#[derive(Debug, Clone)]
enum Sink {
    Client(u32),
    Import(Arc<Import<Self>>),
}

impl PartialEq for Sink {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Client(one), Self::Client(other)) => one == other,
            (Self::Import(one), Self::Import(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

const THRESHOLD: Duration = Duration::from_secs(2);

fn account(name: &str) -> Arc<Account<Sink>> {
    Arc::new(Account::new(name, false, Limits::default()))
}

fn stream(
    importer: &Arc<Account<Sink>>,
    exporter: &Arc<Account<Sink>>,
    (subject, local): (&str, &str),
) -> Arc<StreamImport<Sink>> {
    let accounts = (importer, exporter);
    Arc::new(StreamImport::new(accounts, subject.as_bytes(), local.as_bytes(), Sink::Import).unwrap())
}

fn service(
    importer: &Arc<Account<Sink>>,
    exporter: &Arc<Account<Sink>>,
    (subject, local): (&str, &str),
    response: Response,
) -> ServiceImport<Sink> {
    let request = Request {
        importer,
        exporter,
        subject: subject.as_bytes(),
        local: local.as_bytes(),
        export: 1,
        response,
        threshold: THRESHOLD,
        share: false,
    };
    ServiceImport::new(&request, Sink::Import, 7).unwrap()
}

fn subscribe(account: &Account<Sink>, subject: &str, queue: Option<&str>) -> Arc<Subscription<Sink>> {
    let queue = queue.map(str::as_bytes);
    let subscription = Arc::new(Subscription::local(Sink::Client(1), subject.as_bytes(), queue, b"1"));
    account.interest.insert(account.name(), &subscription).unwrap();
    subscription
}

/// Subjects in the account that stand for other accounts.
fn shadows(account: &Account<Sink>) -> Vec<String> {
    let mut subjects = Vec::new();
    account.interest.for_each(|subscription| {
        if subscription.side == Side::Import {
            subjects.push(String::from_utf8_lossy(&subscription.subject).into_owned());
        }
    });
    subjects
}

#[test]
fn a_subscription_follows_what_of_it_is_imported() {
    let (a, b) = (account("A"), account("B"));
    for (import, subscribed, expected) in [
        (("pub.>", "pub.>"), "pub.>", Some("pub.>")),
        (("pub.>", "pub.>"), ">", Some("pub.>")),
        (("pub.>", "pub.>"), "pub.a", Some("pub.a")),
        (("pub.>", "pub.>"), "*.a", Some("pub.a")),
        (("pub.>", "pub.>"), "other", None),
        (("pub.>", "in.pub.>"), "in.>", Some("pub.>")),
        (("pub.>", "in.pub.>"), "in.*.x", Some("pub.x")),
        (("pub.*.*", "in.$2.$1"), "in.*.*", Some("pub.*.*")),
        (("pub.*.*", "in.$2.$1"), "in.a.*", Some("pub.*.a")),
        (("pub.*.*", "in.{{wildcard(2)}}.{{wildcard(1)}}"), "in.a.b", Some("pub.b.a")),
        (("pub.*.*", "in.$2.$1"), "in.a", None),
        (("lit", "p.lit"), "p.*", Some("lit")),
        (("lit", "p.lit"), "lit", None),
    ] {
        a.set_streams(vec![stream(&a, &b, import)]);
        let subscription = subscribe(&a, subscribed, None);
        assert_eq!(shadows(&b), expected.into_iter().collect::<Vec<_>>(), "{import:?} {subscribed}");
        a.interest.remove("A", &subscription);
        assert!(b.interest.is_empty() && a.interest.is_empty(), "{import:?} {subscribed}");
    }
}

#[test]
fn shadows_come_and_go_with_imports_and_leave_nothing_behind() {
    let (a, b, c) = (account("A"), account("B"), account("C"));
    let first = subscribe(&a, "x.*", Some("q"));
    assert!(b.interest.is_empty());
    a.set_streams(vec![stream(&a, &b, ("x.>", "x.>")), stream(&a, &c, ("y", "x.y"))]);
    let second = subscribe(&a, "x.y", None);
    assert_eq!((shadows(&b), shadows(&c)), (vec!["x.y".into(), "x.*".into()], vec!["y".into(), "y".into()]));
    a.set_streams(vec![stream(&a, &c, ("z", "x.z"))]);
    assert_eq!((shadows(&b).len(), shadows(&c)), (0, vec!["z".into()]));
    // What stands here for others is nothing to follow.
    c.set_streams(vec![stream(&c, &b, (">", ">"))]);
    assert!(b.interest.is_empty());
    for _ in 0..1000 {
        let more = subscribe(&a, "x.z", None);
        a.interest.remove("A", &more);
    }
    assert_eq!(c.interest.len(), 1);
    a.interest.remove("A", &first);
    a.interest.remove("A", &second);
    assert!(a.interest.is_empty() && b.interest.is_empty() && c.interest.is_empty());
    a.set_streams(Vec::new());
    subscribe(&a, "x.z", None);
    assert!(c.interest.is_empty());
}

#[test]
fn a_shadow_hands_over_to_the_subscription_as_it_is_now() {
    let (a, b) = (account("A"), account("B"));
    a.set_streams(vec![stream(&a, &b, ("pub.*", "in.$1"))]);
    let mut table = Subscriptions::default();
    let subscription = Subscription::local(Sink::Client(1), b"in.*", None, b"1");
    table.add(&a, subscription, None, (None, None)).unwrap();
    let deny = vec![Pattern::parse("in.x")];
    let denying = Permissions { subscribe: Rules { allow: None, deny }, ..Permissions::default() };
    assert!(table.retain_permitted(&a, &denying).is_empty());
    assert_eq!(shadows(&b), ["pub.*"]);
    let (_, plan) = b.interest.plan(b"pub.x");
    let Sink::Import(import) = &plan.plain[0].sink else { panic!("{plan:?}") };
    let Import::Shadow(shadow) = &**import else { panic!("{import:?}") };
    let original = shadow.original();
    assert_eq!(shadow.local_subject(b"pub.x", &original).as_deref(), Some(b"in.x".as_slice()));
    assert!(original.denies(b"in.x") && !original.denies(b"in.y"));
    assert_eq!(shadow.importer().unwrap().name(), "A");
    table.clear(&a, true);
    assert!(b.interest.is_empty());
}

#[derive(Default)]
struct Record(Vec<Sink>);

impl Deliver<Sink> for Record {
    fn local(&mut self, subscription: &Arc<Subscription<Sink>>) -> bool {
        self.0.push(subscription.sink.clone());
        true
    }

    fn route(&mut self, _: &Sink, _: &[&[u8]]) -> bool {
        true
    }
}

#[test]
fn a_service_is_for_what_is_published_here_and_not_for_what_peers_send() {
    let (a, b) = (account("A"), account("B"));
    let import = service(&a, &b, ("req.*", "ask.$1"), Response::Single);
    assert_eq!(import.local(), b"ask.*");
    let target = import.target(&b, b"ask.me", &mut Random::new(1)).unwrap();
    assert_eq!(target, b"req.me");
    let sink = Sink::Import(Arc::new(Import::Service(import)));
    a.interest.insert("A", &Arc::new(Subscription::service(sink, b"ask.*"))).unwrap();
    let (_, plan) = a.interest.plan(b"ask.me");
    assert!(!plan.is_empty());
    let mut record = Record::default();
    assert_eq!(from_client(&plan, &mut Random::new(1), &mut record), 1);
    assert_eq!(from_route(&plan, std::iter::empty(), &mut Random::new(1), &mut record), 0);
    assert_eq!(record.0.len(), 1);
}

#[test]
fn subjects_of_services_are_carried_over_both_ways() {
    let (a, b) = (account("A"), account("B"));
    let mut random = Random::new(1);
    for (names, literal, expected) in [
        (("req", "req"), "req", "req"),
        (("req", "ask"), "ask", "req"),
        (("req.*", "req.*"), "req.x", "req.x"),
        (("req.*.*", "ask.$2.$1"), "ask.a.b", "req.b.a"),
        (("req.>", "ask.>"), "ask.a.b", "req.a.b"),
        (("req", "ask.*"), "ask.a", "req"),
    ] {
        let import = service(&a, &b, names, Response::Single);
        let target = import.target(&b, literal.as_bytes(), &mut random).unwrap();
        assert_eq!(target, expected.as_bytes(), "{names:?}");
    }
}

#[test]
fn a_single_answer_ends_the_wait_and_many_end_with_time_or_the_last() {
    let (a, b) = (account("A"), account("B"));
    let now = Instant::now();
    let from = || (Arc::downgrade(&a), b"_INBOX.1".as_slice());
    let single = service(&a, &b, ("req", "req"), Response::Single);
    let reply = b.responses.open(&b, &single, from(), now);
    assert_eq!((reply.len(), &reply[..4]), (17, b"_R_.".as_slice()));
    assert_eq!(shadows(&b), [format!("{}>", String::from_utf8_lossy(&reply[..11]))]);
    let answer = b.responses.take(&reply, false, now).unwrap();
    assert_eq!((&*answer.reply, answer.requestor.upgrade().unwrap().name()), (b"_INBOX.1".as_slice(), "A"));
    assert!(b.responses.take(&reply, false, now).is_none() && b.responses.is_empty());

    let many = service(&a, &b, ("req", "req"), Response::Many);
    let reply = b.responses.open(&b, &many, from(), now);
    for second in 1..=5 {
        assert!(b.responses.take(&reply, false, now + Duration::from_secs(second)).is_some(), "{second}");
    }
    assert!(b.responses.take(&reply, true, now + Duration::from_secs(6)).is_some());
    assert!(b.responses.is_empty());
    let reply = b.responses.open(&b, &many, from(), now);
    assert!(b.responses.take(&reply, false, now + 2 * THRESHOLD).is_none());
    assert!(b.responses.is_empty());
    let reply = b.responses.open(&b, &single, from(), now);
    b.responses.forget(&reply);
    assert!(b.responses.is_empty() && b.responses.take(b"_R_.x", false, now).is_none());
}

#[test]
fn replies_that_are_waited_for_are_bounded_and_expire() {
    let (a, b) = (account("A"), account("B"));
    let import = service(&a, &b, ("req", "req"), Response::Single);
    let start = Instant::now();
    let open = |at: Instant| b.responses.open(&b, &import, (Arc::downgrade(&a), b"r"), at);
    let first = open(start);
    for _ in 0..65_536 {
        open(start);
    }
    assert_eq!(b.responses.len(), 65_536);
    assert!(b.responses.take(&first, false, start).is_none(), "the oldest is gone");
    // Every new one takes several old ones away.
    for _ in 0..20_000 {
        open(start + 2 * THRESHOLD);
    }
    assert_eq!(b.responses.len(), 20_000);
    b.responses.expire(start + 5 * THRESHOLD);
    assert!(b.responses.is_empty());
}

#[test]
fn an_answer_that_asks_leads_back_to_the_one_who_answers() {
    let (a, b) = (account("A"), account("B"));
    let now = Instant::now();
    let import = service(&a, &b, ("req", "req"), Response::Single);
    let reply = b.responses.open(&b, &import, (Arc::downgrade(&a), b"_INBOX.1"), now);
    let answer = b.responses.take(&reply, false, now).unwrap();
    let again = a.responses.open_again(&a, (&b.responses, &answer), b"more", now).unwrap();
    let back = a.responses.take(&again, false, now).unwrap();
    assert_eq!((&*back.reply, back.requestor.upgrade().unwrap().name()), (b"more".as_slice(), "B"));
}
