//! Single rules that neither scripts nor models show well.

use std::time::Duration;

use api::duration::Nanos;
use api::jetstream::consumer::{AckPolicy, ConsumerConfig, DeliverPolicy};
use api::jetstream::stream::Retention;
use jetstream::consumer::{Budget, Consumer, RemoveReason, StateError};
use jetstream::effect::Effect;

use crate::harness::{Entry, Harness, Replica, World};

fn explicit() -> ConsumerConfig {
    ConsumerConfig {
        durable_name: "c".into(),
        ack_policy: AckPolicy::Explicit,
        ack_wait: Nanos::from_secs(1),
        max_waiting: 512,
        ..ConsumerConfig::default()
    }
}

fn filled(config: &ConsumerConfig, messages: u64) -> Harness {
    let empty = Harness::new(1, Retention::WorkQueue, config, Vec::new());
    let log = (0..messages).map(|_| empty.append_entry("a", b"x")).collect();
    Harness::new(1, Retention::WorkQueue, config, log)
}

fn sent_to(effects: &[Effect], to: &str) -> usize {
    let matches = |effect: &&Effect| matches!(effect, Effect::Send(send) if send.subject == to.as_bytes());
    effects.iter().filter(matches).count()
}

#[test]
fn confirmation_waits_for_the_command() {
    let mut harness = filled(&explicit(), 1);
    harness.pull("in", "1");
    harness.settle();
    let reply = harness.deliveries().remove(0).reply;
    harness.ack(&reply, b"+ACK", Some("sure"));
    harness.ack(&reply, b"+ACK", Some("sure"));
    harness.turn();
    assert_eq!(sent_to(&harness.effects(), "sure"), 0);
    assert!(harness.replica.consumer.needs(1, b"a"));
    // Acknowledged again while the command is under way: that waits for it too.
    harness.ack(&reply, b"+ACK", Some("sure"));
    harness.turn();
    assert_eq!(sent_to(&harness.effects(), "sure"), 0);
    harness.apply_all();
    assert_eq!(sent_to(&harness.effects(), "sure"), 3);
    assert!(!harness.replica.consumer.needs(1, b"a"));
    assert!(harness.replica.acked.contains(&1));
    harness.ack(&reply, b"+ACK", Some("sure"));
    assert_eq!(sent_to(&harness.effects(), "sure"), 1);
}

/// Whether others may be the last to need a message must not depend on deliveries that are under way: replicas have not heard of them.
#[test]
fn what_is_needed_without_acknowledgements_follows_from_what_is_applied() {
    let config = ConsumerConfig {
        durable_name: "c".into(),
        deliver_policy: DeliverPolicy::LastPerSubject,
        max_waiting: 512,
        ..ConsumerConfig::default()
    };
    let empty = Harness::new(1, Retention::Interest, &config, Vec::new());
    let log = ["b", "a", "a", "a"].map(|subject| empty.append_entry(subject, b"x")).to_vec();
    for delivered in ["1", "2"] {
        let mut harness = Harness::new(1, Retention::Interest, &config, log.clone());
        let needs =
            |harness: &Harness| [1, 2, 3, 4].map(|sequence| harness.replica.consumer.needs(sequence, b"a"));
        assert_eq!(needs(&harness), [true, false, false, true]);
        harness.pull("in", delivered);
        harness.turn();
        assert_eq!(harness.deliveries().len().to_string(), delivered);
        assert_eq!(needs(&harness), [true, false, false, true]);
        harness.apply_all();
        assert_eq!(needs(&harness), [false, false, false, delivered == "1"]);
    }
}

#[test]
fn acknowledgements_in_a_checkpoint_whose_commands_are_lost_are_proposed_again() {
    let mut harness = filled(&explicit(), 2);
    harness.pull("in", "2");
    harness.settle();
    let reply = harness.deliveries().remove(0).reply;
    harness.ack(&reply, b"+ACK", None);
    harness.turn();
    let state = harness.replica.state();
    let lost = harness.log.pop();
    assert!(matches!(lost, Some(Entry::Command(_))));
    harness.replica.consumer = Consumer::restore(&state).unwrap();
    harness.with(|consumer, ctx| consumer.lead(ctx));
    assert!(harness.replica.consumer.needs(1, b"a"));
    harness.settle();
    assert!(harness.replica.acked.contains(&1) && !harness.replica.consumer.needs(1, b"a"));
    assert!(harness.replica.consumer.needs(2, b"a"));
}

