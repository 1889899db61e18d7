//! Loads of the server beside those of `testkit`: ids and floors that have to hold, and messages large enough that logs and blocks are
//! changed and checkpoints taken.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use testkit::Wire;
use testkit::jetstream::{JetStream, delivery, headers};

/// Ids of a round that are sent again after it.
const IDS_CHECKED: usize = 40;
/// Large messages that wait for their answers.
const BIG_WINDOW: usize = 6;
/// Bytes of a large message.
const BIG_BYTES: usize = 160 << 10;
/// Bytes that the stream of large messages keeps.
const BIG_KEPT: u64 = 8 << 20;

/// A stream with ids and a consumer whose floor must not go back.
#[derive(Debug, Clone, Default)]
pub(crate) struct Window(Arc<Mutex<WindowTold>>);

#[derive(Debug, Default)]
struct WindowTold {
    /// Sequence by id, of this round.
    ids: BTreeMap<String, u64>,
    /// Sequences whose acknowledgement was confirmed.
    confirmed: BTreeSet<u64>,
}

/// A stream of large messages that keeps the newest.
#[derive(Debug, Clone, Default)]
pub(crate) struct Big(Arc<Mutex<BTreeMap<u64, String>>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sequence(answer: &Value) -> u64 {
    match answer["seq"].as_u64() {
        Some(sequence) if answer.get("error").is_none() => sequence,
        _ => panic!("answer to a publish: {answer}"),
    }
}

impl Window {
    pub(crate) async fn create(js: &mut JetStream) -> Self {
        js.stream(json!({"name": "WINDOW", "subjects": ["window"]})).await;
        js.consumer(
            "WINDOW",
            json!({"durable_name": "c", "ack_policy": "explicit", "ack_wait": 1_000_000_000u64}),
        )
        .await;
        Self::default()
    }

    /// Publishes one after the other, each with an id, without end.
    pub(crate) async fn publish(self, mut wire: Wire, load: String) -> io::Result<()> {
        for number in 0u64.. {
            let id = format!("{load}-{number}");
            let block = headers(&[("Nats-Msg-Id", &id)]);
            let answer = wire.ask("window", &number.to_string(), &block, &id).await?;
            assert!(answer["duplicate"] != true, "{id} is a duplicate: {answer}");
            lock(&self.0).ids.insert(id, sequence(&answer));
        }
        Ok(())
    }

    /// Acknowledges one message after the other, with confirmation, without end.
    pub(crate) async fn work(self, mut wire: Wire) -> io::Result<()> {
        let pull = json!({"batch": 1, "expires": 1_000_000_000u64}).to_string();
        loop {
            wire.publish("$JS.API.CONSUMER.MSG.NEXT.WINDOW.c", "pull", "", &pull).await?;
            let message = wire.message().await?;
            let Some(reply) = message.reply.as_deref().filter(|reply| reply.starts_with("$JS.ACK.")) else {
                continue;
            };
            let sequence = delivery(&message).stream_sequence;
            let is_new = !lock(&self.0).confirmed.contains(&sequence);
            assert!(is_new, "WINDOW: {sequence} is delivered after its confirmation");
            wire.publish(reply, "ack", "", "").await?;
            let mut is_confirmed = false;
            while !is_confirmed {
                let answer = wire.message().await?;
                is_confirmed = wire.reply_of(&answer) == Some("ack");
            }
            lock(&self.0).confirmed.insert(sequence);
        }
    }

    /// Ids are known still, and the floor is not below what was confirmed.
    pub(crate) async fn check(&self, js: &mut JetStream) {
        let ids = std::mem::take(&mut lock(&self.0).ids);
        let mut newest: Vec<(String, u64)> = ids.into_iter().collect();
        newest.sort_by_key(|(_, sequence)| std::cmp::Reverse(*sequence));
        newest.truncate(IDS_CHECKED);
        for (id, sequence) in newest {
            let answer = js.publish_with("window", &[("Nats-Msg-Id", &id)], &id).await;
            assert!(
                answer["duplicate"] == true && answer["seq"] == sequence,
                "WINDOW: {id}, acknowledged as {sequence}, is gone from the window: {answer}"
            );
        }
        let floor = (1u64..).take_while(|sequence| lock(&self.0).confirmed.contains(sequence)).last();
        let info = js.ok("CONSUMER.INFO.WINDOW.c", Value::Null).await;
        let found = info["ack_floor"]["stream_seq"].as_u64();
        assert!(
            found >= floor.or(Some(0)),
            "WINDOW: the floor is {found:?}, confirmed is up to {floor:?}: {info}"
        );
    }

    /// Acknowledgements that were confirmed.
    pub(crate) fn confirmed(&self) -> usize {
        lock(&self.0).confirmed.len()
    }
}

impl Big {
    pub(crate) async fn create(js: &mut JetStream) -> Self {
        js.stream(json!({"name": "BIG", "subjects": ["big.*"], "max_bytes": BIG_KEPT, "allow_direct": true}))
            .await;
        Self::default()
    }

    /// Publishes large messages without end.
    pub(crate) async fn publish(self, mut wire: Wire, load: String) -> io::Result<()> {
        let (mut next, mut waiting) = (0u64, 0);
        loop {
            while waiting < BIG_WINDOW {
                let body = body_of(&format!("{load}-{next}"));
                wire.publish(&format!("big.{}", next % 5), &next.to_string(), "", &body).await?;
                (next, waiting) = (next + 1, waiting + 1);
            }
            let message = wire.message().await?;
            let Some(number) = wire.reply_of(&message) else { continue };
            waiting -= 1;
            let answer: Value = serde_json::from_str(&message.payload).map_err(io::Error::other)?;
            let label = format!("{load}-{number}");
            let earlier = lock(&self.0).insert(sequence(&answer), label);
            assert!(earlier.is_none(), "BIG: the sequence of {earlier:?} was given again: {answer}");
        }
    }

    /// The newest messages are there, whole.
    pub(crate) async fn check(&self, js: &mut JetStream) {
        let info = js.ok("STREAM.INFO.BIG", Value::Null).await;
        let state = &info["state"];
        let number = |name: &str| state[name].as_u64().unwrap_or_default();
        let (first, last) = (number("first_seq"), number("last_seq"));
        let acked = lock(&self.0).clone();
        let newest = acked.last_key_value().map_or(0, |(sequence, _)| *sequence);
        assert!(last >= newest, "BIG: the last sequence is {last}, {newest} was acknowledged");
        // A stream that never had a message says 0 for its first one.
        assert_eq!(number("messages"), (last + 1).saturating_sub(first.max(1)), "BIG: {info}");
        for (sequence, label) in acked.range(first..) {
            let message =
                js.request("$JS.API.DIRECT.GET.BIG", "", &json!({"seq": sequence}).to_string()).await;
            assert!(
                message.payload == body_of(label),
                "BIG: {label}, acknowledged as {sequence}, is gone: {:?}",
                message.headers
            );
        }
        let kept = number("bytes") + 2 * BIG_BYTES as u64;
        assert!(newest < 100 || kept > BIG_KEPT, "BIG: more is gone than has to be: {info}");
    }

    /// Messages that were acknowledged.
    pub(crate) fn acknowledged(&self) -> usize {
        lock(&self.0).len()
    }
}

/// A large message that differs from others everywhere.
fn body_of(label: &str) -> String {
    let mut body = format!("{label},").repeat(BIG_BYTES / (label.len() + 1));
    body.push('.');
    body
}
