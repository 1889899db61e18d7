//! Which objects depend on what: so that a change somewhere wakes those that it concerns, and no others.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use parking_lot::Mutex;

use super::asset::Target;
use super::connection::Key;

/// An object of one of the kinds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Something in Kubernetes that a connection is made from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dependency {
    kind: &'static str,
    namespace: String,
    name: String,
}

impl Dependency {
    fn new(kind: &'static str, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// A Secret.
    #[must_use]
    pub fn secret(namespace: &str, name: &str) -> Self {
        Self::new("Secret", namespace, name)
    }

    /// An Account.
    #[must_use]
    pub fn account(namespace: &str, name: &str) -> Self {
        Self::new("Account", namespace, name)
    }

    /// A NatsCluster.
    #[must_use]
    pub fn cluster(namespace: &str, name: &str) -> Self {
        Self::new("NatsCluster", namespace, name)
    }
}

/// What an object was found to depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The connection it uses, once there was one.
    pub session: Option<Key>,
    /// Stream that it manages, or whose consumer.
    pub stream: String,
    /// Consumer that it manages.
    pub consumer: Option<String>,
    /// Objects that its connection is made from.
    pub depends: Vec<Dependency>,
}

/// All entries, found from either side.
#[derive(Default)]
pub struct Index {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<ObjectKey, Entry>,
    of_stream: HashMap<(Key, String), BTreeSet<ObjectKey>>,
    of_session: HashMap<Key, BTreeSet<ObjectKey>>,
    of_dependency: HashMap<Dependency, BTreeSet<ObjectKey>>,
}

fn take_out<K: std::hash::Hash + Eq>(map: &mut HashMap<K, BTreeSet<ObjectKey>>, key: &K, object: &ObjectKey) {
    if let Some(set) = map.get_mut(key) {
        set.remove(object);
        if set.is_empty() {
            map.remove(key);
        }
    }
}

impl Inner {
    fn forget(&mut self, object: &ObjectKey) {
        let Some(entry) = self.entries.remove(object) else { return };
        if let Some(session) = entry.session {
            take_out(&mut self.of_session, &session, object);
            take_out(&mut self.of_stream, &(session, entry.stream), object);
        }
        for dependency in &entry.depends {
            take_out(&mut self.of_dependency, dependency, object);
        }
    }
}

impl Index {
    /// Replaces what is known about an object.
    pub fn record(&self, object: &ObjectKey, entry: Entry) {
        let mut inner = self.inner.lock();
        if inner.entries.get(object) == Some(&entry) {
            return;
        }
        inner.forget(object);
        if let Some(session) = entry.session {
            inner.of_session.entry(session).or_default().insert(object.clone());
            inner.of_stream.entry((session, entry.stream.clone())).or_default().insert(object.clone());
        }
        for dependency in &entry.depends {
            inner.of_dependency.entry(dependency.clone()).or_default().insert(object.clone());
        }
        inner.entries.insert(object.clone(), entry);
    }

    /// Drops an object that is gone.
    pub fn forget(&self, object: &ObjectKey) {
        self.inner.lock().forget(object);
    }

    /// The connection that an object used last.
    #[must_use]
    pub fn session_of(&self, object: &ObjectKey) -> Option<Key> {
        self.inner.lock().entries.get(object)?.session
    }

    /// Whom a change of a stream or consumer concerns: who manages it, and of a stream who manages its consumers.
    #[must_use]
    pub fn of(&self, session: Key, target: &Target) -> Vec<ObjectKey> {
        match &target.consumer {
            None => self.of_stream(session, &target.stream, |_| true),
            Some(wanted) => self.of_stream(session, &target.stream, |name| name == Some(wanted)),
        }
    }

    /// Objects that manage a stream itself.
    #[must_use]
    pub fn managers_of(&self, session: Key, stream: &str) -> Vec<ObjectKey> {
        self.of_stream(session, stream, |consumer| consumer.is_none())
    }

    /// Objects that manage consumers of a stream.
    #[must_use]
    pub fn consumers_of(&self, session: Key, stream: &str) -> Vec<ObjectKey> {
        self.of_stream(session, stream, |consumer| consumer.is_some())
    }

