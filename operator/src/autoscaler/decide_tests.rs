//! The decision by itself, and under simulated traffic.

use std::collections::VecDeque;

use crd::nats_autoscaler::NatsAutoscalerSpec;
use crd::nats_autoscaler::source::Source;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::*;
use crate::autoscaler::need::{self, Reading, Sample, Track};

/// Seconds between looks.
const POLL: i64 = 5;

fn spec(changes: Value) -> NatsAutoscalerSpec {
    let mut spec = json!({
        "scaleTargetRef": {"kind": "Deployment", "name": "workers"}, "minReplicas": 1, "maxReplicas": 20,
        "sources": [{"clusterRef": {"name": "n"}, "consumer": {"stream": "S", "consumer": "c", "backlogPerReplica": {"target": 10}}}],
    });
    for (key, value) in changes.as_object().unwrap() {
        spec[key] = value.clone();
    }
    serde_json::from_value(spec).unwrap()
}

fn plan(changes: Value) -> Plan {
    Plan::of(&spec(changes)).unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn asks(replicas: f64) -> Known {
    Known::Need(Need {
        replicas,
        step: None,
        active: replicas > 0.0,
        value: 0,
        rate: None,
        service_rate: None,
        useful: None,
    })
}

fn unknown() -> Known {
    Known::Unknown("no answer".to_owned())
}

/// Looks one after another, with each decision carried out at once.
struct Looks {
    plan: Plan,
    memory: Memory,
    second: i64,
    replicas: i32,
}

impl Looks {
    fn new(plan: Plan, replicas: i32) -> Self {
        Self { plan, memory: Memory::new(at(0), replicas, None), second: 0, replicas }
    }

    fn look(&mut self, sources: &[Known]) -> Decision {
        let now = at(self.second);
        let decision = decide(&self.plan, now, self.replicas, sources, &mut self.memory);
        if decision.desired != self.replicas {
            self.memory.changed(now, decision.desired - self.replicas);
        }
        self.replicas = decision.desired;
        self.second += POLL;
        decision
    }

    fn repeat(&mut self, seconds: i64, source: &Known) -> Vec<i32> {
        (0..seconds / POLL).map(|_| self.look(std::slice::from_ref(source)).desired).collect()
    }
}

#[test]
fn grows_at_once_by_the_larger_step_and_shrinks_after_the_window_by_half() {
    let mut looks = Looks::new(plan(json!({})), 1);
    assert_eq!(looks.repeat(35, &asks(18.0)), [5, 5, 5, 10, 10, 10, 18]);
    let shrinking = looks.repeat(600, &asks(2.0));
    let steps: Vec<i32> = shrinking.iter().copied().fold(Vec::new(), |mut steps, replicas| {
        if steps.last() != Some(&replicas) {
            steps.push(replicas);
        }
        steps
    });
    assert_eq!(steps, [18, 9, 4, 2]);
    let first = shrinking.iter().position(|replicas| *replicas < 18).unwrap();
    assert_eq!(i64::try_from(first).unwrap() * POLL, 300, "the last larger need was a look before these");
}

#[test]
fn from_nothing_to_some_and_back_after_the_cooldown() {
    let idle = json!({"minReplicas": 2, "idleReplicas": 0, "cooldown": "60s"});
    let mut looks = Looks::new(plan(idle), 0);
    assert_eq!(looks.repeat(300, &asks(0.0)), [0; 60], "nobody is woken up for nothing");
    assert_eq!(looks.look(&[asks(0.1)]).desired, 2, "the minimum at once");
    let after = looks.repeat(100, &asks(0.0));
    assert_eq!(after[..11], [2; 11], "within the cooldown: {after:?}");
    assert_eq!(after.last(), Some(&0));
    assert_eq!(looks.look(&[asks(0.0)]).reason, Reason::Idle);
}

#[test]
fn percentages_lead_out_of_nothing_too() {
    let percent = json!({"type": "Percent", "value": 100, "period": "15s"});
    let behavior = json!({"scaleUp": {"policies": [percent]}});
    let mut looks = Looks::new(plan(json!({"minReplicas": 0, "behavior": behavior})), 0);
    assert_eq!(looks.look(&[asks(9.0)]).desired, 1);
}

#[test]
fn near_is_near_enough() {
    let mut looks = Looks::new(plan(json!({})), 10);
    assert_eq!(
        looks.look(&[asks(10.9)]),
        Decision { desired: 10, wanted: 10, active: true, reason: Reason::WithinTolerance }
    );
    assert_eq!(looks.look(&[asks(11.1)]).desired, 12);
}

#[test]
fn a_step_counts_from_what_there_is_and_however_small_it_is() {
    let step = |step| {
        let Known::Need(need) = asks(1.0) else { unreachable!() };
        Known::Need(Need { step: Some(step), ..need })
    };
    let mut looks = Looks::new(plan(json!({"maxReplicas": 50})), 20);
    assert_eq!(looks.look(&[step(1)]).desired, 21, "5 percent, which is less than the tolerance");
    assert_eq!(looks.look(&[step(0)]).desired, 21);
    assert_eq!(looks.look(&[step(-1)]).wanted, 20);
}

#[test]
fn several_sources_count_as_the_largest_or_as_their_sum() {
    let both = [asks(3.0), asks(4.5)];
    assert_eq!(Looks::new(plan(json!({})), 2).look(&both).wanted, 5);
    assert_eq!(Looks::new(plan(json!({"combine": "Sum"})), 2).look(&both).wanted, 8);
}

#[test]
fn what_is_not_known_is_not_zero_and_not_everything() {
    let mut looks = Looks::new(plan(json!({"minReplicas": 0, "cooldown": "10s"})), 7);
    for _ in 0..500 {
        let decision = looks.look(&[unknown()]);
        assert_eq!((decision.desired, decision.reason), (7, Reason::Hold));
    }
    assert_eq!(looks.look(&[unknown(), asks(9.0)]).desired, 9, "what is known may ask for more");
    assert_eq!(looks.look(&[unknown(), asks(1.0)]).desired, 9, "and not for less");
    // Known again, and idle: a whole cooldown and the steps, as if work had just ended.
    assert_eq!(looks.look(&[asks(0.0)]).desired, 9);
    let mut asleep = Looks::new(plan(json!({"minReplicas": 0})), 0);
    assert_eq!(asleep.repeat(600, &unknown()), [0; 120]);
}

#[test]
fn a_lowered_maximum_is_obeyed_while_nothing_is_known() {
    let mut looks = Looks::new(plan(json!({"maxReplicas": 5, "fallback": {"replicas": 9}})), 8);
    assert_eq!(looks.repeat(60, &unknown()), [5; 12]);
}

#[test]
fn a_fallback_counts_after_so_many_failures_and_only_upwards() {
    let fallback = json!({"fallback": {"afterFailures": 3, "replicas": 4}});
    let mut looks = Looks::new(plan(fallback.clone()), 2);
    assert_eq!(looks.repeat(20, &unknown()), [2, 2, 4, 4]);
    assert_eq!(looks.look(&[unknown()]).reason, Reason::Fallback);
    let mut looks = Looks::new(plan(fallback), 9);
    assert_eq!(looks.repeat(30, &unknown()), [9; 6]);
}

#[test]
fn a_pause_leaves_everything_or_sets_one_number() {
    let mut looks = Looks::new(plan(json!({"paused": true})), 3);
    assert_eq!(
        looks.look(&[asks(9.0)]),
        Decision { desired: 3, wanted: 3, active: true, reason: Reason::Paused }
    );
    let mut looks = Looks::new(plan(json!({"paused": true, "pausedReplicas": 0})), 3);
    assert_eq!(looks.look(&[asks(9.0)]).desired, 0);
}

#[test]
fn limits_of_the_hour_count_at_once() {
    // The tests begin on a Friday at 08:00 UTC.
    let schedule = json!([{"cron": "1 8 * * *", "duration": "2m", "minReplicas": 6, "maxReplicas": 8}]);
    let mut looks = Looks::new(plan(json!({"schedule": schedule, "minReplicas": 0})), 0);
    assert_eq!(looks.repeat(60, &asks(0.0)), [0; 12]);
    assert_eq!(looks.look(&[asks(0.0)]).desired, 6, "without any work");
    looks.repeat(25, &asks(20.0));
    assert_eq!(looks.replicas, 8);
    looks.replicas = 12;
    assert_eq!(looks.look(&[asks(20.0)]).desired, 8, "above the limit");
    looks.repeat(150, &asks(20.0));
    assert_eq!(looks.replicas, 20, "its own limits again");
}

#[test]
fn a_new_operator_takes_nothing_away_before_its_window_is_full() {
    let mut looks = Looks::new(plan(json!({})), 12);
    let first = looks.repeat(400, &asks(1.0));
    assert_eq!(first[..60], [12; 60]);
    assert!(first[61] < 12);
}

#[test]
fn a_new_operator_takes_no_step_twice() {
    let policies = json!([{"type": "Pods", "value": 4, "period": "60s"}]);
    let mut looks = Looks::new(plan(json!({"behavior": {"scaleUp": {"policies": policies}}})), 1);
    assert_eq!(looks.look(&[asks(20.0)]).desired, 5);
    let before: Vec<_> = looks.memory.recent(at(looks.second)).collect();
    looks.memory = Memory::new(at(looks.second), 5, None).recalled(before);
    assert_eq!(looks.repeat(55, &asks(20.0)), [5; 11]);
    assert_eq!(looks.look(&[asks(20.0)]).desired, 9);
    assert_eq!(looks.memory.recent(at(60 * 30)).count(), 1, "the first one is too old to count");
}

#[test]
fn a_direction_can_be_closed() {
    let mut looks = Looks::new(plan(json!({"behavior": {"scaleDown": {"select": "Disabled"}}})), 9);
    assert_eq!(looks.repeat(900, &asks(1.0)), [9; 180]);
    let mut looks = Looks::new(plan(json!({"behavior": {"scaleUp": {"select": "Disabled"}}})), 1);
    assert_eq!(looks.repeat(60, &asks(9.0)), [1; 12]);
}

/// Work that comes and workers that do it.
struct Traffic {
    random: StdRng,
    backlog: f64,
    done: f64,
    /// Messages in a second.
    rate: f64,
    /// Seconds until the rate changes.
    until: i64,
    /// What a worker does in a second.
    speed: f64,
    /// Workers that were asked for some looks ago and have just begun.
    starting: VecDeque<i32>,
}

impl Traffic {
    fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let speed = random.random_range(1.0..200.0);
        let delay = random.random_range(0..6);
        Self {
            random,
            backlog: 0.0,
            done: 0.0,
            rate: 0.0,
            until: 0,
            speed,
            starting: std::iter::repeat_n(0, delay).collect(),
        }
    }

    /// Lets time pass with so many replicas asked for; returns what the consumer says then.
    fn pass(&mut self, replicas: i32, second: i64) -> Reading {
        if self.until <= 0 {
            self.until = self.random.random_range(10..1200);
            let load = [0.0, 0.3, 1.0, 4.0, 15.0, 60.0][self.random.random_range(0..6)];
            self.rate = load * self.speed * self.random.random_range(0.5..1.5);
        }
        self.until -= POLL;
        self.starting.push_back(replicas);
        let asked = self.starting.pop_front().unwrap_or(replicas);
        // Who is told to go goes at once; who is told to come takes a while.
        let working = f64::from(asked.min(replicas));
        #[expect(clippy::cast_precision_loss, reason = "five")]
        let seconds = POLL as f64;
        let arrived = self.rate * seconds * self.random.random_range(0.9..1.1);
        let done = (working * self.speed * seconds).min(self.backlog + arrived);
        self.backlog += arrived - done;
        self.done += done;
        #[expect(clippy::cast_possible_truncation, reason = "a simulation of some hours")]
        let (backlog, done) = (self.backlog as i64, self.done as i64);
        let ack_pending = backlog.min(100);
        let sample = Sample::Consumer {
            created: api::Time::ZERO,
            pending: backlog - ack_pending,
            ack_pending,
            acknowledged: done,
            waiting: 0,
            ack_pending_max: 1000,
            paused: false,
        };
        Reading { at: at(second), sample }
    }
}

