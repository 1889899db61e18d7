//! Connections that objects share, and what was last seen through each of them.
//!
//! Two objects share a connection only when everything about it is equal, where its login comes from included. A connection that nobody
//! used for a while is closed; a namespace can keep only so many.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::jetstream::account::AccountStats;
use api::jetstream::consumer::ConsumerInfo;
use api::jetstream::stream::StreamInfo;
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::api::Js;
use super::connection::{Connection, Key};
use super::index::Index;
use super::problem::Problem;
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
    /// A stream came, went or changed.
    Stream(String),
    /// A consumer came, went or changed.
    Consumer(String, String),
}

impl Seen {
    /// Notes a newer look, if there is a list at all: without one everything is asked for each time.
    fn note_stream(&mut self, name: &str, found: Option<&StreamInfo>) {
        match found.filter(|_| self.at.is_some()) {
            Some(info) => self.streams.insert(name.to_owned(), info.clone()),
            None => self.streams.remove(name),
        };
    }

    fn note_consumer(&mut self, key: (String, String), found: Option<&ConsumerInfo>) {
        match found.filter(|_| self.at.is_some()) {
            Some(info) => self.consumers.insert(key, info.clone()),
            None => self.consumers.remove(&key),
        };
    }
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
    seen: tokio::sync::Mutex<Seen>,
}

/// What was told to have changed since the last list.
#[derive(Default)]
struct Changed {
    streams: BTreeSet<String>,
    consumers: BTreeSet<(String, String)>,
    everything: bool,
}

/// What the last list showed of streams and consumers that objects manage.
#[derive(Default)]
struct Seen {
    at: Option<Instant>,
    refused: bool,
    streams: HashMap<String, StreamInfo>,
    consumers: BTreeMap<(String, String), ConsumerInfo>,
}

struct Ears {
    key: Key,
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
        self.changed.lock().everything = true;
        self.tell(Told::Up);
    }

    fn stream(&self, name: &str) {
        {
            let mut changed = self.changed.lock();
            if changed.streams.len() >= CHANGED_MAX {
                changed.everything = true;
            } else {
                changed.streams.insert(name.to_owned());
            }
        }
        self.tell(Told::Stream(name.to_owned()));
    }

    fn consumer(&self, stream: &str, name: &str) {
        {
            let mut changed = self.changed.lock();
            if changed.consumers.len() >= CHANGED_MAX {
                changed.everything = true;
            } else {
                changed.consumers.insert((stream.to_owned(), name.to_owned()));
            }
        }
        self.tell(Told::Consumer(stream.to_owned(), name.to_owned()));
    }
}

/// All shared connections.
pub struct Pool {
    entries: Mutex<HashMap<Key, Arc<Shared>>>,
    events: mpsc::Sender<(Key, Told)>,
}

