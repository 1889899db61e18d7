//! Dead letters: messages that a consumer gives up go to another stream, whatever happens in between. The reference has no such option.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testkit::jetstream::{CONFIG, JetStream, ack_subject, header};
use testkit::{Builder, Message, Server, eventually};

use crate::target;

/// Rounds of messages, each ended by a kill.
const ROUNDS: u64 = 6;
/// Messages of a round.
const MESSAGES: u64 = 40;

/// A server with a work queue whose consumer writes dead letters. `None` if the server is not ours.
async fn with_queue() -> Option<(Server, JetStream)> {
    if !target().is_myelin() {
        return None;
    }
    let server = Builder::new(&target()).config(CONFIG).start().await;
    let mut js = JetStream::connect(&server).await;
    js.stream(json!({"name": "WORK", "subjects": ["work.>"], "retention": "workqueue"})).await;
    js.consumer("WORK", worker()).await;
    Some((server, js))
}

fn worker() -> Value {
    json!({"durable_name": "w", "ack_policy": "explicit", "max_deliver": 2, "dead_letter_subject": "dead.work"})
}

async fn with_graveyard(js: &mut JetStream) {
    js.stream(json!({"name": "DEAD", "subjects": ["dead.>"]})).await;
    js.consumer("DEAD", json!({"durable_name": "r", "ack_policy": "explicit"})).await;
}

async fn kill(server: &mut Server) -> JetStream {
    server.kill().await;
    server.restart().await;
    JetStream::connect(server).await
}

async fn fetch_one(js: &mut JetStream) -> Message {
    js.fetch_wait("WORK", "w", 1).await.remove(0)
}

/// Ends a message, and waits until that is confirmed.
async fn confirm(js: &mut JetStream, message: &Message, body: &str) {
    let answer = js.request(ack_subject(message), "", body).await;
    assert!(answer.payload.is_empty(), "{answer:?}");
}

async fn messages(js: &mut JetStream, stream: &str) -> u64 {
    let info = js.ok(&format!("STREAM.INFO.{stream}"), Value::Null).await;
    info["state"]["messages"].as_u64().unwrap()
}

async fn until_letters(js: &mut JetStream, stored: u64, pending: u64) -> Value {
    js.until("CONSUMER.INFO.WORK.w", "letters are stored", |info| {
        info["dead_letters"]["stored"] == stored && info["dead_letters"]["pending"] == pending
    })
    .await
}

fn headers(message: &Message) -> BTreeMap<&str, &str> {
    message.headers.lines().filter_map(|line| line.split_once(": ")).collect()
}

#[tokio::test]
async fn given_up_messages_are_stored_with_reason_and_origin() {
    let Some((_server, mut js)) = with_queue().await else { return };
    with_graveyard(&mut js).await;
    let pairs = [("Nats-Msg-Id", "one"), ("X-Color", "green"), ("Nats-Expected-Stream", "WORK")];
    assert_eq!(js.publish_with("work.a.1", &pairs, "first").await["seq"], 1);
    for _ in 0..2 {
        let message = fetch_one(&mut js).await;
        confirm(&mut js, &message, "-NAK").await;
    }
    assert_eq!(js.publish("work.b", "second").await, 2);
    let message = fetch_one(&mut js).await;
    confirm(&mut js, &message, "+TERM cannot be read").await;
    let info = until_letters(&mut js, 2, 0).await;
    assert_eq!(
        (&info["num_ack_pending"], &info["ack_floor"]["stream_seq"]),
        (&json!(0), &json!(2)),
        "{info}"
    );
    assert_eq!(info["config"]["dead_letter_subject"], "dead.work");
    assert_eq!(messages(&mut js, "WORK").await, 0);
    let letters = js.fetch_wait("DEAD", "r", 2).await;
    let [first, second] = &letters[..] else { panic!("{letters:?}") };
    assert_eq!((first.subject.as_str(), first.payload.as_str()), ("dead.work", "first"));
    let told = headers(first);
    let expected = [
        ("X-Color", "green"),
        ("Nats-Dead-Letter-Reason", "max_deliver"),
        ("Nats-Dead-Letter-Stream", "WORK"),
        ("Nats-Dead-Letter-Consumer", "w"),
        ("Nats-Dead-Letter-Subject", "work.a.1"),
        ("Nats-Dead-Letter-Sequence", "1"),
        ("Nats-Dead-Letter-Deliveries", "2"),
        ("Nats-Dead-Letter-Msg-Id", "one"),
    ];
    for (name, value) in expected {
        assert_eq!(told.get(name), Some(&value), "{name} of {told:?}");
    }
    assert!(!told.contains_key("Nats-Expected-Stream") && !told.contains_key("Nats-Dead-Letter-Term-Reason"));
    let told = headers(second);
    assert_eq!((told["Nats-Dead-Letter-Reason"], told["Nats-Dead-Letter-Deliveries"]), ("terminated", "1"));
    assert_eq!(told["Nats-Dead-Letter-Term-Reason"], "cannot be read");
}