/// Settings drawn from a seed.
fn drawn(random: &mut StdRng) -> NatsAutoscalerSpec {
    let min = random.random_range(0..5);
    let consumer = if random.random_bool(0.5) {
        json!({"stream": "S", "consumer": "c", "backlogPerReplica": {"target": random.random_range(10..5000)}})
    } else {
        json!({"stream": "S", "consumer": "c", "drainTime": {"target": format!("{}s", random.random_range(5..120))}})
    };
    let up = json!({"stabilizationWindow": format!("{}s", [0, 0, 30][random.random_range(0..3)]), "policies": [
        {"type": "Pods", "value": random.random_range(1..8), "period": "15s"},
        {"type": "Percent", "value": random.random_range(10..200), "period": "30s"},
    ], "select": (["Max", "Min"][random.random_range(0..2)])});
    let down = json!({"stabilizationWindow": format!("{}s", random.random_range(0..400)), "policies": [
        {"type": "Percent", "value": random.random_range(10..100), "period": "60s"},
        {"type": "Pods", "value": random.random_range(1..8), "period": "20s"},
    ], "select": (["Max", "Min"][random.random_range(0..2)])});
    spec(json!({
        "minReplicas": min, "idleReplicas": random.random_range(0..=min), "maxReplicas": random.random_range(5..60),
        "cooldown": format!("{}s", random.random_range(0..600)),
        "sources": [{"clusterRef": {"name": "n"}, "consumer": consumer}],
        "behavior": {"scaleUp": up, "scaleDown": down},
        "fallback": {"replicas": random.random_range(1..10), "afterFailures": 3},
    }))
}

