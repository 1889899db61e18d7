//! The same questions to a store and to the model.

use store::Timestamp;
use store::stream::{Filter, StreamStore};

use crate::Numbers;
use crate::model::Model;
use crate::workload::Subjects;

/// Asks each question once with arguments drawn by chance.
pub(crate) fn sample(store: &dyn StreamStore, model: &Model, subjects: &Subjects, numbers: &mut Numbers) {
    let state = model.state();
    assert_eq!(store.state(), state);
    let filter = &subjects.filter(numbers);
    let end = state.last_sequence + 3;
    // Mostly where messages are, which may be far apart.
    let sequences = model.sequences();
    let mut position = || match sequences.len() as u64 {
        0 => numbers.below(end),
        length if numbers.below(4) > 0 => {
            let near = sequences[numbers.below(length) as usize] + numbers.below(3);
            near.saturating_sub(1)
        }
        _ => numbers.below(end),
    };
    let (at, other) = (position(), position());
    sequence(store, model, at);
    by_filter(store, model, filter, at);
    by_filter(store, model, &Filter::All, at);
    count(store, model, filter, (at.min(other), at.max(other)));
    count(store, model, &Filter::All, (at, other));
    let max = numbers.below(6) as usize;
    assert_eq!(
        store.last_per_subject(filter, at, max).unwrap(),
        model.last_per_subject(filter, at, max),
        "{filter:?} up to {at}, {max} at most"
    );
    assert_eq!(store.deleted(at, max), model.deleted(at, max), "from {at}, {max} at most");
    times(store, model, numbers, max);
    for_each_subject(store, model, filter, max + 1);
    let literal = subjects.literal(numbers);
    let expected =
        model.subjects(&Filter::Any(vec![literal.clone().into()])).first().map(|(_, state)| *state);
    assert_eq!(store.subject_state(&literal), expected);
}

/// Asks every question about every message.
pub(crate) fn everything(
    store: &mut dyn StreamStore,
    model: &Model,
    subjects: &Subjects,
    numbers: &mut Numbers,
) {
    let state = model.state();
    let filters: Vec<Filter> = (0..4).map(|_| subjects.filter(numbers)).chain([Filter::All]).collect();
    for at in model.sequences().into_iter().flat_map(|at| [at - 1, at, at + 1]) {
        sequence(store, model, at);
        for filter in &filters {
            by_filter(store, model, filter, at);
            count(store, model, filter, (0, at));
            count(store, model, filter, (at, state.last_sequence));
            count(store, model, filter, (at, u64::MAX));
        }
    }
    for filter in &filters {
        for_each_subject(store, model, filter, usize::MAX);
        for up_to in [state.last_sequence, state.last_sequence / 2, u64::MAX] {
            assert_eq!(
                store.last_per_subject(filter, up_to, usize::MAX).unwrap(),
                model.last_per_subject(filter, up_to, usize::MAX),
                "{filter:?} up to {up_to}"
            );
        }
        by_filter(store, model, filter, u64::MAX);
    }
    for (subject, expected) in model.subjects(&Filter::All) {
        assert_eq!(store.subject_state(&subject), Some(expected));
    }
    assert_eq!(store.deleted(0, usize::MAX), model.deleted(0, usize::MAX));
    for max in [0, 1, usize::MAX] {
        times(store, model, numbers, max);
    }
    assert_eq!(store.take_damage(), []);
}

fn sequence(store: &dyn StreamStore, model: &Model, at: u64) {
    let expected = model.load(at);
    assert_eq!(
        store.subject_of(at).unwrap(),
        expected.as_ref().map(|message| message.subject.clone()),
        "{at}"
    );
    assert_eq!(store.load(at).unwrap(), expected, "{at}");
}

fn by_filter(store: &dyn StreamStore, model: &Model, filter: &Filter, at: u64) {
    assert_eq!(store.next(filter, at).unwrap(), model.next(filter, at), "{filter:?} from {at}");
    assert_eq!(store.last(filter, at).unwrap(), model.last(filter, at), "{filter:?} up to {at}");
}

fn count(store: &dyn StreamStore, model: &Model, filter: &Filter, (start, end): (u64, u64)) {
    let (counted, expected) = (store.count(filter, start..=end).unwrap(), model.count(filter, start..=end));
    assert_eq!(counted, expected, "{filter:?} in {start}..={end}");
}

fn for_each_subject(store: &dyn StreamStore, model: &Model, filter: &Filter, max: usize) {
    let mut found = Vec::new();
    store.for_each_subject(filter, &mut |subject, state| {
        found.push((subject.to_vec(), state));
        found.len() < max
    });
    let mut expected = model.subjects(filter);
    expected.truncate(max);
    assert_eq!(found, expected, "{filter:?}, {max} at most");
}

fn times(store: &dyn StreamStore, model: &Model, numbers: &mut Numbers, max: usize) {
    assert_eq!(store.next_expiry(), model.next_expiry());
    let around = model.state().last_timestamp.map_or(0, |time| time.0) - 500;
    let mut time = || Timestamp(around + numbers.below(600) as i64);
    let (at, now) = (time(), time());
    assert_eq!(store.sequence_at(at).unwrap(), model.sequence_at(at), "{at:?}");
    for before in [None, Some(time())] {
        let (found, all) = (store.expired(now, before, max), model.expired(now, before));
        let told = format!("now {now:?}, stored before {before:?}, {max} at most");
        assert_eq!(found.len(), all.len().min(max), "{told}");
        assert!(found.is_sorted_by(|left, right| left < right), "{told}: {found:?}");
        assert!(
            found.iter().all(|sequence| all.binary_search(sequence).is_ok()),
            "{told}: {found:?} of {all:?}"
        );
    }
}
