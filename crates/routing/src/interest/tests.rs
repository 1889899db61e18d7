//! What peers hear, and when plans go stale.

use parking_lot::Mutex;

use super::*;

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Announce for Heard {
    fn interest(&self, account: &str, subject: &[u8], queue: Option<&[u8]>, count: u32) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let queue = queue.map(text).unwrap_or_default();
        self.0.lock().push(format!("{account} {} [{queue}] {count}", text(subject)));
    }

    fn id(&self) -> u64 {
        9
    }
}

impl Heard {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

fn plain(sink: u32, subject: &str) -> Arc<Subscription<u32>> {
    Arc::new(Subscription::local(sink, subject.as_bytes(), None, b"1"))
}

fn queue(sink: u32, subject: &str, name: &str) -> Arc<Subscription<u32>> {
    Arc::new(Subscription::local(sink, subject.as_bytes(), Some(name.as_bytes()), b"1"))
}

#[test]
fn a_peer_hears_plain_interest_once_and_every_weight_of_a_queue_group() {
    let interest = Interest::default();
    let heard = Arc::new(Heard::default());
    interest.attach("A", heard.clone());
    let (first, second) = (plain(1, "foo"), plain(2, "foo"));
    interest.insert("A", &first).unwrap();
    interest.insert("A", &second).unwrap();
    let (one, two) = (queue(1, "foo", "q"), queue(2, "foo", "q"));
    interest.insert("A", &one).unwrap();
    interest.insert("A", &two).unwrap();
    assert_eq!(heard.take(), ["A foo [] 1", "A foo [q] 1", "A foo [q] 2"]);
    assert!(interest.remove("A", &first));
    assert!(!interest.remove("A", &first));
    assert!(interest.remove("A", &one));
    assert!(interest.remove("A", &second));
    assert!(interest.remove("A", &two));
    assert_eq!(heard.take(), ["A foo [q] 1", "A foo [] 0", "A foo [q] 0"]);
    assert!(interest.is_empty());
}

#[test]
fn a_new_peer_hears_all_local_interest_and_none_of_other_peers() {
    let interest = Interest::default();
    interest.insert("A", &plain(1, "foo")).unwrap();
    interest.insert("A", &Arc::new(Subscription::route(7, b"bar", None))).unwrap();
    let heard = Arc::new(Heard::default());
    interest.attach("A", heard.clone());
    assert_eq!(heard.take(), ["A foo [] 1"]);
    interest.detach(9);
    interest.insert("A", &plain(1, "baz")).unwrap();
    assert!(heard.take().is_empty());
}

#[test]
fn every_change_makes_a_new_generation() {
    let interest = Interest::default();
    let (before, plan) = interest.plan(b"foo");
    assert!(plan.is_empty());
    let subscription = plain(1, "*");
    interest.insert("A", &subscription).unwrap();
    let (after, plan) = interest.plan(b"foo");
    assert!(after > before && !plan.is_empty());
    interest.remove("A", &subscription);
    assert!(interest.generation() > after);
}

#[test]
fn a_limited_subscription_counts_messages_before_the_limit_was_set() {
    let subscription = plain(1, "foo");
    assert_eq!(subscription.count(), Count::Deliver);
    assert!(subscription.limit(2));
    assert_eq!(subscription.count(), Count::Last);
    assert_eq!(subscription.count(), Count::Over);
    assert!(!subscription.limit(3));
}
