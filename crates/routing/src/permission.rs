//! What a user may publish and subscribe to, and the temporary right to answer a request.
//!
//! The rules follow the reference (accounts-auth, section 8): an allow list, when present, must match; a deny list overrides it.
//! A queue subscription is judged by entries with a queue pattern where there are any for its subject, but a plain deny always
//! stands (GHSA-jx8g-9g95-6322). A wildcard subscription that only overlaps a deny is accepted and filtered at delivery.

use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;

/// Replies remembered per connection; beyond it the oldest right is dropped, so a flood of requests cannot grow memory.
const RESPONSES_MAX: usize = 65_536;

/// One subject pattern of a rule, for subscriptions with an optional queue pattern (`"orders.* workers"`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Subject, wildcards allowed.
    pub subject: Box<[u8]>,
    /// Queue name pattern; `None` speaks of plain and queue subscriptions alike.
    pub queue: Option<Box<[u8]>>,
}

impl Pattern {
    /// Splits `"subject"` or `"subject queue"`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut words = text.split_ascii_whitespace();
        let subject = words.next().unwrap_or("").as_bytes().into();
        Self { subject, queue: words.next().map(|queue| queue.as_bytes().into()) }
    }
}

/// Allow and deny lists of one direction. `allow: None` allows everything, an empty list nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Patterns of which one must match.
    pub allow: Option<Vec<Pattern>>,
    /// Patterns of which none may match.
    pub deny: Vec<Pattern>,
}

/// How often and how long a subscriber may publish to the reply subject of a message it received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseLimit {
    /// Answers per request; `None` is unlimited.
    pub messages_max: Option<u32>,
    /// Life of the right; zero is unlimited.
    pub expires: Duration,
}

/// Rights of one user. The default allows everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Rules for the subject of a publish.
    pub publish: Rules,
    /// Rules for the subject and queue of a subscription.
    pub subscribe: Rules,
    /// Temporary right to answer, if granted.
    pub responses: Option<ResponseLimit>,
}

impl Permissions {
    /// May this literal subject be published to, answers aside?
    #[must_use]
    pub fn can_publish(&self, subject: &[u8]) -> bool {
        let matching = |patterns: &[Pattern]| patterns.iter().any(|p| subject::matches(subject, &p.subject));
        self.publish.allow.as_deref().is_none_or(matching) && !matching(&self.publish.deny)
    }

    /// May this subject, with wildcards, be subscribed to?
    #[must_use]
    pub fn can_subscribe(&self, subject: &[u8], queue: Option<&[u8]>) -> bool {
        let allowed = self.subscribe.allow.as_deref().is_none_or(|allow| {
            let verdict = Verdict::of(allow, subject, queue);
            if verdict.has_queue_entries { verdict.queue } else { verdict.plain }
        });
        allowed && {
            let verdict = Verdict::of(&self.subscribe.deny, subject, queue);
            !verdict.plain && !verdict.queue
        }
    }

    /// The denies that a subscription with wildcards covers in part: what it must not be given.
    #[must_use]
    pub fn delivery_filter(&self, subject: &[u8], queue: Option<&[u8]>) -> Option<DeliveryFilter> {
        let denied: Box<[_]> = self
            .subscribe
            .deny
            .iter()
            .filter(|p| queue_applies(p, queue) && subject::overlaps(&p.subject, subject))
            .map(|p| p.subject.clone())
            .collect();
        (!denied.is_empty()).then_some(DeliveryFilter { denied })
    }
}

/// Does an entry with or without a queue pattern concern this subscription?
fn queue_applies(pattern: &Pattern, queue: Option<&[u8]>) -> bool {
    match (&pattern.queue, queue) {
        (None, _) => true,
        (Some(pattern), Some(queue)) => subject::matches(queue, pattern),
        (Some(_), None) => false,
    }
}

/// Which kinds of entries matched a subscription.
struct Verdict {
    plain: bool,
    queue: bool,
    has_queue_entries: bool,
}

impl Verdict {
    fn of(patterns: &[Pattern], subject: &[u8], queue: Option<&[u8]>) -> Self {
        let mut verdict = Self { plain: false, queue: false, has_queue_entries: false };
        for pattern in patterns.iter().filter(|p| subject::is_subset(subject, &p.subject)) {
            match (&pattern.queue, queue) {
                (None, _) => verdict.plain = true,
                (Some(pattern), Some(queue)) => {
                    verdict.has_queue_entries = true;
                    verdict.queue |= subject::matches(queue, pattern);
                }
                (Some(_), None) => {}
            }
        }
        verdict
    }
}

/// Subjects that a wildcard subscription covers but its user is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryFilter {
    denied: Box<[Box<[u8]>]>,
}

impl DeliveryFilter {
    /// Must a message with this subject be kept from the subscription?
    #[must_use]
    pub fn denies(&self, subject: &[u8]) -> bool {
        self.denied.iter().any(|pattern| subject::matches(subject, pattern))
    }
}

/// The reply subjects that one connection may currently answer to.
#[derive(Debug)]
pub struct Responses {
    limit: ResponseLimit,
    open: Mutex<HashMap<Box<[u8]>, Response>>,
}

#[derive(Debug)]
struct Response {
    left: Option<u32>,
    until: Option<Instant>,
}

impl Responses {
    /// No open right yet.
    #[must_use]
    pub fn new(limit: ResponseLimit) -> Self {
        Self { limit, open: Mutex::new(HashMap::new()) }
    }

