//! What the tests of the file store share: a store on a simulated disk, changes drawn by chance, and all that a store says of itself.

#![allow(dead_code, reason = "each test program uses its part")]

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use store::Timestamp;
use store::crypt::{Cipher, Keyring, MasterKey, SeededEntropy};
use store::disk::fault::FaultDisk;
use store::stream::{
    Append, Cache, Compression, Error, Expiry, FileOptions, FileStore, Filter, Items, Message, Recovered,
    State, StreamStore, SubjectState,
};

pub(crate) const DIR: &str = "/data/stream";

/// How blocks are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    Packed,
    Sealed,
}

pub(crate) const FORMS: [Form; 3] = [Form::Plain, Form::Packed, Form::Sealed];

pub(crate) fn keyring(current: &str, previous: Option<&str>) -> Arc<Keyring> {
    let previous = previous.map(|key| MasterKey::new(key.as_bytes()));
    let current = MasterKey::new(current.as_bytes());
    Arc::new(Keyring::new(Cipher::ChaCha20Poly1305, current, previous, Arc::new(SeededEntropy::new(7))))
}

pub(crate) fn options(form: Form) -> FileOptions {
    let mut options = FileOptions::new(9, Arc::new(Cache::new(1 << 20)));
    options.block_bytes = 4096;
    if form != Form::Plain {
        options.compression = Compression::S2;
    }
    if form == Form::Sealed {
        options.keyring = Some(keyring("first", None));
    }
    options
}

pub(crate) fn open(disk: &FaultDisk, form: Form) -> Result<(FileStore, Recovered), Error> {
    FileStore::open(Arc::new(disk.clone()), Path::new(DIR), options(form))
}

/// The same, if this checkpoint is known to be on stable storage.
pub(crate) fn open_confirmed(
    disk: &FaultDisk,
    form: Form,
    confirmed: u64,
) -> Result<(FileStore, Recovered), Error> {
    FileStore::open(Arc::new(disk.clone()), Path::new(DIR), FileOptions { confirmed, ..options(form) })
}

pub(crate) fn payload(sequence: u64) -> Vec<u8> {
    format!("payload {sequence} ").repeat(1 + sequence as usize % 12).into_bytes()
}

pub(crate) fn append(store: &mut FileStore, sequence: u64) -> Result<(), Error> {
    let subject = format!("subject.{}", sequence % 7);
    let headers = if sequence.is_multiple_of(3) { &b"NATS/1.0\r\nA: b\r\n\r\n"[..] } else { b"" };
    let expiry = match sequence % 5 {
        0 => Expiry::At(Timestamp(sequence.cast_signed() + 1000)),
        1 => Expiry::Never,
        _ => Expiry::MaxAge,
    };
    let (timestamp, payload) = (Timestamp(sequence.cast_signed() * 10), payload(sequence));
    store.append(Append {
        sequence,
        timestamp,
        subject: subject.as_bytes(),
        headers,
        payload: &payload,
        expiry,
    })
}

pub(crate) fn checkpoint(store: &mut FileStore, applied: u64) -> Result<(), Error> {
    let value = Some(Bytes::from(format!("state at {applied}")));
    let job = store.begin_checkpoint(applied, vec![(format!("consumer {}", applied % 3).into(), value)])?;
    store.finish_checkpoint(job())
}

/// A generator of numbers that is the same everywhere.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Some changes of every kind.
pub(crate) fn change(store: &mut FileStore, numbers: &mut Numbers, count: u64) -> Result<(), Error> {
    for _ in 0..count {
        let State { first_sequence, last_sequence, .. } = store.state();
        let any = first_sequence + numbers.below(last_sequence + 2 - first_sequence.min(last_sequence));
        match numbers.below(100) {
            0..70 => append(store, last_sequence + 1 + numbers.below(20) / 19)?,
            70..85 => _ = store.remove(any, false)?,
            85..90 => _ = store.remove(any, true)?,
            90..95 => _ = store.remove(first_sequence, false)?,
            95..97 => store.skip_to(last_sequence + numbers.below(3), Timestamp(5))?,
            97 => store.purge(&Filter::All, first_sequence + numbers.below(20), &mut |_| {})?,
            _ => {
                let filter = Filter::Any(vec![format!("subject.{}", numbers.below(7)).into_bytes().into()]);
                store.purge(&filter, any, &mut |_| {})?;
            }
        }
    }
    Ok(())
}

/// All that can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) state: State,
    pub(crate) messages: Vec<Message>,
    pub(crate) subjects: Vec<(Vec<u8>, SubjectState)>,
    pub(crate) due: Vec<u64>,
    pub(crate) next_expiry: Option<Timestamp>,
}

pub(crate) fn messages(store: &FileStore) -> Vec<Message> {
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(message) = store.next(&Filter::All, from).unwrap() {
        from = message.sequence + 1;
        found.push(message);
    }
    found
}

pub(crate) fn content(store: &FileStore) -> Content {
    let mut subjects = Vec::new();
    store.for_each_subject(&Filter::All, &mut |subject, state| {
        subjects.push((subject.to_vec(), state));
        true
    });
    let due = store.expired(Timestamp(i64::MAX), Some(Timestamp(i64::MAX)), usize::MAX);
    let (state, messages) = (store.state(), messages(store));
    Content { state, messages, subjects, due, next_expiry: store.next_expiry() }
}

/// The counters agree with the messages that can be read.
pub(crate) fn check_counters(store: &FileStore) {
    let Content { state, messages, subjects, due, .. } = content(store);
    assert_eq!(state.messages as usize, messages.len());
    assert_eq!(store.count(&Filter::All, 0..=u64::MAX).unwrap() as usize, messages.len());
    assert_eq!(subjects.iter().map(|(_, state)| state.messages).sum::<u64>(), state.messages);
    assert_eq!(state.subjects as usize, subjects.len());
    let size = |message: &Message| {
        let headers = if message.headers.is_empty() { 0 } else { 4 + message.headers.len() };
        (30 + message.subject.len() + message.payload.len() + headers) as u64
    };
    assert_eq!(state.bytes, messages.iter().map(size).sum::<u64>());
    for (subject, state) in &subjects {
        let mut of =
            messages.iter().filter(|message| message.subject == *subject).map(|message| message.sequence);
        assert_eq!((of.clone().next(), of.next_back()), (Some(state.first), Some(state.last)));
    }
    let never = messages.iter().filter(|message| message.sequence % 5 == 1).count();
    assert_eq!(due.len(), messages.len() - never);
}

/// What a checkpoint has to bring back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) applied: u64,
    pub(crate) items: Items,
    pub(crate) content: Content,
}