impl Pool {
    /// A pool without connections. What they tell goes to `events`.
    #[must_use]
    pub fn new(events: mpsc::Sender<(Key, Told)>) -> Self {
        Self { entries: Mutex::default(), events }
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
        let ears = Ears { key: connection.key, events: self.events.clone(), changed: Arc::clone(&changed) };
        let shared = Arc::new(Shared {
            key: connection.key,
            home: connection.home.clone(),
            prefix: connection.prefix.clone(),
            session: Session::new(connection.options.clone(), Arc::new(ears)),
            used: Mutex::new(now),
            account: Mutex::default(),
            changed,
            seen: tokio::sync::Mutex::default(),
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

    /// A stream as it was seen lately; asked for when it was told to have changed, or was not seen. What was told of does not wait for a list
    /// that is being read.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn stream(
        &self,
        js: &Js<'_>,
        index: &Index,
        name: &str,
    ) -> Result<Option<StreamInfo>, Problem> {
        let changed = || self.changed.lock().streams.contains(name);
        if !changed() {
            let mut seen = self.seen.lock().await;
            self.refresh(&mut seen, js, index).await?;
            if !changed()
                && let Some(info) = seen.streams.get(name)
            {
                return Ok(Some(info.clone()));
            }
        }
        self.changed.lock().streams.remove(name);
        let found = js.stream(name).await;
        match (&found, self.seen.try_lock()) {
            (Ok(found), Ok(mut seen)) => seen.note_stream(name, found.as_ref()),
            // Of it there is only what a list had before.
            _ => self.wrote(name, None),
        }
        found
    }

    /// A consumer, in the same way.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn consumer(
        &self,
        js: &Js<'_>,
        index: &Index,
        (stream, name): (&str, &str),
    ) -> Result<Option<ConsumerInfo>, Problem> {
        let key = (stream.to_owned(), name.to_owned());
        let changed = || self.changed.lock().consumers.contains(&key);
        if !changed() {
            let mut seen = self.seen.lock().await;
            self.refresh(&mut seen, js, index).await?;
            if !changed()
                && let Some(info) = seen.consumers.get(&key)
            {
                return Ok(Some(info.clone()));
            }
        }
        self.changed.lock().consumers.remove(&key);
        let found = js.consumer(stream, name).await;
        match (&found, self.seen.try_lock()) {
            (Ok(found), Ok(mut seen)) => seen.note_consumer(key, found.as_ref()),
            _ => self.wrote(stream, Some(name)),
        }
        found
    }

    /// What this operator just wrote is no longer as it was seen.
    pub fn wrote(&self, stream: &str, consumer: Option<&str>) {
        let mut changed = self.changed.lock();
        match consumer {
            Some(consumer) => {
                changed.consumers.insert((stream.to_owned(), consumer.to_owned()));
            }
            None => {
                changed.streams.insert(stream.to_owned());
            }
        }
    }

    /// Lists what objects manage when the last list is old. A user who may not list is asked one by one.
    async fn refresh(&self, seen: &mut Seen, js: &Js<'_>, index: &Index) -> Result<(), Problem> {
        let old = seen.at.is_none_or(|at| at.elapsed() > LIST_AGE_MAX) || self.changed.lock().everything;
        if !old || seen.refused {
            return Ok(());
        }
        let few = index.of_session(self.key).len() < LIST_OBJECTS_MIN;
        if few {
            *seen = Seen { refused: seen.refused, ..Seen::default() };
            *self.changed.lock() = Changed::default();
            return Ok(());
        }
        // What changes from here on is told after this.
        *self.changed.lock() = Changed::default();
        match listed(js, &index.assets(self.key)).await {
            Ok((streams, consumers)) => {
                *seen = Seen { at: Some(Instant::now()), refused: false, streams, consumers };
                Ok(())
            }
            Err(Problem::Stalled { .. }) => {
                *seen = Seen { refused: true, ..Seen::default() };
                Ok(())
            }
            Err(problem) => {
                self.changed.lock().everything = true;
                Err(problem)
            }
        }
    }
}

type Listed = (HashMap<String, StreamInfo>, BTreeMap<(String, String), ConsumerInfo>);

async fn listed(js: &Js<'_>, assets: &BTreeMap<String, BTreeSet<String>>) -> Result<Listed, Problem> {
    let found = js.streams(|name| assets.contains_key(name)).await?;
    let mut lists = Vec::new();
    for info in &found {
        let stream = info.config.name.as_str();
        let Some(wanted) = assets.get(stream).filter(|wanted| !wanted.is_empty()) else { continue };
        lists.push(async move {
            let list = js.consumers(stream, |name| wanted.contains(name)).await?;
            Ok::<_, Problem>((stream.to_owned(), list))
        });
    }
    let mut lists = stream::iter(lists).buffer_unordered(LISTS_AT_A_TIME);
    let mut consumers = BTreeMap::new();
    while let Some((stream, list)) = lists.try_next().await? {
        consumers.extend(list.into_iter().map(|info| ((stream.clone(), info.name.clone()), info)));
    }
    drop(lists);
    Ok((found.into_iter().map(|info| (info.config.name.clone(), info)).collect(), consumers))
}
