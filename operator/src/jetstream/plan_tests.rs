//! Tables of situations and the one step that follows from each.

use api::duration::Nanos;
use api::jetstream::account::Limits;
use api::jetstream::stream::{Discard, Placement, Retention, Storage, StreamSource, StreamState};
use crd::jetstream::{ConsumerSpec, StreamSpec};
use serde_json::{Value, json};

use super::*;
use crate::jetstream::desired;

fn mark() -> Mark {
    let owned = str::to_owned;
    Mark {
        cluster: owned("c"),
        namespace: owned("ns"),
        kind: "Stream",
        name: owned("orders"),
        uid: owned("u1"),
    }
}

fn rules() -> Rules {
    Rules {
        mark: Some(mark()),
        adoption: AdoptionPolicy::Adopt,
        drift: DriftPolicy::Correct,
        prevent_update: false,
        strategy: UpdateStrategy::InPlace,
        protected: false,
        spec_changed: false,
        existed: false,
        kept: Vec::new(),
    }
}

fn desired_stream(changes: Value) -> StreamConfig {
    let mut spec = json!({ "name": "orders", "subjects": ["orders.>"], "storage": "file" });
    let Value::Object(changes) = changes else { panic!("an object") };
    for (key, value) in changes {
        spec[key] = value;
    }
    let spec: StreamSpec = serde_json::from_value(spec).unwrap();
    desired::stream(&spec).unwrap()
}

/// What a server shows of a stream that was made from a spec and marked.
fn shown(config: &StreamConfig, mark: Option<&Mark>, messages: u64) -> StreamInfo {
    let mut config = config.clone();
    config.metadata.insert("_nats.level".to_owned(), "2".to_owned());
    config.metadata.insert("_nats.req.level".to_owned(), "0".to_owned());
    if let Some(mark) = mark {
        config.metadata.insert(OWNER.to_owned(), mark.to_string());
    }
    StreamInfo { config, state: StreamState { messages, ..StreamState::default() }, ..StreamInfo::default() }
}

/// The step from one spec to another for a stream that is ours.
fn step(from: Value, to: Value, messages: u64, change: impl FnOnce(&mut Rules)) -> Plan<StreamConfig> {
    let mut rules = rules();
    change(&mut rules);
    let present = shown(&desired_stream(from), Some(&mark()), messages);
    stream(&desired_stream(to), Some(&present), &rules)
}

#[test]
fn what_is_missing_is_made_with_the_mark() {
    let plan = stream(&desired_stream(json!({})), None, &rules());
    let Step::Create(config) = plan.step else { panic!("{plan:?}") };
    assert_eq!(config.metadata[OWNER], "c/ns/Stream/orders/u1");
    let unmarked = Rules { mark: None, ..rules() };
    let Step::Create(config) = stream(&desired_stream(json!({})), None, &unmarked).step else {
        panic!("a step")
    };
    assert!(config.metadata.is_empty());
    // A new one cannot be sealed.
    assert_eq!(
        stream(&desired_stream(json!({ "sealed": true })), None, &rules()).step,
        Step::Refuse("InvalidSpec")
    );
}

#[test]
fn what_is_as_asked_for_is_left_alone_whatever_servers_add() {
    assert_eq!(step(json!({}), json!({}), 5, |_| {}).step, Step::Nothing);
    // A server that knows fewer fields shows zeros where defaults stand.
    let mut old = shown(&desired_stream(json!({})), Some(&mark()), 0);
    old.config.max_msg_size = 0;
    old.config.num_replicas = 0;
    assert_eq!(stream(&desired_stream(json!({})), Some(&old), &rules()).step, Step::Nothing);
}

#[test]
fn changes_that_servers_make_in_place_are_updates() {
    for to in [
        json!({ "maxAge": "1h" }),
        json!({ "maxMsgs": 5 }),
        json!({ "subjects": ["orders.>", "more"] }),
        json!({ "discard": "new" }),
        json!({ "replicas": 3 }),
        json!({ "retention": "interest" }),
        json!({ "description": "text" }),
        json!({ "metadata": { "team": "blue" } }),
        json!({ "denyDelete": true }),
        json!({ "allowMsgTtl": true }),
        json!({ "compression": "s2" }),
        json!({ "placement": { "tags": ["a"] } }),
    ] {
        let plan = step(json!({}), to.clone(), 5, |_| {});
        assert!(matches!(plan.step, Step::Update(_)), "{to} -> {plan:?}");
        assert_eq!((plan.action(), plan.adopts), ("Update", false), "{to}");
        assert!(!plan.changes.is_empty());
    }
}

