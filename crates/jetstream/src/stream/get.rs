//! Reading one message by request: `STREAM.MSG.GET`.

use api::ApiError;
use api::error::jetstream::ErrorCode;
use api::jetstream::request::MsgGet;
use api::jetstream::stream::StoredMessage;
use store::Timestamp;
use store::stream::{Filter, Message, StreamStore};

use super::Stream;
use super::info::api_time;

/// A time of a request, held within what messages can have.
pub(crate) fn timestamp(time: api::Time) -> Timestamp {
    let nanos = time.unix_nanos().clamp(i128::from(i64::MIN), i128::from(i64::MAX));
    Timestamp(nanos as i64)
}

/// A filter for one subject, wildcards allowed. What is no subject matches nothing.
pub(crate) fn filter(subject: &str) -> Option<Filter> {
    match subject {
        ">" => Some(Filter::All),
        other if subject::is_valid(other.as_bytes()) => Some(Filter::Any(vec![other.as_bytes().into()])),
        _ => None,
    }
}

impl Stream {
    /// The message that a request names.
    pub(crate) fn get_message(&self, request: &MsgGet) -> Result<StoredMessage, ApiError> {
        let batch = request.batch != 0 || request.max_bytes != 0 || !request.multi_last.is_empty();
        let by_last = !request.last_by_subj.is_empty();
        let by_next = !request.next_by_subj.is_empty();
        let by_place = request.seq > 0 || request.start_time.is_some();
        let both_places = request.seq > 0 && request.start_time.is_some();
        let clash = both_places || (by_last && (by_next || by_place));
        if batch || clash || !(by_last || by_next || by_place) {
            return Err(ErrorCode::BAD_REQUEST.into());
        }
        match find(&*self.store, request) {
            Ok(Some(message)) if request.no_hdr => Ok(StoredMessage { hdrs: Vec::new(), ..stored(message) }),
            Ok(Some(message)) => Ok(stored(message)),
            Ok(None) => Err(ErrorCode::NO_MESSAGE_FOUND.into()),
            Err(error) => Err(ErrorCode::STREAM_STORE_FAILED.because(error)),
        }
    }
}

/// Looks up what a request without contradictions names.
pub(crate) fn find(
    store: &dyn StreamStore,
    request: &MsgGet,
) -> Result<Option<Message>, store::stream::Error> {
    if !request.last_by_subj.is_empty() {
        let Some(filter) = filter(&request.last_by_subj) else { return Ok(None) };
        let last = match &filter {
            Filter::Any(patterns) if !subject::has_wildcard(&patterns[0]) => {
                store.subject_state(&patterns[0]).map(|state| state.last)
            }
            _ => store.last(&filter, u64::MAX)?,
        };
        return last.map_or(Ok(None), |sequence| store.load(sequence));
    }
    let from = match request.start_time {
        Some(time) => store.sequence_at(timestamp(time))?,
        None => request.seq,
    };
    if !request.next_by_subj.is_empty() {
        let Some(filter) = filter(&request.next_by_subj) else { return Ok(None) };
        return store.next(&filter, from);
    }
    if request.start_time.is_some() {
        return store.next(&Filter::All, from);
    }
    store.load(from)
}

/// A message as a document.
fn stored(message: Message) -> StoredMessage {
    StoredMessage {
        subject: String::from_utf8_lossy(&message.subject).into_owned(),
        seq: message.sequence,
        hdrs: message.headers.to_vec(),
        data: message.payload.to_vec(),
        time: api_time(message.timestamp),
    }
}
