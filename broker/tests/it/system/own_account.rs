//! What users of any account may ask the system account about themselves.

use serde_json::{Value, json};
use testkit::{Client, Cluster, Member};

use super::{CONFIG, ask};
use crate::{server, target};

#[tokio::test]
async fn an_account_learns_of_itself_only() {
    let server = server(CONFIG).await;
    let _other = Client::user(&server, "s", "s").await;
    let mut client = Client::user(&server, "a", "a").await;
    for subject in ["$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.SERVER.PING.CONNZ"] {
        for body in ["{\"auth\":true}", "{\"auth\":true,\"acc\":\"$SYS\"}"] {
            let connz = ask(&mut client, subject, body).await;
            let connections = connz["data"]["connections"].as_array().unwrap();
            assert_eq!(connections.len(), 1, "{subject} {body}: {connz}");
            assert_eq!(connections[0]["account"], "A");
        }
    }
    for body in ["", "{\"accounts\":[\"$SYS\"]}"] {
        let statz = ask(&mut client, "$SYS.REQ.ACCOUNT.PING.STATZ", body).await;
        let accounts = statz["data"]["account_statz"].as_array().unwrap();
        assert_eq!(accounts.len(), 1, "{body}: {statz}");
        assert_eq!((&accounts[0]["acc"], &accounts[0]["conns"]), (&json!("A"), &json!(1)));
    }
    let info = ask(&mut client, "$SYS.REQ.USER.INFO", "").await;
    assert_eq!((&info["data"]["user"], &info["data"]["account"]), (&json!("a"), &json!("A")));
}

#[tokio::test]
async fn other_requests_of_the_system_account_stay_there() {
    let server = server(CONFIG).await;
    let mut client = Client::user(&server, "a", "a").await;
    for subject in ["$SYS.REQ.SERVER.PING.VARZ", "$SYS.REQ.ACCOUNT.A.CONNZ", "$SYS.REQ.ACCOUNT.PING.SUBSZ"] {
        client.subscribe("_INBOX.no", "no").await;
        client.request(subject, "_INBOX.no", "").await;
        assert!(client.message().await.headers.contains("503"), "{subject}");
        client.op("UNSUB no").await;
    }
}

#[tokio::test]
async fn each_server_of_a_cluster_answers_once() {
    let top = CONFIG.replace("server_name: alpha\n", "");
    let cluster = Cluster::start((0..2).map(|_| Member::new(&target()).top(&top)).collect()).await;
    let mut there = Client::user(&cluster[1], "a", "a").await;
    there.flush().await;
    let mut client = Client::user(&cluster[0], "a", "a").await;
    client.subscribe("_INBOX.all", "all").await;
    client.request("$SYS.REQ.ACCOUNT.PING.STATZ", "_INBOX.all", "").await;
    let mut servers = Vec::new();
    for _ in 0..2 {
        let answer: Value = serde_json::from_str(&client.message().await.payload).unwrap();
        assert_eq!(answer["data"]["account_statz"][0]["acc"], "A", "{answer}");
        servers.push(answer["server"]["id"].clone());
    }
    assert_ne!(servers[0], servers[1]);
    // Its own answer would come before this one.
    let info = ask(&mut client, "$SYS.REQ.USER.INFO", "").await;
    assert_eq!(info["data"]["user"], "a");
    client.expect_silence().await;
}
