//! What clients of a server were told while it was killed again and again, and whether it still holds.
//!
//! Loads write down what they send and what is answered; after a restart the checks compare it with what the server shows. What was not
//! answered may have happened or not.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::jetstream::{API, JetStream, delivery, headers};
use crate::wire::Wire;

/// Publishes of one load that wait for their answers.
const WINDOW: usize = 32;
/// Messages that a purge leaves.
const KEPT_BY_PURGE: u64 = 40;
/// Messages of a work queue that wait for their worker.
const BACKLOG_MAX: usize = 200;
/// Messages that one pull of a worker asks for.
const BATCH: usize = 20;
/// Messages that a check asks for at once.
const READ_AHEAD: u64 = 32;
/// The code of the error that says that there is no such message.
const NO_MESSAGE: u64 = 10037;

/// Answers about one stream.
#[derive(Debug, Default)]
pub struct Told {
    /// Name of the stream.
    stream: String,
    /// Bodies sent, and their subjects.
    sent: BTreeMap<String, String>,
    /// Body by sequence, as acknowledged.
    acked: BTreeMap<u64, String>,
    /// A purge up to below this sequence was answered.
    purged: u64,
    /// One was asked for.
    purging: u64,
    /// Deletions that were answered.
    deleted: BTreeSet<u64>,
    /// Deletions that were asked for.
    deleting: BTreeSet<u64>,
    /// Acknowledgements of the consumer that were confirmed.
    confirmed: BTreeSet<u64>,
    /// Acknowledgements that were sent.
    done: BTreeSet<u64>,
    /// Only the newest message of a subject is kept.
    only_newest: bool,
    /// Publishers wait while more than [`BACKLOG_MAX`] messages are not worked off.
    is_queue: bool,
}

/// The answers about one stream, shared by the loads on it.
#[derive(Debug, Clone, Default)]
pub struct History(Arc<Mutex<Told>>);

impl History {
    /// Of a stream that nothing was done to.
    pub fn new(stream: &str) -> Self {
        Self(Arc::new(Mutex::new(Told { stream: stream.to_owned(), ..Told::default() })))
    }

    /// Of a work queue, with a worker.
    pub fn of_queue(stream: &str) -> Self {
        Self(Arc::new(Mutex::new(Told { stream: stream.to_owned(), is_queue: true, ..Told::default() })))
    }

    /// Of a bucket, whose stream keeps one message of each subject.
    pub fn of_bucket(bucket: &str) -> Self {
        let stream = format!("KV_{bucket}");
        Self(Arc::new(Mutex::new(Told { stream, only_newest: true, ..Told::default() })))
    }

