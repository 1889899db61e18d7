//! Responses: an envelope with the type of the response and perhaps an error, and the members of each endpoint beside it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use super::account::AccountStats;
use super::consumer::ConsumerInfo;
use super::stream::{StoredMessage, StreamConfig, StreamInfo, StreamState};
use crate::ApiError;
use crate::duration::Nanos;
use crate::optional::{is_zero, null_is_zero};
use crate::time::Time;

/// Type of the answer to a subject that no endpoint has.
pub const SYSTEM_RESPONSE: &str = "io.nats.jetstream.api.v1.system_response";

/// Most names on a page.
pub const NAMES_LIMIT: i64 = 1024;
/// Most infos on a page.
pub const LIST_LIMIT: i64 = 256;
/// Most subjects with their counts on a page.
pub const SUBJECTS_LIMIT: i64 = 100_000;

/// Members of a response.
pub trait Body: Default + Serialize {
    /// Type of the response.
    const TYPE: &'static str;
}

/// A response. On failure the members keep their zero values, and those that are always written are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response<T> {
    /// [`Body::TYPE`].
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    /// Why the request failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ApiError>,
    /// The members.
    #[serde(flatten)]
    pub body: T,
}

impl<T: Body> Response<T> {
    /// The answer to a request that was served.
    pub fn ok(body: T) -> Self {
        Self { kind: Cow::Borrowed(T::TYPE), error: None, body }
    }

    /// The answer to a request that failed.
    pub fn failed(error: ApiError) -> Self {
        Self { kind: Cow::Borrowed(T::TYPE), error: Some(error), body: T::default() }
    }
}

impl<T> Response<T> {
    /// The members, or why there are none.
    ///
    /// # Errors
    /// The error of the response.
    pub fn into_result(self) -> Result<T, ApiError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.body),
        }
    }
}

/// Which part of a list a response shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Paged {
    /// Entries of the list.
    pub total: i64,
    /// Entries skipped.
    pub offset: i64,
    /// Most entries of a response.
    pub limit: i64,
}

/// Members of a response, and its type.
macro_rules! body {
    ($(#[$doc:meta])* $name:ident = $kind:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Body for $name {
            const TYPE: &'static str = concat!("io.nats.jetstream.api.v1.", $kind);
        }
    };
}

