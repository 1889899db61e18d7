//! The next single step for a stream or consumer, with its reason. Pure: facts and rules in, one step out.

use std::collections::BTreeMap;

use api::Time;
use api::jetstream::consumer::{self, ConsumerConfig, ConsumerInfo, DeliverPolicy};
use api::jetstream::limits::AccountView;
use api::jetstream::metadata as level;
use api::jetstream::stream::{self, StreamConfig, StreamInfo};
use crd::jetstream::metadata::{OWNER, START};
use crd::jetstream::options::{AdoptionPolicy, DriftPolicy, UpdateStrategy};
use serde::Serialize;

use super::compare::{Change, changes};
use super::desired::{any_account, any_server};
use super::owner::{Mark, Ownership};

/// How an object wants what is there to be treated.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The mark of the object; `None` when marks are switched off.
    pub mark: Option<Mark>,
    /// About something that nobody manages.
    pub adoption: AdoptionPolicy,
    /// About changes by others.
    pub drift: DriftPolicy,
    /// Nothing may ever be changed once it exists.
    pub prevent_update: bool,
    /// About changes that cannot be made in place.
    pub strategy: UpdateStrategy,
    /// What holds messages must not be deleted.
    pub protected: bool,
    /// The spec is not the one that was applied last, so a difference may be its author's wish.
    pub spec_changed: bool,
    /// It was there before, as far as the status knows.
    pub existed: bool,
    /// Fields that a server did not make as they were asked for although it took the request; asking again changes nothing.
    pub kept: Vec<Change>,
}

/// A configuration with metadata.
pub trait Config: Serialize + Clone {
    /// Its metadata.
    fn metadata(&self) -> &BTreeMap<String, String>;
    /// Its metadata, to change.
    fn metadata_mut(&mut self) -> &mut BTreeMap<String, String>;
}

impl Config for StreamConfig {
    fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut BTreeMap<String, String> {
        &mut self.metadata
    }
}

