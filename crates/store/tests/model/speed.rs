//! What the store in memory takes, printed: `cargo test -p store --release --test model -- --ignored --nocapture --test-threads 1`.

use std::hint::black_box;
use std::time::Instant;

use store::Timestamp;
use store::stream::{Append, Expiry, Filter, MemoryStore, StreamStore};

use crate::Numbers;

const MESSAGES: u64 = 1_000_000;

/// Time that this thread had a processor, in nanoseconds: others may run meanwhile. It moves by milliseconds.
fn ran() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    told.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap()
}

fn time<T>(shape: &str, what: &str, count: u64, work: impl FnOnce() -> T) -> T {
    #[allow(clippy::disallowed_methods, reason = "a measurement needs a clock")]
    let (started, had) = (Instant::now(), ran());
    let result = black_box(work());
    let nanos = if count >= MESSAGES / 10 { ran() - had } else { started.elapsed().as_nanos() as u64 };
    println!("{shape:12} {what:34} {:9.0} ns", nanos as f64 / count as f64);
    result
}

fn append(store: &mut MemoryStore, sequence: u64, subject: &[u8]) {
    let payload = &[b'x'; 128];
    let timestamp = Timestamp(sequence as i64);
    store
        .append(Append { sequence, timestamp, subject, headers: b"", payload, expiry: Expiry::MaxAge })
        .unwrap();
}

fn filter(patterns: &[&str]) -> Filter {
    Filter::Any(patterns.iter().map(|pattern| pattern.as_bytes().into()).collect())
}

/// Follows a filter from one message to the next, at most so many times.
fn follow(store: &MemoryStore, filter: &Filter, most: u64) -> u64 {
    let (mut from, mut count) = (0, 0);
    while count < most
        && let Some(message) = store.next(filter, from).unwrap()
    {
        from = message.sequence + 1;
        count += 1;
    }
    count
}

fn questions(shape: &str, store: &MemoryStore, subject: &str, numbers: &mut Numbers) {
    let last = store.state().last_sequence;
    time(shape, "next of all", MESSAGES, || follow(store, &Filter::All, MESSAGES));
    for patterns in [&[subject][..], &[">"], &["*.*.*"], &["*.1.>"], &["*.*.7"], &["none.*"]] {
        let filter = filter(patterns);
        let shown = patterns[0];
        let count =
            time(shape, &format!("count of all {shown}"), 1, || store.count(&filter, 1..=last).unwrap());
        time(shape, &format!("count of half {shown}"), 1, || store.count(&filter, last / 2..=last).unwrap());
        let most = count.clamp(1, 10_000);
        time(shape, &format!("next of {shown}"), most, || follow(store, &filter, most));
    }
    time(shape, "load at random", MESSAGES, || {
        (0..MESSAGES).filter(|_| store.load(1 + numbers.below(last)).unwrap().is_some()).count()
    });
    let subjects = store.state().subjects;
    let found = time(shape, "last per subject", subjects, || {
        store.last_per_subject(&Filter::All, last, usize::MAX).unwrap().map_or(0, |found| found.len())
    });
    assert_eq!(found as u64, subjects);
    let wild = filter(&["*.*.*"]);
    time(shape, "last per subject *.*.*", subjects, || {
        store.last_per_subject(&wild, last, usize::MAX).unwrap()
    });
}

fn resident_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or("VmRSS: 0 kB").to_owned();
    line.split_whitespace().nth(1).and_then(|kilobytes| kilobytes.parse().ok()).unwrap_or(0)
}

#[test]
#[ignore = "a measurement"]
fn a_million_messages() {
    let shapes: [(&str, u64); 3] = [("1 subject", 1), ("1000", 1000), ("1 M subjects", MESSAGES)];
    for (shape, subjects) in shapes {
        let mut numbers = Numbers(1);
        let names: Vec<String> = (0..subjects)
            .map(|at| format!("orders.{}.{}", at % 100, at.wrapping_mul(40_503) % subjects))
            .collect();
        let before = resident_kilobytes();
        let mut store = MemoryStore::new();
        time(shape, "append", MESSAGES, || {
            for sequence in 1..=MESSAGES {
                append(&mut store, sequence, names[(sequence % subjects) as usize].as_bytes());
            }
        });
        let taken = (resident_kilobytes().saturating_sub(before)) * 1024 / MESSAGES;
        println!(
            "{shape:12} {taken} bytes per message, of which {} are its own",
            store.state().bytes / MESSAGES - 16
        );
        questions(shape, &store, &names[0], &mut numbers);
        time(shape, "remove every other, then count", MESSAGES / 2, || {
            for sequence in (1..=MESSAGES).step_by(2) {
                store.remove(sequence, false).unwrap();
            }
            store.count(&Filter::All, 1..=MESSAGES).unwrap()
        });
        time(shape, "deleted ranges", MESSAGES / 2, || store.deleted(1, usize::MAX));
        time(shape, "purge the first quarter", MESSAGES / 8, || {
            store.purge(&Filter::All, MESSAGES / 4, &mut |_| {}).unwrap();
        });
        time(shape, "purge the rest", MESSAGES * 3 / 8, || {
            store.purge(&Filter::All, MESSAGES, &mut |_| {}).unwrap()
        });
    }
}

#[test]
#[ignore = "a measurement"]
fn history() {
    const KEYS: u64 = 100_000;
    for (keys, history) in [(1, 1), (1, 64), (KEYS, 1), (KEYS, 5), (KEYS / 10, 64)] {
        let names: Vec<String> = (0..keys).map(|at| format!("$KV.bucket.key-{at}")).collect();
        let (mut store, mut numbers) = (MemoryStore::new(), Numbers(1));
        let mut put = |count: u64, start: u64| {
            for sequence in start + 1..=start + count {
                let name = names[numbers.below(keys) as usize].as_bytes();
                append(&mut store, sequence, name);
                let state = store.subject_state(name).unwrap();
                if state.messages > history {
                    store.remove(state.first, false).unwrap();
                }
            }
        };
        let fill = keys * history * 2;
        put(fill, 0);
        let before = resident_kilobytes();
        time("history", &format!("{keys} keys, history {history}: put"), MESSAGES, || put(MESSAGES, fill));
        let grown = resident_kilobytes().saturating_sub(before);
        let state = store.state();
        println!("{} messages, {} bytes; memory grew by {grown} kB meanwhile", state.messages, state.bytes);
    }
}

#[test]
#[ignore = "a measurement"]
fn queue() {
    let (mut store, mut numbers) = (MemoryStore::new(), Numbers(1));
    time("queue", "append, remove one of the first 100", MESSAGES, || {
        for sequence in 1..=MESSAGES {
            append(&mut store, sequence, format!("jobs.{}.run", numbers.next()).as_bytes());
            if sequence > 1000 {
                let first = store.state().first_sequence + numbers.below(100);
                let next = store.next(&Filter::All, first).unwrap().unwrap();
                store.remove(next.sequence, false).unwrap();
            }
        }
    });
}
