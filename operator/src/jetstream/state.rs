//! What all passes share: connections, what depends on what, and memory that may be lost at any time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crd::jetstream::options::AssetOptions;
use crd::jetstream::{Consumer, Stream};
use k8s_openapi::api::core::v1::{Namespace, ObjectReference};
use kube::Api;
use kube::runtime::events::{Event, Recorder, Reporter};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tokio::sync::{OnceCell, mpsc};

use super::asset::Asset;
use super::compare::Change;
use super::connection::{Connection, Key, Resolver};
use super::index::{Dependency, Index, ObjectKey};
use super::pool::{Pool, Told};
use super::problem::Problem;
use crate::context::Context;

/// How long a resolved connection is believed while nothing that it was made from changes. Labels of namespaces are not watched.
const RESOLVED_AGE_MAX: Duration = Duration::from_secs(60);
/// Resolved connections remembered. Above it the memory is dropped and built again.
const RESOLVED_MAX: usize = 10_000;
/// Objects whose last status is remembered. Above it the memory is dropped and built again.
const MEMORIES_MAX: usize = 100_000;
/// Wake-ups of one controller that may wait; one that finds no place is made up for by the next regular pass.
const WAKE_UPS_MAX: usize = 16_384;
/// What connections tell that may wait.
const EVENTS_MAX: usize = 4_096;
/// Passes of one kind over objects of one namespace at a time.
const PASSES_PER_NAMESPACE_MAX: usize = 8;
/// The same for objects of which a server told something: they do not stand behind thousands that are looked at in their turn.
const PASSES_TOLD_MAX: usize = 2 * PASSES_PER_NAMESPACE_MAX;
/// Objects that are woken when a place is free again. A wake-up takes a moment, in which the place would be empty; who comes too late
/// waits again.
const WOKEN_PER_PLACE: usize = 3;
/// Writes of statuses that only have new numbers, in a second.
const NUMBERS_PER_SECOND: f64 = 2.0;
/// The same after a while without any.
const NUMBERS_AT_ONCE: f64 = 20.0;

/// What is remembered about an object between passes.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The status as it was last written, which a watch may not have brought yet. As text: a tree takes many times as much.
    status: Option<Box<str>>,
    /// What a server left as it was although it took an update, and for which configuration that holds.
    pub kept: Vec<Change>,
    /// Hash of that configuration.
    pub kept_for: String,
}

impl Memory {
    /// The status as it was last written.
    #[must_use]
    pub fn status<S: DeserializeOwned>(&self) -> Option<S> {
        serde_json::from_str(self.status.as_deref()?).ok()
    }

    /// Notes a status that was written.
    pub fn wrote(&mut self, status: &impl Serialize) {
        self.status = serde_json::to_string(status).ok().map(Into::into);
    }
}

/// Lists objects that use an Account, as `Kind namespace/name`.
pub type Dependants = Box<dyn Fn(&str, &str) -> Vec<String> + Send + Sync>;

/// Where wake-ups of a kind in a scope go.
struct Waker {
    kind: &'static str,
    scope: Option<String>,
    sender: mpsc::Sender<ObjectKey>,
}

/// Shared by all passes.
pub struct State {
    /// Clients and settings.
    pub context: Arc<Context>,
    /// Connections.
    pub pool: Pool,
    /// What depends on what.
    pub index: Arc<Index>,
    recorder: Recorder,
    resolved: Mutex<HashMap<[u8; 32], (Instant, Connection)>>,
    memories: Mutex<HashMap<String, Memory>>,
    wakers: Mutex<Vec<Waker>>,
    dependants: Mutex<Vec<Dependants>>,
    cluster_id: OnceCell<String>,
    numbers: Mutex<(Instant, f64)>,
    entered: Mutex<HashMap<Place, Places>>,
}