impl Config for ConsumerConfig {
    fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut BTreeMap<String, String> {
        &mut self.metadata
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<C> {
    /// It is as it should be.
    Nothing,
    /// Make it.
    Create(Box<C>),
    /// Change it to this.
    Update(Box<C>),
    /// Delete it, to make it anew in the next pass.
    Recreate,
    /// It differs and is left so, as the policy says.
    Leave,
    /// Nothing can be done until somebody changes something; the reason of `Stalled`.
    Refuse(&'static str),
    /// Stop deliveries until then; the zero time resumes them.
    Pause(Time),
}

/// A step, what would change by it, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<C> {
    /// What to do.
    pub step: Step<C>,
    /// Why, in a sentence without a full stop.
    pub reason: String,
    /// Fields that differ.
    pub changes: Vec<Change>,
    /// It is managed from now on.
    pub adopts: bool,
}

impl<C> Plan<C> {
    fn new(step: Step<C>, reason: impl Into<String>, changes: Vec<Change>) -> Self {
        Self { step, reason: reason.into(), changes, adopts: false }
    }

    /// One word for the status.
    #[must_use]
    pub fn action(&self) -> &'static str {
        match &self.step {
            Step::Nothing | Step::Leave | Step::Refuse(_) => "None",
            Step::Create(_) => "Create",
            Step::Update(_) if self.adopts => "Adopt",
            Step::Update(_) => "Update",
            Step::Recreate => "Recreate",
            Step::Pause(until) if until.is_zero() => "Resume",
            Step::Pause(_) => "Pause",
        }
    }

    /// Whether the step writes to the server.
    #[must_use]
    pub const fn writes(&self) -> bool {
        matches!(self.step, Step::Create(_) | Step::Update(_) | Step::Recreate | Step::Pause(_))
    }
}

/// Takes out of metadata what servers put in.
fn without_server_entries(metadata: &mut BTreeMap<String, String>) {
    level::remove_all(metadata);
    metadata.retain(|key, _| !key.starts_with("_nats."));
}

/// What is there, in the form that specs are brought into.
#[must_use]
pub fn normal_stream(config: &StreamConfig) -> StreamConfig {
    let mut config = stream::with_defaults(config, &any_server());
    without_server_entries(&mut config.metadata);
    config
}

/// The next step for a stream.
#[must_use]
pub fn stream(desired: &StreamConfig, observed: Option<&StreamInfo>, rules: &Rules) -> Plan<StreamConfig> {
    let Some(info) = observed else {
        if desired.sealed {
            let text = "a new stream cannot be sealed: remove sealed, and set it when the stream is there";
            return Plan::new(Step::Refuse("InvalidSpec"), text, Vec::new());
        }
        return absent(desired, rules, "the server has no such stream");
    };
    let present = normal_stream(&info.config);
    let mut wanted = desired.clone();
    // Given once, at the beginning.
    wanted.first_seq = present.first_seq;
    if wanted.mirror.is_some() && !wanted.mirror_direct {
        // Servers set it as the origin has it.
        wanted.mirror_direct = present.mirror_direct;
    }
    let (streams, limits) = (BTreeMap::new(), any_account());
    let account = AccountView { streams: &streams, limits: &limits };
    let judge = |wanted: &StreamConfig| {
        let judged = stream::validate_update(&present, wanted, &any_server(), &account, false);
        judged.map_err(|error| error.description)
    };
    // Sealing changes other fields as well; the comparison must be with what a server makes of it.
    if wanted.sealed {
        wanted.deny_delete |= present.deny_delete;
        wanted.deny_purge |= present.deny_purge;
        if let Ok(sealed) = judge(&wanted) {
            wanted = StreamConfig { metadata: wanted.metadata, ..sealed };
        }
    }
    let found = Found { present: &present, wanted, is_empty: info.state.messages == 0 };
    let mut plan = existing(found, rules, judge);
    if let Step::Update(next) = &mut plan.step
        && next.num_replicas != present.num_replicas
        && next.placement != present.placement
    {
        // Servers refuse to move and to scale at once.
        next.placement.clone_from(&present.placement);
        plan.reason.push_str(", replicas before placement");
    }
    plan
}

/// The text by which a consumer that was made anew remembers where it was to begin.
#[must_use]
pub fn start_text(config: &ConsumerConfig) -> String {
    match (config.opt_start_seq, config.opt_start_time) {
        (0, None) => config.deliver_policy.as_str().to_owned(),
        (0, Some(time)) => format!("{}:{time}", config.deliver_policy),
        (sequence, _) => format!("{}:{sequence}", config.deliver_policy),
    }
}

/// Where a consumer was to begin, whatever became of it since.
fn asked_start(present: &ConsumerConfig) -> String {
    present.metadata.get(START).cloned().unwrap_or_else(|| start_text(present))
}

/// Where a consumer should go on when it is made anew; `None` when it should begin as its spec says.
#[must_use]
pub fn resume_at(wanted: &ConsumerConfig, info: &ConsumerInfo, preserve: bool) -> Option<u64> {
    let present = info.config.as_ref()?;
    let moved = info.ack_floor.stream_seq > 0;
    (preserve && moved && asked_start(present) == start_text(wanted)).then(|| info.ack_floor.stream_seq + 1)
}

/// What is there, in the form that specs are brought into.
#[must_use]
pub fn normal_consumer(config: &ConsumerConfig, of: &StreamConfig) -> ConsumerConfig {
    let limits = api::jetstream::account::Limits::UNLIMITED;
    let mut config = consumer::with_defaults(config, of, &any_server(), &limits);
    without_server_entries(&mut config.metadata);
    config.pause_until = None;
    if config.name.is_empty() {
        config.name.clone_from(&config.durable_name);
    }
    config
}

/// What a consumer should be and in which stream.
pub struct ConsumerFacts<'a> {
    /// What it should be, completed by its stream.
    pub desired: &'a ConsumerConfig,
    /// Until when nothing is to be delivered.
    pub pause_until: Option<Time>,
    /// Its stream.
    pub stream: &'a StreamConfig,
    /// What is there.
    pub observed: Option<&'a ConsumerInfo>,
    /// Where it goes on if it has to be made.
    pub resume_at: Option<u64>,
    /// The present.
    pub now: Time,
}

