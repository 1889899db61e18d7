//! Documents of the reference server, read into our types and written again, must come back byte for byte.

#![allow(clippy::unwrap_used, reason = "helpers of tests sit outside test functions")]

use api::event::{
    AccountConnections, ConnectEvent, DisconnectEvent, ServerApiResponse, StatszMessage, UserInfo,
};
use api::json::{to_vec, to_vec_pretty};
use api::monitor::{Accountz, Accstatz, Connz, Empty, Routez, Subsz, Varz};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn read<T: DeserializeOwned>(golden: &str) -> T {
    serde_json::from_str(golden).unwrap()
}

fn page<T: Serialize + DeserializeOwned>(golden: &str) {
    let written = String::from_utf8(to_vec_pretty(&read::<T>(golden)).unwrap()).unwrap();
    assert_eq!(written, golden.trim_end());
}

fn message<T: Serialize + DeserializeOwned>(golden: &str) {
    let written = String::from_utf8(to_vec(&read::<T>(golden)).unwrap()).unwrap();
    assert_eq!(written, golden.trim_end());
}

#[test]
fn pages_come_back_byte_for_byte() {
    page::<Varz>(include_str!("testdata/varz.json"));
    page::<Connz>(include_str!("testdata/connz.json"));
    page::<Connz>(include_str!("testdata/connz_empty.json"));
    page::<Routez>(include_str!("testdata/routez.json"));
    page::<Routez>(include_str!("testdata/routez_permissions.json"));
    page::<Accountz>(include_str!("testdata/accountz.json"));
    page::<Accountz>(include_str!("testdata/accountz_detail.json"));
    page::<Accstatz>(include_str!("testdata/accstatz.json"));
}

#[test]
fn events_come_back_byte_for_byte() {
    message::<ConnectEvent>(include_str!("testdata/connect.json"));
    message::<DisconnectEvent>(include_str!("testdata/disconnect.json"));
    message::<AccountConnections>(include_str!("testdata/account_connections.json"));
    message::<StatszMessage>(include_str!("testdata/statsz.json"));
}

#[test]
fn responses_come_back_byte_for_byte() {
    message::<ServerApiResponse<Connz>>(include_str!("testdata/response_data.json"));
    message::<ServerApiResponse<Subsz>>(include_str!("testdata/response_subsz.json"));
    message::<ServerApiResponse<Connz>>(include_str!("testdata/response_unreadable.json"));
    message::<ServerApiResponse<Connz>>(include_str!("testdata/response_failed.json"));
    message::<ServerApiResponse<Empty>>(include_str!("testdata/response_action.json"));
    message::<ServerApiResponse<UserInfo>>(include_str!("testdata/user_info.json"));
}

#[test]
fn documents_are_read_into_the_fields_they_name() {
    let varz: Varz = read(include_str!("testdata/varz.json"));
    assert_eq!(varz.cluster.cluster_port, 16222);
    assert_eq!(varz.write_deadline, std::time::Duration::from_secs(10));
    let event: DisconnectEvent = read(include_str!("testdata/disconnect.json"));
    assert_eq!(event.client.rtt, std::time::Duration::from_micros(410));
    assert_eq!(event.reason, "Authentication Failure");
    let stat: AccountConnections = read(include_str!("testdata/account_connections.json"));
    assert_eq!((stat.stat.account.as_str(), stat.stat.conns), ("APP", 1));
}
