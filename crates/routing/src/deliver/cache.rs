//! Plans that one connection has used, valid for one generation of its account's interest.

use std::sync::Arc;

use hashbrown::HashMap;

use super::Plan;
use crate::interest::Interest;

/// Plans kept per connection. A publisher that walks over more subjects makes plans anew instead of growing.
const PLANS_MAX: usize = 1024;

/// A subject and its plan.
type Used<S> = (Box<[u8]>, Arc<Plan<S>>);

/// Plans by subject; all are dropped when the account's interest changes.
#[derive(Debug)]
pub struct PlanCache<S> {
    generation: u64,
    plans: HashMap<Box<[u8]>, Arc<Plan<S>>>,
    /// The plan used last: publishers tend to stay on a subject.
    last: Option<Used<S>>,
}

impl<S> Default for PlanCache<S> {
    fn default() -> Self {
        Self { generation: 0, plans: HashMap::new(), last: None }
    }
}

impl<S: Clone + PartialEq> PlanCache<S> {
    /// The plan for a literal subject, from here if the interest is still the same.
    #[inline]
    pub fn get(&mut self, interest: &Interest<S>, literal: &[u8]) -> &Plan<S> {
        let current = interest.generation() == self.generation;
        let hit = current && self.last.as_ref().is_some_and(|(subject, _)| **subject == *literal);
        if !hit {
            self.find(interest, literal, current);
        }
        let Some((_, plan)) = &self.last else { unreachable!("a plan was just found") };
        plan
    }

    #[cold]
    fn find(&mut self, interest: &Interest<S>, literal: &[u8], current: bool) {
        if !current {
            self.plans.clear();
        }
        if let Some((subject, plan)) = self.plans.get_key_value(literal) {
            let plan = Arc::clone(plan);
            match &mut self.last {
                // The buffer is reused: alternating between subjects of one length costs no allocation.
                Some((last, last_plan)) if last.len() == subject.len() => {
                    last.copy_from_slice(subject);
                    *last_plan = plan;
                }
                last => *last = Some((subject.clone(), plan)),
            }
            return;
        }
        let (generation, plan) = interest.plan(literal);
        let plan = Arc::new(plan);
        if generation != self.generation || self.plans.len() >= PLANS_MAX {
            self.plans.clear();
        }
        self.generation = generation;
        self.plans.insert(literal.into(), Arc::clone(&plan));
        self.last = Some((literal.into(), plan));
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
}