/// The place for the letters is not there when the message is given up, nor when the server comes back.
#[tokio::test]
async fn a_letter_that_no_stream_takes_is_kept_over_kills() {
    let Some((mut server, mut js)) = with_queue().await else { return };
    js.publish("work.a", "lonely").await;
    js.publish("work.a", "healthy").await;
    let message = fetch_one(&mut js).await;
    confirm(&mut js, &message, "+TERM why not").await;
    let message = fetch_one(&mut js).await;
    confirm(&mut js, &message, "+ACK").await;
    js = kill(&mut server).await;
    let info = until_letters(&mut js, 0, 1).await;
    assert_eq!(
        (&info["num_ack_pending"], &info["ack_floor"]["stream_seq"]),
        (&json!(1), &json!(0)),
        "{info}"
    );
    assert_eq!(messages(&mut js, "WORK").await, 1);
    assert!(js.fetch("WORK", "w", 1).await.is_empty(), "a message that was given up came again");
    js.client.subscribe("$JS.EVENT.ADVISORY.CONSUMER.DEAD_LETTER_FAILED.WORK.w", "advisories").await;
    let advisory = loop {
        let message = js.client.message().await;
        if message.sid == "advisories" {
            break serde_json::from_str::<Value>(&message.payload).unwrap();
        }
    };
    assert_eq!(advisory["type"], "io.myelin.jetstream.advisory.v1.dead_letter_failed");
    assert_eq!((&advisory["stream_seq"], &advisory["error"]), (&json!(1), &json!("no stream has answered")));
    js.until("CONSUMER.INFO.WORK.w", "the failure shows", |info| {
        info["dead_letters"]["last_error"] == "no stream has answered"
    })
    .await;
    js = kill(&mut server).await;
    with_graveyard(&mut js).await;
    let info = until_letters(&mut js, 1, 0).await;
    assert!(info["dead_letters"].get("last_error").is_none(), "{info}");
    js = kill(&mut server).await;
    until_letters(&mut js, 1, 0).await;
    assert_eq!((messages(&mut js, "WORK").await, messages(&mut js, "DEAD").await), (0, 1));
    let letter = js.fetch_wait("DEAD", "r", 1).await.remove(0);
    assert_eq!(header(&letter.headers, "Nats-Dead-Letter-Term-Reason"), Some("why not"));
}