/// Ways that no server goes in place; section by section what it is, from and to.
fn one_way() -> Vec<(Value, Value)> {
    vec![
        (json!({}), json!({ "storage": "memory" })),
        (json!({}), json!({ "retention": "workqueue" })),
        (json!({ "retention": "workqueue" }), json!({ "retention": "interest" })),
        (json!({ "denyDelete": true }), json!({})),
        (json!({ "denyPurge": true }), json!({})),
        (json!({ "allowMsgTtl": true }), json!({})),
        (json!({ "allowMsgSchedules": true, "allowRollup": true }), json!({ "allowRollup": true })),
        (json!({}), json!({ "allowMsgCounter": true })),
        (json!({ "allowMsgCounter": true }), json!({})),
        (json!({}), json!({ "persistMode": "async" })),
        (json!({}), json!({ "subjects": [], "mirror": { "name": "m" } })),
        (
            json!({ "subjects": [], "mirror": { "name": "m" } }),
            json!({ "subjects": [], "mirror": { "name": "n" } }),
        ),
    ]
}

#[test]
fn changes_that_servers_do_not_make_in_place_are_refused_until_a_strategy_allows_them() {
    for (from, to) in one_way() {
        let plan = step(from.clone(), to.clone(), 5, |_| {});
        assert_eq!(plan.step, Step::Refuse("ImmutableChange"), "{from} -> {to}: {}", plan.reason);
        assert!(plan.reason.contains("updateStrategy"), "{}", plan.reason);
        let with = |strategy, messages| {
            step(from.clone(), to.clone(), messages, |rules| rules.strategy = strategy).step
        };
        assert_eq!(with(UpdateStrategy::Recreate, 5), Step::Recreate, "{from} -> {to}");
        assert_eq!(with(UpdateStrategy::RecreateIfEmpty, 5), Step::Refuse("ImmutableChange"));
        assert_eq!(with(UpdateStrategy::RecreateIfEmpty, 0), Step::Recreate);
        let protected = step(from.clone(), to.clone(), 5, |rules| {
            (rules.strategy, rules.protected) = (UpdateStrategy::Recreate, true);
        });
        assert_eq!(protected.step, Step::Refuse("Protected"));
    }
}

#[test]
fn a_mirror_may_become_a_stream_of_its_own() {
    let plan = step(json!({ "subjects": [], "mirror": { "name": "m" } }), json!({}), 5, |_| {});
    let Step::Update(config) = plan.step else { panic!("{plan:?}") };
    assert!(config.mirror.is_none());
}

#[test]
fn a_stream_is_sealed_once_and_stays_as_it_is_then() {
    let plan = step(json!({}), json!({ "sealed": true }), 5, |_| {});
    let Step::Update(config) = plan.step else { panic!("{plan:?}") };
    assert!(config.sealed && config.deny_delete && config.deny_purge && config.discard == Discard::New);
    let sealed = shown(&config, Some(&mark()), 5);
    let again = stream(&desired_stream(json!({ "sealed": true })), Some(&sealed), &rules());
    assert_eq!(again.step, Step::Nothing, "{:?}", again.changes);
}

#[test]
fn replicas_and_placement_change_one_after_the_other() {
    let to = json!({ "replicas": 3, "placement": { "tags": ["a"] } });
    let plan = step(json!({}), to.clone(), 5, |_| {});
    let Step::Update(config) = plan.step else { panic!("{plan:?}") };
    assert_eq!((config.num_replicas, &config.placement), (3, &None));
    let plan = stream(&desired_stream(to), Some(&shown(&config, Some(&mark()), 5)), &rules());
    let Step::Update(config) = plan.step else { panic!("{plan:?}") };
    assert_eq!(config.placement, Some(Placement { tags: vec!["a".to_owned()], ..Placement::default() }));
}

#[test]
fn the_first_sequence_counts_at_the_beginning_only() {
    assert_eq!(step(json!({}), json!({ "firstSequence": 9 }), 5, |_| {}).step, Step::Nothing);
    let mirror = json!({ "subjects": [], "mirror": { "name": "m" } });
    let mut present = shown(&desired_stream(mirror.clone()), Some(&mark()), 5);
    present.config.mirror_direct = true;
    assert_eq!(stream(&desired_stream(mirror), Some(&present), &rules()).step, Step::Nothing);
}

