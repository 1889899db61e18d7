//! The store in memory.

use store::Timestamp;
use store::stream::{Append, Error, Expiry, Filter, MemoryStore, Recovered, StreamStore};

use crate::workload::{self, Kind};

#[test]
fn the_memory_store_is_like_the_model() {
    workload::run(1000, |_, run| {
        let open = &mut || (Box::new(MemoryStore::new()) as Box<dyn StreamStore>, Recovered::default());
        run(Kind {
            size: |subject, headers, payload| 16 + (subject + headers + payload) as u64,
            open,
            durable: false,
        });
    });
}

fn append(store: &mut MemoryStore, sequence: u64) -> Result<(), Error> {
    let (timestamp, subject) = (Timestamp(1), b"a");
    store.append(Append { sequence, timestamp, subject, headers: b"", payload: b"", expiry: Expiry::MaxAge })
}

#[test]
fn after_a_failed_checkpoint_it_refuses_changes() {
    let mut store = MemoryStore::new();
    append(&mut store, 1).unwrap();
    let failure = Error::Failed { reason: "no space".to_owned() };
    assert!(store.finish_checkpoint(Err(failure)).is_err());
    let before = store.state();
    let results = [
        append(&mut store, 2),
        store.skip_to(5, Timestamp(2)),
        store.remove(1, false).map(drop),
        store.purge(&Filter::All, 1, &mut |_| {}),
        store.begin_checkpoint(1, Vec::new()).map(drop),
    ];
    for result in results {
        assert!(result.is_err_and(|error| error.to_string().ends_with("no space")));
    }
    assert_eq!(store.state(), before);
}

#[test]
#[should_panic(expected = "append of 1 after 1")]
fn sequences_do_not_repeat() {
    let mut store = MemoryStore::new();
    append(&mut store, 1).unwrap();
    let _never = append(&mut store, 1);
}
