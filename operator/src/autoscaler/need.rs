//! From what a source said to the number of replicas that it takes. Pure.

use std::collections::BTreeMap;

use api::Time;
use api::jetstream::consumer::ConsumerInfo;
use crd::nats_autoscaler::source::{Count, SlowConsumers, Source};
use k8s_openapi::jiff::Timestamp;

/// Weight of the newest rate among those before it.
const NEWEST: f64 = 0.3;
/// Nanoseconds of a second.
const NANOS: f64 = 1e9;

/// What a source said at some time.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// When.
    pub at: Timestamp,
    /// What.
    pub sample: Sample,
}

/// Two numbers of each that takes a share of the work, by who it is.
pub type Counts = BTreeMap<String, (i64, i64)>;

/// Seconds since each member was cut off for taking too slowly, by its connection.
pub type SlowMembers = BTreeMap<String, u64>;

/// What a source said.
#[derive(Clone, Debug, PartialEq)]
pub enum Sample {
    /// A consumer.
    Consumer {
        /// When it was made, which tells it from another one of its name.
        created: Time,
        /// Messages that were not delivered.
        pending: i64,
        /// Messages that were delivered and are not acknowledged.
        ack_pending: i64,
        /// Deliveries up to which everything is acknowledged.
        acknowledged: i64,
        /// Pulls that wait for messages.
        waiting: i64,
        /// Messages that may be delivered and not acknowledged at a time; nothing when there is no bound.
        ack_pending_max: i64,
        /// It delivers nothing on purpose.
        paused: bool,
    },
    /// Messages of a stream.
    Stream {
        /// Their number.
        messages: i64,
    },
    /// Members of a queue group: bytes on their way to each, and messages that each has had.
    Group {
        /// By the identity of the subscription.
        members: Counts,
        /// Members that were cut off.
        slow: SlowMembers,
    },
    /// Instances of a service: requests that each has had, and nanoseconds that it spent on them.
    Service {
        /// By the identity of the instance.
        instances: Counts,
    },
}

impl Sample {
    /// What a server said about a consumer.
    #[must_use]
    pub fn of_consumer(info: &ConsumerInfo) -> Self {
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        Self::Consumer {
            created: info.created,
            pending: signed(info.num_pending),
            ack_pending: info.num_ack_pending.max(0),
            acknowledged: signed(info.ack_floor.consumer_seq),
            waiting: info.num_waiting.max(0),
            ack_pending_max: info.config.as_ref().map_or(0, |config| config.max_ack_pending.max(0)),
            paused: info.paused,
        }
    }
}

/// What is remembered of a source.
#[derive(Clone, Debug, Default)]
pub struct Track {
    last: Option<Reading>,
    arrivals: Option<f64>,
    service_rate: Option<f64>,
}

impl Track {
    /// When the source was last read.
    #[must_use]
    pub fn read_at(&self) -> Option<Timestamp> {
        self.last.as_ref().map(|reading| reading.at)
    }
}

/// What a source asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// Replicas, before they are rounded.
    pub replicas: f64,
    /// So many more or fewer than are asked for today, from a source that says no more than this.
    pub step: Option<i32>,
    /// Whether there is work.
    pub active: bool,
    /// What the source counts: messages, bytes, or percent.
    pub value: i64,
    /// What comes in a second.
    pub rate: Option<f64>,
    /// What a replica does in a second.
    pub service_rate: Option<f64>,
    /// Replicas above which nobody gets anything.
    pub useful: Option<i32>,
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
const fn float(count: i64) -> f64 {
    count as f64
}

/// What a source asks for with so many replicas there; `None` when that takes another look, because it is a rate.
pub fn need(source: &Source, track: &mut Track, reading: &Reading, replicas: i32) -> Option<Need> {
    let last = track.last.replace(reading.clone()).filter(|last| last.at < reading.at);
    let seconds = last.as_ref().map(|last| reading.at.duration_since(last.at).as_secs_f64());
    match &reading.sample {
        Sample::Consumer { .. } => consumer(source, track, last.as_ref(), (reading, seconds), replicas),
        Sample::Stream { messages } => {
            let workqueue = source.workqueue.as_ref()?;
            Some(Need {
                replicas: float(*messages) / float(workqueue.target.max(1)),
                step: None,
                active: *messages > workqueue.activation_threshold,
                value: *messages,
                rate: None,
                service_rate: None,
                useful: None,
            })
        }
        Sample::Group { members, slow } => {
            group(source, track, last.as_ref(), (members, slow), (seconds, replicas))
        }
        Sample::Service { instances } => service(source, last.as_ref(), instances, seconds),
    }
}

