//! Reading a stream: pulled and pushed, with acknowledgements and without.

use std::thread;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::{
    SCRIPT_LENGTH, SIZE, STREAM, SUBJECT, Storage, WINDOW_FILL, await_settled, create_consumer,
    create_stream, expect_messages, filled, script, stored,
};
use crate::cases::Settings;
use crate::client::PATIENCE;
use crate::frames::{payload, publish};
use crate::measure::{Measure, Meter, Target, memory_at_end};
use crate::script::{Goal, printable};
use crate::session::{Frame, Session};

const CONSUMER: &str = "READER";
/// Messages of one pull request.
const BATCH: u64 = 500;
/// A pull request waits at the server no longer than this; nanoseconds.
const EXPIRES: u64 = 30_000_000_000;

pub(super) fn fetch(target: Target, settings: &Settings) -> Result<Vec<Measure>> {
    let (mut control, mut data) = filled(target, settings)?;
    create_consumer(
        &mut control,
        STREAM,
        &json!({"durable_name": CONSUMER, "name": CONSUMER, "ack_policy": "explicit"}),
    )?;
    let meter = Meter::start(target)?;
    Puller { session: &mut data, consumer: CONSUMER, low: 0, acknowledge: true }.pull(settings.messages)?;
    await_settled(&mut control, CONSUMER)?;
    finish(meter, target, settings.messages)
}

pub(super) fn ordered_pull(target: Target, settings: &Settings) -> Result<Vec<Measure>> {
    let (mut control, mut data) = filled(target, settings)?;
    let config = json!({
        "name": CONSUMER, "ack_policy": "none", "max_deliver": 1, "mem_storage": true, "num_replicas": 1,
        "inactive_threshold": 300_000_000_000_u64,
    });
    let meter = Meter::start(target)?;
    create_consumer(&mut control, STREAM, &config)?;
    Puller { session: &mut data, consumer: CONSUMER, low: BATCH / 2, acknowledge: false }
        .pull(settings.messages)?;
    finish(meter, target, settings.messages)
}

pub(super) fn ordered(target: Target, settings: &Settings) -> Result<Vec<Measure>> {
    let (mut control, mut data) = filled(target, settings)?;
    let meter = Meter::start(target)?;
    replay(&mut control, &mut data, (STREAM, CONSUMER), json!({}), settings.messages)?;
    finish(meter, target, settings.messages)
}

pub(super) fn push(target: Target, settings: &Settings) -> Result<Vec<Measure>> {
    let (mut control, mut data) = filled(target, settings)?;
    let deliver = data.subscribe(CONSUMER)?;
    let config = json!({
        "durable_name": CONSUMER, "name": CONSUMER, "ack_policy": "explicit", "deliver_subject": deliver,
    });
    let meter = Meter::start(target)?;
    create_consumer(&mut control, STREAM, &config)?;
    let expected = payload(SIZE);
    let (mut count, mut acks) = (0, Vec::new());
    while count < settings.messages {
        count += data.read(|frame| {
            ensure!(frame.payload == expected, "message {}", printable(&frame));
            acknowledge(&mut acks, &frame)
        })?;
        data.send(&acks)?;
        acks.clear();
    }
    await_settled(&mut control, CONSUMER)?;
    finish(meter, target, settings.messages)
}

pub(super) fn work_queue(target: Target, settings: &Settings) -> Result<Vec<Measure>> {
    let mut control = Session::connect(target.address)?;
    let (mut source, mut sink) = (Session::connect(target.address)?, Session::connect(target.address)?);
    create_stream(&mut control, Storage::File, "workqueue")?;
    create_consumer(
        &mut control,
        STREAM,
        &json!({"durable_name": CONSUMER, "name": CONSUMER, "ack_policy": "explicit"}),
    )?;
    let script = script(&source, (0..SCRIPT_LENGTH).map(|_| SUBJECT.to_owned()));
    let meter = Meter::start(target)?;
    let goal = Goal::Count(settings.messages);
    thread::scope(|scope| {
        let published = scope.spawn(|| script.run(&mut source, WINDOW_FILL, goal, stored));
        let pulled = Puller { session: &mut sink, consumer: CONSUMER, low: 0, acknowledge: true }
            .pull(settings.messages);
        let Ok(published) = published.join() else { bail!("the publisher thread panicked") };
        published.context("publisher")?;
        pulled.context("puller")
    })?;
    let empty = |info: &Value| info["state"]["messages"] == 0;
    control.await_answer(&format!("$JS.API.STREAM.INFO.{STREAM}"), PATIENCE, empty)?;
    let measures = finish(meter, target, settings.messages)?;
    expect_messages(&mut control, STREAM, 0)?;
    Ok(measures)
}

