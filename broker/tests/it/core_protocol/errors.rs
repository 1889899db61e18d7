//! Errors that leave the connection open.

use serde_json::json;
use testkit::Client;

use crate::server;

#[tokio::test]
async fn pedantic_clients_are_told_of_a_bad_publish_subject_and_it_is_still_delivered() {
    let server = server("").await;
    let mut client = Client::ready_with(&server, json!({"pedantic": true})).await;
    client.subscribe(">", "1").await;
    client.send("PUB foo.* 1\r\nx\r\n").await;
    client.expect_error("Invalid Publish Subject").await;
    client.expect("MSG foo.* 1 1\r\nx\r\n").await;
    for subject in ["foo.>", "foo..bar", ".foo", "foo."] {
        client.publish(subject, "x").await;
        client.expect_error("Invalid Publish Subject").await;
        client.drain().await;
    }
    client.expect_silence().await;
}

#[tokio::test]
async fn replies_into_the_space_of_gateways_and_services_are_refused() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    client.subscribe("foo", "1").await;
    for reply in ["_R_.abc.def", "$JS.ACK.a.b", "_GR_.x.y.z", "$GR.x.y"] {
        client.request("foo", reply, "x").await;
        client.expect_error(&format!("Permissions Violation for Publish with Reply of \"{reply}\"")).await;
    }
    client.expect_silence().await;
}

#[tokio::test]
async fn publishing_into_the_space_of_gateways_is_refused() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    for subject in ["_GR_.abcdef.ghijkl.foo", "$GR.abcd.foo"] {
        client.publish(subject, "x").await;
        client.expect_error(&format!("Permissions Violation for Publish to \"{subject}\"")).await;
    }
    client.expect_silence().await;
}

#[tokio::test]
async fn publishing_into_the_space_of_consensus_is_refused_outside_the_system_account() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    client.publish("$NRG.V.x", "x").await;
    client.expect_error("Permissions Violation for Publish to \"$NRG.V.x\"").await;
    client.expect_silence().await;
}

#[tokio::test]
async fn system_subjects_are_ordinary_outside_the_system_account() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    client.send("SUB $SYS.> 1\r\nPUB $SYS.REQ.SERVER.PING x 0\r\n\r\n").await;
    client.expect("MSG $SYS.REQ.SERVER.PING 1 x 0\r\n\r\n").await;
    client.expect_silence().await;
}