/// Responses that say no more than that it was done.
macro_rules! success {
    ($($(#[$doc:meta])* $name:ident = $kind:literal,)*) => {$(
        body! {
            $(#[$doc])*
            $name = $kind {
                /// It was done.
                #[serde(skip_serializing_if = "is_zero")]
                success: bool,
            }
        }

        impl $name {
            /// It was done.
            pub fn done() -> Self {
                Self { success: true }
            }
        }
    )*};
}

success! {
    /// A stream was deleted.
    StreamDelete = "stream_delete_response",
    /// A message was deleted.
    MsgDelete = "stream_msg_delete_response",
    /// A server gave up a stream.
    StreamRemovePeer = "stream_remove_peer_response",
    /// A stream moves from a server.
    StreamEvacuatePeer = "stream_evacuate_peer_response",
    /// A move of a stream was called off.
    StreamCancelMove = "stream_cancel_move_response",
    /// The leader of a stream stepped down.
    StreamLeaderStepdown = "stream_leader_stepdown_response",
    /// A consumer was deleted.
    ConsumerDelete = "consumer_delete_response",
    /// The leader of a consumer stepped down.
    ConsumerLeaderStepdown = "consumer_leader_stepdown_response",
    /// The leader of the catalogue stepped down.
    MetaLeaderStepdown = "meta_leader_stepdown_response",
    /// A server was forgotten.
    MetaServerRemove = "meta_server_remove_response",
    /// A server is being emptied.
    MetaServerEvacuate = "meta_server_evacuate_response",
}

body! {
    /// Use and limits of the account.
    AccountInfo = "account_info_response" {
        /// They.
        #[serde(flatten)]
        stats: Option<AccountStats>,
    }
}

body! {
    /// A stream was made, or was there already.
    StreamCreate = "stream_create_response" {
        /// Everything about it.
        #[serde(flatten)]
        info: Option<StreamInfo>,
        /// True in every answer to a request that was served.
        #[serde(skip_serializing_if = "is_zero")]
        did_create: bool,
    }
}

body! {
    /// A stream was changed.
    StreamUpdate = "stream_update_response" {
        /// Everything about it.
        #[serde(flatten)]
        info: Option<StreamInfo>,
    }
}

body! {
    /// Names of streams.
    StreamNames = "stream_names_response" {
        /// Which part.
        #[serde(flatten)]
        page: Paged,
        /// The names.
        #[serde(serialize_with = "empty_is_null", deserialize_with = "null_is_zero")]
        streams: Vec<String>,
    }
}

body! {
    /// Infos of streams.
    StreamList = "stream_list_response" {
        /// Which part.
        #[serde(flatten)]
        page: Paged,
        /// The infos.
        #[serde(deserialize_with = "null_is_zero")]
        streams: Vec<StreamInfo>,
        /// Streams that did not answer.
        #[serde(skip_serializing_if = "is_zero")]
        missing: Vec<String>,
        /// Streams that this server can not run, and why.
        #[serde(skip_serializing_if = "is_zero")]
        offline: BTreeMap<String, String>,
    }
}

body! {
    /// Everything about a stream, with a part of its subjects.
    StreamInfoPage = "stream_info_response" {
        /// Which part.
        #[serde(flatten)]
        page: Paged,
        /// Everything.
        #[serde(flatten)]
        info: Option<StreamInfo>,
    }
}

body! {
    /// Messages were removed.
    StreamPurge = "stream_purge_response" {
        /// It was done.
        #[serde(skip_serializing_if = "is_zero")]
        success: bool,
        /// How many.
        purged: u64,
    }
}

body! {
    /// A message.
    MsgGet = "stream_msg_get_response" {
        /// It.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<StoredMessage>,
    }
}

body! {
    /// A copy of a stream follows.
    StreamSnapshot = "stream_snapshot_response" {
        /// What the stream is.
        #[serde(skip_serializing_if = "Option::is_none")]
        config: Option<StreamConfig>,
        /// What it holds.
        #[serde(skip_serializing_if = "Option::is_none")]
        state: Option<StreamState>,
    }
}

body! {
    /// The copy of a stream may be sent.
    StreamRestore = "stream_restore_response" {
        /// To here.
        deliver_subject: String,
    }
}

body! {
    /// A consumer was made, changed, or was there already.
    ConsumerCreate = "consumer_create_response" {
        /// Everything about it.
        #[serde(flatten)]
        info: Option<ConsumerInfo>,
    }
}

body! {
    /// Everything about a consumer.
    ConsumerInfoResponse = "consumer_info_response" {
        /// It.
        #[serde(flatten)]
        info: Option<ConsumerInfo>,
    }
}

body! {
    /// Names of consumers.
    ConsumerNames = "consumer_names_response" {
        /// Which part.
        #[serde(flatten)]
        page: Paged,
        /// The names.
        #[serde(deserialize_with = "null_is_zero")]
        consumers: Vec<String>,
    }
}

body! {
    /// Infos of consumers.
    ConsumerList = "consumer_list_response" {
        /// Which part.
        #[serde(flatten)]
        page: Paged,
        /// The infos.
        #[serde(deserialize_with = "null_is_zero")]
        consumers: Vec<ConsumerInfo>,
        /// Consumers that did not answer.
        #[serde(skip_serializing_if = "is_zero")]
        missing: Vec<String>,
        /// Consumers that this server can not run, and why.
        #[serde(skip_serializing_if = "is_zero")]
        offline: BTreeMap<String, String>,
    }
}

body! {
    /// Deliveries were stopped or resumed.
    ConsumerPause = "consumer_pause_response" {
        /// They are stopped.
        paused: bool,
        /// Until then.
        pause_until: Time,
        /// So long.
        #[serde(skip_serializing_if = "is_zero")]
        pause_remaining: Nanos,
    }
}

body! {
    /// Another client may be pinned.
    ConsumerUnpin = "consumer_unpin_response" {}
}

body! {
    /// A consumer was set back.
    ConsumerReset = "consumer_reset_response" {
        /// Everything about it.
        #[serde(flatten)]
        info: Option<ConsumerInfo>,
        /// To this sequence.
        reset_seq: u64,
    }
}

body! {
    /// The answer to a subject that no endpoint has.
    System = "system_response" {}
}

body! {
    /// Streams of an account are being deleted.
    AccountPurge = "account_purge_response" {
        /// It was begun.
        #[serde(skip_serializing_if = "is_zero")]
        initiated: bool,
    }
}

body! {
    /// Fewer servers decide.
    MetaRescue = "meta_rescue_response" {
        /// Name of the answering server.
        server: String,
        /// Its identity.
        server_id: String,
        /// How many were needed.
        #[serde(skip_serializing_if = "is_zero")]
        prev_quorum: i64,
        /// How many are needed.
        #[serde(skip_serializing_if = "is_zero")]
        new_quorum: i64,
    }
}

/// Writes no names as `null`, as the reference does for names of streams.
fn empty_is_null<S: Serializer>(names: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    if names.is_empty() { serializer.serialize_none() } else { names.serialize(serializer) }
}