/// A kind and a namespace.
type Place = (&'static str, String);

/// Passes of one kind over objects of one namespace: how many are under way, and who waits for its turn.
#[derive(Default)]
struct Places {
    taken: usize,
    /// Of whom a server told something since their last pass.
    told: HashSet<String>,
    /// For a place.
    waiting: Line,
    /// For the streams of the namespace to have had theirs.
    behind: Line,
}

impl Places {
    fn is_unused(&self) -> bool {
        self.taken == 0
            && self.told.is_empty()
            && self.waiting.names.is_empty()
            && self.behind.names.is_empty()
    }

    /// Who may find a place now that one is free.
    fn next(&mut self) -> Vec<String> {
        if self.taken < PASSES_PER_NAMESPACE_MAX {
            return self.waiting.next(WOKEN_PER_PLACE);
        }
        let told = self.waiting.names.front().is_some_and(|first| self.told.contains(first));
        self.waiting.next(usize::from(told))
    }
}

/// Objects in the order in which they came, each once.
#[derive(Default)]
struct Line {
    names: VecDeque<String>,
    members: HashSet<String>,
}

impl Line {
    fn push(&mut self, name: String) {
        if !self.members.contains(&name) {
            self.members.insert(name.clone());
            self.names.push_back(name);
        }
    }

    /// Puts one before all others.
    fn push_front(&mut self, name: String) {
        if !self.members.insert(name.clone()) {
            self.names.retain(|waiting| *waiting != name);
        }
        self.names.push_front(name);
    }

    /// The first ones, so many at most.
    fn next(&mut self, count: usize) -> Vec<String> {
        let next: Vec<_> = self.names.drain(..count.min(self.names.len())).collect();
        for name in &next {
            self.members.remove(name);
        }
        next
    }
}

/// A place that a pass has; given back when it ends.
pub struct Entered<'a> {
    state: &'a State,
    place: Place,
    /// Name of the object, while the pass owes a look at something that a server told of.
    owed: Option<String>,
}

impl Entered<'_> {
    /// Whether a server told something of the object.
    #[must_use]
    pub const fn is_told(&self) -> bool {
        self.owed.is_some()
    }

    /// The server was looked at and nothing has to follow at once. Without this the next pass over the object comes before the others too.
    pub fn looked(&mut self) {
        self.owed = None;
    }
}

fn drop_unused(entered: &mut HashMap<Place, Places>, place: &Place) {
    if entered.get(place).is_some_and(Places::is_unused) {
        entered.remove(place);
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let (kind, namespace) = &self.place;
        let keys = |kind: &'static str, names: Vec<String>| {
            names.into_iter().map(move |name| ObjectKey { kind, namespace: namespace.clone(), name })
        };
        let mut next = Vec::new();
        {
            let mut entered = self.state.entered.lock();
            let Some(places) = entered.get_mut(&self.place) else { return };
            places.taken -= 1;
            let object = |name| ObjectKey { kind, namespace: namespace.clone(), name };
            let owed = self.owed.take().map(object).filter(|object| self.state.index.knows(object));
            places.told.extend(owed.map(|object| object.name));
            next.extend(keys(kind, places.next()));
            let consumers = (Consumer::KIND, namespace.clone());
            if *kind == Stream::KIND
                && places.waiting.names.is_empty()
                && let Some(places) = entered.get_mut(&consumers)
            {
                for name in std::mem::take(&mut places.behind).names {
                    places.waiting.push(name);
                }
                let free = PASSES_PER_NAMESPACE_MAX.saturating_sub(places.taken);
                next.extend(keys(Consumer::KIND, places.waiting.next(WOKEN_PER_PLACE * free)));
            }
            for place in [&self.place, &consumers] {
                drop_unused(&mut entered, place);
            }
        }
        self.state.wake(next);
    }
}

