//! `STREAM.SNAPSHOT`: a copy of a stream, sent in chunks while the stream goes on.
//!
//! How far the copy goes is fixed by one look at the stream; its messages are then taken from the shard a few at a time, so neither the shard nor
//! memory notices how large the stream is. Chunks are sent as fast as the receiver acknowledges them, no more than a window ahead.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::error::jetstream::ErrorCode;
use api::jetstream::advisory;
use api::jetstream::request::{Snapshot, StreamInfoDetails};
use api::jetstream::response;
use api::jetstream::stream::StreamState;
use jetstream::Request;
use jetstream::snapshot::archive::MAGIC;
use jetstream::snapshot::{Entry, Image, Packer};

use super::{Ctx, time_of};
use crate::clock;
use crate::jetstream::advise;
use crate::jetstream::directory::StreamEntry;
use crate::jetstream::shard::{Call, Input, Outbound, Outgoing, Respond, Shard};
use crate::jetstream::transfers::SnapshotPlace;

/// Bytes of a chunk: the default, and what may be asked for.
const CHUNK_BYTES: i64 = 128 << 10;
const CHUNK_BYTES_MIN: i64 = 1 << 10;
const CHUNK_BYTES_MAX: i64 = 1 << 20;
/// Bytes that may be on their way: the default, and what may be asked for.
const WINDOW_BYTES: i64 = 8 << 20;
const WINDOW_BYTES_MIN: i64 = 1 << 10;
const WINDOW_BYTES_MAX: i64 = 32 << 20;
/// How long an acknowledgement is waited for since a chunk was sent.
const ACK_WITHIN: Duration = Duration::from_secs(5);
/// How long interest in the first chunk is waited for.
const INTEREST_WITHIN: Duration = Duration::from_secs(2);
/// How often interest is looked at while nothing else happens.
const INTEREST_POLL: Duration = Duration::from_millis(50);
/// Bytes of messages that are taken from the shard at a time.
const BATCH_BYTES: usize = 256 << 10;

const END: &[u8] = b"NATS/1.0 204\r\n\r\n";

pub(super) fn snapshot(ctx: Ctx, outgoing: &mut Outgoing, name: &str) {
    if !ctx.has_body() {
        return ctx.answer::<response::StreamSnapshot>(outgoing, Err(ErrorCode::BAD_REQUEST.into()));
    }
    let asked = ctx.stream(name).and_then(|stream| Ok((stream, ctx.body::<Snapshot>()?)));
    let (stream, request) = match asked {
        Ok(asked) => asked,
        Err(error) => return ctx.answer::<response::StreamSnapshot>(outgoing, Err(error)),
    };
    if !subject::is_literal(request.deliver_subject.as_bytes()) {
        let error = ErrorCode::SNAPSHOT_DELIVER_SUBJECT_INVALID.into();
        return ctx.answer::<response::StreamSnapshot>(outgoing, Err(error));
    }
    let token = crate::system::event_id(&ctx.shared.server);
    let Some(place) = ctx.shared.transfers.begin_snapshot(&ctx.request.account, &token) else {
        let error = ErrorCode::STREAM_SNAPSHOT.because("too many snapshots are under way");
        return ctx.answer::<response::StreamSnapshot>(outgoing, Err(error));
    };
    tokio::spawn(send(ctx, stream, request, (place, token)));
}

/// Lets a shard look at one of its streams. `None` if it is gone.
async fn look<T: Send + 'static>(
    stream: &StreamEntry,
    look: impl FnOnce(&jetstream::Stream) -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let group = stream.group;
    let call = move |shard: &mut Shard| {
        if let Some(stream) = shard.stream(group) {
            // Who asked may have gone meanwhile; then nobody needs the answer.
            drop(sender.send(look(stream)));
        }
    };
    stream.inbox.push(Input::Inspect(Call::new(call)));
    receiver.await.ok()
}

/// Waits until what came before this request is in the stream.
async fn settle(stream: &StreamEntry) {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let respond = Respond::new(move |_, _| {
        // Who asked may have gone meanwhile; then nobody waits.
        let _ = sender.send(());
    });
    let request = Box::new(Request::StreamInfo(StreamInfoDetails::default()));
    stream.inbox.push_request(Input::Request { group: stream.group, request, respond });
    // A stream that is gone is not found by who looks at it next.
    let _ = receiver.await;
}