/// What happened at a look.
struct Seen {
    second: i64,
    before: i32,
    decision: Decision,
}

fn simulate(seed: u64, looks: i64) -> (NatsAutoscalerSpec, Vec<(Seen, bool)>) {
    let mut random = StdRng::seed_from_u64(seed ^ 0x5eed);
    let spec = drawn(&mut random);
    let source: Source = spec.sources[0].clone();
    let plan = Plan::of(&spec).unwrap();
    let mut traffic = Traffic::new(seed);
    let mut track = Track::default();
    let mut replicas = spec.idle_replicas.unwrap();
    let mut memory = Memory::new(at(0), replicas, None);
    let (mut seen, mut blind) = (Vec::new(), 0);
    for look in 0..looks {
        let second = look * POLL;
        let reading = traffic.pass(replicas, second);
        if blind == 0 && random.random_bool(0.01) {
            blind = random.random_range(1..100);
        }
        let known = if blind > 0 {
            blind -= 1;
            unknown()
        } else {
            need::need(&source, &mut track, &reading, replicas).map_or_else(unknown, Known::Need)
        };
        let is_known = matches!(known, Known::Need(_));
        let decision = decide(&plan, at(second), replicas, &[known], &mut memory);
        if decision.desired != replicas {
            memory.changed(at(second), decision.desired - replicas);
        }
        seen.push((Seen { second, before: replicas, decision }, is_known));
        replicas = decision.desired;
        // Now and then the operator is another one and knows only what the status says.
        if random.random_bool(0.002) {
            let before: Vec<_> = memory.recent(at(second)).collect();
            memory = Memory::new(at(second), replicas, Some(memory.last_active)).recalled(before);
            track = Track::default();
        }
    }
    (spec, seen)
}

