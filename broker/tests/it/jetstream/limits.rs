//! Limits of accounts as their clients see them, and how safe a stream says that it is.

use serde_json::{Value, json};
use testkit::Builder;
use testkit::jetstream::JetStream;

use crate::target;

transcripts! { "limits":
    account_limits,
    spellings,
    bytes_of_an_account,
    async_persistence,
    async_persistence_refused,
}

/// Metadata in the answer that a stream gives about itself.
async fn shown(client: &mut JetStream, name: &str) -> Value {
    client.ok(&format!("STREAM.INFO.{name}"), Value::Null).await["config"]["metadata"].clone()
}

#[tokio::test]
async fn a_weaker_sync_mode_is_told_wherever_somebody_may_look() {
    if !target().is_myelin() {
        return;
    }
    const KEY: &str = "_myelin.sync_interval";
    let config = |sync| format!("server_name: js\njetstream {{ store_dir: \"%DIR%/js\"{sync} }}");
    let mut server =
        Builder::new(&target()).config(config(", sync_interval: \"2m\"")).monitoring().start().await;
    let mut client = JetStream::connect(&server).await;
    let created = client.stream(json!({"name": "F", "metadata": {"a": "b"}})).await;
    assert_eq!(created["config"]["metadata"][KEY], "2m0s");
    client.stream(json!({"name": "M", "storage": "memory"})).await;
    let metadata = shown(&mut client, "F").await;
    assert_eq!((&metadata[KEY], &metadata["a"]), (&json!("2m0s"), &json!("b")));
    assert_eq!(shown(&mut client, "M").await[KEY], Value::Null);
    let updated = client.ok("STREAM.UPDATE.F", created["config"].clone()).await;
    assert_eq!(updated["config"]["metadata"][KEY], "2m0s");
    assert!(server.log().contains("before stable storage"), "{}", server.log());
    let varz = server.get_json("/varz").await;
    assert_eq!(varz["jetstream"]["config"]["sync_interval"], 120_000_000_000_u64);
    server.stop().await;
    server.write_config(&config(""));
    server.restart().await;
    let mut client = JetStream::connect(&server).await;
    assert_eq!(shown(&mut client, "F").await[KEY], Value::Null);
    assert!(server.get_json("/varz").await["jetstream"]["config"]["sync_always"].as_bool().unwrap());
}
