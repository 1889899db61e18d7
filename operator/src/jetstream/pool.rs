//! Connections that objects share, and what was last seen through each of them.
//!
//! Two objects share a connection only when everything about it is equal, where its login comes from included. A connection that nobody
//! used for a while is closed; a namespace can keep only so many.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::jetstream::account::AccountStats;
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::{OwnedMutexGuard, mpsc};

use super::api::Js;
use super::asset::{Found, Target};
use super::connection::{Connection, Key, api_prefix};
use super::index::Index;
use super::problem::Problem;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::nats::session::{Listener, Server, Session};

/// How long a connection stays that nobody uses.
const IDLE_MAX: Duration = Duration::from_secs(300);
/// Connections that come from one namespace.
const PER_NAMESPACE_MAX: usize = 16;
/// How long facts about an account are believed.
const ACCOUNT_AGE_MAX: Duration = Duration::from_secs(60);
/// How long a list is believed, apart from what is told meanwhile.
const LIST_AGE_MAX: Duration = Duration::from_secs(30);
/// With fewer objects than this each asks for itself.
const LIST_OBJECTS_MIN: usize = 8;
/// Streams whose consumers are asked for at the same time. All passes of a connection wait for its list, which takes a round trip for each
/// stream.
const LISTS_AT_A_TIME: usize = 16;
/// Names told to have changed at most; beyond, the whole list counts as old.
const CHANGED_MAX: usize = 4096;

/// What a connection told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// It is there, again or for the first time.
    Up,
    /// A stream or consumer came, went or changed.
    Changed(Target),
    /// A stream has more or fewer consumers.
    Counted(String),
}

/// A shared connection.
pub struct Shared {
    /// Identity.
    pub key: Key,
    home: String,
    prefix: String,
    session: Session,
    used: Mutex<Instant>,
    account: Mutex<Option<(Instant, AccountStats)>>,
    changed: Arc<Mutex<Changed>>,
    seen: Arc<tokio::sync::Mutex<Seen>>,
}

/// When what was told to have changed, and neither looked at nor in a list that began later.
#[derive(Default)]
struct Changed {
    names: HashMap<Target, Instant>,
    everything: Option<Instant>,
}

impl Changed {
    fn note(&mut self, target: Target) {
        let now = Instant::now();
        if self.names.len() >= CHANGED_MAX {
            self.everything = Some(now);
        } else {
            self.names.insert(target, now);
        }
    }

    /// Drops what somebody has seen who asked at that time.
    fn listed(&mut self, asked: Instant) {
        self.names.retain(|_, at| *at >= asked);
        self.everything = self.everything.filter(|at| *at >= asked);
    }

    /// The same for one of them.
    fn looked(&mut self, target: &Target, asked: Instant) {
        if self.names.get(target).is_some_and(|at| *at < asked) {
            self.names.remove(target);
        }
    }
}

/// What the last list showed of streams and consumers that objects manage.
#[derive(Default)]
struct Seen {
    at: Option<Instant>,
    refused: bool,
    found: HashMap<Target, Found>,
}

impl Seen {
    /// Notes a newer look, if there is a list at all: without one everything is asked for each time.
    fn note(&mut self, target: &Target, found: Option<&Found>) {
        match found.filter(|_| self.at.is_some()) {
            Some(found) => self.found.insert(target.clone(), found.clone()),
            None => self.found.remove(target),
        };
    }
}

/// Takes note of what concerns somebody. Of streams and consumers that nobody manages there may be any number.
struct Ears {
    key: Key,
    index: Arc<Index>,
    events: mpsc::Sender<(Key, Told)>,
    changed: Arc<Mutex<Changed>>,
}

impl Ears {
    /// A full queue loses the event; what it would have told is found by the next look.
    fn tell(&self, told: Told) {
        let _ = self.events.try_send((self.key, told));
    }
}

impl Listener for Ears {
    fn up(&self) {
        self.changed.lock().everything = Some(Instant::now());
        self.tell(Told::Up);
    }

