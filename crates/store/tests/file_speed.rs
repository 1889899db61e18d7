//! What the store on disk takes, printed: `cargo test -p store --release --test file_speed -- --ignored --nocapture --test-threads 1`.
//! `MESSAGES` and `SUBJECTS` in the environment change the size.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests")]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use store::Timestamp;
use store::disk::os::OsDisk;
use store::stream::{Append, Cache, Expiry, FileOptions, FileStore, Filter, StreamStore};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Time that this thread had a processor, in nanoseconds: others may run meanwhile. It moves by milliseconds.
fn ran() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    told.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap()
}

fn time<T>(what: &str, count: u64, work: impl FnOnce() -> T) -> T {
    #[allow(clippy::disallowed_methods, reason = "a measurement needs a clock")]
    let (started, had) = (Instant::now(), ran());
    let result = black_box(work());
    let (processor, wall) = (ran() - had, started.elapsed().as_nanos() as u64);
    println!("{what:44} {:10} ns processor {:10} ns wall", processor / count.max(1), wall / count.max(1));
    result
}

fn open(dir: &Path) -> FileStore {
    let options = FileOptions::new(1, Arc::new(Cache::new(64 << 20)));
    FileStore::open(Arc::new(OsDisk::new()), dir, options).unwrap().0
}

fn checkpoint(store: &mut FileStore, applied: u64) {
    let job = store.begin_checkpoint(applied, Vec::new()).unwrap();
    store.finish_checkpoint(job()).unwrap();
}

fn follow(store: &FileStore, filter: &Filter, from: u64, most: u64) -> u64 {
    let (mut from, mut count) = (from, 0);
    while count < most
        && let Some(message) = store.next(filter, from).unwrap()
    {
        from = message.sequence + 1;
        count += 1;
    }
    count
}

fn filter(pattern: &str) -> Filter {
    Filter::Any(vec![pattern.as_bytes().into()])
}

/// Every number below a limit in a scattered order.
fn scattered(number: u64, limit: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % limit
}

fn subject(sequence: u64, subjects: u64) -> String {
    format!("orders.{}.new", scattered(sequence, subjects))
}

fn fill(store: &mut FileStore, messages: u64, subjects: u64) {
    let names: Vec<String> =
        (0..messages.min(1_000_000)).map(|sequence| subject(sequence, subjects)).collect();
    let payload = &[b'x'; 128];
    time("append 128 B", messages, || {
        for sequence in 1..=messages {
            let timestamp = Timestamp(sequence.cast_signed() * 1000);
            let subject = names[(sequence % names.len() as u64) as usize].as_bytes();
            let message =
                Append { sequence, timestamp, subject, headers: b"", payload, expiry: Expiry::MaxAge };
            store.append(message).unwrap();
        }
    });
}

fn ask(store: &FileStore, messages: u64, subjects: u64) {
    time("next of all", messages, || follow(store, &Filter::All, 0, messages));
    time("next of all again, a third of it cached", messages, || follow(store, &Filter::All, 0, messages));
    let one = subject(7, subjects);
    for pattern in [one.as_str(), "orders.>", "orders.*.new", "orders.7*.new", "none.>"] {
        let filter = filter(pattern);
        let found = time(&format!("follow {pattern} from the middle"), 1, || {
            follow(store, &filter, messages / 2, 10_000)
        });
        println!("  {found} messages");
        time(&format!("count {pattern}"), 1, || store.count(&filter, 0..=u64::MAX).unwrap());
        time(&format!("count {pattern} of the upper half"), 1, || {
            store.count(&filter, messages / 2..=u64::MAX).unwrap()
        });
    }
    time("count all of the upper half", 1, || store.count(&Filter::All, messages / 2..=u64::MAX).unwrap());
    let last = time("last per subject", subjects, || {
        store.last_per_subject(&Filter::All, u64::MAX, usize::MAX).unwrap()
    });
    println!("  {} subjects", last.unwrap().len());
    time("last per subject up to the middle", subjects, || {
        store.last_per_subject(&Filter::All, messages / 2, usize::MAX).unwrap()
    });
    time("load scattered", 10_000, || {
        (0..10_000).for_each(|at| _ = black_box(store.load(1 + scattered(at, messages)).unwrap()));
    });
    time("subject state", 10_000, || {
        (0..10_000).for_each(|at| _ = black_box(store.subject_state(subject(at, subjects).as_bytes())));
    });
    time("sequence at the middle", 1, || store.sequence_at(Timestamp(messages.cast_signed() * 500)).unwrap());
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    let (messages, subjects) = (number("MESSAGES", 1_000_000), number("SUBJECTS", 100_000));
    let dir = tempfile::tempdir_in(std::env::var("DIR").unwrap_or_else(|_| "/tmp".to_owned())).unwrap();
    let mut store = open(dir.path());
    fill(&mut store, messages, subjects);
    time("checkpoint of all", 1, || checkpoint(&mut store, 1));
    ask(&store, messages, subjects);
    drop(store);
    let mut store = time("open", 1, || open(dir.path()));
    time("next of all, cold", messages, || follow(&store, &Filter::All, 0, messages));
    let removed = messages / 10;
    time("remove scattered", removed, || {
        (0..removed).for_each(|at| _ = store.remove(1 + scattered(at, messages), false).unwrap());
    });
    time("checkpoint of removals", 1, || checkpoint(&mut store, 2));
    time("count all of the upper half", 1, || store.count(&Filter::All, messages / 2..=u64::MAX).unwrap());
    time("remove the first, in order", removed, || {
        for _ in 0..removed {
            let first = store.state().first_sequence;
            store.remove(first, false).unwrap();
        }
    });
    drop(store);
    let mut store = time("open with removals", 1, || open(dir.path()));
    let payload = &[b'y'; 128];
    time("overwrite keys", removed, || {
        for at in 0..removed {
            let sequence = store.state().last_sequence + 1;
            let name = subject(at, subjects);
            let (subject, timestamp) = (name.as_bytes(), Timestamp(at.cast_signed()));
            store
                .append(Append {
                    sequence,
                    timestamp,
                    subject,
                    headers: b"",
                    payload,
                    expiry: Expiry::MaxAge,
                })
                .unwrap();
            if let Some(state) = store.subject_state(subject).filter(|state| state.messages > 1) {
                store.remove(state.first, false).unwrap();
            }
        }
    });
    time("purge all", messages, || store.purge(&Filter::All, u64::MAX >> 1, &mut |_| {}).unwrap());
}
