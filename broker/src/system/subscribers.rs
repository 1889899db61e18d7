//! How many subscribe to a subject: each server counts its own, one asks all and adds up.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};

use super::internal::{Delivered, Internal};
use super::requests::encode;
use super::{flush_interest, publish, subscribe};
use crate::net::sink::{Account, Sink};
use crate::server::Server;

/// Last token of the subject on which servers ask each other.
pub(super) const COUNT_HERE: &str = "NSUBS";
/// Time for the other servers to answer.
const WAIT: Duration = Duration::from_millis(500);
/// Answers that may wait.
const ANSWERS_MAX: usize = 1024;

/// The question that servers ask each other.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Question {
    #[serde(rename = "acc")]
    account: String,
    subject: String,
    /// In base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    queue: String,
}

impl Question {
    /// From the words `subject [queue]`.
    fn from_words(account: &str, body: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(body).ok()?;
        let mut words = text.split_ascii_whitespace();
        let subject = words.next().filter(|subject| subject::is_valid(subject.as_bytes()))?;
        let queue = words.next().map(|queue| STANDARD.encode(queue)).unwrap_or_default();
        Some(Self { account: account.to_owned(), subject: subject.to_owned(), queue })
    }

    /// Subscriptions of clients on this server.
    fn count(&self, account: &Account) -> Option<usize> {
        let queue = STANDARD.decode(&self.queue).ok()?;
        let mut count = 0;
        account.interest.for_each(|subscription| {
            let is_client = matches!(subscription.sink, Sink::Client(_));
            let in_queue = queue.is_empty() || subscription.queue.as_deref() == Some(&*queue);
            count += usize::from(
                is_client && in_queue && subject::overlaps(self.subject.as_bytes(), &subscription.subject),
            );
        });
        Some(count)
    }
}

/// The answer to another server, or to this one.
pub(super) fn count_here(server: &Server, body: &[u8]) -> Option<Vec<u8>> {
    let question: Question = serde_json::from_slice(body).ok()?;
    let account = server.accounts.get(&question.account)?;
    question.count(&account).map(|count| count.to_string().into_bytes())
}

/// Asks all servers and answers with the sum. A request that came from a peer is answered there; nor is one answered if too many
/// are under way.
pub(super) fn count_everywhere(server: &Arc<Server>, message: &Delivered) {
    if message.publisher.is_none() {
        return;
    }
    let (Some(reply), Some(account)) = (message.reply.clone(), server.accounts.system()) else { return };
    let Some(question) = Question::from_words(account.name(), &message.body) else {
        publish(server, &account, &reply, None, b"0");
        return;
    };
    let Ok(permit) = Arc::clone(&server.system.counts).try_acquire_owned() else { return };
    let server = Arc::clone(server);
    tokio::spawn(async move {
        let total = ask(&server, &account, &question).await;
        publish(&server, &account, &reply, None, total.to_string().as_bytes());
        drop(permit);
    });
}

async fn ask(server: &Server, account: &Account, question: &Question) -> u64 {
    let Some(body) = encode(question) else { return 0 };
    let (internal, mut answers) = Internal::new(server.next_id(), ANSWERS_MAX);
    let inbox = format!("$SYS._INBOX.{}.{}", server.identity.id, internal.id);
    let subscription = subscribe(account, Sink::Internal(Arc::new(internal)), &inbox, "1");
    // The interest in answers goes the same way as the question, and before it.
    flush_interest(server);
    let subject = format!("$SYS.REQ.ACCOUNT.{COUNT_HERE}");
    publish(server, account, subject.as_bytes(), Some(inbox.as_bytes()), &body);
    let deadline = Instant::now() + WAIT;
    let mut total = 0u64;
    // This server answers its own question.
    for _ in 0..=server.routes().peer_count() {
        let Ok(Some(answer)) = timeout_at(deadline, answers.recv()).await else { break };
        let count = std::str::from_utf8(&answer.body).ok().and_then(|text| text.trim().parse::<u32>().ok());
        total += u64::from(count.unwrap_or(0));
    }
    account.interest.remove(account.name(), &subscription);
    flush_interest(server);
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_a_subject_and_perhaps_a_queue() {
        let question = |body: &str| Question::from_words("A", body.as_bytes());
        let plain = question(" foo.* \r\n").unwrap();
        assert_eq!(
            (plain.account.as_str(), plain.subject.as_str(), plain.queue.as_str()),
            ("A", "foo.*", "")
        );
        assert_eq!(question("foo q").unwrap().queue, "cQ==");
        assert_eq!(question(""), None);
        assert_eq!(question("bad..x"), None);
    }

    #[test]
    fn servers_understand_each_other() {
        let question = Question { account: "A".into(), subject: "foo".into(), queue: "cQ==".into() };
        let text = String::from_utf8(encode(&question).unwrap()).unwrap();
        assert_eq!(text, r#"{"acc":"A","subject":"foo","queue":"cQ=="}"#);
        assert_eq!(serde_json::from_str::<Question>(&text).unwrap(), question);
    }
}