    /// Publishes that were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.told().acked.len()
    }

    /// Acknowledgements of consumers that were confirmed.
    pub fn confirmed(&self) -> usize {
        self.told().confirmed.len()
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes to `<subject>.<0..keys>` without end. Every fifth message is sent twice with the same id.
    pub async fn publish(self, mut wire: Wire, load: String, subject: String, keys: u64) -> io::Result<()> {
        let mut waiting = BTreeSet::new();
        let mut next = 0u64;
        loop {
            while self.told().has_backlog() {
                tokio::time::sleep(Duration::from_millis(2)).await;
                // Whoever only waits would not notice that the server is gone.
                wire.send("PING\r\n").await?;
            }
            while waiting.len() < WINDOW {
                let body = format!("{load}-{next}");
                let subject = format!("{subject}.{}", next % keys);
                self.told().sent.insert(body.clone(), subject.clone());
                let block = headers(&[("Nats-Msg-Id", &body)]);
                let times = if next.is_multiple_of(5) { 2 } else { 1 };
                for _ in 0..times {
                    wire.publish(&subject, &next.to_string(), &block, &body).await?;
                }
                waiting.insert(next);
                next += 1;
            }
            let message = wire.message().await?;
            let number = wire.reply_of(&message).and_then(|reply| reply.parse().ok());
            let (Some(number), Ok(answer)) = (number, serde_json::from_str::<Value>(&message.payload)) else {
                continue;
            };
            waiting.remove(&number);
            self.publish_answered(&format!("{load}-{number}"), &answer);
        }
    }

    fn publish_answered(&self, body: &str, answer: &Value) {
        let mut told = self.told();
        assert!(answer.get("error").is_none(), "{}: publish of {body}: {answer}", told.stream);
        let Some(sequence) = answer["seq"].as_u64() else { panic!("{}: {answer}", told.stream) };
        let holder = told.acked.entry(sequence).or_insert_with(|| body.to_owned());
        assert!(holder == body, "sequence {sequence} was {holder} and is {body}: {answer}");
    }

    /// Purges what is old, and deletes a message now and then, without end.
    pub async fn remove(self, mut wire: Wire, pause: Duration) -> io::Result<()> {
        for round in 0u64.. {
            tokio::time::sleep(pause).await;
            let newest = self.told().acked.last_key_value().map_or(0, |(sequence, _)| *sequence);
            let stream = self.told().stream.clone();
            let reply = round.to_string();
            if round.is_multiple_of(2) {
                let below = newest.saturating_sub(KEPT_BY_PURGE).max(1);
                self.told().purging = below;
                let subject = format!("$JS.API.STREAM.PURGE.{stream}");
                let answer = wire.ask(&subject, &reply, "", &json!({"seq": below}).to_string()).await?;
                assert!(answer["success"] == true, "{stream}: purge: {answer}");
                self.told().purged = below;
            } else if newest > 10 {
                let (subject, sequence) = (format!("$JS.API.STREAM.MSG.DELETE.{stream}"), newest - 7);
                self.told().deleting.insert(sequence);
                let body = json!({"seq": sequence, "no_erase": round.is_multiple_of(3)}).to_string();
                let answer = wire.ask(&subject, &reply, "", &body).await?;
                if answer["success"] == true {
                    self.told().deleted.insert(sequence);
                }
            }
        }
        Ok(())
    }

    /// Takes messages from a pull consumer and acknowledges each, with confirmation, without end.
    pub async fn work(self, mut wire: Wire, consumer: &str) -> io::Result<()> {
        let stream = self.told().stream.clone();
        let pull = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
        let body = json!({"batch": BATCH, "expires": 1_000_000_000u64}).to_string();
        loop {
            wire.publish(&pull, "pull", "", &body).await?;
            let (mut taken, mut open) = (0, BTreeSet::new());
            while taken < BATCH || !open.is_empty() {
                let message = wire.message().await?;
                let confirmed = wire.reply_of(&message).and_then(|reply| reply.parse::<u64>().ok());
                if let Some(sequence) = confirmed {
                    open.remove(&sequence);
                    self.told().confirmed.insert(sequence);
                } else if message.reply.as_deref().is_some_and(|reply| reply.starts_with("$JS.ACK.")) {
                    taken += 1;
                    let sequence = self.delivered(&message);
                    open.insert(sequence);
                    let subject = message.reply.unwrap_or_default();
                    wire.publish(&subject, &sequence.to_string(), "", "").await?;
                } else {
                    // A status: the pull is over.
                    taken = BATCH;
                }
            }
        }
    }

    fn delivered(&self, message: &crate::frame::Message) -> u64 {
        let sequence = delivery(message).stream_sequence;
        let mut told = self.told();
        assert!(
            !told.confirmed.contains(&sequence),
            "{}: {sequence} is delivered after its confirmation",
            told.stream
        );
        told.check_message(sequence, &message.subject, &message.payload);
        told.done.insert(sequence);
        sequence
    }

    /// Compares with what the server shows. Nothing else may be done to the stream meanwhile.
    pub async fn check(&self, js: &mut JetStream) {
        let stream = self.told().stream.clone();
        let info = js.ok(&format!("STREAM.INFO.{stream}"), Value::Null).await;
        let state = &info["state"];
        let found = read_all(js, &stream, state).await;
        let mut told = self.told();
        let (first, last) = (state["first_seq"].as_u64(), state["last_seq"].as_u64());
        let (Some(first), Some(last)) = (first, last) else { panic!("{stream}: {info}") };
        assert_eq!(state["messages"].as_u64(), Some(found.len() as u64), "{stream}: {info}");
        let newest = told.acked.last_key_value().map_or(0, |(sequence, _)| *sequence);
        assert!(last >= newest, "{stream}: the last sequence is {last}, {newest} was acknowledged");
        assert!(first >= told.purged, "{stream}: {first} is the first, purged to {}", told.purged);
        let mut bodies = BTreeSet::new();
        for (sequence, (subject, body)) in &found {
            told.check_message(*sequence, subject, body);
            assert!(bodies.insert(body.clone()), "{stream}: {body} is stored twice");
            let gone = told.deleted.contains(sequence) || told.confirmed.contains(sequence);
            assert!(!gone, "{stream}: {sequence} was gone and is back");
        }
        told.check_kept(&found);
    }
}

impl Told {
    fn has_backlog(&self) -> bool {
        // What was acknowledged counts as worked off: a confirmation that was lost with the server never comes.
        self.is_queue && self.acked.len() > self.done.len() + BACKLOG_MAX
    }

