//! One thing at a time.

use std::collections::BTreeMap;

use crate::net::{Net, SECOND, START, header};

const ORIGIN: &str = r#"{"name":"O","subjects":["o.>"]}"#;

fn with_origin(messages: u64) -> Net {
    let mut net = Net::new(1);
    net.create(ORIGIN);
    for number in 1..=messages {
        net.publish("O", &format!("o.{number}"), &[], &format!("m{number}"));
        net.pass(SECOND / 1000);
    }
    net
}

fn created(net: &Net) -> usize {
    net.requests.iter().filter(|(operation, _)| operation == "CREATE").count()
}

#[test]
fn mirror_has_sequences_times_and_gaps_of_its_origin() {
    let mut net = with_origin(6);
    net.remove("O", 1);
    net.remove("O", 3);
    net.create(r#"{"name":"M","mirror":{"name":"O"}}"#);
    assert_eq!(net.mirror("M").active.0, -1);
    net.pass(SECOND);
    assert_eq!(net.messages("M"), net.messages("O"));
    net.publish("O", "o.7", &["A: b"], "m7");
    assert_eq!(net.messages("M"), net.messages("O"));
    let (mirror, state) = (net.mirror("M"), net.stream("M").state());
    assert_eq!((mirror.lag, mirror.error), (0, None));
    assert_eq!((state.first_sequence, state.last_sequence, state.deleted), (2, 7, 1));
    assert_eq!(created(&net), 1);
}

#[test]
fn mirror_of_a_stream_that_begins_late_begins_there_too() {
    let mut net = with_origin(3);
    for sequence in 1..=3 {
        net.remove("O", sequence);
    }
    net.create(r#"{"name":"M","mirror":{"name":"O"}}"#);
    net.pass(SECOND);
    let state = net.stream("M").state();
    assert_eq!((state.messages, state.first_sequence, state.last_sequence), (0, 4, 3));
    net.publish("O", "o.4", &[], "m4");
    assert_eq!(net.messages("M"), net.messages("O"));
}

#[test]
fn filtered_mirror_is_found_by_the_times_of_its_origin() {
    let mut net = with_origin(9);
    net.create(r#"{"name":"M","mirror":{"name":"O","filter_subject":"o.7"}}"#);
    net.pass(100 * SECOND);
    let store = net.stream("M").store();
    let time = store::Timestamp(START + SECOND / 1000 * 5);
    assert_eq!(store.sequence_at(time).unwrap(), 7);
}

#[test]
fn mirror_starts_where_it_is_told() {
    let mut net = with_origin(5);
    net.create(r#"{"name":"M","mirror":{"name":"O","opt_start_seq":4}}"#);
    net.create(r#"{"name":"T","mirror":{"name":"O","opt_start_time":"2026-01-01T00:00:00.002Z"}}"#);
    net.pass(SECOND);
    assert_eq!(net.bodies("M"), ["m4", "m5"]);
    assert_eq!(net.bodies("T"), ["m3", "m4", "m5"]);
}

#[test]
fn mirror_changes_subjects_and_leaves_out_what_was_for_the_origin_only() {
    let mut net = with_origin(0);
    net.publish("O", "o.a.1", &["Nats-Expected-Stream: O", "X:y", "Nats-Msg-Id: 1"], "m");
    let transforms = r#"[{"src":"o.a.*","dest":"n.{{wildcard(1)}}"},{"src":"o.b","dest":""}]"#;
    net.create(&format!(r#"{{"name":"M","mirror":{{"name":"O","subject_transforms":{transforms}}}}}"#));
    net.publish("O", "o.b", &[], "b");
    net.publish("O", "o.c", &[], "c");
    net.pass(SECOND);
    let messages = net.messages("M");
    let subjects: Vec<&[u8]> = messages.iter().map(|message| &*message.subject).collect();
    assert_eq!(subjects, [&b"n.1"[..], b"o.b"]);
    assert_eq!(&*messages[0].headers, b"NATS/1.0\r\nX:y\r\nNats-Msg-Id: 1\r\n\r\n");
}

#[test]
fn source_appends_with_its_origin_in_a_header() {
    let mut net = with_origin(3);
    let config = r#"{"name":"S","subjects":["s"],"sources":[{"name":"O","filter_subject":"o.*"}]}"#;
    net.create(config);
    net.publish("S", "s", &[], "own");
    net.pass(SECOND);
    assert_eq!(net.bodies("S"), ["own", "m1", "m2", "m3"]);
    let messages = net.messages("S");
    let identity = jetstream::source::identity(store::Timestamp(START));
    let expected = format!("O 2 o.* > o.2 {identity}");
    assert_eq!(header(&messages[2].headers, "Nats-Stream-Source"), Some(expected));
    let info = net.info("S").sources.remove(0);
    assert_eq!((info.name.as_str(), info.lag, info.seq, info.error), ("O", 0, 3, None));
    assert_eq!(info.filter_subject, "o.*");
    let (_, subject) = &net.requests[0];
    assert_eq!(subject, "$JS.API.CONSUMER.CREATE.O.JS_SRC_N6lXlrSF.o.*");
}

#[test]
fn source_in_a_chain_names_only_the_last_origin() {
    let mut net = with_origin(1);
    net.create(r#"{"name":"P","sources":[{"name":"O"}]}"#);
    net.create(r#"{"name":"Q","sources":[{"name":"P"}]}"#);
    net.pass(SECOND);
    let message = net.messages("Q").remove(0);
    assert!(header(&message.headers, "Nats-Stream-Source").unwrap().starts_with("P 1 > > o.1 "));
    assert_eq!(String::from_utf8_lossy(&message.headers).matches("Nats-Stream-Source").count(), 1);
}

#[test]
fn restarted_source_goes_on_although_its_messages_are_gone() {
    let mut net = with_origin(4);
    net.create(r#"{"name":"S","sources":[{"name":"O"}],"max_msgs":1}"#);
    net.pass(SECOND);
    net.remove("S", 4);
    net.publish("O", "o.5", &[], "m5");
    net.restart("S");
    net.pass(5 * SECOND);
    assert_eq!(net.bodies("S"), ["m5"]);
    assert_eq!(net.stream("S").state().last_sequence, 5);
}

#[test]
fn restored_stream_goes_on_where_its_archive_ends() {
    let mut net = with_origin(5);
    net.create(r#"{"name":"P","subjects":["p.>"]}"#);
    let config =
        r#"{"name":"S","subjects":["s"],"sources":[{"name":"O","filter_subject":"o.>"},{"name":"P"}]}"#;
    net.create(config);
    net.pass(SECOND);
    net.publish("S", "s", &[], "own");
    let archive = net.archive("S");
    net.publish("O", "o.6", &[], "m6");
    net.publish("P", "p.1", &[], "p1");
    net.pass(SECOND);
    net.restore(config, &archive);
    net.pass(5 * SECOND);
    net.publish("O", "o.7", &[], "m7");
    let mut bodies = net.bodies("S");
    assert_eq!(bodies[..6], ["m1", "m2", "m3", "m4", "m5", "own"]);
    assert_eq!(bodies.pop().as_deref(), Some("m7"));
    bodies[6..].sort();
    assert_eq!(bodies[6..], ["m6", "p1"]);
    // What the new configuration has no place for was taken nevertheless.
    let archive = net.archive("S");
    net.restore(r#"{"name":"S","sources":[{"name":"O","filter_subject":"o.>"}],"max_msgs":1}"#, &archive);
    net.publish("O", "o.8", &[], "m8");
    net.pass(5 * SECOND);
    assert_eq!((net.bodies("S"), net.stream("S").state().last_sequence), (vec!["m8".to_owned()], 10));
}

#[test]
fn source_that_was_away_finds_its_place_by_its_messages() {
    let mut net = with_origin(3);
    let with = r#"{"name":"S","subjects":["s"],"sources":[{"name":"O"}]}"#;
    net.create(with);
    net.pass(SECOND);
    net.update(r#"{"name":"S","subjects":["s"]}"#);
    assert!(net.info("S").sources.is_empty());
    net.publish("O", "o.4", &[], "m4");
    net.pass(SECOND);
    net.update(with);
    net.pass(SECOND);
    assert_eq!(net.bodies("S"), ["m1", "m2", "m3", "m4"]);
    assert!(net.requests.iter().any(|(operation, _)| operation == "DELETE"));
}

#[test]
fn promoted_mirror_takes_nothing_more_from_its_origin() {
    let mut net = with_origin(2);
    net.create(r#"{"name":"M","mirror":{"name":"O"}}"#);
    net.pass(SECOND);
    net.update(r#"{"name":"M","subjects":["m"]}"#);
    assert_eq!(net.info("M").mirror, None);
    net.publish("O", "o.3", &[], "m3");
    net.publish("M", "m", &[], "own");
    net.pass(20 * SECOND);
    assert_eq!(net.bodies("M"), ["m1", "m2", "own"]);
}

#[test]
fn origin_that_vanishes_is_asked_again_and_followed_when_it_is_back() {
    let mut net = with_origin(2);
    net.create(r#"{"name":"M","mirror":{"name":"O"}}"#);
    net.create(r#"{"name":"S","sources":[{"name":"O"}]}"#);
    net.pass(SECOND);
    net.delete("O");
    net.pass(30 * SECOND);
    let (mirror, source) = (net.mirror("M"), net.info("S").sources.remove(0));
    assert_eq!(mirror.error.map(|error| error.err_code), Some(10059));
    assert_eq!(source.error.map(|error| error.err_code), Some(10059));
    let before = created(&net);
    net.pass(600 * SECOND);
    let tries = created(&net) - before;
    assert!((2 * 9..=2 * 12).contains(&tries), "{tries} requests in ten minutes");
    net.create(ORIGIN);
    for number in 1..=4 {
        net.publish("O", "o.x", &[], &format!("n{number}"));
    }
    net.pass(120 * SECOND);
    // A mirror goes on behind what it has; a source sees that this is another stream.
    assert_eq!(net.bodies("M"), ["m1", "m2", "n3", "n4"]);
    assert_eq!(net.bodies("S"), ["m1", "m2", "n1", "n2", "n3", "n4"]);
    assert_eq!((net.mirror("M").error, net.mirror("M").lag), (None, 0));
    assert_eq!(net.info("S").sources[0].seq, 4);
}

#[test]
fn flow_control_is_answered_when_what_came_before_is_stored() {
    let mut net = Net::new(3);
    net.create(r#"{"name":"O","subjects":["o"],"retention":"workqueue"}"#);
    net.create(r#"{"name":"S","sources":[{"name":"O"}]}"#);
    net.pass(SECOND);
    let body = "x".repeat(512 * 1024);
    net.held.insert("S".to_owned());
    for _ in 0..4 {
        net.publish("O", "o", &[], &body);
    }
    net.pass(3 * SECOND);
    let answers = |net: &Net| net.sent.iter().filter(|send| send.subject.starts_with(b"$JS.FC.O.")).count();
    assert_eq!((answers(&net), net.messages("O").len()), (0, 4));
    net.held.clear();
    net.pass(3 * SECOND);
    assert!(answers(&net) > 0);
    assert_eq!(net.messages("S").len(), 4);
    let answer = net.sent.iter().find(|send| send.subject.starts_with(b"$JS.FC.O.")).unwrap();
    assert!(header(&answer.headers, "Nats-Last-Stream").is_some(), "{answer:?}");
    assert!(net.messages("O").len() < 4, "nothing was acknowledged");
}

#[test]
fn what_does_not_fit_comes_again_when_there_is_room() {
    let mut net = with_origin(4);
    net.create(r#"{"name":"S","sources":[{"name":"O"}],"discard":"new","max_msgs":2}"#);
    net.pass(10 * SECOND);
    assert_eq!(net.bodies("S"), ["m1", "m2"]);
    net.remove("S", 1);
    net.remove("S", 2);
    net.pass(10 * SECOND);
    assert_eq!(net.bodies("S"), ["m3", "m4"]);
}

#[test]
fn duplicates_are_left_out_without_asking_again() {
    let mut net = with_origin(0);
    net.create(r#"{"name":"S","subjects":["s"],"sources":[{"name":"O"}],"duplicate_window":60000000000}"#);
    net.pass(SECOND);
    net.publish("S", "s", &["Nats-Msg-Id: 1"], "own");
    net.publish("O", "o.1", &["Nats-Msg-Id: 1"], "again");
    net.publish("O", "o.2", &["Nats-Msg-Id: 2"], "new");
    assert_eq!(net.bodies("S"), ["own", "new"]);
    net.pass(20 * SECOND);
    assert_eq!(created(&net), 1);
}

#[test]
fn counters_of_several_streams_add_up() {
    let mut net = Net::new(5);
    for name in ["A", "B"] {
        net.create(&format!(r#"{{"name":"{name}","subjects":["{name}.*"],"allow_msg_counter":true}}"#));
        for value in ["+5", "-2"] {
            net.publish(name, &format!("{name}.c"), &[&format!("Nats-Incr: {value}")], "");
        }
    }
    let source = |name: &str| {
        format!(
            r#"{{"name":"{name}","subject_transforms":[{{"src":"{name}.*","dest":"sum.{{{{wildcard(1)}}}}"}}]}}"#
        )
    };
    net.create(&format!(
        r#"{{"name":"S","subjects":["sum.*"],"allow_msg_counter":true,"sources":[{},{}]}}"#,
        source("A"),
        source("B")
    ));
    net.pass(SECOND);
    net.publish("S", "sum.c", &["Nats-Incr: 10"], "");
    let last = net.messages("S").pop().unwrap();
    assert_eq!(&*last.payload, b"{\"val\":\"16\"}");
    let origins = r#"{"A":{"A.c":"3"},"B":{"B.c":"3"}}"#;
    assert_eq!(header(&last.headers, "Nats-Counter-Sources").as_deref(), Some(origins));
    let increments: BTreeMap<u64, Option<String>> = net
        .messages("S")
        .iter()
        .map(|message| (message.sequence, header(&message.headers, "Nats-Incr")))
        .collect();
    let text = |number: u64| increments[&number].clone().unwrap();
    assert_eq!((1..=5).map(text).collect::<Vec<_>>().len(), 5);
    assert_eq!((1..=4).map(|number| text(number).parse::<i64>().unwrap()).sum::<i64>(), 6);
}

#[test]
fn lasting_consumer_is_set_back_and_its_messages_go_when_they_are_stored() {
    let mut net = Net::new(6);
    net.create(r#"{"name":"O","subjects":["o"],"retention":"workqueue"}"#);
    let consumer = r#"{"durable_name":"D","name":"D","deliver_subject":"d.x","ack_policy":"flow_control","idle_heartbeat":1000000000,"flow_control":true,"max_ack_pending":10}"#;
    let config = serde_json::from_str(consumer).unwrap();
    net.request(
        "O",
        jetstream::Request::CreateConsumer {
            config,
            action: api::jetstream::consumer::ConsumerAction::default(),
            pedantic: false,
        },
    );
    for number in 0..30 {
        net.publish("O", "o", &[], &number.to_string());
    }
    net.create(r#"{"name":"S","sources":[{"name":"O","consumer":{"name":"D","deliver_subject":"d.x"}}]}"#);
    net.pass(20 * SECOND);
    let expected: Vec<String> = (0..30).map(|number| number.to_string()).collect();
    assert_eq!(net.bodies("S"), expected);
    assert!(net.messages("O").len() <= 10, "{} are left", net.messages("O").len());
    assert!(net.requests.iter().all(|(operation, _)| operation == "RESET"), "{:?}", net.requests);
    assert_eq!(net.requests.len(), 1);
}

#[test]
fn silence_and_lost_messages_end_in_one_new_consumer_each() {
    let mut net = with_origin(3);
    net.create(r#"{"name":"M","mirror":{"name":"O"}}"#);
    net.pass(SECOND);
    let before = created(&net);
    net.loss = 1;
    net.publish("O", "o.4", &[], "m4");
    net.loss = 0;
    net.publish("O", "o.5", &[], "m5");
    net.pass(5 * SECOND);
    assert_eq!(net.bodies("M"), ["m1", "m2", "m3", "m4", "m5"]);
    assert_eq!(created(&net) - before, 1);
    net.loss = 1;
    net.pass(15 * SECOND);
    net.loss = 0;
    net.publish("O", "o.6", &[], "m6");
    net.pass(40 * SECOND);
    assert_eq!(net.messages("M"), net.messages("O"));
    assert!(net.now() > START);
}