    /// Objects that manage a stream or its consumers, by what of it they manage.
    fn of_stream(
        &self,
        session: Key,
        stream: &str,
        wanted: impl Fn(Option<&String>) -> bool,
    ) -> Vec<ObjectKey> {
        let inner = self.inner.lock();
        let objects = inner.of_stream.get(&(session, stream.to_owned())).into_iter().flatten();
        let is_wanted = |object: &&ObjectKey| {
            inner.entries.get(*object).is_some_and(|entry| wanted(entry.consumer.as_ref()))
        };
        objects.filter(is_wanted).cloned().collect()
    }

    /// Objects that use a connection.
    #[must_use]
    pub fn of_session(&self, session: Key) -> Vec<ObjectKey> {
        self.inner.lock().of_session.get(&session).into_iter().flatten().cloned().collect()
    }

    /// Streams that objects of a connection manage, and consumers of each.
    #[must_use]
    pub fn assets(&self, session: Key) -> BTreeMap<String, BTreeSet<String>> {
        let inner = self.inner.lock();
        let mut streams: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for object in inner.of_session.get(&session).into_iter().flatten() {
            let Some(entry) = inner.entries.get(object).filter(|entry| !entry.stream.is_empty()) else {
                continue;
            };
            streams.entry(entry.stream.clone()).or_default().extend(entry.consumer.clone());
        }
        streams
    }

    /// Objects whose connection is made from something.
    #[must_use]
    pub fn of_dependency(&self, dependency: &Dependency) -> Vec<ObjectKey> {
        self.inner.lock().of_dependency.get(dependency).into_iter().flatten().cloned().collect()
    }

    /// Whether an object is known.
    #[must_use]
    pub fn knows(&self, object: &ObjectKey) -> bool {
        self.inner.lock().entries.contains_key(object)
    }

    /// Objects known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.lock().entries.len()
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &'static str, name: &str) -> ObjectKey {
        ObjectKey { kind, namespace: "ns".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn changes_wake_those_that_they_concern() {
        let index = Index::default();
        let (key, other) = (Key::test(1), Key::test(2));
        let entry = |session, stream: &str, consumer: Option<&str>| Entry {
            session: Some(session),
            stream: stream.to_owned(),
            consumer: consumer.map(str::to_owned),
            depends: vec![Dependency::secret("ns", "s")],
        };
        let (stream, consumer, elsewhere) =
            (object("Stream", "a"), object("Consumer", "c"), object("Stream", "b"));
        index.record(&stream, entry(key, "S", None));
        index.record(&consumer, entry(key, "S", Some("C")));
        index.record(&elsewhere, entry(other, "S", None));
        assert_eq!(index.of(key, &Target::new("S", None)).len(), 2);
        assert_eq!(index.of(key, &Target::new("S", Some("C"))), std::slice::from_ref(&consumer));
        assert!(index.of(key, &Target::new("S", Some("D"))).is_empty());
        assert_eq!(index.managers_of(key, "S"), std::slice::from_ref(&stream));
        assert_eq!(index.consumers_of(key, "S"), std::slice::from_ref(&consumer));
        assert!(index.consumers_of(other, "S").is_empty());
        assert_eq!(index.of_session(other), std::slice::from_ref(&elsewhere));
        assert_eq!(index.of_dependency(&Dependency::secret("ns", "s")).len(), 3);
        assert_eq!(index.assets(key), [("S".to_owned(), ["C".to_owned()].into())].into());
        assert_eq!(index.assets(other), [("S".to_owned(), BTreeSet::new())].into());

        // What was known before is forgotten.
        index.record(&stream, Entry { depends: Vec::new(), ..entry(other, "T", None) });
        assert_eq!(index.of(key, &Target::new("S", None)), std::slice::from_ref(&consumer));
        assert_eq!(index.session_of(&stream), Some(other));
        for gone in [&stream, &consumer, &elsewhere] {
            index.forget(gone);
        }
        assert!(index.is_empty());
        assert!(index.inner.lock().of_stream.is_empty() && index.inner.lock().of_dependency.is_empty());
        assert!(index.inner.lock().of_session.is_empty());
    }
}
