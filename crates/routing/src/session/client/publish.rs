//! The publishing side of a client: its rights per subject, its cached plans, its fair choices.

use std::time::Instant;

use hashbrown::HashMap;

use crate::account::Account;
use crate::deliver::PlanCache;
use crate::permission::{Permissions, Responses};
use crate::random::Random;

/// Verdicts kept per connection.
const VERDICTS_MAX: usize = 1024;

/// Why a publish is dropped; the connection stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// `Permissions Violation for Publish to "s"`.
    Subject,
    /// `Permissions Violation for Publish with Reply of "r"`.
    Reply,
}

/// State of one publishing connection. Owned by its read task.
#[derive(Debug)]
pub struct Publisher<S> {
    /// Plans for the subjects it publishes to.
    pub plans: PlanCache<S>,
    /// Choice of queue members.
    pub random: Random,
    verdicts: HashMap<Box<[u8]>, bool>,
}

impl<S: Clone + PartialEq> Publisher<S> {
    /// A publisher whose choices follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { plans: PlanCache::default(), random: Random::new(seed), verdicts: HashMap::new() }
    }

    /// Forgets what depends on account and rights.
    pub fn rebind(&mut self) {
        self.plans.clear();
        self.verdicts.clear();
    }

    /// The checks of core-protocol section 16, steps 6 to 9.
    #[inline]
    pub fn check(
        &mut self,
        account: &Account<S>,
        rights: Option<(&Permissions, Option<&Responses>)>,
        (subject, reply): (&[u8], Option<&[u8]>),
        now: impl FnOnce() -> Instant,
    ) -> Result<(), Denied> {
        if is_reserved_subject(subject, account.is_system()) {
            return Err(Denied::Subject);
        }
        if let Some((permissions, responses)) = rights
            && !self.may_publish(permissions, subject)
            && !responses.is_some_and(|responses| responses.take(now(), subject))
        {
            return Err(Denied::Subject);
        }
        if reply.is_some_and(is_reserved_reply) {
            return Err(Denied::Reply);
        }
        Ok(())
    }

    fn may_publish(&mut self, permissions: &Permissions, subject: &[u8]) -> bool {
        if let Some(verdict) = self.verdicts.get(subject) {
            return *verdict;
        }
        if self.verdicts.len() >= VERDICTS_MAX {
            self.verdicts.clear();
        }
        let verdict = permissions.can_publish(subject);
        self.verdicts.insert(subject.into(), verdict);
        verdict
    }
}

/// Gateway replies are the servers' own; Raft traffic belongs into the system account.
#[inline]
fn is_reserved_subject(subject: &[u8], in_system_account: bool) -> bool {
    match subject.first() {
        Some(b'_') => subject.starts_with(b"_GR_."),
        Some(b'$') => subject.starts_with(b"$GR.") || (!in_system_account && subject.starts_with(b"$NRG.")),
        _ => false,
    }
}

/// Replies that only servers make.
#[inline]
fn is_reserved_reply(reply: &[u8]) -> bool {
    match reply.first() {
        Some(b'_') => reply.starts_with(b"_R_.") || reply.starts_with(b"_GR_."),
        Some(b'$') => reply.starts_with(b"$JS.ACK.") || reply.starts_with(b"$GR."),
        _ => false,
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test may read the clock")]
mod tests {
    use super::*;
    use crate::account::Limits;
    use crate::permission::{Pattern, Rules};

    fn check(subject: &[u8], reply: Option<&[u8]>, permissions: Option<&Permissions>) -> Result<(), Denied> {
        let account = Account::<u32>::new("A", false, Limits::default());
        let rights = permissions.map(|permissions| (permissions, None));
        Publisher::new(1).check(&account, rights, (subject, reply), Instant::now)
    }

    #[test]
    fn servers_own_subjects_and_replies_are_refused() {
        assert_eq!(check(b"_GR_.abc", None, None), Err(Denied::Subject));
        assert_eq!(check(b"$GR.abc", None, None), Err(Denied::Subject));
        assert_eq!(check(b"$NRG.x", None, None), Err(Denied::Subject));
        assert_eq!(check(b"a", Some(b"_R_.x"), None), Err(Denied::Reply));
        assert_eq!(check(b"a", Some(b"$JS.ACK.x"), None), Err(Denied::Reply));
        assert_eq!(check(b"_INBOX.x", Some(b"_INBOX.y"), None), Ok(()));
    }

    #[test]
    fn verdicts_are_remembered_and_bounded() {
        let allow = Some(vec![Pattern::parse("ok.>")]);
        let permissions =
            Permissions { publish: Rules { allow, deny: Vec::new() }, ..Permissions::default() };
        assert_eq!(check(b"ok.1", None, Some(&permissions)), Ok(()));
        let account = Account::<u32>::new("A", false, Limits::default());
        let mut publisher = Publisher::new(1);
        for n in 0..2 * VERDICTS_MAX {
            let subject = format!("no.{n}");
            for _ in 0..2 {
                let verdict = publisher.check(
                    &account,
                    Some((&permissions, None)),
                    (subject.as_bytes(), None),
                    Instant::now,
                );
                assert_eq!(verdict, Err(Denied::Subject));
            }
            assert!(publisher.verdicts.len() <= VERDICTS_MAX);
        }
    }
}