    /// A message with this reply subject was delivered to the connection at `now`.
    pub fn delivered(&self, now: Instant, reply: &[u8]) {
        let mut open = self.open.lock();
        if open.len() >= RESPONSES_MAX {
            open.retain(|_, response| response.until.is_none_or(|until| now < until));
            if open.len() >= RESPONSES_MAX {
                open.clear();
            }
        }
        let until = (!self.limit.expires.is_zero()).then(|| now + self.limit.expires);
        open.insert(reply.into(), Response { left: self.limit.messages_max, until });
    }

    /// May the connection publish to `subject` as an answer? Uses up one answer.
    pub fn take(&self, now: Instant, subject: &[u8]) -> bool {
        let mut open = self.open.lock();
        let Some(response) = open.get_mut(subject) else { return false };
        let alive = response.until.is_none_or(|until| now < until);
        let Some(left) = response.left.as_mut().filter(|_| alive) else {
            if !alive {
                open.remove(subject);
            }
            return alive;
        };
        *left = left.saturating_sub(1);
        if *left == 0 {
            open.remove(subject);
        }
        true
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test may read the clock")]
mod tests {
    use super::*;

    fn patterns(list: &[&str]) -> Vec<Pattern> {
        list.iter().map(|text| Pattern::parse(text)).collect()
    }

    fn subscribe(allow: Option<&[&str]>, deny: &[&str]) -> Permissions {
        let subscribe = Rules { allow: allow.map(patterns), deny: patterns(deny) };
        Permissions { subscribe, ..Permissions::default() }
    }

    #[test]
    fn deny_overrides_allow_and_an_empty_allow_list_allows_nothing() {
        let mut permissions = Permissions::default();
        assert!(permissions.can_publish(b"any"));
        permissions.publish.allow = Some(patterns(&["a.>"]));
        permissions.publish.deny = patterns(&["a.b"]);
        assert!(permissions.can_publish(b"a.c"));
        assert!(!permissions.can_publish(b"a.b"));
        assert!(!permissions.can_publish(b"b"));
        permissions.publish.allow = Some(Vec::new());
        assert!(!permissions.can_publish(b"a.c"));
    }

    #[test]
    fn a_subscription_must_lie_within_an_allow_entry() {
        let permissions = subscribe(Some(&["a.*"]), &[]);
        assert!(permissions.can_subscribe(b"a.b", None));
        assert!(permissions.can_subscribe(b"a.*", None));
        assert!(!permissions.can_subscribe(b"a.>", None));
        assert!(!permissions.can_subscribe(b">", None));
    }

    #[test]
    fn queue_entries_decide_for_queue_subscriptions_only() {
        let permissions = subscribe(Some(&["foo v1", "foo v2.*"]), &[]);
        assert!(!permissions.can_subscribe(b"foo", None));
        assert!(permissions.can_subscribe(b"foo", Some(b"v1")));
        assert!(permissions.can_subscribe(b"foo", Some(b"v2.a")));
        assert!(!permissions.can_subscribe(b"foo", Some(b"v3")));
        let plain = subscribe(Some(&["foo"]), &[]);
        assert!(plain.can_subscribe(b"foo", Some(b"any")));
    }

    #[test]
    fn a_plain_deny_stands_whatever_queue_entries_say() {
        let permissions = subscribe(None, &["x", "y q"]);
        assert!(!permissions.can_subscribe(b"x", Some(b"other")));
        assert!(!permissions.can_subscribe(b"y", Some(b"q")));
        assert!(permissions.can_subscribe(b"y", Some(b"r")));
        assert!(permissions.can_subscribe(b"y", None));
    }

    #[test]
    fn a_wildcard_subscription_over_a_deny_is_filtered_at_delivery() {
        let permissions = subscribe(Some(&["a.>"]), &["a.b"]);
        for queue in [None, Some(b"q".as_slice())] {
            assert!(permissions.can_subscribe(b"a.*", queue));
            let filter = permissions.delivery_filter(b"a.*", queue).expect("overlap");
            assert!(filter.denies(b"a.b"));
            assert!(!filter.denies(b"a.c"));
        }
        assert_eq!(permissions.delivery_filter(b"a.c", None), None);
    }

    #[test]
    fn an_answer_is_allowed_as_often_and_as_long_as_granted() {
        let start = Instant::now();
        let limit = ResponseLimit { messages_max: Some(2), expires: Duration::from_secs(10) };
        let responses = Responses::new(limit);
        responses.delivered(start, b"r");
        assert!(!responses.take(start, b"other"));
        assert!(responses.take(start, b"r"));
        assert!(responses.take(start, b"r"));
        assert!(!responses.take(start, b"r"));
        responses.delivered(start, b"late");
        assert!(!responses.take(start + Duration::from_secs(10), b"late"));
        let unlimited = Responses::new(ResponseLimit { messages_max: None, expires: Duration::ZERO });
        unlimited.delivered(start, b"r");
        assert!((0..100).all(|_| unlimited.take(start, b"r")));
    }

    #[test]
    fn remembered_replies_are_bounded() {
        let start = Instant::now();
        let responses = Responses::new(ResponseLimit { messages_max: None, expires: Duration::ZERO });
        for n in 0..=RESPONSES_MAX {
            responses.delivered(start, n.to_string().as_bytes());
        }
        assert!(responses.open.lock().len() <= RESPONSES_MAX);
    }
}
