//! Streams and consumers of a run.

use api::jetstream::consumer::{AckPolicy, ConsumerConfig};
use api::jetstream::stream::StreamConfig;
use serde_json::json;

use crate::random::Random;
use crate::world::{SECOND, START};

/// Names of streams.
pub(crate) const STREAMS: [&str; 5] = ["S0", "S1", "S2", "S3", "S4"];
/// Subjects of a stream.
pub(crate) const SUBJECTS: u64 = 5;
/// Names of consumers: two with explicit acknowledgements, one without any, and one that acknowledges all up to a message.
pub(crate) const CONSUMERS: [&str; 4] = ["c0", "c1", "c2", "c3"];

/// Whether an acknowledgement of this consumer is one of all messages before.
pub(crate) fn acks_all(consumer: &str) -> bool {
    consumer == CONSUMERS[3]
}

/// Whether a message is done when this consumer has delivered it.
pub(crate) fn acks_nothing(consumer: &str) -> bool {
    consumer == CONSUMERS[2]
}

/// Where dead letters go.
pub(crate) const DEAD_LETTERS: &str = "dead.letters";

/// A stream of any kind.
pub(crate) fn stream(name: &str, random: &mut Random) -> StreamConfig {
    let mut config = json!({
        "name": name,
        "subjects": [format!("{name}.*")],
        "num_replicas": 1,
        "duplicate_window": 5 * SECOND,
        "allow_msg_ttl": true,
        "allow_rollup_hdrs": true,
        "max_msgs": -1, "max_bytes": -1, "max_msgs_per_subject": -1, "max_consumers": -1, "max_msg_size": -1,
    });
    let kind = match random.below(8) {
        0 => json!({"max_msgs": 5 + random.below(40)}),
        1 => json!({"max_msgs": 5 + random.below(40), "discard": "new"}),
        2 => json!({"max_msgs_per_subject": 1 + random.below(8)}),
        3 => {
            json!({"max_msgs_per_subject": 3, "discard": "new", "discard_new_per_subject": true, "max_msgs": 30})
        }
        4 => json!({"retention": "workqueue"}),
        5 => json!({"retention": "interest"}),
        6 => json!({"max_age": (2 + random.below(10) as i64) * SECOND, "max_bytes": 20_000}),
        _ => json!({}),
    };
    merge(&mut config, kind);
    if random.one_in(3) {
        merge(&mut config, json!({"compression": "s2"}));
    }
    if random.one_in(12) {
        merge(&mut config, json!({"storage": "memory"}));
    }
    if random.one_in(10) {
        merge(&mut config, json!({"first_seq": 1 + random.below(50)}));
    }
    parse(config)
}

/// Other limits for a stream, tighter or wider.
pub(crate) fn update(config: &StreamConfig, random: &mut Random) -> StreamConfig {
    let mut config = config.clone();
    let limit = |random: &mut Random| 2 + random.below(40) as i64;
    if config.max_msgs > 0 {
        config.max_msgs = limit(random);
    }
    if config.max_msgs_per_subject > 0 && !config.discard_new_per_subject {
        config.max_msgs_per_subject = 1 + random.below(8) as i64;
    }
    config.description = format!("update {}", random.below(1000));
    config
}

/// What a consumer of a stream wants: subjects with commas between them, or everything.
pub(crate) fn filter(stream: &str, name: &str, random: &mut Random) -> String {
    match random.below(if name == CONSUMERS[0] { 3 } else { 6 }) {
        0 => format!("{stream}.k1"),
        1 => format!("{stream}.k2"),
        2 if name != CONSUMERS[0] => format!("{stream}.k0,{stream}.k1,{stream}.k3"),
        _ => String::new(),
    }
}

/// A pull consumer. The second one gives messages up, and does not take all of a subject at once; the last two begin anywhere. What no update
/// may change stays as it was `before`.
pub(crate) fn consumer(
    name: &str,
    filter: &str,
    before: Option<&ConsumerConfig>,
    random: &mut Random,
) -> ConsumerConfig {
    let mut config = json!({ "durable_name": name, "name": name });
    let filters: Vec<&str> = filter.split(',').collect();
    merge(
        &mut config,
        match filters.len() {
            1 => json!({"filter_subject": filter}),
            _ => json!({"filter_subjects": filters}),
        },
    );
    let policy = match CONSUMERS.iter().position(|known| *known == name) {
        Some(2) => AckPolicy::None,
        Some(3) => AckPolicy::All,
        _ => AckPolicy::Explicit,
    };
    merge(&mut config, json!({"ack_policy": policy}));
    if policy != AckPolicy::None {
        let waits = json!({
            "ack_wait": (1 + random.below(4) as i64) * SECOND,
            "max_ack_pending": 5 + random.below(20),
        });
        merge(&mut config, waits);
    }
    if policy == AckPolicy::All && random.one_in(2) {
        merge(&mut config, json!({"max_deliver": 2 + random.below(3)}));
    }
    if policy != AckPolicy::Explicit {
        merge(&mut config, before.map_or_else(|| begin(random), kept));
    }
    if name == CONSUMERS[1] {
        let letters = json!({
            "max_deliver": 2 + random.below(3),
            "dead_letter_subject": DEAD_LETTERS,
            "max_ack_pending_per_subject": 1 + random.below(3),
        });
        merge(&mut config, letters);
    }
    parse(config)
}

/// Where a new consumer begins.
fn begin(random: &mut Random) -> serde_json::Value {
    let seconds = START / SECOND + random.below(40) as i64;
    match random.below(7) {
        0 => json!({"deliver_policy": "last"}),
        1 => json!({"deliver_policy": "new"}),
        2 => json!({"deliver_policy": "by_start_sequence", "opt_start_seq": 1 + random.below(60)}),
        3 => {
            let time = api::Time::from_unix_nanos(i128::from(seconds * SECOND));
            json!({"deliver_policy": "by_start_time", "opt_start_time": time})
        }
        4 | 5 => json!({"deliver_policy": "last_per_subject"}),
        _ => json!({"deliver_policy": "all"}),
    }
}

/// Where a consumer began.
fn kept(before: &ConsumerConfig) -> serde_json::Value {
    json!({
        "deliver_policy": before.deliver_policy,
        "opt_start_seq": before.opt_start_seq,
        "opt_start_time": before.opt_start_time,
    })
}

fn merge(config: &mut serde_json::Value, other: serde_json::Value) {
    let serde_json::Value::Object(other) = other else { return };
    for (name, value) in other {
        config[name] = value;
    }
}

fn parse<T: serde::de::DeserializeOwned>(config: serde_json::Value) -> T {
    match serde_json::from_value(config) {
        Ok(config) => config,
        Err(error) => panic!("a configuration of the simulation: {error}"),
    }
}