async fn send(ctx: Ctx, stream: Arc<StreamEntry>, request: Snapshot, place: (SnapshotPlace, String)) {
    let start = clock::unix_nanos();
    let shared = Arc::clone(&ctx.shared);
    let account = Arc::clone(&ctx.request.account);
    let mut outgoing = Outgoing::new(Arc::clone(&shared.server), rand::random());
    let with_consumers = !request.no_consumers;
    settle(&stream).await;
    let Some(image) = look(&stream, move |stream| Image::new(stream, with_consumers)).await else {
        ctx.answer::<response::StreamSnapshot>(&mut outgoing, Err(ErrorCode::STREAM_NOT_FOUND.into()));
        return outgoing.flush();
    };
    let client = crate::system::events::client_of(&shared.server, ctx.request.message.publisher);
    let document =
        response::StreamSnapshot { config: Some(image.config.clone()), state: Some(image.state.clone()) };
    ctx.answer(&mut outgoing, Ok(document));
    let name = stream.name.to_string();
    let domain = shared.domain.clone().unwrap_or_default();
    let created = advisory::SnapshotCreate {
        stream: name.clone(),
        state: StreamState { ..image.state.clone() },
        client: client.clone(),
        domain: domain.clone(),
    };
    let subject = format!("ADVISORY.STREAM.SNAPSHOT_CREATE.{name}");
    advise::tell(&shared, &mut outgoing, &account.account, (&subject, created));
    outgoing.flush();
    let sent = Sender::new(&stream, &request, place, outgoing).run(&image).await;
    let (mut outgoing, failure) = sent;
    let error = failure.map(|failure| failure.to_string()).unwrap_or_default();
    if error.is_empty() {
        tracing::debug!("JetStream sent a snapshot of '{} > {name}'", account.account.name());
    } else {
        tracing::warn!("JetStream snapshot of '{} > {name}': {error}", account.account.name());
    }
    let end = clock::unix_nanos();
    let complete = advisory::SnapshotComplete {
        stream: name.clone(),
        start: time_of(start),
        end: time_of(end),
        client,
        domain,
        error,
    };
    let subject = format!("ADVISORY.STREAM.SNAPSHOT_COMPLETE.{name}");
    advise::tell(&shared, &mut outgoing, &account.account, (&subject, complete));
    outgoing.flush();
}

/// Why a snapshot was not sent to its end.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("no interest")]
    NoInterest,
    #[error("no flow response")]
    NoFlowResponse,
    #[error("{0}")]
    Broken(String),
}

impl Failure {
    /// Header block of the last message.
    fn status(&self) -> String {
        match self {
            Self::NoInterest => "NATS/1.0 408 No Interest\r\n\r\n".to_owned(),
            Self::NoFlowResponse => "NATS/1.0 408 No Flow Response\r\n\r\n".to_owned(),
            Self::Broken(reason) => format!("NATS/1.0 500 {reason}\r\n\r\n"),
        }
    }
}

/// A snapshot on its way.
struct Sender<'a> {
    stream: &'a Arc<StreamEntry>,
    outgoing: Outgoing,
    place: SnapshotPlace,
    deliver: Vec<u8>,
    /// In front of the number of bytes and of the chunk.
    ack_prefix: String,
    chunk_bytes: usize,
    in_flight_max: u64,
    packer: Packer,
    /// Packed, and not sent yet: less than a chunk and what one entry adds.
    packed: Vec<u8>,
    sent: u64,
    sent_at: Instant,
    /// There was interest once, so that its end is noticed.
    was_heard: bool,
}

