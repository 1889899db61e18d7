//! First half of a turn: each input goes to the machine it is for.

use std::sync::Arc;

use api::ApiError;
use api::error::jetstream::ErrorCode;
use api::jetstream::request::StreamInfoDetails;
use bytes::Bytes;
use jetstream::consumer::Acknowledgement;
use jetstream::meta::META_GROUP;
use jetstream::source::Sourced;
use jetstream::stream::{Incoming, Publish};
use jetstream::{Request, Token};
use multiraft::{GroupId, Position};

use super::hosted::Checkpoint;
use super::{Input, Outbound, Respond, Shard, direct};
use crate::jetstream::directory::AccountEntry;
use crate::jetstream::inbox::{Ack, Inbound};
use crate::jetstream::log_thread::Record;

/// Header block of an answer to a publisher that found no room.
const TOO_MANY_REQUESTS: &[u8] = b"NATS/1.0 429 Too Many Requests\r\n\r\n";

/// Requests that wait for a stream to lead for the first time. More are refused.
const EARLY_MAX: usize = 4096;

impl Shard {
    pub(super) fn handle(&mut self, input: Input) {
        match input {
            Input::Publish { group, message } => self.publish(group, message),
            Input::Pull { group, message } => self.pull(group, &message),
            Input::Ack { group, ack } => self.ack(group, &ack),
            Input::FlowControl { group, message } => self.flow_control(group, &message),
            Input::DirectGet { group, message } => self.direct_get(group, message),
            Input::Sourced { group, inbox, message } => self.sourced(group, inbox, message),
            Input::Request { group, request, respond } => self.request(group, request, respond),
            Input::Glance { group, request, respond } => self.glance(group, *request, respond),
            Input::Refuse { group, reply } => self.refuse(group, &reply),
            Input::Interest { group, subject } => {
                let Some(hosted) = self.hosted.get_mut(&group) else { return };
                hosted.with(&mut self.outgoing, self.now, |stream, outside, effects| {
                    stream.handle_interest(outside, effects, &subject);
                });
                self.touch(group);
            }
            Input::Persisted { persisted, bytes } => {
                self.unsynced_bytes = self.unsynced_bytes.saturating_sub(bytes);
                self.confirm(persisted);
            }
            Input::LogFailed(reason) => self.fail_all(&reason),
            Input::CheckpointDone { group, result } => self.checkpoint_done(group, result),
            Input::Checkpoint { group } => self.give_back_log(group),
            Input::Serve { group } => self.serve(group),
            Input::Park { group } => self.park(group),
            Input::Open(spec) => self.open(*spec),
            Input::Destroy { group, done } => {
                self.destroy(group);
                done.call(&mut self.outgoing);
            }
            Input::Catalogue(request) => self.change_catalogue(*request),
            Input::Inspect(call) => call.call(self),
            Input::TakeLeave(told) => self.take_leave(&told),
            Input::Stop => self.stopping = true,
        }
    }

    fn request(&mut self, group: u64, request: Box<Request>, respond: Respond) {
        let Some(hosted) = self.hosted.get_mut(&group) else {
            return respond.call(&mut self.outgoing, Err(ErrorCode::STREAM_NOT_FOUND.into()));
        };
        if hosted.failed.is_some() {
            // Nothing in flight is applied any more, so nobody waits for it.
            return self.glance(group, *request, respond);
        }
        if !hosted.elected {
            if hosted.early.len() >= EARLY_MAX {
                return respond.call(&mut self.outgoing, Err(ErrorCode::CLUSTER_NOT_AVAIL.into()));
            }
            return hosted.early.push(Input::Request { group, request, respond });
        }
        if !hosted.leads {
            return respond.call(&mut self.outgoing, Err(ErrorCode::NOT_ENABLED_FOR_ACCOUNT.into()));
        }
        let token = hosted.token(respond);
        hosted.with(&mut self.outgoing, self.now, |stream, outside, effects| {
            stream.handle_request(outside, effects, token, *request);
        });
        self.touch(group);
    }