impl State {
    /// A state with nothing remembered, and what its connections will tell.
    #[must_use]
    pub fn new(context: Arc<Context>) -> (Arc<Self>, mpsc::Receiver<(Key, Told)>) {
        let (events, told) = mpsc::channel(EVENTS_MAX);
        let reporter = Reporter {
            controller: crd::jetstream::FIELD_MANAGER.to_owned(),
            instance: Some(context.settings.pod_name.clone()),
        };
        let index = Arc::<Index>::default();
        let state = Self {
            recorder: Recorder::new(context.client.clone(), reporter),
            context,
            pool: Pool::new(Arc::clone(&index), events),
            index,
            resolved: Mutex::default(),
            memories: Mutex::default(),
            wakers: Mutex::default(),
            dependants: Mutex::default(),
            cluster_id: OnceCell::new(),
            numbers: Mutex::new((Instant::now(), NUMBERS_AT_ONCE)),
            entered: Mutex::default(),
        };
        (Arc::new(state), told)
    }

    /// A place for wake-ups of a kind in a namespace, or in all of them.
    pub fn register(&self, kind: &'static str, scope: Option<String>) -> mpsc::Receiver<ObjectKey> {
        let (sender, receiver) = mpsc::channel(WAKE_UPS_MAX);
        self.wakers.lock().push(Waker { kind, scope, sender });
        receiver
    }

    /// Adds a way to find objects that use an Account.
    pub fn add_dependants(&self, list: Dependants) {
        self.dependants.lock().push(list);
    }

    /// Objects that use an Account, as `Kind namespace/name`.
    #[must_use]
    pub fn dependants(&self, namespace: &str, name: &str) -> Vec<String> {
        let mut all: Vec<String> =
            self.dependants.lock().iter().flat_map(|list| list(namespace, name)).collect();
        all.sort_unstable();
        all
    }

    /// Wakes passes over objects.
    pub fn wake(&self, objects: impl IntoIterator<Item = ObjectKey>) {
        let wakers = self.wakers.lock();
        for object in objects {
            let found = wakers.iter().find(|waker| {
                waker.kind == object.kind
                    && waker.scope.as_ref().is_none_or(|scope| *scope == object.namespace)
            });
            if let Some(waker) = found {
                let _ = waker.sender.try_send(object);
            }
        }
    }

    /// Something that connections are made from changed.
    pub fn changed(&self, dependency: &Dependency) {
        self.resolved.lock().retain(|_, (_, connection)| !connection.depends.contains(dependency));
        self.wake(self.index.of_dependency(dependency));
    }

    /// A connection told something.
    pub fn told(&self, key: Key, told: &Told) {
        let objects = match told {
            Told::Up => return self.wake(self.index.of_session(key)),
            // A number and no more: it comes in its turn.
            Told::Counted(stream) => return self.wake(self.index.managers_of(key, stream)),
            Told::Changed(target) => self.index.of(key, target),
        };
        {
            let mut entered = self.entered.lock();
            for object in &objects {
                let places = entered.entry((object.kind, object.namespace.clone())).or_default();
                places.told.insert(object.name.clone());
            }
        }
        self.wake(objects);
    }

    /// How an object connects, and what was looked at to find out.
    pub async fn resolve(
        &self,
        namespace: &str,
        options: &AssetOptions,
    ) -> (Result<Connection, Problem>, Vec<Dependency>) {
        let key = digest(namespace, options);
        if let Some((at, connection)) = self.resolved.lock().get(&key)
            && at.elapsed() < RESOLVED_AGE_MAX
        {
            return (Ok(connection.clone()), connection.depends.clone());
        }
        let mut resolver = Resolver::new(&self.context.client, &self.context.settings, namespace);
        let result = resolver.resolve(options).await;
        if let Ok(connection) = &result {
            let mut resolved = self.resolved.lock();
            if resolved.len() >= RESOLVED_MAX {
                resolved.clear();
            }
            resolved.insert(key, (Instant::now(), connection.clone()));
        }
        (result, resolver.depends)
    }

