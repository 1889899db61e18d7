//! Plans that one connection has used, valid for one generation of its account's interest.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::Plan;
use crate::interest::Interest;

/// Plans kept per connection. A publisher that walks over more subjects makes plans anew instead of growing.
const PLANS_MAX: usize = 1024;
/// So many plans are kept without asking whether their subjects come again.
const PLANS_FREE: usize = 32;
/// Places for marks of subjects that came once.
const MARKS: usize = 1024;

/// A subject and its plan.
type Used<S> = (Box<[u8]>, Arc<Plan<S>>);

/// Plans by subject; all are dropped when the account's interest changes.
///
/// Many subjects come once only: those of replies are one for each request. So once some plans are kept, a subject's is kept when it comes again
/// soon; before that it is made in place, which allocates nothing.
#[derive(Debug)]
pub struct PlanCache<S> {
    generation: u64,
    hasher: DefaultHashBuilder,
    plans: HashTable<Used<S>>,
    /// Part of the hash of the subject that was the last to come of those with this place. Empty until it is needed.
    marks: Vec<u16>,
    /// The subject used last: publishers tend to stay on one.
    last: Vec<u8>,
    /// Its plan, if it is kept.
    kept: Option<Arc<Plan<S>>>,
    /// Its plan, if it is not.
    passing: Plan<S>,
}

impl<S> Default for PlanCache<S> {
    fn default() -> Self {
        Self {
            generation: 0,
            hasher: DefaultHashBuilder::default(),
            plans: HashTable::new(),
            marks: Vec::new(),
            last: Vec::new(),
            kept: None,
            passing: Plan::default(),
        }
    }
}

impl<S: Clone + PartialEq> PlanCache<S> {
    /// The plan for a literal subject, from here if the interest is still the same.
    #[inline]
    pub fn get(&mut self, interest: &Interest<S>, literal: &[u8]) -> &Plan<S> {
        let current = interest.generation() == self.generation;
        if !current || self.last != literal {
            self.find(interest, literal, current);
        }
        self.kept.as_deref().unwrap_or(&self.passing)
    }

    #[cold]
    fn find(&mut self, interest: &Interest<S>, literal: &[u8], current: bool) {
        if !current {
            self.plans.clear();
        }
        self.last.clear();
        self.last.extend_from_slice(literal);
        let hash = self.hasher.hash_one(literal);
        if let Some((_, plan)) = self.plans.find(hash, |(subject, _)| **subject == *literal) {
            self.kept = Some(Arc::clone(plan));
            return;
        }
        self.kept = None;
        let generation = interest.plan_into(literal, &mut self.passing);
        if generation != self.generation {
            self.plans.clear();
        }
        self.generation = generation;
        if self.plans.len() < PLANS_FREE || self.has_come(hash) {
            self.keep(hash, literal);
        }
    }

    /// Keeps the plan that was just made.
    fn keep(&mut self, hash: u64, literal: &[u8]) {
        if self.plans.len() >= PLANS_MAX {
            self.plans.clear();
        }
        let plan = Arc::new(std::mem::take(&mut self.passing));
        let Self { hasher, plans, .. } = self;
        let rehash = |(subject, _): &Used<S>| hasher.hash_one(&**subject);
        plans.insert_unique(hash, (literal.into(), Arc::clone(&plan)), rehash);
        self.kept = Some(plan);
    }

    /// Has a subject with this hash come before, with few others since? Notes that it has now.
    fn has_come(&mut self, hash: u64) -> bool {
        self.marks.resize(MARKS, 0);
        // The table places by the lowest bits and tells apart by the highest.
        let (place, mark) = ((hash >> 16) as usize % MARKS, (hash >> 32) as u16);
        std::mem::replace(&mut self.marks[place], mark) == mark
    }

    /// Forgets all plans, as when the connection moves to another account.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interest::Subscription;

    #[test]
    fn a_plan_is_made_again_only_after_a_change_of_interest() {
        let interest = Interest::<u32>::default();
        let mut cache = PlanCache::default();
        assert!(cache.get(&interest, b"foo").is_empty());
        let first: *const Plan<u32> = cache.get(&interest, b"foo");
        let again: *const Plan<u32> = cache.get(&interest, b"foo");
        assert_eq!(first, again);
        interest.insert("A", &Arc::new(Subscription::local(1, b"foo", None, b"1"))).unwrap();
        assert_eq!(cache.get(&interest, b"foo").plain.len(), 1);
        assert!(cache.get(&interest, b"bar").is_empty());
        assert_eq!(cache.get(&interest, b"foo").plain.len(), 1);
    }

    #[test]
    fn plans_kept_are_bounded() {
        let interest = Interest::<u32>::default();
        let mut cache = PlanCache::default();
        for n in 0..=PLANS_MAX {
            cache.get(&interest, format!("s.{n}").as_bytes());
            assert!(cache.plans.len() <= PLANS_MAX);
        }
    }

    #[test]
    fn plans_of_subjects_that_come_once_are_not_kept_and_right_all_the_same() {
        let interest = Interest::<u32>::default();
        for n in 0..50 {
            let subject = format!("reply.{n}");
            let subscription = Subscription::local(n, subject.as_bytes(), None, b"1");
            interest.insert("A", &Arc::new(subscription)).unwrap();
        }
        let mut cache = PlanCache::default();
        let subject = |n: u64| format!("reply.{n}");
        for n in 0..10_000 {
            let plan = cache.get(&interest, subject(n).as_bytes());
            let found: Vec<u32> = plan.plain.iter().map(|subscription| subscription.sink).collect();
            assert_eq!(found, if n < 50 { vec![n as u32] } else { vec![] }, "{n}");
        }
        // Some have the same mark as another by chance.
        assert!(cache.plans.len() < 2 * PLANS_FREE, "{} plans", cache.plans.len());
        for round in 0..3 {
            for n in 0..500 {
                let plan = cache.get(&interest, subject(n).as_bytes());
                assert_eq!(plan.plain.len(), usize::from(n < 50), "{n} in round {round}");
            }
        }
        assert!(cache.plans.len() > 250, "those that come again are kept: {}", cache.plans.len());
    }
}