#[test]
fn something_that_nobody_manages_is_adopted_as_the_policy_says() {
    let same = shown(&desired_stream(json!({})), None, 5);
    let other = shown(&desired_stream(json!({ "maxMsgs": 7 })), None, 5);
    let desired = desired_stream(json!({}));
    let step =
        |present: &StreamInfo, adoption| stream(&desired, Some(present), &Rules { adoption, ..rules() });
    for present in [&same, &other] {
        let plan = step(present, AdoptionPolicy::Adopt);
        assert!(matches!(plan.step, Step::Update(_)));
        assert_eq!((plan.action(), plan.adopts), ("Adopt", true));
        assert_eq!(step(present, AdoptionPolicy::Never).step, Step::Refuse("OwnedByOther"));
    }
    assert!(step(&same, AdoptionPolicy::IfMatching).adopts);
    assert_eq!(step(&other, AdoptionPolicy::IfMatching).step, Step::Refuse("OwnedByOther"));
    // Nothing is written where updates are prevented, not even the mark.
    let prevented = Rules { prevent_update: true, drift: DriftPolicy::Report, ..rules() };
    assert_eq!(stream(&desired, Some(&same), &prevented).step, Step::Nothing);
    // Without marks everything is ours.
    assert_eq!(stream(&desired, Some(&same), &Rules { mark: None, ..rules() }).step, Step::Nothing);
    // What nobody manages is never deleted to make it anew.
    let memory = shown(&desired_stream(json!({ "storage": "memory" })), None, 0);
    let recreate = Rules { strategy: UpdateStrategy::Recreate, ..rules() };
    assert_eq!(stream(&desired, Some(&memory), &recreate).step, Step::Refuse("ImmutableChange"));
}

#[test]
fn what_another_object_manages_is_never_touched() {
    let desired = desired_stream(json!({ "maxMsgs": 3 }));
    for other in [
        Mark { name: "other".to_owned(), ..mark() },
        Mark { namespace: "other".to_owned(), ..mark() },
        Mark { cluster: "other".to_owned(), ..mark() },
        Mark { kind: "KeyValue", ..mark() },
    ] {
        let present = shown(&desired_stream(json!({})), Some(&other), 5);
        let plan = stream(&desired, Some(&present), &Rules { strategy: UpdateStrategy::Recreate, ..rules() });
        assert_eq!(plan.step, Step::Refuse("OwnedByOther"));
        let metadata = &present.config.metadata;
        let end = removal(Some((metadata, true)), Some(&mark()), AdoptionPolicy::Adopt, (false, false));
        assert!(matches!(end, Removal::Foreign(_)), "{end:?}");
    }
    // An object that was made again takes over from its former self.
    let former = Mark { uid: "u0".to_owned(), ..mark() };
    let plan = stream(
        &desired_stream(json!({})),
        Some(&shown(&desired_stream(json!({})), Some(&former), 5)),
        &rules(),
    );
    let Step::Update(config) = plan.step else { panic!("{plan:?}") };
    assert_eq!(config.metadata[OWNER], mark().to_string());
}

#[test]
fn drift_is_treated_as_the_policy_says() {
    let drifted = |rules: Rules| {
        let present = shown(&desired_stream(json!({ "maxMsgs": 7 })), Some(&mark()), 5);
        stream(&desired_stream(json!({})), Some(&present), &rules)
    };
    let plan = drifted(rules());
    assert!(matches!(plan.step, Step::Update(_)));
    assert_eq!(plan.reason, "it was changed on the server");
    assert_eq!(plan.changes[0].to_string(), "max_msgs: 7 -> -1");
    for drift in [DriftPolicy::Report, DriftPolicy::Ignore] {
        assert_eq!(drifted(Rules { drift, ..rules() }).step, Step::Leave);
        // The author of the spec is not drift.
        let edited = Rules { drift, spec_changed: true, ..rules() };
        assert!(matches!(drifted(edited.clone()).step, Step::Update(_)));
        assert_eq!(drifted(Rules { prevent_update: true, ..edited }).step, Step::Leave);
        let gone = Rules { drift, existed: true, ..rules() };
        assert_eq!(stream(&desired_stream(json!({})), None, &gone).step, Step::Leave);
        assert!(matches!(
            stream(&desired_stream(json!({})), None, &Rules { existed: false, ..gone }).step,
            Step::Create(_)
        ));
    }
    // preventUpdate speaks of what exists; what is missing is made.
    let prevented = Rules { prevent_update: true, drift: DriftPolicy::Report, existed: true, ..rules() };
    assert!(matches!(stream(&desired_stream(json!({})), None, &prevented).step, Step::Create(_)));
}