    /// A place for a pass over an object; `None` when its namespace has as many passes of the kind as it may have, and then the object is
    /// woken when it is its turn. So one namespace whose servers answer slowly, or never, does not hold up the others, and thousands of
    /// objects do not ask again and again.
    ///
    /// An object of which a server told something comes before the others.
    ///
    /// A consumer that was never there (`is_new`) lets the streams of its namespace go first, once: else it would find its own missing, and
    /// say so.
    #[must_use]
    pub fn enter(&self, object: &ObjectKey, is_new: bool) -> Option<Entered<'_>> {
        let place = (object.kind, object.namespace.clone());
        let mut entered = self.entered.lock();
        let streams_wait = is_new
            && object.kind == Consumer::KIND
            && entered
                .get(&(Stream::KIND, object.namespace.clone()))
                .is_some_and(|streams| !streams.waiting.names.is_empty());
        let places = entered.entry(place.clone()).or_default();
        if streams_wait && !places.behind.members.contains(&object.name) {
            places.behind.push(object.name.clone());
            return None;
        }
        let told = places.told.contains(&object.name);
        let bound = if told { PASSES_TOLD_MAX } else { PASSES_PER_NAMESPACE_MAX };
        if places.taken >= bound {
            if told {
                places.waiting.push_front(object.name.clone());
            } else {
                places.waiting.push(object.name.clone());
            }
            return None;
        }
        places.taken += 1;
        Some(Entered { state: self, place, owed: places.told.take(&object.name) })
    }

    /// Forgets how objects connect that use a connection: its servers may be elsewhere now.
    pub fn doubt(&self, key: Key) {
        self.resolved.lock().retain(|_, (_, connection)| connection.key != key);
    }

    /// What is remembered about an object.
    #[must_use]
    pub fn memory(&self, uid: &str) -> Memory {
        self.memories.lock().get(uid).cloned().unwrap_or_default()
    }

    /// Remembers something about an object.
    pub fn remember(&self, uid: &str, change: impl FnOnce(&mut Memory)) {
        let mut memories = self.memories.lock();
        if memories.len() >= MEMORIES_MAX && !memories.contains_key(uid) {
            memories.clear();
        }
        change(memories.entry(uid.to_owned()).or_default());
    }

    /// Forgets one that is gone and has a successor of its name.
    pub fn forget_status(&self, uid: &str) {
        self.memories.lock().remove(uid);
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, object: &ObjectKey, uid: &str) {
        self.memories.lock().remove(uid);
        self.index.forget(object);
        let place = (object.kind, object.namespace.clone());
        let mut entered = self.entered.lock();
        if let Some(places) = entered.get_mut(&place) {
            places.told.remove(&object.name);
            drop_unused(&mut entered, &place);
        }
        drop(entered);
        self.context.succeeded(&label(object));
        let _ =
            self.context.metrics.ready.remove_label_values(&[object.kind, &object.namespace, &object.name]);
    }

    /// Whether a status that only has new numbers may be written now. One that a server told of may take what others have to leave.
    #[must_use]
    pub fn may_write_numbers(&self, told: bool) -> bool {
        let mut bucket = self.numbers.lock();
        let (last, tokens) = &mut *bucket;
        let now = Instant::now();
        *tokens =
            (*tokens + now.duration_since(*last).as_secs_f64() * NUMBERS_PER_SECOND).min(NUMBERS_AT_ONCE);
        *last = now;
        let left = if told { 0.0 } else { NUMBERS_AT_ONCE / 2.0 };
        if *tokens - 1.0 < left {
            return false;
        }
        *tokens -= 1.0;
        true
    }

    /// Identity of the Kubernetes cluster: the uid of a namespace that lives as long as it does. Who may not read that one takes the
    /// operator's own.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn cluster_id(&self) -> Result<&str, Problem> {
        let settings = &self.context.settings;
        if let Some(id) = &settings.cluster_id {
            return Ok(id);
        }
        let id = self.cluster_id.get_or_try_init(async || {
            let namespaces: Api<Namespace> = Api::all(self.context.client.clone());
            let found = match namespaces.get("kube-system").await {
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    namespaces.get(&settings.pod_namespace).await
                }
                other => other,
            };
            Ok::<_, Problem>(found?.metadata.uid.unwrap_or_default())
        });
        Ok(id.await?)
    }

    /// Publishes an event. One that is lost changes nothing, so it is only logged.
    pub async fn publish(&self, object: &ObjectReference, event: &Event) {
        if let Err(error) = self.recorder.publish(event, object).await {
            tracing::warn!(%error, reason = event.reason, "an event could not be written");
        }
    }
}

