//! Both servers side by side: the same script must give the same transcript, the same request the same shape.
//!
//! These tests need the reference; against the reference alone they check that the scripts are deterministic.

mod info;
mod malformed;
mod random;
mod shapes;

use serde_json::Value;
use testkit::{Builder, Client, Frame, Server, Target};

use crate::{reference, target};

/// The server under test and the reference, or nothing without the reference.
fn both() -> Option<[Target; 2]> {
    Some([target(), reference()?])
}

/// Both servers with this configuration and a monitoring port.
async fn start_both(config: &str) -> Option<[Server; 2]> {
    let [ours, theirs] = both()?;
    let ours = Builder::new(&ours).config(config).monitoring().start().await;
    let theirs = Builder::new(&theirs).config(config).monitoring().start().await;
    Some([ours, theirs])
}

/// What came, as sorted text: servers may deliver to several subscriptions of one client in any order.
fn sorted(frames: &[Frame]) -> Vec<String> {
    let mut texts: Vec<String> = frames.iter().map(without_chance).collect();
    texts.sort();
    texts
}

/// A 503 goes to any one of the subscriptions that match the reply, so its subscription id is left out.
fn without_chance(frame: &Frame) -> String {
    let text = frame.text();
    if !text.contains("\r\nNATS/1.0 503\r\n") {
        return text;
    }
    let mut words: Vec<&str> = text.split(' ').collect();
    words[2] = "*";
    words.join(" ")
}

/// Paths and types of everything in a document; array elements are one path.
fn shape(value: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    collect("", value, &mut paths);
    paths.sort();
    paths.dedup();
    paths
}

fn collect(path: &str, value: &Value, paths: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            paths.push(format!("{path}: object"));
            for (key, value) in fields {
                collect(&format!("{path}.{key}"), value, paths);
            }
        }
        Value::Array(items) => {
            paths.push(format!("{path}: array"));
            for item in items {
                collect(&format!("{path}[]"), item, paths);
            }
        }
        Value::String(_) => paths.push(format!("{path}: string")),
        Value::Number(_) => paths.push(format!("{path}: number")),
        Value::Bool(_) => paths.push(format!("{path}: bool")),
        Value::Null => paths.push(format!("{path}: null")),
    }
}

/// Three clients of different options on one server.
async fn trio(server: &Server) -> [Client; 3] {
    let plain = serde_json::json!({"headers": false, "no_responders": false});
    let strict = serde_json::json!({"pedantic": true, "verbose": true});
    let mut third = Client::open(server.client_addr()).await;
    let mut line = serde_json::json!({"headers": true, "no_responders": true, "echo": false});
    line.as_object_mut().unwrap().extend(strict.as_object().unwrap().clone());
    third.send(format!("CONNECT {line}\r\n")).await;
    third.expect("+OK\r\n").await;
    [Client::ready(server).await, Client::ready_with(server, plain).await, third]
}
