//! The subscriptions of one client, by the client's own name for each.

use std::sync::Arc;

use hashbrown::HashMap;

use super::QUEUE_RESERVED;
use crate::account::Account;
use crate::interest::Subscription;
use crate::permission::Permissions;

/// Subscriptions of one connection and the account they are in.
#[derive(Debug)]
pub struct Subscriptions<S> {
    by_sid: HashMap<Box<[u8]>, Arc<Subscription<S>>>,
    closed: bool,
}

/// What became of a SUB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subscribed {
    /// It is in force.
    Added,
    /// The name is in use: the older subscription stays and nothing is said (core-protocol, section 8).
    Duplicate,
}

/// Why a SUB is refused; the connection stays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// Not a subject.
    #[error("Invalid Subject")]
    InvalidSubject,
    /// No right to it.
    #[error("Permissions Violation for Subscription to \"{subject}\"{queue}")]
    Denied {
        /// The subject asked for.
        subject: String,
        /// ` using queue "q"`, or empty.
        queue: String,
    },
    /// More tokens than the server takes.
    #[error("Permissions Violation for Subscription to \"{0}\", too many tokens")]
    TooManyTokens(String),
    /// The connection has as many as it may have.
    #[error("maximum subscriptions exceeded")]
    TooMany,
}

/// What became of an UNSUB.
#[derive(Debug, PartialEq, Eq)]
pub enum Unsubscribed {
    /// It is gone.
    Removed,
    /// It goes when as many messages were delivered.
    Limited,
    /// There is none of that name.
    Unknown,
}

impl<S> Default for Subscriptions<S> {
    fn default() -> Self {
        Self { by_sid: HashMap::new(), closed: false }
    }
}

impl<S: Clone + PartialEq> Subscriptions<S> {
    /// Adds a subscription to the table and the account's interest. The order of the checks is the one that clients observe: a name
    /// in use hides a bad subject.
    pub fn add(
        &mut self,
        account: &Account<S>,
        subscription: Subscription<S>,
        permissions: Option<&Permissions>,
        (count_max, tokens_max): (Option<u32>, Option<usize>),
    ) -> Result<Subscribed, SubscribeError> {
        let (name, queue) = (&*subscription.subject, subscription.queue.as_deref());
        if queue == Some(QUEUE_RESERVED) || permissions.is_some_and(|p| !p.can_subscribe(name, queue)) {
            return Err(denied(name, queue));
        }
        if count_max.is_some_and(|max| self.by_sid.len() >= max as usize) {
            return Err(SubscribeError::TooMany);
        }
        if self.by_sid.contains_key(&subscription.sid) || self.closed {
            return Ok(Subscribed::Duplicate);
        }
        if tokens_max.is_some_and(|max| subject::token_count(name) > max) {
            return Err(SubscribeError::TooManyTokens(String::from_utf8_lossy(name).into_owned()));
        }
        let filter = permissions.and_then(|permissions| permissions.delivery_filter(name, queue));
        let subscription = Arc::new(subscription.with_filter(filter));
        account.interest.insert(account.name(), &subscription).map_err(|_| SubscribeError::InvalidSubject)?;
        self.by_sid.insert(subscription.sid.clone(), subscription);
        Ok(Subscribed::Added)
    }

    /// Ends a subscription now, or after `max` messages counted from its start.
    pub fn remove(&mut self, account: &Account<S>, sid: &[u8], max: Option<u64>) -> Unsubscribed {
        let Some(subscription) = self.by_sid.get(sid) else { return Unsubscribed::Unknown };
        if max.is_some_and(|max| subscription.limit(max)) {
            return Unsubscribed::Limited;
        }
        if let Some(subscription) = self.by_sid.remove(sid) {
            account.interest.remove(account.name(), &subscription);
        }
        Unsubscribed::Removed
    }

    /// Ends a subscription that got its last message, if it is still this one.
    pub fn finished(&mut self, account: &Account<S>, subscription: &Arc<Subscription<S>>) {
        if self.by_sid.get(&subscription.sid).is_some_and(|current| Arc::ptr_eq(current, subscription)) {
            self.by_sid.remove(&subscription.sid);
        }
        account.interest.remove(account.name(), subscription);
    }

    /// Ends those that new rights no longer cover and gives the text for each; the others are held to the new denies.
    pub fn retain_permitted(&mut self, account: &Account<S>, permissions: &Permissions) -> Vec<String> {
        let mut lost = Vec::new();
        self.by_sid.retain(|sid, subscription| {
            let queue = subscription.queue.as_deref();
            let keep = permissions.can_subscribe(&subscription.subject, queue);
            if !keep {
                let denied = denied(&subscription.subject, queue);
                lost.push(format!("{denied} (sid \"{}\")", String::from_utf8_lossy(sid)));
                account.interest.remove(account.name(), subscription);
                return false;
            }
            let filter = permissions.delivery_filter(&subscription.subject, queue);
            if filter != subscription.filter {
                let refiltered = Arc::new(subscription.refiltered(filter));
                if account.interest.replace(subscription, &refiltered) {
                    *subscription = refiltered;
                }
            }
            true
        });
        lost
    }

    /// Ends all, for good if the connection is `closing`.
    pub fn clear(&mut self, account: &Account<S>, closing: bool) {
        self.closed |= closing;
        for (_, subscription) in self.by_sid.drain() {
            account.interest.remove(account.name(), &subscription);
        }
    }