/// An object for logs and for counting failures.
#[must_use]
pub fn label(object: &ObjectKey) -> String {
    format!("{} {}/{}", object.kind, object.namespace, object.name)
}

/// The part of the options that says how to connect.
fn digest(namespace: &str, options: &AssetOptions) -> [u8; 32] {
    let connection = AssetOptions {
        prevent_delete: false,
        prevent_update: false,
        deletion_policy: None,
        deletion_protection: Default::default(),
        adoption_policy: Default::default(),
        drift_policy: None,
        update_strategy: Default::default(),
        mode: Default::default(),
        ..options.clone()
    };
    let text = serde_json::to_vec(&(namespace, connection)).unwrap_or_default();
    Sha256::digest(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jetstream::asset::Target;

    fn state() -> Arc<State> {
        let read = crate::settings::parse(Vec::new(), |_| None);
        let Ok(crate::settings::Command::Run(settings)) = read else { panic!("settings") };
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let metrics = crate::metrics::Metrics::new().unwrap();
        let context = Context::new(kube::Client::try_from(config).unwrap(), settings, metrics, None);
        State::new(Arc::new(context)).0
    }

    fn object(kind: &'static str, namespace: &str, name: usize) -> ObjectKey {
        ObjectKey { kind, namespace: namespace.to_owned(), name: name.to_string() }
    }

    #[tokio::test]
    async fn a_consumer_that_is_new_lets_the_streams_that_wait_go_first_and_once() {
        let state = state();
        let mut woken = state.register("Consumer", None);
        let consumer = |name| object("Consumer", "a", name);
        let stream = |name| state.enter(&object("Stream", "a", name), true);
        let mut places: Vec<_> = (0..PASSES_PER_NAMESPACE_MAX).map(|name| stream(name).unwrap()).collect();
        // No stream waits for its turn: those under way are all there are.
        assert!(state.enter(&consumer(0), true).is_some());
        assert!(stream(100).is_none() && stream(101).is_none());
        for name in [1, 2] {
            assert!(state.enter(&consumer(name), true).is_none());
        }
        assert!(state.enter(&consumer(3), false).is_some(), "one that is there already");
        assert!(state.enter(&object("Consumer", "b", 1), true).is_some(), "one of another namespace");
        assert!(state.enter(&consumer(1), true).is_some(), "one that comes again");
        assert!(woken.try_recv().is_err());
        places.pop();
        assert_eq!([woken.try_recv().unwrap(), woken.try_recv().unwrap()], [consumer(1), consumer(2)]);
        assert!(state.enter(&consumer(2), true).is_some());
        drop(places);
        assert!(woken.try_recv().is_err() && state.entered.lock().is_empty());
    }

    #[tokio::test]
    async fn a_namespace_has_so_many_passes_at_a_time() {
        let state = state();
        let mut woken = state.register("Stream", None);
        let of_a = |name| object("Stream", "a", name);
        let mut places: Vec<_> =
            (0..PASSES_PER_NAMESPACE_MAX).map(|name| state.enter(&of_a(name), true).unwrap()).collect();
        assert!(state.enter(&object("Stream", "b", 0), true).is_some());
        assert!(state.enter(&object("Consumer", "a", 0), true).is_some());
        let late = 100..100 + WOKEN_PER_PLACE + 1;
        for _ in 0..2 {
            for name in late.clone() {
                assert!(state.enter(&of_a(name), true).is_none());
            }
        }
        assert!(woken.try_recv().is_err());
        // In their order, each once however often it came, and no more than may find a place soon.
        places.pop();
        for name in late.clone().take(WOKEN_PER_PLACE) {
            assert_eq!(woken.try_recv().unwrap(), of_a(name));
        }
        assert!(woken.try_recv().is_err());
        places.push(state.enter(&of_a(late.start), true).unwrap());
        places.pop();
        assert_eq!(woken.try_recv().unwrap(), of_a(late.end - 1));
        drop(places);
        assert!(woken.try_recv().is_err() && state.entered.lock().is_empty());
    }

    #[tokio::test]
    async fn who_is_told_of_comes_before_those_in_line() {
        let state = state();
        let mut woken = state.register("Stream", None);
        let of_a = |name| object("Stream", "a", name);
        let session = Key::test(1);
        for name in [50, 51, 200] {
            let entry = super::super::index::Entry {
                session: Some(session),
                stream: name.to_string(),
                ..Default::default()
            };
            state.index.record(&of_a(name), entry);
        }
        let tell = |name: usize| state.told(session, &Told::Changed(Target::new(&name.to_string(), None)));
        let mut places: Vec<_> =
            (0..PASSES_PER_NAMESPACE_MAX).map(|name| state.enter(&of_a(name), true).unwrap()).collect();
        assert!(state.enter(&of_a(100), true).is_none() && state.enter(&of_a(50), true).is_none());
        tell(50);
        assert_eq!(woken.try_recv().unwrap(), of_a(50));
        let again = state.enter(&of_a(50), true).unwrap();
        assert!(again.is_told());
        drop(again);
        // That pass did not come to its end, so the next one owes the same.
        let mut place = state.enter(&of_a(50), true).unwrap();
        place.looked();
        places.push(place);
        assert!(state.enter(&of_a(50), true).is_none(), "it was looked at");
        while places.len() < PASSES_TOLD_MAX {
            tell(51);
            assert_eq!(woken.try_recv().unwrap(), of_a(51));
            places.push(state.enter(&of_a(51), true).unwrap());
        }
        tell(51);
        assert_eq!(woken.try_recv().unwrap(), of_a(51));
        assert!(state.enter(&of_a(51), true).is_none());
        places.pop();
        assert_eq!(woken.try_recv().unwrap(), of_a(51), "before those that came first");
        assert!(state.enter(&of_a(51), true).is_some());
        tell(200);
        state.forget(&of_a(200), "uid");
        while woken.try_recv().is_ok() {}
        // One of them is gone while a pass over it is under way.
        state.forget(&of_a(51), "uid");
        while places.pop().is_some() {
            while let Ok(object) = woken.try_recv() {
                assert_ne!(object, of_a(200), "it is gone");
            }
        }
        assert!(state.entered.lock().is_empty());
    }

    #[tokio::test]
    async fn numbers_that_a_server_tells_of_find_a_place_when_others_have_taken_theirs() {
        let state = state();
        let written = |told| (0..100).filter(|_| state.may_write_numbers(told)).count();
        assert_eq!([written(false), written(true), written(false)], [10, 10, 0]);
        // Told ones alone may have all of it, and no more.
        state.numbers.lock().1 = NUMBERS_AT_ONCE * 5.0;
        assert_eq!([written(true), written(true)], [20, 0]);
    }

    #[test]
    fn options_that_only_say_what_to_do_share_a_connection() {
        let options = |text: &str| serde_json::from_str::<AssetOptions>(text).unwrap();
        let of = |text: &str| digest("ns", &options(text));
        assert_eq!(of("{}"), of(r#"{"preventDelete":true,"mode":"Observe","driftPolicy":"Report"}"#));
        for other in [
            r#"{"account":"a"}"#,
            r#"{"servers":["a"]}"#,
            r#"{"jsDomain":"d"}"#,
            r#"{"connectTimeout":"1s"}"#,
        ] {
            assert_ne!(of("{}"), of(other), "{other}");
        }
        assert_ne!(of("{}"), digest("other", &options("{}")));
    }
}