/// The next step for a consumer.
#[must_use]
pub fn consumer(facts: &ConsumerFacts<'_>, rules: &Rules) -> Plan<ConsumerConfig> {
    let Some((info, config)) = facts.observed.and_then(|info| Some((info, info.config.as_ref()?))) else {
        let mut wanted = facts.desired.clone();
        if let Some(sequence) = facts.resume_at {
            wanted.metadata.insert(START.to_owned(), start_text(facts.desired));
            wanted.deliver_policy = DeliverPolicy::ByStartSequence;
            (wanted.opt_start_seq, wanted.opt_start_time) = (sequence, None);
        }
        wanted.pause_until = facts.pause_until.filter(|until| *until > facts.now);
        return absent(&wanted, rules, "the stream has no such consumer");
    };
    let present = normal_consumer(config, facts.stream);
    let mut wanted = facts.desired.clone();
    if present.metadata.get(START).is_some_and(|start| *start == start_text(&wanted)) {
        wanted.deliver_policy = present.deliver_policy;
        (wanted.opt_start_seq, wanted.opt_start_time) = (present.opt_start_seq, present.opt_start_time);
        wanted.metadata.insert(START.to_owned(), asked_start(&present));
    }
    let judge = |wanted: &ConsumerConfig| {
        // Whether somebody listens to where it delivers is known to the server only.
        consumer::validate_update(&present, wanted, |_| false)
            .map(|()| wanted.clone())
            .map_err(|error| error.description)
    };
    let is_empty = info.num_pending == 0 && info.num_ack_pending == 0;
    let plan = existing(Found { present: &present, wanted, is_empty }, rules, judge);
    if plan.step != Step::Nothing {
        return plan;
    }
    pause(facts, config, info.paused, rules).unwrap_or(plan)
}

/// Deliveries are stopped and resumed by a request of their own.
fn pause(
    facts: &ConsumerFacts<'_>,
    present: &ConsumerConfig,
    is_paused: bool,
    rules: &Rules,
) -> Option<Plan<ConsumerConfig>> {
    let is_wish = rules.spec_changed && !rules.prevent_update;
    if rules.drift != DriftPolicy::Correct && !is_wish {
        return None;
    }
    match facts.pause_until.filter(|until| *until > facts.now) {
        Some(until) if present.pause_until != Some(until) => {
            Some(Plan::new(Step::Pause(until), format!("deliveries should stop until {until}"), Vec::new()))
        }
        None if is_paused => Some(Plan::new(Step::Pause(Time::ZERO), "deliveries should go on", Vec::new())),
        _ => None,
    }
}

fn absent<C: Config>(desired: &C, rules: &Rules, reason: &str) -> Plan<C> {
    if rules.existed && rules.drift != DriftPolicy::Correct && !rules.prevent_update {
        let text = format!("{reason} any more, and driftPolicy is not Correct");
        return Plan::new(Step::Leave, text, Vec::new());
    }
    Plan::new(Step::Create(Box::new(marked(desired, rules))), reason, Vec::new())
}

fn marked<C: Config>(config: &C, rules: &Rules) -> C {
    let mut config = config.clone();
    if let Some(mark) = &rules.mark {
        config.metadata_mut().insert(OWNER.to_owned(), mark.to_string());
    }
    config
}

struct Found<'a, C> {
    present: &'a C,
    wanted: C,
    is_empty: bool,
}

fn existing<C: Config>(
    found: Found<'_, C>,
    rules: &Rules,
    judge: impl Fn(&C) -> Result<C, String>,
) -> Plan<C> {
    let Found { present, wanted, is_empty } = found;
    let ownership = rules.mark.as_ref().map_or(Ownership::Ours, |mark| mark.judge(present.metadata()));
    let changes = differences(present, &wanted, rules);
    if let Some(plan) = foreign(&ownership, rules, &changes) {
        return plan;
    }
    let unmarked = ownership != Ownership::Ours;
    if changes.is_empty() && (!unmarked || rules.prevent_update) {
        let kept: Vec<String> = rules.kept.iter().map(ToString::to_string).collect();
        let reason = match kept.is_empty() {
            true => "it is as it should be".to_owned(),
            false => format!("it is as the server lets it be, which kept {}", kept.join(", ")),
        };
        return Plan::new(Step::Nothing, reason, changes);
    }
    let may_change = match rules.drift {
        DriftPolicy::Correct => true,
        DriftPolicy::Report | DriftPolicy::Ignore => {
            !rules.prevent_update && (unmarked || rules.spec_changed)
        }
    };
    if !may_change {
        let why = if rules.prevent_update { "preventUpdate is true" } else { "driftPolicy is not Correct" };
        return Plan::new(Step::Leave, format!("it differs, and {why}"), changes);
    }
    let next = marked(&wanted, rules);
    match judge(&next) {
        Ok(_) => {
            let reason = match (unmarked, changes.is_empty()) {
                (true, true) => "it is to be managed by this object".to_owned(),
                (true, false) => "it is to be managed by this object, and differs".to_owned(),
                (false, _) if rules.spec_changed => "the spec changed".to_owned(),
                (false, _) => "it was changed on the server".to_owned(),
            };
            Plan { adopts: unmarked, ..Plan::new(Step::Update(Box::new(next)), reason, changes) }
        }
        Err(text) => anew(&text, &ownership, rules, is_empty, changes),
    }
}