    /// Asks every stream of an account, of those hosted here, that has something in flight: it answers when that is applied.
    pub fn ask_unsettled(&mut self, account: &AccountEntry, respond: impl Fn() -> Respond) {
        let groups: Vec<u64> = {
            let streams = account.streams.read();
            let here = streams.values().filter_map(|entry| self.hosted.get(&entry.group));
            here.filter(|hosted| hosted.stream.is_unsettled()).map(|hosted| hosted.entry.group).collect()
        };
        for group in groups {
            let request = Request::StreamInfo(StreamInfoDetails::default());
            self.request(group, Box::new(request), respond());
        }
    }

    fn glance(&mut self, group: u64, request: Request, respond: Respond) {
        let Some(hosted) = self.hosted.get_mut(&group) else {
            return respond.call(&mut self.outgoing, Err(ErrorCode::STREAM_NOT_FOUND.into()));
        };
        let token = hosted.token(respond);
        hosted.with(&mut self.outgoing, self.now, |stream, outside, effects| {
            stream.handle_glance(outside, effects, token, request);
        });
        self.touch(group);
    }

    fn publish(&mut self, group: u64, message: Inbound) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        let publish = Publish {
            subject: message.subject,
            reply: message.reply,
            headers: message.headers,
            payload: message.payload,
        };
        hosted.with(&mut self.outgoing, self.now, |stream, outside, effects| {
            stream.handle_publish(outside, effects, publish);
        });
        self.touch(group);
    }

    fn sourced(&mut self, group: u64, inbox: u64, message: Inbound) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        let Inbound { subject, reply, headers, payload, .. } = message;
        let sourced = Sourced { subject, reply, headers, payload };
        hosted.with(&mut self.outgoing, self.now, |stream, outside, effects| {
            stream.handle_sourced(outside, effects, inbox, sourced);
        });
        self.touch(group);
    }

    fn pull(&mut self, group: u64, message: &Inbound) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        let Some(consumer) = last_token(&message.subject) else { return };
        hosted.with(&mut self.outgoing, self.now, |stream, outside, effects| {
            stream.handle_pull(outside, effects, consumer, incoming(message));
        });
        self.touch(group);
    }

    fn ack(&mut self, group: u64, ack: &Ack) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        let Ack { consumer, tokens, ref reply, ref body } = *ack;
        let ack = Acknowledgement { consumer, tokens, reply: reply.as_ref(), body };
        hosted.with(&mut self.outgoing, self.now, |stream, outside, effects| {
            stream.handle_ack(outside, effects, &ack);
        });
        self.touch(group);
    }

    fn flow_control(&mut self, group: u64, message: &Inbound) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        hosted.with(&mut self.outgoing, self.now, |stream, outside, effects| {
            stream.handle_flow_control(outside, effects, incoming(message));
        });
        self.touch(group);
    }

    /// A direct get. What is wrong with it is told by status, in the place of a message.
    fn direct_get(&mut self, group: u64, message: Inbound) {
        let (Some(hosted), Some(reply)) = (self.hosted.get_mut(&group), &message.reply) else { return };
        if !hosted.elected && hosted.failed.is_none() && hosted.early.len() < EARLY_MAX {
            return hosted.early.push(Input::DirectGet { group, message });
        }
        match direct::read(&message) {
            Ok(request) => {
                let token = Token(0);
                let request = Request::DirectGet { reply: reply.clone(), request: Box::new(request) };
                hosted.with(&mut self.outgoing, self.now, |stream, outside, effects| {
                    stream.handle_request(outside, effects, token, request);
                });
                self.touch(group);
            }
            Err(status) => {
                let headers = format!("NATS/1.0 {status}\r\n\r\n");
                let headers = headers.as_bytes();
                let message = Outbound { to: reply, subject: reply, reply: None, headers, payload: b"" };
                self.outgoing.send(&hosted.entry.account.account, &message);
            }
        }
    }

    /// A publisher whose message found no room.
    fn refuse(&mut self, group: u64, reply: &Bytes) {
        let Some(hosted) = self.hosted.get(&group) else { return };
        let error = ApiError::from(ErrorCode::STREAM_TOO_MANY_REQUESTS);
        let payload = jetstream::stream::publish_error(&hosted.entry.name, &error);
        let message = Outbound {
            to: reply,
            subject: reply,
            reply: None,
            headers: TOO_MANY_REQUESTS,
            payload: &payload,
        };
        self.outgoing.send(&hosted.entry.account.account, &message);
    }

    /// The log wants its space back. A checkpoint that is being taken covers what is so old, or the log asks again.
    fn give_back_log(&mut self, group: u64) {
        let running = self.hosted.get(&group).is_some_and(|hosted| hosted.checkpoint != Checkpoint::Idle);
        if !running {
            self.begin_checkpoint(group);
        }
    }

    /// Starts a checkpoint of a stream, or notes that another one is wanted. If it would hold nothing new, the last one covers what came since, which
    /// is what Raft itself writes at each start.
    pub(super) fn begin_checkpoint(&mut self, group: u64) {
        if group == META_GROUP {
            return self.save_catalogue();
        }
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        if !hosted.durable || hosted.failed.is_some() {
            return;
        }
        if hosted.checkpoint != Checkpoint::Idle {
            hosted.checkpoint = Checkpoint::Again;
            return;
        }
        if !hosted.stream.lacks_checkpoint() {
            self.records.extend(hosted.release());
            self.node.compact(GroupId(group), hosted.covered.index);
            return;
        }
        match hosted.stream.checkpoint() {
            Ok(job) => {
                hosted.covered = hosted.applied;
                hosted.checkpoint = Checkpoint::Running;
                hosted.log_bytes = 0;
                self.jobs += 1;
                self.shared.workers.checkpoint(group, Arc::clone(&self.inbox), job);
            }
            Err(error) => self.fail(group, &error.to_string()),
        }
    }

    pub(super) fn checkpoint_done(
        &mut self,
        group: u64,
        result: Result<store::stream::CheckpointDone, store::stream::Error>,
    ) {
        self.jobs -= 1;
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        let again = std::mem::replace(&mut hosted.checkpoint, Checkpoint::Idle) == Checkpoint::Again;
        let Position { index, term } = hosted.covered;
        match hosted.stream.checkpoint_done(result) {
            Ok(()) => {
                self.node.compact(GroupId(group), index);
                let checkpoint = hosted.stream.newest_checkpoint();
                self.records.push(Record::Released { group, index, term, checkpoint });
                if again {
                    self.begin_checkpoint(group);
                }
            }
            Err(error) => self.fail(group, &error.to_string()),
        }
    }

    /// A stream whose disk failed takes no more changes; the others go on.
    pub(super) fn fail(&mut self, group: u64, reason: &str) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        if hosted.failed.is_some() {
            return;
        }
        let entry = &hosted.entry;
        tracing::error!(
            "JetStream stream '{} > {}' failed: {reason}",
            entry.account.account.name(),
            entry.name
        );
        hosted.failed = Some(reason.into());
        self.shared.health.failed(entry.account.account.name(), &entry.name, reason);
        let error = ErrorCode::STREAM_OFFLINE_REASON.because(reason);
        self.refuse_early(group, &error);
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        hosted.with(&mut self.outgoing, self.now, |stream, _, effects| {
            stream.stop_changes(effects, reason);
        });
        self.touch(group);
    }

    /// The stream does not lead: whoever has asked it, or waits for it to be made, hears why.
    pub(super) fn refuse_early(&mut self, group: u64, error: &ApiError) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        for respond in hosted.take_early() {
            respond.call(&mut self.outgoing, Err(error.clone()));
        }
    }

    pub(super) fn fail_all(&mut self, reason: &Arc<str>) {
        self.log_failed = Some(Arc::clone(reason));
        // What is on its way never arrives: streams in memory, and requests, are not held back for it.
        self.unsynced_bytes = 0;
        let groups: Vec<u64> =
            self.hosted.values().filter(|hosted| hosted.durable).map(|h| h.entry.group).collect();
        for group in groups {
            self.fail(group, reason);
        }
    }
}

fn incoming(message: &Inbound) -> Incoming<'_> {
    Incoming {
        subject: &message.subject,
        reply: message.reply.as_ref(),
        headers: &message.headers,
        payload: &message.payload,
    }
}

/// The last token of a subject as text.
fn last_token(subject: &[u8]) -> Option<&str> {
    subject.rsplit(|byte| *byte == b'.').next().and_then(|token| std::str::from_utf8(token).ok())
}