fn consumer(
    source: &Source,
    track: &mut Track,
    last: Option<&Reading>,
    (reading, seconds): (&Reading, Option<f64>),
    replicas: i32,
) -> Option<Need> {
    let settings = source.consumer.as_ref()?;
    let Sample::Consumer { created, pending, ack_pending, acknowledged, waiting, ack_pending_max, paused } =
        reading.sample
    else {
        return None;
    };
    let backlog = pending + ack_pending;
    let worked = learn(track, last, (created, backlog, acknowledged), seconds, replicas);
    let idle = Need {
        replicas: 0.0,
        step: None,
        active: false,
        value: backlog,
        rate: track.arrivals,
        service_rate: track.service_rate,
        // What each has in its hands is what there is divided by all; more of them only get less each.
        useful: (ack_pending_max > 0 && ack_pending >= ack_pending_max && replicas > 0).then_some(replicas),
    };
    if paused {
        return Some(idle);
    }
    // Workers that keep up leave no backlog behind, and are needed all the same.
    let active = backlog > settings.activation_threshold || worked;
    if let Some(target) = &settings.backlog_per_replica {
        let counted = if target.count == Count::Pending { pending } else { backlog };
        let replicas = float(counted) / float(target.target.max(1));
        return Some(Need { replicas, active, value: counted, ..idle });
    }
    if let Some(percent) = settings.pull_utilization_percent {
        let working = (i64::from(replicas) - waiting).max(0);
        // Work that nobody has taken yet, because nobody is there.
        let wanted = if active { float(working.max(1)) * 100.0 / f64::from(percent.max(1)) } else { 0.0 };
        return Some(Need { replicas: wanted, active, ..idle });
    }
    let drain = settings.drain_time.as_ref()?;
    let within = drain.target.parse().map_or(1.0, |target| target.as_secs_f64()).max(0.001);
    let rate = drain.per_replica_rate.map(float).or(track.service_rate).filter(|rate| *rate > 0.0);
    let wanted = match rate {
        Some(rate) => (track.arrivals.unwrap_or(0.0) + float(backlog) / within) / rate,
        // Nobody has worked yet, so one begins; from its work the rest is learnt.
        None if active => f64::from(replicas.max(1)),
        None => 0.0,
    };
    Some(Need { replicas: wanted, active, ..idle })
}

/// Learns what comes and what a replica does, from two looks. True when something was done between them. What was made at
/// another time is another consumer, of the same name or of what the name of an account means now; a floor that went back is another leader.
fn learn(
    track: &mut Track,
    last: Option<&Reading>,
    (created, backlog, acknowledged): (Time, i64, i64),
    seconds: Option<f64>,
    replicas: i32,
) -> bool {
    let (Some(last), Some(seconds)) = (last, seconds) else { return false };
    let Sample::Consumer { created: made_before, pending, ack_pending, acknowledged: before, .. } =
        last.sample
    else {
        return false;
    };
    let done = acknowledged - before;
    if done < 0 || created != made_before {
        track.arrivals = None;
        track.service_rate = None;
        return false;
    }
    let backlog_before = pending + ack_pending;
    let arrived = float(backlog - backlog_before + done).max(0.0) / seconds;
    track.arrivals = Some(blend(track.arrivals, arrived));
    // Workers that wait for work say nothing about how fast they are.
    if backlog > 0 && backlog_before > 0 && replicas > 0 && done > 0 {
        track.service_rate = Some(blend(track.service_rate, float(done) / seconds / f64::from(replicas)));
    }
    done > 0
}

fn blend(before: Option<f64>, newest: f64) -> f64 {
    before.map_or(newest, |before| before + NEWEST * (newest - before))
}

/// Growth of the counts of those that were there at both looks.
fn growth(before: &Counts, now: &Counts, of: impl Fn(&(i64, i64)) -> i64) -> i64 {
    now.iter()
        .filter_map(|(id, counts)| Some((of(counts) - of(before.get(id)?)).max(0)))
        .fold(0, i64::saturating_add)
}