/// Differences without our own mark and without what a server insists on.
fn differences<C: Config>(present: &C, wanted: &C, rules: &Rules) -> Vec<Change> {
    let mut present = present.clone();
    present.metadata_mut().remove(OWNER);
    let mut found = changes(&present, wanted);
    found.retain(|change| !rules.kept.contains(change));
    found
}

/// What belongs to somebody else is not touched.
fn foreign<C>(ownership: &Ownership, rules: &Rules, changes: &[Change]) -> Option<Plan<C>> {
    let refuse = |text: String| Some(Plan::new(Step::Refuse("OwnedByOther"), text, changes.to_vec()));
    match (ownership, rules.adoption) {
        (Ownership::Other(other), _) => refuse(format!(
            "it is managed by {other}: delete one of the two objects, or choose another name"
        )),
        (Ownership::Unmarked, AdoptionPolicy::Never) => refuse(
            "it exists and no object manages it, and adoptionPolicy is Never: choose another name, or set adoptionPolicy to Adopt"
                .to_owned(),
        ),
        (Ownership::Unmarked, AdoptionPolicy::IfMatching) if !changes.is_empty() => refuse(
            "it exists and differs, and adoptionPolicy is IfMatching: make the spec match, or set adoptionPolicy to Adopt"
                .to_owned(),
        ),
        _ => None,
    }
}

/// A change that cannot be made in place.
fn anew<C>(
    text: &str,
    ownership: &Ownership,
    rules: &Rules,
    is_empty: bool,
    changes: Vec<Change>,
) -> Plan<C> {
    let refuse = |stalled: &'static str, hint: &str| {
        Plan::new(Step::Refuse(stalled), format!("{text}: {hint}"), changes.clone())
    };
    match rules.strategy {
        UpdateStrategy::InPlace => refuse(
            "ImmutableChange",
            "restore the old value, or set updateStrategy to Recreate, which loses what is stored",
        ),
        _ if *ownership == Ownership::Unmarked => refuse(
            "ImmutableChange",
            "what no object manages yet is not deleted to make it anew: make the spec match first",
        ),
        UpdateStrategy::RecreateIfEmpty if !is_empty => {
            refuse("ImmutableChange", "it is not empty, and updateStrategy is RecreateIfEmpty")
        }
        UpdateStrategy::Recreate if rules.protected && !is_empty => {
            refuse("Protected", "it is not empty, and deletionProtection is NonEmpty")
        }
        UpdateStrategy::Recreate | UpdateStrategy::RecreateIfEmpty => {
            Plan::new(Step::Recreate, format!("{text}, so it is made anew"), changes)
        }
    }
}

/// What is to be done on the server for an object that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// There is nothing any more.
    Gone,
    /// Delete it.
    Delete,
    /// Leave it and take off the mark, if there is one of ours.
    Retain {
        /// It carries our mark.
        marked: bool,
    },
    /// It belongs to somebody else: leave it.
    Foreign(String),
    /// It is not empty and protected.
    Protected,
}

/// Decides about the end of an object. `retain` and `protected` follow from its spec, `observed` is what is there with whether it is
/// empty.
#[must_use]
pub fn removal(
    observed: Option<(&BTreeMap<String, String>, bool)>,
    mark: Option<&Mark>,
    adoption: AdoptionPolicy,
    (retain, protected): (bool, bool),
) -> Removal {
    let Some((metadata, is_empty)) = observed else { return Removal::Gone };
    let ownership = mark.map_or(Ownership::Ours, |mark| mark.judge(metadata));
    match ownership {
        Ownership::Other(other) => return Removal::Foreign(other),
        Ownership::Unmarked if adoption != AdoptionPolicy::Adopt => {
            return Removal::Foreign("no object".to_owned());
        }
        _ => {}
    }
    if retain {
        return Removal::Retain { marked: mark.is_some() && ownership != Ownership::Unmarked };
    }
    if protected && !is_empty { Removal::Protected } else { Removal::Delete }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
