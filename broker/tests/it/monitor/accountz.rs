//! What `/accountz` says of exports, imports and mappings, on both servers.

use serde_json::{Value, json};

use crate::monitored;

const CONFIG: &str = r#"
server_name: S
accounts {
  A {
    users: [{user: a, password: a}]
    exports: [
      {service: "svc.*", accounts: [B]}
      {stream: "st.>"}
      {service: "sv2", response_type: stream, response_threshold: 5s}
      {service: "q.*", account_token_position: 2, response_type: chunked}
    ]
  }
  B {
    users: [{user: b, password: b}]
    imports: [
      {service: {account: A, subject: "svc.x"}, to: "y", share: true}
      {stream: {account: A, subject: "st.a"}, prefix: p}
      {stream: {account: A, subject: "st.c.*.*"}, to: "zz.$2.$1"}
      {service: {account: A, subject: "sv2"}}
    ]
    mappings: {
      foo: bar
      "z.*.*": [{dest: "x.$2.$1", weight: 40%}, {dest: "w.$1.$2", weight: 60%}]
      k: [{dest: l, weight: 30%}]
    }
  }
  $SYS { users: [{user: s, password: s}] }
}
"#;

/// Entries that are configured, in a fixed order: the reference shows what it adds itself too, in any order.
fn configured(list: &Value) -> Vec<Value> {
    let mut entries = list.as_array().cloned().unwrap_or_default();
    entries.retain(|entry| entry["account"] != "$SYS");
    entries.sort_by_key(|entry| entry["subject"].to_string());
    entries
}

#[tokio::test]
async fn exports_imports_and_mappings_are_shown() {
    let server = monitored(CONFIG).await;
    let a = server.get_json("/accountz?acc=A").await["account_detail"].clone();
    let expected = [
        json!({"subject": "q.*", "type": "service", "response_type": "Chunked"}),
        json!({"subject": "st.>", "type": "stream"}),
        json!({"subject": "sv2", "type": "service", "response_type": "Streamed"}),
        json!({"subject": "svc.*", "type": "service", "response_type": "Singleton", "approved_accounts": ["B"]}),
    ];
    assert_eq!(configured(&a["exports"]), expected);
    assert!(configured(&a["imports"]).is_empty() && a.get("mappings").is_none(), "{a}");
    let b = server.get_json("/accountz?acc=B").await["account_detail"].clone();
    let import = |subject: &str, local: &str, kind: &str, share: bool| {
        let mut import = json!({"subject": subject, "account": "A", "local_subject": local, "type": kind,
            "invalid": false, "share": share, "tracking": false});
        if kind == "service" {
            import["to"] = json!(local);
        }
        import
    };
    let expected = [
        import("st.a", "p.st.a", "stream", false),
        import("st.c.*.*", "zz.*.*", "stream", false),
        import("sv2", "sv2", "service", false),
        import("svc.x", "y", "service", true),
    ];
    assert_eq!(configured(&b["imports"]), expected);
    let expected = json!({
        "foo": [{"subject": "bar", "weight": 100}],
        "k": [{"subject": "l", "weight": 30}, {"subject": "k", "weight": 100}],
        "z.*.*": [{"subject": "x.$2.$1", "weight": 40}, {"subject": "w.$1.$2", "weight": 100}],
    });
    assert_eq!(b["mappings"], expected);
}