/// A stream that refuses is asked again, and what it said shows.
#[tokio::test]
async fn a_letter_that_is_refused_is_stored_when_the_stream_takes_it() {
    let Some((_server, mut js)) = with_queue().await else { return };
    let small = json!({"name": "DEAD", "subjects": ["dead.>"], "max_msg_size": 10});
    js.stream(small).await;
    js.publish("work.a", "longer than ten bytes").await;
    let message = fetch_one(&mut js).await;
    js.ack_with(&message, "+TERM").await;
    js.until("CONSUMER.INFO.WORK.w", "the refusal shows", |info| {
        info["dead_letters"]["last_error"] == "message size exceeds maximum allowed"
    })
    .await;
    assert_eq!((messages(&mut js, "WORK").await, messages(&mut js, "DEAD").await), (1, 0));
    let large = json!({"name": "DEAD", "subjects": ["dead.>"], "max_msg_size": -1});
    js.ok("STREAM.UPDATE.DEAD", large).await;
    until_letters(&mut js, 1, 0).await;
    assert_eq!((messages(&mut js, "WORK").await, messages(&mut js, "DEAD").await), (0, 1));
}

/// Gives up messages until a moment in which the server is killed.
async fn give_up_and_kill(server: &mut Server, js: &mut JetStream, round: u64) {
    for number in 0..MESSAGES {
        js.publish("work.a", &format!("{round}.{number}")).await;
    }
    let batch = js.fetch_wait("WORK", "w", MESSAGES as usize).await;
    for (message, number) in batch.iter().zip(0..) {
        let body = if number % 2 == 0 { "+TERM" } else { "-NAK" };
        js.ack_with(message, body).await;
    }
    // Sometimes letters are on their way by then, sometimes nothing has reached the server.
    if round.is_multiple_of(2) {
        eventually("some letters are stored", async || {
            let letters = js.ok("CONSUMER.INFO.WORK.w", Value::Null).await["dead_letters"]["stored"].as_u64();
            letters.filter(|stored| *stored > 0)
        })
        .await;
    }
    server.kill().await;
}

