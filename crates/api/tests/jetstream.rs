//! JetStream documents of the reference server, read into our types and written again, must come back byte for byte.

#![allow(clippy::unwrap_used, reason = "helpers of tests sit outside test functions")]

use api::duration::Nanos;
use api::jetstream::advisory::{self, Advisory, Kind};
use api::jetstream::response::{self, Body, Response};
use api::jetstream::stream::PubAck;
use api::json::{to_vec, to_vec_pretty};
use api::monitor::{Jsz, Varz};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A document as it was recorded.
macro_rules! golden {
    ($name:literal) => {
        include_str!(concat!("testdata/jetstream/", $name, ".json")).trim_end()
    };
}

fn read<T: DeserializeOwned>(golden: &str) -> T {
    serde_json::from_str(golden).unwrap()
}

fn written<T: Serialize>(document: &T) -> String {
    String::from_utf8(to_vec(document).unwrap()).unwrap()
}

fn response<T: Body + DeserializeOwned>(golden: &str) -> Response<T> {
    let response: Response<T> = read(golden);
    assert_eq!(response.kind, T::TYPE);
    assert_eq!(written(&response), golden);
    response
}

fn failure<T: Body + DeserializeOwned + PartialEq + std::fmt::Debug>(golden: &str) {
    let response = response::<T>(golden);
    assert_eq!(Response::<T>::failed(response.error.clone().unwrap()), response);
}

fn advisory<T: Kind + Default + DeserializeOwned>(golden: &str) -> Advisory<T> {
    let advisory: Advisory<T> = read(golden);
    assert_eq!(advisory.kind, T::TYPE);
    assert_eq!(written(&advisory), golden);
    advisory
}

#[test]
fn responses_about_streams_survive_a_round_trip() {
    let created = response::<response::StreamCreate>(golden!("stream_create")).body;
    let config = created.info.unwrap().config;
    assert_eq!((config.first_seq, config.max_age), (5, Nanos::from_secs(3600)));
    assert!(created.did_create);
    response::<response::StreamCreate>(golden!("mirror"));
    response::<response::StreamCreate>(golden!("sources"));
    failure::<response::StreamCreate>(golden!("stream_create_failed"));
    response::<response::StreamUpdate>(golden!("stream_update"));
    let info = response::<response::StreamInfoPage>(golden!("stream_info")).body;
    assert_eq!(info.info.unwrap().state.subjects["s.a"], 1);
    failure::<response::StreamInfoPage>(golden!("stream_info_failed"));
    response::<response::StreamNames>(golden!("stream_names"));
    response::<response::StreamNames>(golden!("stream_names_none"));
    assert_eq!(response::<response::StreamList>(golden!("stream_list")).body.streams.len(), 4);
    response::<response::StreamList>(golden!("stream_list_none"));
    response::<response::StreamDelete>(golden!("stream_delete"));
    failure::<response::StreamDelete>(golden!("stream_delete_failed"));
    response::<response::StreamPurge>(golden!("purge"));
    failure::<response::StreamPurge>(golden!("purge_failed"));
    response::<response::StreamSnapshot>(golden!("snapshot"));
    response::<response::StreamRestore>(golden!("restore"));
}

#[test]
fn responses_about_messages_survive_a_round_trip() {
    let message = response::<response::MsgGet>(golden!("msg_get")).body.message.unwrap();
    assert_eq!(
        (message.hdrs.as_slice(), message.data.as_slice()),
        (&b"NATS/1.0\r\nA: b\r\n\r\n"[..], &b"hi\0"[..])
    );
    failure::<response::MsgGet>(golden!("msg_get_failed"));
    response::<response::MsgDelete>(golden!("msg_delete"));
    failure::<response::MsgDelete>(golden!("msg_delete_failed"));
    assert_eq!(written(&read::<PubAck>(golden!("pub_ack"))), golden!("pub_ack"));
    assert_eq!(written(&read::<PubAck>(golden!("pub_ack_failed"))), golden!("pub_ack_failed"));
    // The reference writes this one by hand, with a space that documents do not have.
    assert_eq!(
        written(&read::<PubAck>(golden!("pub_ack_duplicate"))),
        golden!("pub_ack_duplicate").replace(": true", ":true")
    );
}

#[test]
fn responses_about_consumers_survive_a_round_trip() {
    response::<response::ConsumerCreate>(golden!("consumer_create"));
    response::<response::ConsumerCreate>(golden!("consumer_push"));
    failure::<response::ConsumerCreate>(golden!("consumer_create_failed"));
    let info = response::<response::ConsumerInfoResponse>(golden!("consumer_info")).body.info.unwrap();
    assert_eq!(info.priority_groups[0].group, "g");
    failure::<response::ConsumerInfoResponse>(golden!("consumer_info_failed"));
    response::<response::ConsumerNames>(golden!("consumer_names"));
    response::<response::ConsumerList>(golden!("consumer_list"));
    response::<response::ConsumerPause>(golden!("consumer_pause"));
    response::<response::ConsumerPause>(golden!("consumer_resume"));
    response::<response::ConsumerUnpin>(golden!("consumer_unpin"));
    response::<response::ConsumerReset>(golden!("consumer_reset"));
    response::<response::ConsumerDelete>(golden!("consumer_delete"));
    response::<response::AccountInfo>(golden!("account_info"));
}

#[test]
fn advisories_survive_a_round_trip() {
    advisory::<advisory::ApiAudit>(golden!("advisory_api_audit"));
    advisory::<advisory::StreamAction>(golden!("advisory_stream_action"));
    advisory::<advisory::ConsumerAction>(golden!("advisory_consumer_action"));
    advisory::<advisory::ConsumerPause>(golden!("advisory_consumer_pause"));
    advisory::<advisory::ConsumerGroupPinned>(golden!("advisory_consumer_group_pinned"));
    advisory::<advisory::ConsumerGroupUnpinned>(golden!("advisory_consumer_group_unpinned"));
    advisory::<advisory::MessageNaked>(golden!("advisory_nak"));
    advisory::<advisory::MessageTerminated>(golden!("advisory_terminated"));
    advisory::<advisory::ConsumerAck>(golden!("advisory_consumer_ack"));
    advisory::<advisory::SnapshotCreate>(golden!("advisory_snapshot_create"));
    advisory::<advisory::RestoreCreate>(golden!("advisory_restore_create"));
    advisory::<advisory::RestoreComplete>(golden!("advisory_restore_complete"));
    let batch = advisory::<advisory::StreamBatchAbandoned>(golden!("advisory_stream_batch_abandoned"));
    assert_eq!(batch.body.reason, advisory::BatchAbandonReason::Incomplete);
    advisory::<advisory::StreamBatchAbandoned>(golden!("advisory_sys_stream_batch_abandoned"));
}

#[test]
fn monitoring_pages_survive_a_round_trip() {
    fn page<T: Serialize + DeserializeOwned>(golden: &str) -> T {
        let page = read(golden);
        assert_eq!(String::from_utf8(to_vec_pretty(&page).unwrap()).unwrap(), golden);
        page
    }
    page::<Jsz>(golden!("jsz"));
    let full: Jsz = page(golden!("jsz_full"));
    assert_eq!(full.account_details.iter().map(|account| account.streams.len()).sum::<usize>(), 5);
    let varz: Varz = page(golden!("varz"));
    assert_eq!(varz.jetstream.stats.unwrap().api.level, api::jetstream::API_LEVEL);
}