#[test]
fn whatever_the_traffic_three_things_hold() {
    for seed in 0..80 {
        let (spec, seen) = simulate(seed, 1500);
        let plan = Plan::of(&spec).unwrap();
        let least = spec.idle_replicas.unwrap();
        for (at, (look, known)) in seen.iter().enumerate() {
            let Seen { second, before, decision } = look;
            assert!(
                decision.desired >= least && decision.desired <= spec.max_replicas,
                "seed {seed} at {second}: {decision:?}"
            );
            if !known {
                assert!(decision.desired >= *before, "seed {seed} at {second}: fell while nothing was known");
            }
            // What is taken away was not needed at any time within the window.
            if decision.desired < *before && decision.reason != Reason::Idle {
                let window = plan.down.window.as_secs();
                let needed = seen[..=at]
                    .iter()
                    .rev()
                    .take_while(|(earlier, _)| second - earlier.second <= window)
                    .map(|(earlier, _)| earlier.decision.wanted)
                    .max()
                    .unwrap();
                assert!(
                    decision.desired >= needed,
                    "seed {seed} at {second}: {needed} were needed: {decision:?}"
                );
            }
        }
        let moved = seen.iter().filter(|(look, _)| look.decision.desired != look.before).count();
        assert!(moved > 0, "seed {seed} shows nothing");
    }
}