#[tokio::test]
async fn every_letter_is_stored_once_whenever_the_server_is_killed() {
    let Some((mut server, mut js)) = with_queue().await else { return };
    with_graveyard(&mut js).await;
    for round in 0..ROUNDS {
        give_up_and_kill(&mut server, &mut js, round).await;
        server.restart().await;
        js = JetStream::connect(&server).await;
    }
    let total = ROUNDS * MESSAGES;
    // What was lost on the way to the server comes again, and is given up in the end.
    js.ok(
        "CONSUMER.DURABLE.CREATE.WORK.w",
        json!({"stream_name": "WORK", "config": json!({"durable_name": "w", "ack_policy": "explicit",
            "max_deliver": 2, "ack_wait": 1_000_000_000, "dead_letter_subject": "dead.work"})}),
    )
    .await;
    eventually("all are done", async || {
        for message in js.fetch("WORK", "w", 100).await {
            js.ack_with(&message, "+TERM").await;
        }
        (messages(&mut js, "WORK").await == 0).then_some(())
    })
    .await;
    assert_eq!(messages(&mut js, "DEAD").await, total);
    let mut seen = BTreeMap::new();
    for letter in js.fetch_wait("DEAD", "r", total as usize).await {
        let sequence: u64 = header(&letter.headers, "Nats-Dead-Letter-Sequence").unwrap().parse().unwrap();
        assert!(seen.insert(sequence, letter.payload).is_none(), "{sequence} twice");
    }
    assert_eq!(seen.into_keys().collect::<Vec<_>>(), (1..=total).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_option_is_checked_and_can_be_changed() {
    let Some((_server, mut js)) = with_queue().await else { return };
    let refused = async |js: &mut JetStream, change: Value| {
        let mut config = worker();
        config.as_object_mut().unwrap().append(&mut change.as_object().unwrap().clone());
        let body = json!({"stream_name": "WORK", "config": config});
        let answer = js.api("CONSUMER.DURABLE.CREATE.WORK.w", &body).await;
        (answer["error"]["err_code"].as_u64(), answer["error"]["description"].to_string())
    };
    let told = refused(&mut js, json!({"dead_letter_subject": "dead.*"})).await;
    assert_eq!(told, (Some(20_001), "\"consumer dead letter subject must not have wildcards\"".to_owned()));
    assert_eq!(refused(&mut js, json!({"dead_letter_subject": "work.dead"})).await.0, Some(20_002));
    let none = json!({"durable_name": "n", "ack_policy": "none", "dead_letter_subject": "dead"});
    js.stream(json!({"name": "LOG", "subjects": ["log"]})).await;
    let body = json!({"stream_name": "LOG", "config": none});
    let answer = js.api("CONSUMER.DURABLE.CREATE.LOG.n", &body).await;
    assert_eq!(answer["error"]["err_code"], 20_003, "{answer}");
    // Without the option a message that waits for its letter is given up as everywhere: it stays, or is done.
    js.publish("work.a", "stays").await;
    js.publish("work.a", "is done").await;
    for body in ["-NAK", "-NAK", "+TERM"] {
        let message = fetch_one(&mut js).await;
        confirm(&mut js, &message, body).await;
    }
    until_letters(&mut js, 0, 2).await;
    assert_eq!(refused(&mut js, json!({"dead_letter_subject": ""})).await.0, None);
    let info = js
        .until("CONSUMER.INFO.WORK.w", "nothing waits", |info| {
            info["num_ack_pending"] == 0 && info.get("dead_letters").is_none()
        })
        .await;
    assert!(info["config"].get("dead_letter_subject").is_none(), "{info}");
    assert_eq!(messages(&mut js, "WORK").await, 1);
}

/// Limits neither count nor remove a message whose letter is not stored, also when the log is replayed.
#[tokio::test]
async fn limits_leave_messages_whose_letters_are_open() {
    let Some((mut server, mut js)) = with_queue().await else { return };
    let config = json!({"name": "LOG", "subjects": ["log.>"], "max_msgs": 3, "max_msgs_per_subject": 2});
    js.stream(config).await;
    let letters = json!({"durable_name": "w", "ack_policy": "explicit", "dead_letter_subject": "dead.log"});
    js.consumer("LOG", letters).await;
    js.publish("log.a", "condemned").await;
    let message = js.fetch_wait("LOG", "w", 1).await.remove(0);
    confirm(&mut js, &message, "+TERM").await;
    for number in 2..=4 {
        js.publish("log.a", &number.to_string()).await;
    }
    js.publish("log.b", "5").await;
    js.publish("log.c", "6").await;
    let state = |js: JetStream| async move {
        let mut js = js;
        let info = js.ok("STREAM.INFO.LOG", json!({"deleted_details": true})).await;
        (info["state"].clone(), js)
    };
    let (before, _) = state(js).await;
    assert_eq!((&before["messages"], &before["first_seq"]), (&json!(4), &json!(1)), "{before}");
    assert_eq!(before["deleted"], json!([2, 3]), "{before}");
    let (after, mut js) = state(kill(&mut server).await).await;
    assert_eq!(after["deleted"], before["deleted"], "{after}");
    with_graveyard(&mut js).await;
    let info = js.until("STREAM.INFO.LOG", "the message goes", |info| info["state"]["messages"] == 3).await;
    assert_eq!(info["state"]["first_seq"], 4, "{info}");
    let letter = js.fetch_wait("DEAD", "r", 1).await.remove(0);
    assert_eq!(letter.payload, "condemned");
}

/// Age removes it as soon as its letter is stored.
#[tokio::test]
async fn age_leaves_messages_whose_letters_are_open() {
    let Some((_server, mut js)) = with_queue().await else { return };
    js.stream(json!({"name": "LOG", "subjects": ["log.>"], "max_age": 1_000_000_000, "duplicate_window": 0}))
        .await;
    let letters = json!({"durable_name": "w", "ack_policy": "explicit", "dead_letter_subject": "dead.log"});
    js.consumer("LOG", letters).await;
    js.publish("log.a", "condemned").await;
    let message = js.fetch_wait("LOG", "w", 1).await.remove(0);
    confirm(&mut js, &message, "+TERM").await;
    js.publish("log.a", "ages").await;
    js.until("STREAM.INFO.LOG", "the second one goes", |info| {
        info["state"]["num_deleted"] == 1 || info["state"]["last_seq"] == 2 && info["state"]["messages"] == 1
    })
    .await;
    let info = js.ok("STREAM.INFO.LOG", Value::Null).await;
    assert_eq!((&info["state"]["messages"], &info["state"]["first_seq"]), (&json!(1), &json!(1)), "{info}");
    with_graveyard(&mut js).await;
    js.until("STREAM.INFO.LOG", "the first one goes", |info| info["state"]["messages"] == 0).await;
    assert_eq!(js.fetch_wait("DEAD", "r", 1).await.remove(0).payload, "condemned");
}

/// Letters that other consumers, or sources, would bring back are refused, whoever closes the circle.
#[tokio::test]
async fn a_circle_over_several_streams_is_refused() {
    let Some((_server, mut js)) = with_queue().await else { return };
    with_graveyard(&mut js).await;
    let consumer = |stream: &str, name: &str, letters: &str| {
        let config = json!({"durable_name": name, "ack_policy": "explicit", "dead_letter_subject": letters});
        (format!("CONSUMER.DURABLE.CREATE.{stream}.{name}"), json!({"stream_name": stream, "config": config}))
    };
    let mut code =
        async |(path, body): (String, Value)| js.api(&path, &body).await["error"]["err_code"].as_u64();
    // The letters of WORK go to DEAD, those of DEAD to GONE, and those of GONE would go to WORK.
    assert_eq!(
        code(("STREAM.CREATE.GONE".into(), json!({"name": "GONE", "subjects": ["gone"]}))).await,
        None
    );
    assert_eq!(code(consumer("DEAD", "d", "gone")).await, None);
    assert_eq!(code(consumer("GONE", "g", "work.again")).await, Some(20_002));
    assert_eq!(code(consumer("GONE", "g", "elsewhere")).await, None);
    assert_eq!(code(consumer("GONE", "g", "work.again")).await, Some(20_002));
    // What takes from where letters go is a place where they come to as well.
    let back = json!({"name": "BACK", "sources": [{"name": "GONE"}]});
    assert_eq!(code(("STREAM.CREATE.BACK".into(), back)).await, None);
    assert_eq!(code(consumer("BACK", "b", "dead.again")).await, Some(20_002));
    assert_eq!(code(consumer("BACK", "b", "nowhere")).await, None);
}

/// A stream that is made or changed later closes no circle either: by its subjects, by what it takes, by what it republishes.
#[tokio::test]
async fn a_stream_that_closes_a_circle_is_refused() {
    let Some((_server, mut js)) = with_queue().await else { return };
    let mut code = async |path: &str, config: Value| {
        let answer = js.api(path, &config).await;
        (answer["error"]["err_code"].as_u64(), answer["error"]["description"].to_string())
    };
    let cycle = (Some(20_002), "\"consumer dead letter subject forms a cycle\"".to_owned());
    let none = (None, "null".to_owned());
    // The letters of WORK go to `dead.work`, which no stream stores yet.
    let work = |subjects: &[&str]| json!({"name": "WORK", "subjects": subjects, "retention": "workqueue"});
    assert_eq!(code("STREAM.UPDATE.WORK", work(&["work.>", "dead.*"])).await, cycle);
    assert_eq!(code("STREAM.UPDATE.WORK", work(&["work.>", "dead"])).await, none);
    // What republishes them to WORK.
    let back = |to: &str| json!({"name": "DEAD", "subjects": ["dead.>"], "republish": {"src": "dead.*", "dest": to}});
    assert_eq!(code("STREAM.CREATE.DEAD", back("work.again.{{wildcard(1)}}")).await, cycle);
    assert_eq!(code("STREAM.CREATE.DEAD", back("elsewhere.{{wildcard(1)}}")).await, none);
    assert_eq!(code("STREAM.UPDATE.DEAD", back("work.again.{{wildcard(1)}}")).await, cycle);
    // A mirror of a mirror, from which they would go to WORK again.
    assert_eq!(
        code("STREAM.CREATE.COPY", json!({"name": "COPY", "sources": [{"name": "NONE"}]})).await,
        none
    );
    let copy = |from: &str| json!({"name": "COPY", "sources": [{"name": "NONE"}, {"name": from}]});
    let out = json!({"name": "OUT", "sources": [{"name": "COPY"}], "republish": {"dest": "work.{{wildcard(1)}}", "src": "dead.*"}});
    assert_eq!(code("STREAM.CREATE.OUT", out).await, none);
    assert_eq!(code("STREAM.UPDATE.COPY", copy("DEAD")).await, cycle);
    assert_eq!(code("STREAM.UPDATE.COPY", copy("OTHER")).await, none);
    // The origin that it has waited for.
    assert_eq!(code("STREAM.CREATE.OTHER", json!({"name": "OTHER", "subjects": ["other.>"]})).await, none);
    assert_eq!(code("STREAM.DELETE.DEAD", Value::Null).await, none);
    let other = json!({"name": "OTHER", "subjects": ["other.>", "dead.>"]});
    assert_eq!(code("STREAM.UPDATE.OTHER", other).await, cycle);
}

/// Sends two requests at once and gives the error codes of their answers.
async fn both(js: &mut JetStream, requests: [(&str, Value); 2]) -> Vec<Option<u64>> {
    let mut written = String::new();
    for (path, body) in requests {
        let (inbox, body) = (js.new_inbox(), body.to_string());
        written += &format!("PUB $JS.API.{path} {inbox} {}\r\n{body}\r\n", body.len());
    }
    js.client.send(written).await;
    let mut codes = Vec::new();
    for _ in 0..2 {
        let answer: Value = serde_json::from_str(&js.client.message().await.payload).unwrap();
        codes.push(answer["error"]["err_code"].as_u64());
    }
    codes.sort_unstable();
    codes
}

/// Of two changes that close a circle together one is refused, although neither is in force when the other one is looked at.
#[tokio::test]
async fn a_circle_that_two_close_at_once_is_refused() {
    let Some((_server, mut js)) = with_queue().await else { return };
    for name in ["A", "B"] {
        let letter = name.to_lowercase();
        js.stream(json!({"name": name, "subjects": [format!("{letter}.>")]})).await;
    }
    let consumer = |stream: &str, letters: &str| {
        json!({"stream_name": stream, "config": {
            "durable_name": "c", "ack_policy": "explicit", "dead_letter_subject": letters,
        }})
    };
    let (a, b) = ("CONSUMER.DURABLE.CREATE.A.c", "CONSUMER.DURABLE.CREATE.B.c");
    for _ in 0..5 {
        let codes = both(&mut js, [(a, consumer("A", "b.x")), (b, consumer("B", "a.x"))]).await;
        assert_eq!(codes, [None, Some(20_002)]);
        // What was refused is not reckoned with, nor what is gone.
        for (stream, path, letters) in [("A", a, "b.x"), ("B", b, "a.x")] {
            for stream in ["A", "B"] {
                js.api(&format!("CONSUMER.DELETE.{stream}.c"), &Value::Null).await;
            }
            js.ok(path, consumer(stream, letters)).await;
        }
        js.ok("CONSUMER.DELETE.B.c", Value::Null).await;
        // A stream that would bring letters back.
        let back = json!({"name": "C", "subjects": ["c.>"], "republish": {"src": "c.*", "dest": "a.{{wildcard(1)}}"}});
        let codes = both(&mut js, [(a, consumer("A", "c.x")), ("STREAM.CREATE.C", back)]).await;
        assert_eq!(codes, [None, Some(20_002)]);
        js.api("STREAM.DELETE.C", &Value::Null).await;
    }
}