    fn changed(&self, stream: &str, consumer: Option<&str>) {
        let target = Target::new(stream, consumer);
        if !self.index.of(self.key, &target).is_empty() {
            self.changed.lock().note(target.clone());
            self.tell(Told::Changed(target));
        }
    }

    fn counted(&self, stream: &str) {
        if !self.index.managers_of(self.key, stream).is_empty() {
            self.changed.lock().note(Target::new(stream, None));
            self.tell(Told::Counted(stream.to_owned()));
        }
    }
}

/// All shared connections.
pub struct Pool {
    entries: Mutex<HashMap<Key, Arc<Shared>>>,
    index: Arc<Index>,
    events: mpsc::Sender<(Key, Told)>,
}

impl Pool {
    /// A pool without connections. What they tell of the objects of `index` goes to `events`.
    #[must_use]
    pub fn new(index: Arc<Index>, events: mpsc::Sender<(Key, Told)>) -> Self {
        Self { entries: Mutex::default(), index, events }
    }

    /// The connection that was resolved, shared if there is one.
    ///
    /// # Errors
    /// When its namespace has too many already.
    pub fn get(&self, connection: &Connection) -> Result<Arc<Shared>, Problem> {
        let now = Instant::now();
        let mut entries = self.entries.lock();
        entries.retain(|_, shared| {
            Arc::strong_count(shared) > 1 || now.duration_since(*shared.used.lock()) < IDLE_MAX
        });
        if let Some(shared) = entries.get(&connection.key) {
            *shared.used.lock() = now;
            return Ok(Arc::clone(shared));
        }
        let present = entries.values().filter(|shared| shared.home == connection.home).count();
        if present >= PER_NAMESPACE_MAX {
            let text = format!(
                "namespace `{}` has {PER_NAMESPACE_MAX} connections already: share an Account",
                connection.home
            );
            return Err(Problem::transient("TooManyConnections", text));
        }
        let changed = Arc::new(Mutex::new(Changed::default()));
        let ears = Ears {
            key: connection.key,
            index: Arc::clone(&self.index),
            events: self.events.clone(),
            changed: Arc::clone(&changed),
        };
        let shared = Arc::new(Shared {
            key: connection.key,
            home: connection.home.clone(),
            prefix: connection.prefix.clone(),
            session: Session::new(connection.options.clone(), Arc::new(ears)),
            used: Mutex::new(now),
            account: Mutex::default(),
            changed,
            seen: Arc::default(),
        });
        entries.insert(connection.key, Arc::clone(&shared));
        Ok(shared)
    }

    /// A connection that is still there.
    #[must_use]
    pub fn find(&self, key: Key) -> Option<Arc<Shared>> {
        self.entries.lock().get(&key).cloned()
    }

    /// Connections at present.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Shared {
    /// The API through this connection.
    #[must_use]
    pub fn js<'a>(&'a self, timeout: Duration, metrics: &'a Metrics) -> Js<'a> {
        *self.used.lock() = Instant::now();
        Js { session: &self.session, prefix: &self.prefix, timeout, metrics }
    }

    /// The server at the other end.
    ///
    /// # Errors
    /// When there is no connection.
    pub async fn server(&self) -> Result<Server, Problem> {
        Ok(self.session.server().await?)
    }