#[test]
fn budget_bounds_a_turn_and_says_that_more_is_left() {
    let mut harness = filled(&explicit(), 10);
    harness.budget = Budget { messages: 4, bytes: u64::MAX };
    harness.pull("in", "10");
    assert!(harness.turn());
    assert_eq!(harness.deliveries().len(), 4);
    assert!(harness.turn());
    assert!(!harness.turn());
    assert_eq!(harness.deliveries().len(), 6);
    harness.budget = Budget { messages: 100, bytes: 1 };
    assert!(!harness.turn());
}

#[test]
fn one_command_a_turn_however_many_messages() {
    let mut harness = filled(&explicit(), 1_000);
    harness.pull("in", "1000");
    harness.turn();
    let commands: Vec<usize> = harness
        .log
        .iter()
        .filter_map(|entry| if let Entry::Command(command) = entry { Some(command.len()) } else { None })
        .collect();
    assert_eq!(commands.len(), 1);
    assert!(commands[0] < 32, "{} bytes for a run of deliveries", commands[0]);
}

#[test]
fn idle_consumer_is_small() {
    assert!(size_of::<Consumer>() <= 640, "{}", size_of::<Consumer>());
}

#[test]
fn deadlines_do_not_grow_with_what_is_done() {
    let mut harness = filled(&explicit(), 0);
    for _ in 0..50 {
        for _ in 0..200 {
            let entry = harness.append_entry("a", b"x");
            harness.log.push(entry);
        }
        harness.apply_all();
        harness.pull("in", "200");
        harness.settle();
        for deliver in harness.deliveries() {
            harness.ack(&deliver.reply, b"", None);
        }
        harness.settle();
    }
    // All is done, so only stale deadlines can call; they end after the wait.
    harness.advance(Duration::from_secs(2));
    assert_eq!(harness.replica.consumer.poll_timeout(), None);
}

#[test]
fn acknowledgements_from_the_last_to_the_first_all_count() {
    const MESSAGES: u64 = 100_000;
    let config = ConsumerConfig { max_ack_pending: -1, ..explicit() };
    let mut harness = filled(&config, MESSAGES);
    harness.pull("in", &MESSAGES.to_string());
    harness.settle();
    let mut replies: Vec<_> = harness.deliveries().into_iter().map(|deliver| deliver.reply).collect();
    replies.reverse();
    for reply in &replies {
        harness.ack(reply, b"", None);
    }
    harness.settle();
    assert_eq!(harness.replica.consumer.ack_floor().stream, MESSAGES);
    assert_eq!(harness.replica.acked.len() as u64, MESSAGES);
}

