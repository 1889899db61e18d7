//! The plan: matching subscriptions sorted by what the delivery has to do with them.

use std::sync::Arc;

use subject::Visitor;

use crate::interest::{Side, Subscription};

/// Who gets messages with one subject.
#[derive(Debug)]
pub struct Plan<S> {
    /// Local subscriptions that each get a copy.
    pub plain: Vec<Arc<Subscription<S>>>,
    /// Services of other accounts, for what is published on this server.
    pub services: Vec<Arc<Subscription<S>>>,
    /// Queue groups of which one member gets it.
    pub groups: Vec<Group<S>>,
    /// Every route with plain or queue interest, once.
    pub routes: Vec<RouteTarget<S>>,
}

/// A peer with interest.
#[derive(Debug)]
pub struct RouteTarget<S> {
    /// The link.
    pub sink: S,
    /// It has plain subscribers, so it gets every message.
    pub plain: bool,
}

/// A queue group, over all subjects that match.
#[derive(Debug)]
pub struct Group<S> {
    /// Name of the group.
    pub name: Box<[u8]>,
    /// Members on this server.
    pub local: Vec<Arc<Subscription<S>>>,
    /// Index into `Plan::routes` and weight of each peer with members.
    pub routes: Vec<(usize, u32)>,
    /// Sum of those weights.
    pub route_weight: u32,
}

impl<S> Default for Plan<S> {
    fn default() -> Self {
        Self { plain: Vec::new(), services: Vec::new(), groups: Vec::new(), routes: Vec::new() }
    }
}

impl<S> Plan<S> {
    /// Empties it. Room stays.
    pub fn clear(&mut self) {
        self.plain.clear();
        self.services.clear();
        self.groups.clear();
        self.routes.clear();
    }

    /// Does nobody want the message?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.groups.is_empty() && self.routes.is_empty() && self.services.is_empty()
    }
}

/// Collects the matches of the trie into a plan.
#[derive(Debug)]
pub struct PlanBuilder<'p, S> {
    plan: &'p mut Plan<S>,
}

impl<'p, S> PlanBuilder<'p, S> {
    /// Into this plan, which is empty.
    pub fn new(plan: &'p mut Plan<S>) -> Self {
        Self { plan }
    }
}

impl<S: Clone + PartialEq> PlanBuilder<'_, S> {
    fn route(&mut self, sink: &S) -> usize {
        let routes = &mut self.plan.routes;
        if let Some(index) = routes.iter().position(|route| route.sink == *sink) {
            return index;
        }
        routes.push(RouteTarget { sink: sink.clone(), plain: false });
        routes.len() - 1
    }

    fn group(&mut self, name: &[u8]) -> usize {
        let groups = &mut self.plan.groups;
        if let Some(index) = groups.iter().position(|group| *group.name == *name) {
            return index;
        }
        groups.push(Group { name: name.into(), local: Vec::new(), routes: Vec::new(), route_weight: 0 });
        groups.len() - 1
    }
}

impl<'a, S: Clone + PartialEq> Visitor<'a, Arc<Subscription<S>>> for PlanBuilder<'_, S> {
    fn plain(&mut self, values: &'a [Arc<Subscription<S>>]) {
        for subscription in values {
            match subscription.side {
                Side::Local | Side::Import => self.plan.plain.push(Arc::clone(subscription)),
                Side::Service => self.plan.services.push(Arc::clone(subscription)),
                Side::Route => {
                    let index = self.route(&subscription.sink);
                    self.plan.routes[index].plain = true;
                }
            }
        }
    }

    fn queue(&mut self, name: &'a [u8], values: &'a [Arc<Subscription<S>>]) {
        let group = self.group(name);
        for subscription in values {
            match subscription.side {
                Side::Local | Side::Import | Side::Service => {
                    self.plan.groups[group].local.push(Arc::clone(subscription))
                }
                Side::Route => {
                    let route = self.route(&subscription.sink);
                    let group = &mut self.plan.groups[group];
                    group.routes.push((route, subscription.weight()));
                    group.route_weight = group.route_weight.saturating_add(subscription.weight());
                }
            }
        }
    }
}