    /// The name of the server whose own JetStream answers here, if it is the one at the other end.
    #[must_use]
    pub fn answering<'a>(&self, server: &'a Server) -> Option<&'a str> {
        let own = [api_prefix(""), api_prefix(&server.domain)].contains(&self.prefix);
        (own && server.jetstream).then_some(&server.name)
    }

    /// Use and limits of the account, not older than a minute.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn account(&self, js: &Js<'_>) -> Result<AccountStats, Problem> {
        if let Some((at, stats)) = &*self.account.lock()
            && at.elapsed() < ACCOUNT_AGE_MAX
        {
            return Ok(stats.clone());
        }
        let stats = js.account().await?;
        *self.account.lock() = Some((Instant::now(), stats.clone()));
        Ok(stats)
    }

    /// A stream or consumer as it was seen lately; asked for when it was told to have changed, or was not seen, or is to be looked at `now`.
    /// Then it does not wait for a list that is being read.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn look(
        self: &Arc<Self>,
        js: &Js<'_>,
        index: &Index,
        target: &Target,
        now: bool,
    ) -> Result<Option<Found>, Problem> {
        let changed = || self.changed.lock().names.contains_key(target);
        if !now && !changed() {
            let seen = self.refreshed(js, index).await?;
            if !changed()
                && let Some(found) = seen.found.get(target)
            {
                return Ok(Some(found.clone()));
            }
        }
        let asked = Instant::now();
        let found = js.look(target).await;
        match (&found, self.seen.try_lock()) {
            (Ok(found), Ok(mut seen)) => {
                seen.note(target, found.as_ref());
                self.changed.lock().looked(target, asked);
            }
            // Of it there is only what a list had before.
            _ => self.wrote(target),
        }
        found
    }

    /// What this operator just wrote is no longer as it was seen.
    pub fn wrote(&self, target: &Target) {
        self.changed.lock().note(target.clone());
    }

    /// The last list; when it is old, a new one of what objects manage. A user who may not list is asked one by one.
    async fn refreshed(
        self: &Arc<Self>,
        js: &Js<'_>,
        index: &Index,
    ) -> Result<OwnedMutexGuard<Seen>, Problem> {
        let mut seen = Arc::clone(&self.seen).lock_owned().await;
        let old = seen.at.is_none_or(|at| at.elapsed() > LIST_AGE_MAX);
        if !old && self.changed.lock().everything.is_none() {
            return Ok(seen);
        }
        let few = index.of_session(self.key).len() < LIST_OBJECTS_MIN;
        if seen.refused || few {
            *seen = Seen { refused: seen.refused, ..Seen::default() };
            *self.changed.lock() = Changed::default();
            return Ok(seen);
        }
        let (shared, metrics, timeout) = (Arc::clone(self), js.metrics.clone(), js.timeout);
        let assets = index.assets(self.key);
        // A task of its own: it takes a round trip for each stream, which may be longer than the pass lasts that happens to need it.
        let task =
            tokio::spawn(async move { shared.read(seen, &shared.js(timeout, &metrics), &assets).await });
        task.await.unwrap_or(Err(Problem::Operator(Error::Panicked)))
    }

    /// Reads a list.
    async fn read(
        &self,
        mut seen: OwnedMutexGuard<Seen>,
        js: &Js<'_>,
        assets: &BTreeMap<String, BTreeSet<String>>,
    ) -> Result<OwnedMutexGuard<Seen>, Problem> {
        let asked = Instant::now();
        match listed(js, assets).await {
            Ok(found) => {
                *seen = Seen { at: Some(Instant::now()), refused: false, found };
                self.changed.lock().listed(asked);
            }
            Err(Problem::Stalled { .. }) => *seen = Seen { refused: true, ..Seen::default() },
            Err(problem) => return Err(problem),
        }
        Ok(seen)
    }
}

async fn listed(
    js: &Js<'_>,
    assets: &BTreeMap<String, BTreeSet<String>>,
) -> Result<HashMap<Target, Found>, Problem> {
    let streams = js.streams(|name| assets.contains_key(name)).await?;
    let mut lists = Vec::new();
    for info in &streams {
        let stream = info.config.name.as_str();
        let Some(wanted) = assets.get(stream).filter(|wanted| !wanted.is_empty()) else { continue };
        lists.push(async move {
            let list = js.consumers(stream, |name| wanted.contains(name)).await?;
            Ok::<_, Problem>((stream.to_owned(), list))
        });
    }
    let mut lists = stream::iter(lists).buffer_unordered(LISTS_AT_A_TIME);
    let mut found = HashMap::new();
    while let Some((stream, list)) = lists.try_next().await? {
        found.extend(
            list.into_iter()
                .map(|info| (Target::new(&stream, Some(&info.name)), Found::Consumer(Box::new(info)))),
        );
    }
    drop(lists);
    found.extend(
        streams.into_iter().map(|info| (Target::new(&info.config.name, None), Found::Stream(Box::new(info)))),
    );
    Ok(found)
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