/// A consumer with something in every part of its state.
fn busy() -> Harness {
    let mut harness = filled(&ConsumerConfig { max_deliver: 2, ..explicit() }, 9);
    harness.pull("in", "3");
    harness.settle();
    harness.ack(b"$JS.ACK.S.c.1.1.1.0.0", b"-NAK", None);
    harness.pull("in", "1");
    harness.settle();
    harness.ack(b"$JS.ACK.S.c.2.1.4.0.0", b"-NAK", None);
    harness.ack(b"$JS.ACK.S.c.1.2.2.0.0", b"+ACK", None);
    harness.turn();
    harness
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What version 1 looks like. It must stay readable for ever.
const STATE_1: &str = "01016380c0a8ca9a3aa6017b2264757261626c655f6e616d65223a2263222c2264656c697665725f706f6c6963\
    79223a22616c6c222c2261636b5f706f6c696379223a226578706c69636974222c2261636b5f77616974223a31\
    3030303030303030302c226d61785f64656c69766572223a322c227265706c61795f706f6c696379223a22696e\
    7374616e74222c226d61785f77616974696e67223a3531322c226e756d5f7265706c69636173223a307d040300\
    0001030680c0a8ca9a3a0101010200010200";

#[test]
fn states_survive_a_round_trip_and_damage_is_told() {
    let state = busy().replica.state();
    let restored = Consumer::restore(&state).unwrap();
    let mut again = Vec::new();
    restored.encode_state(&mut again);
    assert_eq!(hex(&state), hex(&again));
    let metadata = [("Key".to_owned(), "v".repeat(130_000))].into();
    let large = filled(&ConsumerConfig { metadata, ..explicit() }, 0).replica;
    assert_eq!(Consumer::restore(&large.state()).unwrap().config(), large.consumer.config());
    for length in 0..state.len() {
        assert!(Consumer::restore(&state[..length]).is_err(), "cut at {length}");
    }
    let mut longer = state.clone();
    longer.push(0);
    assert!(matches!(Consumer::restore(&longer), Err(StateError::Damaged { .. })));
    let mut newer = state;
    newer[0] = 3;
    assert!(matches!(Consumer::restore(&newer), Err(StateError::Version { found: 3 })));
}

#[test]
fn states_of_version_1_stay_readable() {
    let bytes: Vec<u8> = (0..STATE_1.len() / 2)
        .map(|index| u8::from_str_radix(&STATE_1[2 * index..2 * index + 2], 16).unwrap())
        .collect();
    let restored = Consumer::restore(&bytes).unwrap();
    assert_eq!((restored.name(), restored.config().durable_name.as_str()), ("c", "c"));
    assert_eq!(restored.delivered().consumer, 4);
    assert_eq!(restored.ack_floor().stream, 2);
    assert_eq!(hex(&bytes), hex(&busy().replica.state()));
}

#[test]
fn message_that_is_removed_before_the_command_that_passed_it_over_is_passed_over_by_replicas_too() {
    let config = ConsumerConfig { max_ack_pending_per_subject: 1, ..explicit() };
    let mut harness = filled(&config, 2);
    let before = harness.log.clone();
    harness.log.push(Entry::Remove { sequence: 2, reason: RemoveReason::Deleted });
    harness.pull("in", "2");
    harness.turn();
    harness.apply_all();
    assert_eq!(harness.replica.consumer.delivered().stream, 2);
    let mut world = World::new(0);
    let mut replica = Replica::new(&mut world, harness.retention, &config, &before);
    for entry in &harness.log[before.len()..] {
        replica.apply(&mut world, entry, false);
    }
    assert_eq!(hex(&replica.state()), hex(&harness.replica.state()));
}

/// One message, given up by its client and by the log, whose letter is under way.
fn given_up() -> (ConsumerConfig, Harness) {
    let config = ConsumerConfig { dead_letter_subject: "dead".into(), ..explicit() };
    let mut harness = filled(&config, 1);
    harness.pull("in", "1");
    harness.settle();
    let reply = harness.deliveries().remove(0).reply;
    harness.ack(&reply, b"+TERM no", None);
    harness.settle();
    (config, harness)
}

#[test]
fn letters_are_closed_in_a_checkpoint_when_the_command_that_closes_them_is_applied() {
    for body in [&b"+ACK"[..], b"{\"stream\":\"D\",\"seq\":1}"] {
        let (config, mut harness) = given_up();
        let open = hex(&harness.replica.state());
        harness.ack(b"$JS.ACK.S.c.1.1.1.0.0", body, None);
        harness.turn();
        // The stream holds the message until then, so what is made from a checkpoint must as well.
        assert_eq!(hex(&harness.replica.state()), open);
        let restored = Consumer::restore(&harness.replica.state()).unwrap();
        assert_eq!((restored.delivered().stream, restored.ack_floor().stream), (1, 0));
        harness.apply_all();
        assert_ne!(hex(&harness.replica.state()), open);
        let mut world = World::new(0);
        let mut replica = Replica::new(&mut world, harness.retention, &config, &harness.log[..1]);
        harness.log[1..].iter().for_each(|entry| replica.apply(&mut world, entry, false));
        assert_eq!(hex(&replica.state()), hex(&harness.replica.state()));
    }
}

#[test]
fn letters_whose_end_is_not_applied_are_open_again_when_the_lead_ends() {
    let (config, mut harness) = given_up();
    let open = hex(&harness.replica.state());
    harness.ack(b"$JS.ACK.S.c.1.1.1.0.0", b"+ACK", None);
    harness.turn();
    harness.with(|consumer, ctx| consumer.step_down(ctx));
    assert_eq!(hex(&harness.replica.state()), open);
    // What was under way is applied after all.
    let entry = harness.log[harness.replica.applied].clone();
    harness.replica.apply(&mut harness.world, &entry, false);
    let mut world = World::new(0);
    let mut replica = Replica::new(&mut world, harness.retention, &config, &harness.log[..1]);
    harness.log[1..].iter().for_each(|entry| replica.apply(&mut world, entry, false));
    assert_eq!(hex(&replica.state()), hex(&harness.replica.state()));
}

#[test]
fn removal_of_a_message_that_was_given_up_goes_into_the_next_checkpoint() {
    let mut harness = filled(&ConsumerConfig { max_deliver: 1, ..explicit() }, 1);
    harness.pull("in", "1");
    harness.settle();
    harness.ack(b"$JS.ACK.S.c.1.1.1.0.0", b"-NAK", None);
    harness.settle();
    let before = harness.replica.state();
    harness.replica.consumer.clear_dirty();
    harness.log.push(Entry::Remove { sequence: 1, reason: RemoveReason::Deleted });
    harness.apply_all();
    assert_ne!(hex(&harness.replica.state()), hex(&before));
    assert!(harness.replica.consumer.is_dirty());
}