fn group(
    source: &Source,
    track: &mut Track,
    last: Option<&Reading>,
    (members, slow): (&Counts, &SlowMembers),
    (seconds, replicas): (Option<f64>, i32),
) -> Option<Need> {
    let settings = source.queue_group.as_ref()?;
    if let (Some(Sample::Group { members: before, .. }), Some(seconds)) =
        (last.map(|last| &last.sample), seconds)
    {
        track.arrivals = Some(float(growth(before, members, |counts| counts.1)) / seconds);
    }
    // Who looks again so soon that the answer is the same knows what it knew.
    let rate = track.arrivals;
    if let Some(settings) = &settings.slow_consumers {
        return Some(Need { rate, ..cut_off(settings, last, slow, replicas) });
    }
    let pending = members.values().map(|counts| counts.0).fold(0, i64::saturating_add);
    let replicas = match (settings.pending_bytes_per_member, settings.message_rate_per_member) {
        (Some(target), _) => float(pending) / float(target.max(1)),
        (None, Some(target)) => rate? / float(target.max(1)),
        (None, None) => return None,
    };
    Some(Need { replicas, step: None, active: true, value: pending, rate, service_rate: None, useful: None })
}

/// One more for each member that was cut off since the last look, as many as there are while that is not long ago, and one fewer then:
/// who is fast enough is found out by trying.
fn cut_off(settings: &SlowConsumers, last: Option<&Reading>, slow: &SlowMembers, replicas: i32) -> Need {
    let window = settings.window.parse().map_or(u64::MAX, |window| window.as_secs());
    let recent = slow.values().filter(|age| **age <= window).count();
    let fresh = match last.map(|last| &last.sample) {
        Some(Sample::Group { slow: before, .. }) => {
            slow.keys().filter(|member| !before.contains_key(*member)).count()
        }
        // Before the first look somebody else may have helped them already.
        _ => 0,
    };
    let step = match (fresh, recent) {
        (0, 0) => -1,
        (fresh, _) => i32::try_from(fresh).unwrap_or(i32::MAX),
    };
    Need {
        replicas: f64::from(replicas.saturating_add(step).max(0)),
        step: Some(step),
        active: true,
        value: i64::try_from(recent).unwrap_or(i64::MAX),
        rate: None,
        service_rate: None,
        useful: None,
    }
}