    /// Number of subscriptions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_sid.len()
    }

    /// Are there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_sid.is_empty()
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Subscription<S>>> {
        self.by_sid.values()
    }

    /// Is there one that a message with this literal subject goes to?
    #[must_use]
    pub fn find(&self, literal: &[u8]) -> Option<&Arc<Subscription<S>>> {
        self.by_sid.values().find(|subscription| subject::matches(literal, &subscription.subject))
    }
}

fn denied(subject: &[u8], queue: Option<&[u8]>) -> SubscribeError {
    SubscribeError::Denied {
        subject: String::from_utf8_lossy(subject).into_owned(),
        queue: queue.map(|q| format!(" using queue \"{}\"", String::from_utf8_lossy(q))).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Limits;
    use crate::permission::{Pattern, Rules};

    const UNLIMITED: (Option<u32>, Option<usize>) = (None, None);

    fn account() -> Account<u32> {
        Account::new("A", false, Limits::default())
    }

    fn subscription(subject: &str, queue: Option<&str>, sid: &str) -> Subscription<u32> {
        Subscription::local(1, subject.as_bytes(), queue.map(str::as_bytes), sid.as_bytes())
    }

    fn denying(subject: &str) -> Permissions {
        let deny = vec![Pattern::parse(subject)];
        Permissions { subscribe: Rules { allow: None, deny }, ..Permissions::default() }
    }

    #[test]
    fn the_first_subscription_of_a_name_stays() {
        let (account, mut table) = (account(), Subscriptions::default());
        assert_eq!(table.add(&account, subscription("a", None, "1"), None, UNLIMITED), Ok(Subscribed::Added));
        assert_eq!(
            table.add(&account, subscription("b", None, "1"), None, UNLIMITED),
            Ok(Subscribed::Duplicate)
        );
        assert!(table.find(b"a").is_some() && table.find(b"b").is_none());
        assert_eq!(account.interest.len(), 1);
    }

    #[test]
    fn an_unsubscribe_with_a_limit_already_reached_removes_at_once() {
        let (account, mut table) = (account(), Subscriptions::default());
        table.add(&account, subscription("a", None, "1"), None, UNLIMITED).unwrap();
        assert_eq!(table.remove(&account, b"2", None), Unsubscribed::Unknown);
        assert_eq!(table.remove(&account, b"1", Some(1)), Unsubscribed::Limited);
        table.find(b"a").unwrap().count();
        assert_eq!(table.remove(&account, b"1", Some(1)), Unsubscribed::Removed);
        assert!(account.interest.is_empty());
    }

    #[test]
    fn refusals_say_why() {
        let (account, mut table) = (account(), Subscriptions::default());
        let mut add = |subject: &str, queue: Option<&str>, permissions: Option<&Permissions>, limits| {
            table
                .add(&account, subscription(subject, queue, subject), permissions, limits)
                .map_err(|e| e.to_string())
        };
        assert_eq!(add("a..b", None, None, UNLIMITED), Err("Invalid Subject".into()));
        let violation = "Permissions Violation for Subscription to ";
        assert_eq!(add("x", None, Some(&denying("x")), UNLIMITED), Err(format!("{violation}\"x\"")));
        let queue = add("x", Some("q"), Some(&denying("x")), UNLIMITED);
        assert_eq!(queue, Err(format!("{violation}\"x\" using queue \"q\"")));
        assert!(add("x", Some("_sys_"), None, UNLIMITED).is_err());
        assert_eq!(
            add("a.b.c", None, None, (None, Some(2))),
            Err(format!("{violation}\"a.b.c\", too many tokens"))
        );
        assert_eq!(add("a", None, None, (Some(1), None)), Ok(Subscribed::Added));
        assert_eq!(add("b", None, None, (Some(1), None)), Err("maximum subscriptions exceeded".into()));
    }

    #[test]
    fn lost_rights_end_subscriptions_with_a_text_each() {
        let (account, mut table) = (account(), Subscriptions::default());
        table.add(&account, subscription("a", Some("q"), "7"), None, UNLIMITED).unwrap();
        table.add(&account, subscription("b", None, "8"), None, UNLIMITED).unwrap();
        let lost = table.retain_permitted(&account, &denying("a"));
        assert_eq!(lost, ["Permissions Violation for Subscription to \"a\" using queue \"q\" (sid \"7\")"]);
        assert_eq!((table.len(), account.interest.len()), (1, 1));
        table.clear(&account, true);
        assert!(account.interest.is_empty());
    }

    #[test]
    fn a_subscription_that_stays_is_held_to_the_new_denies() {
        let (account, mut table) = (account(), Subscriptions::default());
        table.add(&account, subscription("a.*", None, "1"), None, UNLIMITED).unwrap();
        table.remove(&account, b"1", Some(3));
        table.iter().next().unwrap().count();
        assert!(table.retain_permitted(&account, &denying("a.b")).is_empty());
        let held = Arc::clone(table.iter().next().unwrap());
        assert!(held.denies(b"a.b") && !held.denies(b"a.c"));
        assert_eq!((held.delivered(), held.max(), account.interest.len()), (1, 3, 1));
        account.interest.for_each(|entry| assert!(Arc::ptr_eq(entry, &held)));
        assert!(table.retain_permitted(&account, &Permissions::default()).is_empty());
        assert!(!table.iter().next().unwrap().denies(b"a.b"));
        table.clear(&account, true);
        assert!(account.interest.is_empty());
    }
}
