//! What a stream tells of itself.

use api::Time;
use api::jetstream::request::StreamInfoDetails;
use api::jetstream::response::SUBJECTS_LIMIT;
use api::jetstream::stream::{StreamInfo, StreamState};
use store::Timestamp;
use store::stream::Filter;

use super::Stream;
use crate::outside::Outside;
use crate::request::Response;

/// Deleted sequences listed at most; a longer list is cut.
const DELETED_MAX: usize = 1_000_000;

/// A time as documents carry it.
pub(crate) fn api_time(time: Timestamp) -> Time {
    Time::from_unix_nanos(i128::from(time.0))
}

impl Stream {
    /// Configuration and state. Members that concern the server (cluster, alternates) are left to the shell.
    pub fn info(&self, outside: &dyn Outside) -> StreamInfo {
        StreamInfo {
            config: (*self.facts.config).clone(),
            created: api_time(self.facts.created()),
            state: self.api_state(),
            domain: self.facts.domain().unwrap_or_default().to_owned(),
            mirror: self.mirror_info(outside.now()),
            sources: self.sources_info(outside.now()),
            ts: api_time(outside.now()),
            ..StreamInfo::default()
        }
    }

    /// The state as documents carry it, without the lists.
    pub fn api_state(&self) -> StreamState {
        let state = self.store.state();
        StreamState {
            messages: state.messages,
            bytes: state.bytes,
            // A stream that never held anything has no first sequence, unless it began with one.
            first_seq: if self.begun || state.last_sequence > 0 { state.first_sequence } else { 0 },
            first_ts: state.first_timestamp.map_or(Time::ZERO, api_time),
            last_seq: state.last_sequence,
            last_ts: state.last_timestamp.map_or(Time::ZERO, api_time),
            num_subjects: state.subjects as i64,
            num_deleted: state.deleted as i64,
            consumer_count: self.consumers.shown() as i64,
            ..StreamState::default()
        }
    }

    /// Answers `STREAM.INFO`: a page of subjects if they are asked for, and deleted sequences.
    pub(crate) fn info_page(&self, outside: &dyn Outside, request: &StreamInfoDetails) -> Response {
        let mut info = self.info(outside);
        if request.deleted_details {
            let ranges = self.store.deleted(0, DELETED_MAX);
            info.state.deleted = ranges.into_iter().flatten().take(DELETED_MAX).collect();
        }
        let mut subjects = 0u64;
        if !request.subjects_filter.is_empty() {
            let filter = match request.subjects_filter.as_str() {
                ">" => Filter::All,
                pattern => Filter::Any(vec![pattern.as_bytes().into()]),
            };
            let offset = u64::try_from(request.offset).unwrap_or(0);
            let page = offset..offset.saturating_add(SUBJECTS_LIMIT.unsigned_abs());
            self.store.for_each_subject(&filter, &mut |subject, state| {
                if page.contains(&subjects) {
                    let name = String::from_utf8_lossy(subject).into_owned();
                    info.state.subjects.insert(name, state.messages);
                }
                subjects += 1;
                true
            });
        }
        Response::StreamPage { info: Box::new(info), subjects }
    }
}