fn service(
    source: &Source,
    last: Option<&Reading>,
    instances: &Counts,
    seconds: Option<f64>,
) -> Option<Need> {
    let settings = source.service.as_ref()?;
    let Some(Sample::Service { instances: before }) = last.map(|last| &last.sample) else { return None };
    let seconds = seconds?;
    let rate = float(growth(before, instances, |counts| counts.0)) / seconds;
    // Replicas that would be busy all the time.
    let busy = float(growth(before, instances, |counts| counts.1)) / NANOS / seconds;
    let replicas = match (settings.requests_per_second, settings.utilization_percent) {
        (Some(target), _) => rate / float(target.max(1)),
        (None, Some(percent)) => busy * 100.0 / f64::from(percent.max(1)),
        (None, None) => return None,
    };
    #[expect(clippy::cast_possible_truncation, reason = "a percentage of some replicas")]
    let percent = (busy * 100.0 / float(i64::try_from(instances.len()).unwrap_or(1).max(1))) as i64;
    Some(Need {
        replicas,
        step: None,
        active: true,
        value: percent,
        rate: Some(rate),
        service_rate: None,
        useful: None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn source(value: Value) -> Source {
        serde_json::from_value(value).unwrap()
    }

    fn reading(second: i64, sample: Sample) -> Reading {
        Reading { at: Timestamp::from_second(second).unwrap(), sample }
    }

    fn of_consumer(second: i64, pending: i64, ack_pending: i64, acknowledged: i64) -> Reading {
        let (waiting, ack_pending_max) = (0, 1000);
        let (created, paused) = (Time::ZERO, false);
        let sample = Sample::Consumer {
            created,
            pending,
            ack_pending,
            acknowledged,
            waiting,
            ack_pending_max,
            paused,
        };
        reading(second, sample)
    }

    fn backlog() -> Source {
        source(
            json!({"consumer": {"stream": "S", "consumer": "c", "backlogPerReplica": {"target": 10}, "activationThreshold": 5}}),
        )
    }

    #[test]
    fn a_backlog_is_what_is_pending_and_what_is_not_acknowledged() {
        let ask = |reading: &Reading| need(&backlog(), &mut Track::default(), reading, 1).unwrap();
        let need = ask(&of_consumer(0, 90, 15, 0));
        assert_eq!((need.replicas, need.active, need.value), (10.5, true, 105));
        assert!(!ask(&of_consumer(0, 5, 0, 0)).active, "up to the threshold nobody has to work");
        let paused = Reading {
            sample: Sample::Consumer {
                created: Time::ZERO,
                pending: 90,
                ack_pending: 0,
                acknowledged: 0,
                waiting: 0,
                ack_pending_max: 0,
                paused: true,
            },
            ..of_consumer(0, 0, 0, 0)
        };
        assert_eq!((ask(&paused).replicas, ask(&paused).active), (0.0, false));
    }

    #[test]
    fn a_consumer_that_gives_no_more_than_it_has_given_names_the_bound() {
        let useful = |ack_pending| {
            need(&backlog(), &mut Track::default(), &of_consumer(0, 9000, ack_pending, 0), 4).unwrap().useful
        };
        assert_eq!((useful(999), useful(1000)), (None, Some(4)));
    }

    #[test]
    fn who_has_an_open_pull_waits_and_the_others_work() {
        let source =
            source(json!({"consumer": {"stream": "S", "consumer": "c", "pullUtilizationPercent": 50}}));
        let ask = |pending, waiting, replicas| {
            let sample = Sample::Consumer {
                created: Time::ZERO,
                pending,
                ack_pending: 0,
                acknowledged: 0,
                waiting,
                ack_pending_max: 0,
                paused: false,
            };
            need(&source, &mut Track::default(), &reading(0, sample), replicas).unwrap().replicas
        };
        assert_eq!(ask(10, 1, 4), 6.0, "three of four work, which is half of six");
        assert_eq!(ask(10, 0, 0), 2.0, "nobody is there, so it begins");
        assert_eq!(ask(10, 9, 4), 2.0, "more pulls than replicas: all of them wait");
        assert_eq!(ask(0, 4, 4), 0.0);
    }

    #[test]
    fn the_time_to_drain_follows_from_what_comes_and_what_a_replica_does() {
        let source =
            source(json!({"consumer": {"stream": "S", "consumer": "c", "drainTime": {"target": "10s"}}}));
        let mut track = Track::default();
        // Nothing learnt: one begins.
        assert_eq!(need(&source, &mut track, &of_consumer(0, 1000, 0, 0), 0).unwrap().replicas, 1.0);
        assert_eq!(need(&source, &mut track, &of_consumer(10, 1000, 0, 0), 2).unwrap().replicas, 2.0);
        // Two replicas did 400 in 10 seconds, and 300 came.
        let wanted = need(&source, &mut track, &of_consumer(20, 900, 0, 400), 2).unwrap();
        assert_eq!(wanted.service_rate, Some(20.0));
        assert!((wanted.rate.unwrap() - 9.0).abs() < 1e-9, "0 at first, then 30: {:?}", wanted.rate);
        assert!((wanted.replicas - (9.0 + 90.0) / 20.0).abs() < 1e-9);
        // A floor that goes back is another leader, which may not know the newest acknowledgements.
        let fresh = need(&source, &mut track.clone(), &of_consumer(30, 900, 0, 10), 3).unwrap();
        assert_eq!((fresh.service_rate, fresh.replicas), (None, 3.0));
        // What was made later is another consumer, however far it is.
        let mut later = of_consumer(30, 900, 0, 800);
        if let Sample::Consumer { created, .. } = &mut later.sample {
            *created = Time::from_unix_nanos(1);
        }
        let other = need(&source, &mut track, &later, 3).unwrap();
        assert_eq!((other.service_rate, other.rate, other.replicas), (None, None, 3.0));
    }

    #[test]
    fn workers_that_wait_say_nothing_about_their_speed() {
        let source = source(json!({"consumer": {"stream": "S", "consumer": "c", "drainTime": {}}}));
        let mut track = Track::default();
        need(&source, &mut track, &of_consumer(0, 0, 0, 0), 5);
        let need = need(&source, &mut track, &of_consumer(10, 0, 0, 10), 5).unwrap();
        assert_eq!((need.service_rate, need.rate, need.replicas), (None, Some(1.0), 5.0));
        assert!(need.active, "they work");
    }

    #[test]
    fn a_group_is_judged_by_its_members_and_newcomers_count_from_their_first_look() {
        let members = |entries: &[(&str, i64, i64)]| Sample::Group {
            members: entries.iter().map(|(id, bytes, count)| ((*id).to_owned(), (*bytes, *count))).collect(),
            slow: BTreeMap::new(),
        };
        let rate = source(json!({"queueGroup": {"subject": "a", "queue": "q", "messageRatePerMember": 10}}));
        let mut track = Track::default();
        assert_eq!(need(&rate, &mut track, &reading(0, members(&[("1", 0, 500)])), 1), None);
        let asked =
            need(&rate, &mut track, &reading(10, members(&[("1", 8, 800), ("2", 0, 900)])), 2).unwrap();
        assert_eq!((asked.replicas, asked.rate, asked.value), (3.0, Some(30.0), 8));
        let again = reading(10, members(&[("1", 8, 800), ("2", 0, 900)]));
        assert_eq!(need(&rate, &mut track, &again, 2), Some(asked), "the same answer says the same");
        let bytes = source(json!({"queueGroup": {"subject": "a", "queue": "q", "pendingBytesPerMember": 4}}));
        let asked = need(&bytes, &mut Track::default(), &reading(0, members(&[("1", 8, 0), ("2", 2, 0)])), 2);
        assert_eq!(asked.unwrap().replicas, 2.5);
    }

    #[test]
    fn each_member_that_is_cut_off_asks_for_one_more_and_a_quiet_time_for_one_fewer() {
        let source =
            source(json!({"queueGroup": {"subject": "a", "queue": "q", "slowConsumers": {"window": "60s"}}}));
        let mut track = Track::default();
        let mut ask = |second, slow: &[(&str, u64)]| {
            let slow = slow.iter().map(|(id, age)| ((*id).to_owned(), *age)).collect();
            let sample = Sample::Group { members: BTreeMap::new(), slow };
            let need = need(&source, &mut track, &reading(second, sample), 4).unwrap();
            (need.step.unwrap(), need.value, need.replicas)
        };
        assert_eq!(ask(0, &[("1", 50)]), (0, 1, 4.0), "nobody knows what happened since");
        assert_eq!(ask(5, &[("1", 55), ("2", 4), ("3", 0)]), (2, 3, 6.0));
        assert_eq!(ask(10, &[("1", 60), ("2", 9), ("3", 5)]), (0, 3, 4.0));
        assert_eq!(ask(66, &[("3", 61)]), (-1, 0, 3.0));
        assert_eq!(ask(70, &[]), (-1, 0, 3.0));
    }

    #[test]
    fn a_service_is_judged_by_its_requests_or_by_its_time() {
        let sample = |requests: i64, seconds: i64| Sample::Service {
            instances: BTreeMap::from([("i".to_owned(), (requests, seconds * 1_000_000_000))]),
        };
        let ask = |settings: Value, later: Sample| {
            let source = source(json!({ "service": settings }));
            let mut track = Track::default();
            assert_eq!(need(&source, &mut track, &reading(0, sample(100, 50)), 1), None);
            need(&source, &mut track, &reading(10, later), 1).unwrap()
        };
        let asked = ask(json!({"name": "s", "requestsPerSecond": 5}), sample(200, 50));
        assert_eq!((asked.replicas, asked.rate), (2.0, Some(10.0)));
        let asked = ask(json!({"name": "s", "utilizationPercent": 50}), sample(100, 57));
        assert!((asked.replicas - 1.4).abs() < 1e-9);
        assert_eq!(asked.value, 70);
        // An instance that began anew did not do less than nothing.
        assert_eq!(ask(json!({"name": "s", "requestsPerSecond": 5}), sample(1, 0)).replicas, 0.0);
    }
}