impl<'a> Sender<'a> {
    fn new(
        stream: &'a Arc<StreamEntry>,
        request: &Snapshot,
        place: (SnapshotPlace, String),
        outgoing: Outgoing,
    ) -> Self {
        let (place, token) = place;
        let sizes = |asked: i64, default, min, max| if asked == 0 { default } else { asked }.clamp(min, max);
        let chunk = sizes(request.chunk_size, CHUNK_BYTES, CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
        let window = sizes(request.window_size, WINDOW_BYTES, WINDOW_BYTES_MIN, WINDOW_BYTES_MAX).max(chunk);
        Self {
            stream,
            outgoing,
            place,
            deliver: request.deliver_subject.as_bytes().to_vec(),
            ack_prefix: format!("$JS.SNAPSHOT.ACK.{}.{token}", stream.name),
            chunk_bytes: chunk as usize,
            in_flight_max: (window / chunk) as u64,
            packer: Packer::default(),
            packed: Vec::new(),
            sent: 0,
            sent_at: clock::now(),
            was_heard: false,
        }
    }

    async fn run(mut self, image: &Image) -> (Outgoing, Option<Failure>) {
        self.await_interest().await;
        self.sent_at = clock::now();
        let failure = self.send_all(image).await.err();
        let status = match &failure {
            Some(failure) => failure.status(),
            // A copy that fits into less than a chunk ends without a status, as in the reference.
            None if self.sent == 0 => String::new(),
            None => String::from_utf8_lossy(END).into_owned(),
        };
        self.publish(None, status.as_bytes(), b"");
        (self.outgoing, failure)
    }

    async fn await_interest(&mut self) {
        let deadline = clock::now() + INTEREST_WITHIN;
        while !self.is_heard() && clock::now() < deadline {
            tokio::time::sleep(INTEREST_POLL).await;
        }
    }

    async fn send_all(&mut self, image: &Image) -> Result<(), Failure> {
        let broken = |error: &dyn std::fmt::Display| Failure::Broken(error.to_string());
        let now = clock::unix_nanos();
        self.packer.write(MAGIC, &mut self.packed);
        let state = image.state_entry(now).map_err(|error| broken(&error))?;
        self.put(&state).await?;
        for number in 0..image.consumers() {
            let consumer = image.consumer_entry(number, now).map_err(|error| broken(&error))?;
            self.put(&consumer).await?;
        }
        let mut next = image.first;
        while next <= image.last {
            let range = (next, image.last);
            let batch = look(self.stream, move |stream| Image::messages(stream, range, BATCH_BYTES)).await;
            let batch = match batch {
                Some(Ok(batch)) => batch,
                Some(Err(error)) => {
                    return Err(broken(&format!(
                        "couldn't load next message after seq {}: {error}",
                        next - 1
                    )));
                }
                None => {
                    return Err(broken(&format!(
                        "couldn't load next message after seq {}: store is closed",
                        next - 1
                    )));
                }
            };
            let Some(last) = batch.last() else { break };
            next = last.sequence + 1;
            for message in batch {
                self.put(&message.into()).await?;
            }
        }
        self.put(&Entry::default()).await?;
        self.packer.flush(&mut self.packed);
        self.send_chunks().await?;
        let rest = std::mem::take(&mut self.packed);
        if !rest.is_empty() {
            self.publish(None, b"", &rest);
        }
        Ok(())
    }

    /// Packs an entry, and sends what fills chunks.
    async fn put(&mut self, entry: &Entry) -> Result<(), Failure> {
        let mut head = Vec::with_capacity(entry.name.len() + 50);
        entry.encode_head(&mut head);
        for part in [&head[..], &entry.headers, &entry.payload] {
            self.packer.write(part, &mut self.packed);
        }
        self.send_chunks().await
    }

    async fn send_chunks(&mut self) -> Result<(), Failure> {
        let mut at = 0;
        while self.packed.len() - at >= self.chunk_bytes {
            self.await_room().await?;
            self.sent += 1;
            let reply = format!("{}.{}.{}", self.ack_prefix, self.chunk_bytes, self.sent);
            let packed = std::mem::take(&mut self.packed);
            self.publish(Some(reply.as_bytes()), b"", &packed[at..at + self.chunk_bytes]);
            self.packed = packed;
            self.sent_at = clock::now();
            at += self.chunk_bytes;
        }
        self.packed.drain(..at);
        Ok(())
    }

    /// Waits until another chunk may be on its way.
    async fn await_room(&mut self) -> Result<(), Failure> {
        loop {
            let heard = self.is_heard();
            if self.was_heard && !heard {
                return Err(Failure::NoInterest);
            }
            if self.sent.saturating_sub(self.place.window.acknowledged()) < self.in_flight_max {
                return Ok(());
            }
            if self.sent_at.elapsed() >= ACK_WITHIN {
                return Err(Failure::NoFlowResponse);
            }
            // Either an acknowledgement came, or it is time to look at interest again.
            let _ = tokio::time::timeout(INTEREST_POLL, self.place.window.changed()).await;
        }
    }

    /// Clients have patterns for all their inboxes, long before they subscribe to the one that the copy goes to; those do not count.
    fn is_heard(&mut self) -> bool {
        let heard = self.outgoing.is_named(&self.stream.account.account, &self.deliver);
        self.was_heard |= heard;
        heard
    }

    fn publish(&mut self, reply: Option<&[u8]>, headers: &[u8], payload: &[u8]) {
        let message = Outbound { to: &self.deliver, subject: &self.deliver, reply, headers, payload };
        self.outgoing.send(&self.stream.account.account, &message);
        self.outgoing.flush();
    }
}
