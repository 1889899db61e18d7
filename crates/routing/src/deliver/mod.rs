//! From a subject and the account's interest to the list of those who get the message.
//!
//! A `Plan` is made once per subject and generation and then used for every message. The only choice per message is the member of
//! each queue group (core-protocol, section 9): a uniform start among local members and weighted peers, then on until one accepts.
//! A message that came from a peer goes to local clients only, and only to the queue groups the peer named.

mod cache;
mod plan;

pub use cache::PlanCache;
pub use plan::{Group, Plan, PlanBuilder, RouteTarget};

use std::sync::Arc;

use smallvec::SmallVec;

use crate::interest::Subscription;
use crate::random::Random;

/// Queue names picked for one route; more than a handful per message is rare.
type Names<'p> = SmallVec<[&'p [u8]; 4]>;

/// Takes the message to one receiver. Implemented by the shell for the duration of one message.
pub trait Deliver<S> {
    /// Writes the message for a local subscription. False if it cannot take it: closed, denied, echo off, over its limit.
    fn local(&mut self, subscription: &Arc<Subscription<S>>) -> bool;
    /// Writes the message for a peer, with the queue groups it has to serve. False if the link is closed.
    fn route(&mut self, route: &S, queues: &[&[u8]]) -> bool;
}

/// Delivers a message published on this server. Returns the number of receivers, a peer counted as one.
pub fn from_client<S>(plan: &Plan<S>, random: &mut Random, deliver: &mut impl Deliver<S>) -> u32 {
    let mut receivers = 0;
    for subscription in &plan.plain {
        receivers += u32::from(deliver.local(subscription));
    }
    for subscription in &plan.services {
        receivers += u32::from(deliver.local(subscription));
    }
    if plan.groups.is_empty() {
        for route in plan.routes.iter().filter(|route| route.plain) {
            receivers += u32::from(deliver.route(&route.sink, &[]));
        }
        return receivers;
    }
    let mut picked: SmallVec<[Names<'_>; 4]> = SmallVec::from_elem(Names::new(), plan.routes.len());
    for group in &plan.groups {
        match pick(group, random, deliver) {
            Some(Picked::Local) => receivers += 1,
            Some(Picked::Route(index)) => picked[index].push(&group.name),
            None => {}
        }
    }
    for (route, names) in plan.routes.iter().zip(&picked) {
        if route.plain || !names.is_empty() {
            receivers += u32::from(deliver.route(&route.sink, names));
        }
    }
    receivers
}

/// Delivers a message that came from a peer: all plain local subscribers, and one local member of each named group.
pub fn from_route<'q, S>(
    plan: &Plan<S>,
    queues: impl Iterator<Item = &'q [u8]>,
    random: &mut Random,
    deliver: &mut impl Deliver<S>,
) -> u32 {
    let mut receivers = 0;
    for subscription in &plan.plain {
        receivers += u32::from(deliver.local(subscription));
    }
    for name in queues {
        let Some(group) = plan.groups.iter().find(|group| *group.name == *name) else { continue };
        receivers += u32::from(pick_local(&group.local, random, deliver));
    }
    receivers
}

enum Picked {
    Local,
    Route(usize),
}

/// Uniform over local members and the weights of routes. The message to a route is not written here: the route may be picked for
/// other groups too and gets one line for all.
fn pick<S>(group: &Group<S>, random: &mut Random, deliver: &mut impl Deliver<S>) -> Option<Picked> {
    let local = u32::try_from(group.local.len()).unwrap_or(u32::MAX);
    let total = local.saturating_add(group.route_weight);
    if total == 0 {
        return None;
    }
    let start = random.below(total);
    if start < local {
        if pick_from(&group.local, start as usize, deliver) {
            return Some(Picked::Local);
        }
        return group.routes.first().map(|(index, _)| Picked::Route(*index));
    }
    let mut left = start - local;
    for (index, weight) in &group.routes {
        if left < *weight {
            return Some(Picked::Route(*index));
        }
        left -= weight;
    }
    unreachable!("route weights of a group add up to less than their sum");
}

fn pick_local<S>(
    members: &[Arc<Subscription<S>>],
    random: &mut Random,
    deliver: &mut impl Deliver<S>,
) -> bool {
    let Some(count) = u32::try_from(members.len()).ok().filter(|count| *count > 0) else { return false };
    pick_from(members, random.below(count) as usize, deliver)
}

/// Tries members from `start` on, around the end.
fn pick_from<S>(members: &[Arc<Subscription<S>>], start: usize, deliver: &mut impl Deliver<S>) -> bool {
    let (before, after) = members.split_at(start);
    after.iter().chain(before).any(|member| deliver.local(member))
}

#[cfg(test)]
mod tests;