#[test]
fn no_step_is_larger_than_its_policies_allow() {
    for seed in 0..40 {
        let (spec, seen) = simulate(seed, 600);
        for (look, _) in &seen {
            let earlier = |seconds: i64| {
                let first = seen.iter().find(|(other, _)| other.second > look.second - seconds);
                first.map_or(look.before, |(other, _)| other.before)
            };
            let (from, to) = (look.before, look.decision.desired);
            if to > from {
                // Replicas at the beginning of each period are at least those of now without what was added since.
                let most = spec.behavior.scale_up.policies.iter().map(|policy| {
                    let seconds = i64::try_from(policy.period.parse().unwrap().as_secs()).unwrap();
                    let start = earlier(seconds).max(from);
                    match policy.type_ {
                        PolicyType::Pods => start + policy.value,
                        PolicyType::Percent => percent(start, 100 + policy.value, true),
                    }
                });
                let most = most.max().unwrap().max(spec.min_replicas).max(1);
                assert!(to <= most, "seed {seed} at {}: from {from} to {to}, at most {most}", look.second);
            }
            if to < from && look.decision.reason != Reason::Idle {
                let least = spec.behavior.scale_down.policies.iter().map(|policy| match policy.type_ {
                    PolicyType::Pods => from - policy.value,
                    PolicyType::Percent => percent(from, 100 - policy.value, false),
                });
                assert!(to >= least.min().unwrap(), "seed {seed} at {}: from {from} to {to}", look.second);
            }
        }
    }
}

#[test]
fn steady_traffic_ends_in_a_steady_number() {
    for seed in 0..40 {
        let mut traffic = Traffic::new(seed);
        traffic.until = i64::MAX;
        traffic.rate = traffic.speed * traffic.random.random_range(0.5..15.0);
        let spec = spec(json!({"maxReplicas": 40, "sources": [{"clusterRef": {"name": "n"},
            "consumer": {"stream": "S", "consumer": "c", "drainTime": {"target": "60s"}}}]}));
        let plan = Plan::of(&spec).unwrap();
        let (mut track, mut replicas) = (Track::default(), 1);
        let mut memory = Memory::new(at(0), replicas, None);
        let mut changes = Vec::new();
        for look in 0..1400_i64 {
            let reading = traffic.pass(replicas, look * POLL);
            let known = need::need(&spec.sources[0], &mut track, &reading, replicas)
                .map_or_else(unknown, Known::Need);
            let decision = decide(&plan, at(look * POLL), replicas, &[known], &mut memory);
            if decision.desired != replicas {
                memory.changed(at(look * POLL), decision.desired - replicas);
                changes.push((look, replicas, decision.desired));
            }
            replicas = decision.desired;
        }
        let late: Vec<_> = changes.iter().filter(|(look, _, _)| *look > 800).collect();
        assert!(late.len() <= 1, "seed {seed}: still moving after 4000 seconds: {late:?}");
        assert!(
            traffic.backlog < traffic.rate * 120.0,
            "seed {seed}: {} wait with {replicas}",
            traffic.backlog
        );
    }
}