#[test]
fn what_a_server_insists_on_is_not_asked_for_again() {
    let from = json!({ "duplicateWindow": "1m" });
    let plan = step(from.clone(), json!({}), 5, |_| {});
    assert!(matches!(plan.step, Step::Update(_)));
    let kept = plan.changes;
    let again = step(from, json!({}), 5, |rules| rules.kept.clone_from(&kept));
    assert_eq!(again.step, Step::Nothing);
    assert!(again.reason.contains("kept duplicate_window: 1m0s -> 2m0s"), "{}", again.reason);
}

#[test]
fn the_end_of_an_object_follows_its_policies() {
    let metadata = |mark: Option<Mark>| -> BTreeMap<String, String> {
        mark.map(|mark| (OWNER.to_owned(), mark.to_string())).into_iter().collect()
    };
    let (ours, unmarked) = (metadata(Some(mark())), metadata(None));
    let adopt = AdoptionPolicy::Adopt;
    let end = |observed, policy| removal(observed, Some(&mark()), adopt, policy);
    assert_eq!(end(None, (false, false)), Removal::Gone);
    assert_eq!(end(Some((&ours, false)), (false, false)), Removal::Delete);
    assert_eq!(end(Some((&ours, false)), (false, true)), Removal::Protected);
    assert_eq!(end(Some((&ours, true)), (false, true)), Removal::Delete);
    assert_eq!(end(Some((&ours, false)), (true, true)), Removal::Retain { marked: true });
    assert_eq!(end(Some((&unmarked, false)), (true, false)), Removal::Retain { marked: false });
    assert_eq!(end(Some((&unmarked, false)), (false, false)), Removal::Delete);
    // It was never ours, because the policy never let us adopt it.
    for adoption in [AdoptionPolicy::Never, AdoptionPolicy::IfMatching] {
        let end = removal(Some((&unmarked, false)), Some(&mark()), adoption, (false, false));
        assert!(matches!(end, Removal::Foreign(_)));
    }
    assert_eq!(removal(Some((&unmarked, false)), None, adopt, (false, false)), Removal::Delete);
}

fn desired_consumer(changes: Value) -> desired::DesiredConsumer {
    let mut spec = json!({ "streamName": "orders", "durableName": "worker", "ackPolicy": "explicit" });
    let Value::Object(changes) = changes else { panic!("an object") };
    for (key, value) in changes {
        spec[key] = value;
    }
    let spec: ConsumerSpec = serde_json::from_value(spec).unwrap();
    desired::consumer(&spec).unwrap()
}

fn info_of(config: ConsumerConfig, ack_floor: u64) -> ConsumerInfo {
    let mut config = config;
    config.metadata.insert("_nats.req.level".to_owned(), "0".to_owned());
    let mut info = ConsumerInfo { config: Some(config), ..ConsumerInfo::default() };
    info.ack_floor.stream_seq = ack_floor;
    info
}

fn plan_consumer(
    spec: Value,
    observed: Option<&ConsumerInfo>,
    resume_at: Option<u64>,
    rules: &Rules,
) -> Plan<ConsumerConfig> {
    let of = desired_stream(json!({}));
    let desired = desired_consumer(spec);
    let completed = desired.complete(&of, &Limits::UNLIMITED).unwrap();
    let facts = ConsumerFacts {
        desired: &completed,
        pause_until: desired.pause_until,
        stream: &of,
        observed,
        resume_at,
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
    };
    consumer(&facts, rules)
}

fn created(spec: Value, resume_at: Option<u64>) -> ConsumerConfig {
    let Step::Create(config) = plan_consumer(spec, None, resume_at, &rules()).step else { panic!("a step") };
    *config
}

#[test]
fn consumers_are_made_compared_and_changed_like_streams() {
    let info = info_of(created(json!({}), None), 0);
    assert_eq!(plan_consumer(json!({}), Some(&info), None, &rules()).step, Step::Nothing);
    for to in [
        json!({ "maxAckPending": 5 }),
        json!({ "ackWait": "5s" }),
        json!({ "filterSubject": "orders.new" }),
        json!({ "description": "text" }),
        json!({ "maxDeliver": 5 }),
        json!({ "inactiveThreshold": "1h" }),
        json!({ "sampleFreq": "10" }),
        json!({ "metadata": { "a": "b" } }),
    ] {
        let plan = plan_consumer(to.clone(), Some(&info), None, &rules());
        assert!(matches!(plan.step, Step::Update(_)), "{to} -> {plan:?}");
    }
}