    /// What is stored under this sequence was sent to this subject, and is what was acknowledged.
    fn check_message(&mut self, sequence: u64, subject: &str, body: &str) {
        let sent = self.sent.get(body);
        assert!(
            sent.is_some_and(|sent| sent == subject),
            "{}: {sequence} holds {body:?} under {subject}, sent was {sent:?}",
            self.stream
        );
        let known = self.acked.entry(sequence).or_insert_with(|| body.to_owned());
        assert!(known == body, "{}: {sequence} was {known} and is {body}", self.stream);
    }

    /// Everything acknowledged is there, unless something was asked for that removes it.
    fn check_kept(&self, found: &BTreeMap<u64, (String, String)>) {
        let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
        for (sequence, (subject, _)) in found {
            newest.insert(subject, *sequence);
        }
        for (sequence, body) in &self.acked {
            let Some(subject) = self.sent.get(body) else { continue };
            let is_replaced =
                self.only_newest && newest.get(subject.as_str()).is_some_and(|newer| newer > sequence);
            let may_be_gone = is_replaced
                || *sequence < self.purging
                || self.deleting.contains(sequence)
                || self.done.contains(sequence);
            assert!(
                found.contains_key(sequence) || may_be_gone,
                "{}: {body}, acknowledged as {sequence}, is gone",
                self.stream
            );
        }
    }
}

/// All messages of a stream: subject and body by sequence.
async fn read_all(js: &mut JetStream, stream: &str, state: &Value) -> BTreeMap<u64, (String, String)> {
    let mut found = BTreeMap::new();
    let mut next = state["first_seq"].as_u64().unwrap_or(1);
    let subject = format!("{API}STREAM.MSG.GET.{stream}");
    loop {
        // Each asks for the first message from its sequence on, so together they miss none.
        for sequence in next..next + READ_AHEAD {
            let (inbox, body) = (js.new_inbox(), json!({"seq": sequence, "next_by_subj": ">"}));
            js.send(&subject, &inbox, "", &body.to_string()).await;
        }
        let mut is_end = false;
        for _ in 0..READ_AHEAD {
            let answer = js.client.message().await.payload;
            let Ok(answer) = serde_json::from_str::<Value>(&answer) else { panic!("{stream}: {answer}") };
            let message = &answer["message"];
            let Some(sequence) = message["seq"].as_u64() else {
                assert_eq!(answer["error"]["err_code"], NO_MESSAGE, "{stream}: {answer}");
                is_end = true;
                continue;
            };
            let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
            let body = String::from_utf8(base64(&text("data"))).unwrap_or_default();
            found.insert(sequence, (text("subject"), body));
            next = next.max(sequence + 1);
        }
        if is_end {
            return found;
        }
    }
}

/// Bytes of a text in base 64; what is no such text ends it.
fn base64(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => break,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_64_is_read() {
        assert_eq!(base64("bG9hZC0xMg=="), b"load-12");
        assert_eq!(base64(""), b"");
    }

    fn told() -> Told {
        let mut told = Told { stream: "S".to_owned(), ..Told::default() };
        for sequence in 1..=3 {
            told.sent.insert(format!("m{sequence}"), "s.1".to_owned());
            told.acked.insert(sequence, format!("m{sequence}"));
        }
        told
    }

    #[test]
    fn confirmations_that_never_come_do_not_end_the_load() {
        let mut told = Told { is_queue: true, ..Told::default() };
        let all = 1..=BACKLOG_MAX as u64 + 1;
        told.acked = all.clone().map(|sequence| (sequence, String::new())).collect();
        assert!(told.has_backlog());
        told.done = all.collect();
        assert!(!told.has_backlog());
    }

    fn found(sequences: &[u64]) -> BTreeMap<u64, (String, String)> {
        sequences.iter().map(|sequence| (*sequence, ("s.1".to_owned(), format!("m{sequence}")))).collect()
    }

    #[test]
    fn what_was_removed_on_demand_may_be_gone() {
        let mut told = told();
        told.purging = 2;
        told.deleting.insert(3);
        told.check_kept(&found(&[2]));
        told.only_newest = true;
        told.check_kept(&found(&[3]));
    }

    #[test]
    #[should_panic(expected = "m2, acknowledged as 2, is gone")]
    fn what_is_gone_without_a_reason_is_noticed() {
        told().check_kept(&found(&[1, 3]));
    }

    #[test]
    #[should_panic(expected = "2 was m2 and is m3")]
    fn a_sequence_with_another_message_is_noticed() {
        told().check_message(2, "s.1", "m3");
    }
}
