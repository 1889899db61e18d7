//! The server in its system account: events it publishes, requests about clients and accounts, on one server and several.

mod events;
mod own_account;
mod requests;

use serde_json::Value;
use testkit::{Client, Server};

const CONFIG: &str = "server_name: alpha
accounts { A { users: [{user: a, password: a}] }, $SYS { users: [
    {user: s, password: s}
    {user: r, password: r, permissions: {publish: \"$SYS.>\", subscribe: {allow: \"_INBOX.>\", deny: \"_INBOX.no\"}}}
] } }";

/// A user of the system account.
async fn system_client(server: &Server) -> Client {
    Client::user(server, "s", "s").await
}

/// Sends a request and reads one answer.
async fn ask(client: &mut Client, subject: &str, body: &str) -> Value {
    client.subscribe("_INBOX.ask", "ask").await;
    client.request(subject, "_INBOX.ask", body).await;
    let message = client.message().await;
    client.op("UNSUB ask").await;
    assert_eq!(message.subject, "_INBOX.ask");
    serde_json::from_str(&message.payload).unwrap()
}

fn server_id(client: &Client) -> String {
    client.infos[0]["server_id"].as_str().unwrap().to_owned()
}

/// Reads messages until one has this subject.
async fn await_event(client: &mut Client, subject: &str) -> Value {
    loop {
        let message = client.message().await;
        if message.subject == subject {
            return serde_json::from_str(&message.payload).unwrap();
        }
    }
}
