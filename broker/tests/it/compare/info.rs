//! INFO documents have the same fields.

use serde_json::Value;
use testkit::Client;

use super::{shape, start_both};

/// Fields that name the build, or announce what ours does not have yet: the JetStream level, the key for auth callout,
/// leafnodes, and the nonce that route peers do not use.
const IGNORED: [&str; 5] =
    [".git_commit: string", ".api_lvl: number", ".xkey: string", ".ln: bool", ".nonce: string"];

fn comparable(info: &Value) -> Vec<String> {
    let mut fields = shape(info);
    fields.retain(|field| !IGNORED.contains(&field.as_str()));
    fields
}

#[tokio::test]
async fn client_greetings_have_the_same_fields_in_every_configuration() {
    for config in [
        "",
        "server_name: a\nmax_payload: 100",
        "authorization { user: a, password: b }",
        "accounts { A { users: [{user: a, password: b}] } }\nno_auth_user: a",
        "cluster { name: c1, listen: \"127.0.0.1:-1\" }",
        "cluster { listen: \"127.0.0.1:-1\" }",
        "no_header_support: true",
        "client_advertise: \"1.2.3.4:5\"",
    ] {
        let Some([ours, theirs]) = start_both(config).await else { return };
        let mine = comparable(Client::open(ours.client_addr()).await.info());
        let reference = comparable(Client::open(theirs.client_addr()).await.info());
        assert_eq!(mine, reference, "{config}");
    }
}

#[tokio::test]
async fn second_infos_have_the_same_fields() {
    for (config, user) in [
        ("", ""),
        ("accounts { A { users: [{user: a, password: a}] } }", "a"),
        ("accounts { $SYS { users: [{user: a, password: a}] } }", "a"),
        ("cluster { name: c1, listen: \"127.0.0.1:-1\" }", ""),
    ] {
        let Some(servers) = start_both(config).await else { return };
        let mut seen = Vec::new();
        for server in &servers {
            let mut client = if user.is_empty() {
                Client::ready(server).await
            } else {
                Client::user(server, user, user).await
            };
            seen.push(comparable(&client.next_info().await));
        }
        assert_eq!(seen[0], seen[1], "{config}");
    }
}

#[tokio::test]
async fn route_greetings_have_the_same_fields_in_every_configuration() {
    for lines in [
        "",
        "pool_size: 1",
        "pool_size: -1",
        "accounts: [\"A\"]",
        "no_advertise: true",
        "authorization { user: a, password: b }",
        "permissions { import: \"a.>\", export: {deny: \"b\"} }",
        "advertise: \"1.2.3.4:5\"",
    ] {
        let config = format!(
            "accounts {{ A {{ users: [{{user: a, password: a}}] }} }}\ncluster {{ name: c1, listen: \"127.0.0.1:-1\"\n{lines} }}"
        );
        let Some([ours, theirs]) = start_both(&config).await else { return };
        let mine = comparable(Client::open(ours.cluster_addr()).await.info());
        let reference = comparable(Client::open(theirs.cluster_addr()).await.info());
        assert_eq!(mine, reference, "{lines}");
    }
}
