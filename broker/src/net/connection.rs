//! The read task of a client connection: bytes to operations, operations to the session, one flush at the end of each read.

use std::sync::Arc;
use std::time::Duration;

use protocol::client::{Op, ParseError, Step, parse};
use protocol::error::CloseReason;
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep, sleep_until};

use super::buffer::ReadBuffer;
use super::client::Client;
use super::session::{Flow, Session};
use super::stream::ReadHalf;
use super::trace;
use crate::server::Server;

/// Pause of a publisher whose receivers are slow, per read (core-protocol, section 6: at most 10 ms).
const STALL: Duration = Duration::from_millis(5);

/// Serves a client until the connection ends.
pub async fn serve(server: Arc<Server>, client: Arc<Client>, mut read: ReadHalf) {
    let mut session = Session::new(server, Arc::clone(&client));
    let mut buffer = ReadBuffer::default();
    let timer = sleep_until(Instant::from_std(session.deadline()));
    tokio::pin!(timer);
    loop {
        tokio::select! {
            biased;
            result = read.read(buffer.space()) => match result {
                Ok(0) => break session.end(CloseReason::ClientClosed),
                Ok(count) => buffer.read(count),
                Err(_) => break session.end(CloseReason::ReadError),
            },
            () = &mut timer => {
                session.on_timer();
                timer.as_mut().reset(Instant::from_std(session.deadline()));
                continue;
            }
        }
        let flow = work(&mut session, &mut buffer).await;
        let stall = session.end_read();
        if flow == Flow::Close || client.out.is_closing() {
            break session.end(CloseReason::ClientClosed);
        }
        if session.deadline_changed() {
            timer.as_mut().reset(Instant::from_std(session.deadline()));
        }
        if stall {
            sleep(STALL).await;
        }
    }
}

/// Handles every whole operation in the buffer.
async fn work(session: &mut Session, buffer: &mut ReadBuffer) -> Flow {
    session.begin_read(buffer.filled().len());
    loop {
        let bytes = buffer.filled();
        if bytes.is_empty() {
            break;
        }
        if session.awaits_connect() && session.first_byte(bytes[0]).await == Flow::Close {
            return Flow::Close;
        }
        let parsed = parse(bytes, session.limits());
        if trace::is_on()
            && let Ok(Step::Op { consumed, .. }) = &parsed
        {
            trace::received(session.client(), &bytes[..*consumed], session.traced_payload_max());
        }
        let (flow, consumed) = match parsed {
            Ok(Step::Op { op: Op::Publish(publish), consumed }) => (session.publish(&publish), consumed),
            Ok(Step::Op { op: Op::Connect(json), consumed }) => (session.connect(json).await, consumed),
            Ok(Step::Op { op, consumed }) => (session.handle(&op), consumed),
            Ok(Step::NeedMore { .. }) => break,
            Err(error) => return refuse(session, &error),
        };
        buffer.consume(consumed);
        if flow == Flow::Close {
            return Flow::Close;
        }
    }
    buffer.settle();
    Flow::Continue
}

fn refuse(session: &mut Session, error: &ParseError) -> Flow {
    let reason = error.close_reason();
    match error.wire_error() {
        Some(text) => session.refuse(text, reason),
        None => session.close(reason),
    }
}
