//! Consumers as the shell sees them through their stream: what has to be written soon, and what stays of those that are gone.

use api::jetstream::consumer::ConsumerAction;
use bytes::Bytes;
use jetstream::Request;
use jetstream::effect::Effect;

use crate::harness::Bench;

fn bench(stream: &str) -> Bench {
    let mut bench = Bench::new(serde_json::from_str(stream).unwrap());
    bench.settle();
    bench
}

fn create(bench: &mut Bench, config: &str) {
    let config = serde_json::from_str(config).unwrap();
    bench.request(Request::CreateConsumer { config, action: ConsumerAction::default(), pedantic: false });
    bench.settle();
}

/// Two messages that a pushing consumer has delivered; their acknowledgement subjects.
fn delivered(bench: &mut Bench) -> [Bytes; 2] {
    create(bench, r#"{"durable_name":"c","ack_policy":"explicit","deliver_subject":"p"}"#);
    bench.publish("s", Bytes::new(), Bytes::from_static(b"x"), None);
    bench.publish("s", Bytes::new(), Bytes::from_static(b"y"), None);
    let effects = bench.settle();
    let replies = effects.into_iter().filter_map(|effect| match effect {
        Effect::Deliver(deliver) => Some(deliver.reply),
        _ => None,
    });
    <[Bytes; 2]>::try_from(replies.collect::<Vec<_>>()).unwrap()
}

#[test]
fn only_what_somebody_waits_for_has_to_be_written_soon() {
    let mut limits = bench(r#"{"name":"S","subjects":["s"],"storage":"file","num_replicas":1}"#);
    let [first, second] = delivered(&mut limits);
    let mut awaited = |act: &dyn Fn(&mut Bench)| {
        limits.effects.awaited = false;
        act(&mut limits);
        limits.settle();
        limits.effects.awaited
    };
    assert!(!awaited(&|bench| bench.ack(&first, None, b"")));
    assert!(!awaited(&|bench| bench.ack(&second, None, b"-NAK")));
    assert!(awaited(&|bench| bench.ack(&second, Some(&Bytes::from_static(b"r")), b"+ACK")));
    assert!(awaited(&|bench| bench.publish("s", Bytes::new(), Bytes::new(), Some("r"))));
    assert!(awaited(&|bench| bench.request(Request::DeleteConsumer { consumer: "c".into() })));
}

#[test]
fn a_confirmation_waits_for_a_command_before_it_which_is_awaited_then() {
    let mut limits = bench(r#"{"name":"S","subjects":["s"],"storage":"file","num_replicas":1}"#);
    let [first, _] = delivered(&mut limits);
    (limits.holding, limits.effects.awaited) = (true, false);
    limits.ack(&first, None, b"");
    limits.settle();
    assert!(!limits.effects.awaited);
    limits.ack(&first, Some(&Bytes::from_static(b"r")), b"");
    limits.settle();
    assert!(limits.effects.awaited);
}

#[test]
fn where_acknowledgements_make_room_they_are_written_soon() {
    let mut queue =
        bench(r#"{"name":"S","subjects":["s"],"storage":"file","num_replicas":1,"retention":"workqueue"}"#);
    let [first, _] = delivered(&mut queue);
    queue.effects.awaited = false;
    queue.ack(&first, None, b"");
    queue.settle();
    assert!(queue.effects.awaited);
}

#[test]
fn when_no_change_lasts_any_more_acknowledgements_are_neither_kept_nor_confirmed() {
    let mut limits = bench(r#"{"name":"S","subjects":["s"],"storage":"file","num_replicas":1}"#);
    let [first, second] = delivered(&mut limits);
    limits.stream.stop_changes(&mut limits.effects, "disk is gone");
    let (confirmation, proposed) = (Bytes::from_static(b"r"), limits.log.len());
    // Asked again, a server that remembers the acknowledgement and has not stored it must not confirm it either.
    for ack in [&first, &second, &first, &second] {
        limits.ack(ack, Some(&confirmation), b"");
        let effects = limits.settle();
        let is_told = |effect: &Effect| matches!(effect, Effect::Send(send) if send.subject == confirmation);
        assert!(!effects.iter().any(is_told), "{effects:?}");
    }
    assert_eq!(limits.log.len(), proposed);
}

#[test]
fn a_consumer_that_a_checkpoint_has_is_gone_after_the_next_one_if_it_was_deleted() {
    let mut bench = bench(r#"{"name":"S","subjects":["s"],"storage":"file","num_replicas":1}"#);
    create(&mut bench, r#"{"durable_name":"saved","ack_policy":"explicit"}"#);
    create(&mut bench, r#"{"durable_name":"kept","ack_policy":"explicit"}"#);
    bench.checkpoint();
    create(&mut bench, r#"{"durable_name":"brief","ack_policy":"explicit"}"#);
    for name in ["saved", "brief"] {
        bench.request(Request::DeleteConsumer { consumer: name.into() });
        bench.settle();
    }
    bench.checkpoint();
    bench.restart();
    assert_eq!(bench.stream.consumers().map(|consumer| consumer.name()).collect::<Vec<_>>(), ["kept"]);
}

#[test]
fn a_consumer_hears_that_a_message_of_its_older_filter_is_gone() {
    for restart in [false, true] {
        let mut bench = bench(r#"{"name":"S","subjects":["s.*"],"storage":"file","num_replicas":1}"#);
        // So many that those who want a subject are not asked one by one.
        for number in 0..10 {
            create(&mut bench, &format!(r#"{{"durable_name":"c{number}","filter_subject":"s.other"}}"#));
        }
        let config = |filter| {
            format!(
                r#"{{"durable_name":"c","ack_policy":"explicit","deliver_subject":"p","filter_subject":"{filter}"}}"#
            )
        };
        create(&mut bench, &config("s.1"));
        bench.publish("s.1", Bytes::new(), Bytes::from_static(b"x"), None);
        bench.settle();
        create(&mut bench, &config("s.2"));
        if restart {
            bench.checkpoint();
            bench.restart();
            bench.settle();
        }
        let floor = |bench: &Bench| bench.stream.consumer("c").unwrap().ack_floor().stream;
        assert_eq!(floor(&bench), 0);
        bench.request(Request::DeleteMessage { sequence: 1, erase: false });
        bench.settle();
        assert_eq!(floor(&bench), 1, "restart: {restart}");
    }
}