#[test]
fn what_of_a_consumer_is_fixed_needs_a_strategy() {
    for to in [
        json!({ "deliverPolicy": "new" }),
        json!({ "deliverPolicy": "byStartSequence", "optStartSeq": 5 }),
        json!({ "deliverPolicy": "byStartTime", "optStartTime": "2026-01-02T00:00:00Z" }),
        json!({ "ackPolicy": "all" }),
        json!({ "replayPolicy": "original" }),
        json!({ "maxWaiting": 5 }),
        json!({ "memStorage": true }),
        json!({ "deliverSubject": "push.here" }),
    ] {
        let info = info_of(created(json!({}), None), 0);
        let plan = plan_consumer(to.clone(), Some(&info), None, &rules());
        assert_eq!(plan.step, Step::Refuse("ImmutableChange"), "{to}: {}", plan.reason);
        let recreate = Rules { strategy: UpdateStrategy::Recreate, ..rules() };
        assert_eq!(plan_consumer(to.clone(), Some(&info), None, &recreate).step, Step::Recreate, "{to}");
    }
    let push = json!({ "deliverSubject": "p", "heartbeatInterval": "1s", "flowControl": true });
    let info = info_of(created(push, None), 0);
    for to in [
        json!({}),
        json!({ "deliverSubject": "p", "heartbeatInterval": "2s", "flowControl": true }),
        json!({ "deliverSubject": "p", "heartbeatInterval": "1s" }),
    ] {
        assert_eq!(plan_consumer(to, Some(&info), None, &rules()).step, Step::Refuse("ImmutableChange"));
    }
}

#[test]
fn a_consumer_that_is_made_anew_goes_on_where_it_was_and_then_stays() {
    let info = info_of(created(json!({}), None), 41);
    let of = desired_stream(json!({}));
    let completed = |spec: Value| desired_consumer(spec).complete(&of, &Limits::UNLIMITED).unwrap();
    let to = json!({ "ackPolicy": "all" });
    let at = resume_at(&completed(to.clone()), &info, true);
    assert_eq!(at, Some(42));
    assert_eq!(resume_at(&completed(to.clone()), &info, false), None);
    // Who asks for another beginning gets it.
    assert_eq!(resume_at(&completed(json!({ "deliverPolicy": "new" })), &info, true), None);

    let config = created(to.clone(), at);
    assert_eq!((config.deliver_policy, config.opt_start_seq), (DeliverPolicy::ByStartSequence, 42));
    let anew = info_of(config, 50);
    assert_eq!(plan_consumer(to, Some(&anew), None, &rules()).step, Step::Nothing);
    // The same once more.
    assert_eq!(resume_at(&completed(json!({ "ackPolicy": "explicit" })), &anew, true), Some(51));
    let moved =
        plan_consumer(json!({ "ackPolicy": "all", "deliverPolicy": "new" }), Some(&anew), None, &rules());
    assert_eq!(moved.step, Step::Refuse("ImmutableChange"));
}

#[test]
fn deliveries_stop_and_go_on_by_requests_of_their_own() {
    let later = json!({ "pauseUntil": "2026-02-01T00:00:00Z" });
    let config = created(later.clone(), None);
    let until: Time = "2026-02-01T00:00:00Z".parse().unwrap();
    assert_eq!(config.pause_until, Some(until));

    let running = info_of(created(json!({}), None), 0);
    assert_eq!(plan_consumer(later.clone(), Some(&running), None, &rules()).step, Step::Pause(until));
    let paused = ConsumerInfo { paused: true, ..info_of(config, 0) };
    assert_eq!(plan_consumer(later, Some(&paused), None, &rules()).step, Step::Nothing);
    let plan = plan_consumer(json!({}), Some(&paused), None, &rules());
    assert_eq!((plan.step.clone(), plan.action()), (Step::Pause(Time::ZERO), "Resume"));
    let ignored = Rules { drift: DriftPolicy::Ignore, ..rules() };
    assert_eq!(plan_consumer(json!({}), Some(&paused), None, &ignored).step, Step::Nothing);
    // A time that has passed is no wish.
    let past = json!({ "pauseUntil": "2025-01-01T00:00:00Z" });
    assert_eq!(created(past.clone(), None).pause_until, None);
    assert_eq!(plan_consumer(past, Some(&running), None, &rules()).step, Step::Nothing);
}

#[test]
fn the_names_used_here_are_those_of_servers() {
    let config = desired_stream(json!({ "retention": "interest" }));
    assert_eq!((config.retention, config.storage), (Retention::Interest, Storage::File));
    assert_eq!(config.duplicate_window, Nanos::from_secs(120));
    assert_eq!(
        desired_stream(json!({ "sources": [{ "name": "a" }] })).sources,
        [StreamSource { name: "a".to_owned(), ..StreamSource::default() }]
    );
}