fn finish(meter: Meter, target: Target, count: u64) -> Result<Vec<Measure>> {
    let mut measures = meter.finish(count)?;
    measures.extend(memory_at_end(target)?);
    Ok(measures)
}

/// Someone who asks a pull consumer for messages.
pub(super) struct Puller<'a> {
    pub(super) session: &'a mut Session,
    pub(super) consumer: &'a str,
    /// Asks again when no more than so many are outstanding; zero is one request after the other.
    pub(super) low: u64,
    pub(super) acknowledge: bool,
}

impl Puller<'_> {
    /// Receives so many messages, and acknowledges them.
    pub(super) fn pull(&mut self, total: u64) -> Result<()> {
        let expected = payload(SIZE);
        let (mut received, mut outstanding) = (0, 0);
        let mut sending = Vec::new();
        while received < total {
            let wanted = (BATCH - outstanding).min(total - received - outstanding);
            if outstanding <= self.low && wanted > 0 {
                self.ask(&mut sending, wanted);
                outstanding += wanted;
            }
            if !sending.is_empty() {
                self.session.send(&sending)?;
                sending.clear();
            }
            let mut came = 0;
            self.session.read(|frame| {
                if frame.status().is_some_and(|status| status.starts_with(b"100")) {
                    return Ok(());
                }
                ensure!(frame.payload == expected, "message {}", printable(&frame));
                came += 1;
                if self.acknowledge { acknowledge(&mut sending, &frame) } else { Ok(()) }
            })?;
            ensure!(came <= outstanding, "{came} messages came, {outstanding} were asked for");
            outstanding -= came;
            received += came;
        }
        self.session.send(&sending)?;
        self.session.round_trip()
    }

    fn ask(&self, sending: &mut Vec<u8>, batch: u64) {
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{}", self.consumer);
        let request = format!("{{\"batch\":{batch},\"expires\":{EXPIRES}}}");
        let reply = format!("{}.pull", self.session.inbox());
        sending.extend_from_slice(&publish(&subject, Some(&reply), request.as_bytes()));
    }
}

fn acknowledge(sending: &mut Vec<u8>, frame: &Frame<'_>) -> Result<()> {
    let reply = frame.reply.context("a message without a reply subject")?;
    for part in [b"PUB ", reply, b" 4\r\n+ACK\r\n"] {
        sending.extend_from_slice(part);
    }
    Ok(())
}

/// Creates an ordered push consumer (stream and name given) and receives `count` messages, answering flow control.
pub(super) fn replay(
    control: &mut Session,
    data: &mut Session,
    (stream, consumer): (&str, &str),
    more: Value,
    count: u64,
) -> Result<()> {
    let deliver = data.subscribe(consumer)?;
    let mut config = json!({
        "name": consumer, "deliver_subject": deliver, "ack_policy": "none", "max_deliver": 1, "mem_storage": true,
        "num_replicas": 1, "flow_control": true, "idle_heartbeat": 5_000_000_000_u64,
        "inactive_threshold": 300_000_000_000_u64,
    });
    if let (Some(config), Value::Object(more)) = (config.as_object_mut(), more) {
        config.extend(more);
    }
    create_consumer(control, stream, &config)?;
    let expected = payload(SIZE);
    let (mut received, mut sending) = (0, Vec::new());
    while received < count {
        let mut last = 0;
        data.read(|frame| {
            if frame.status().is_some() {
                answer_flow_control(&mut sending, &frame);
                return Ok(());
            }
            ensure!(frame.payload == expected, "message {}", printable(&frame));
            received += 1;
            last = pending(&frame)?;
            Ok(())
        })?;
        ensure!(received < count || last == 0, "{last} messages pending after {received} of {count}");
        if !sending.is_empty() {
            data.send(&sending)?;
            sending.clear();
        }
    }
    control.request(&format!("$JS.API.CONSUMER.DELETE.{stream}.{consumer}"), "")?;
    Ok(())
}

/// A request to go on has a reply subject, a heartbeat of a consumer that waits names one.
fn answer_flow_control(sending: &mut Vec<u8>, frame: &Frame<'_>) {
    const STALLED: &[u8] = b"Nats-Consumer-Stalled: ";
    let lines = frame.headers.split(|byte| *byte == b'\n');
    let stalled = lines.filter_map(|line| line.strip_prefix(STALLED)?.strip_suffix(b"\r")).next();
    if let Some(reply) = frame.reply.or(stalled) {
        for part in [b"PUB ", reply, b" 0\r\n\r\n"] {
            sending.extend_from_slice(part);
        }
    }
}

/// Messages that wait behind this one: the last token of its reply subject.
fn pending(frame: &Frame<'_>) -> Result<u64> {
    let reply = frame.reply.context("a message without a reply subject")?;
    let digits = reply.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    Ok(std::str::from_utf8(digits)?.parse()?)
}
