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
use tokio::sync::mpsc;

use super::api::Js;
use super::asset::{Found, Target};
use super::connection::{Connection, Key, api_prefix};
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
    seen: tokio::sync::Mutex<Seen>,
}

/// What was told to have changed since the last list.
#[derive(Default)]
struct Changed {
    names: BTreeSet<Target>,
    everything: bool,
}

impl Changed {
    fn note(&mut self, target: Target) {
        if self.names.len() >= CHANGED_MAX {
            self.everything = true;
        } else {
            self.names.insert(target);
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

    fn changed(&self, stream: &str, consumer: Option<&str>) {
        let target = Target::new(stream, consumer);
        self.changed.lock().note(target.clone());
        self.tell(Told::Changed(target));
    }

    fn counted(&self, stream: &str) {
        self.changed.lock().note(Target::new(stream, None));
        self.tell(Told::Counted(stream.to_owned()));
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

    /// A stream or consumer as it was seen lately; asked for when it was told to have changed, or was not seen. What was told of does not
    /// wait for a list that is being read.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn look(&self, js: &Js<'_>, index: &Index, target: &Target) -> Result<Option<Found>, Problem> {
        let changed = || self.changed.lock().names.contains(target);
        if !changed() {
            let mut seen = self.seen.lock().await;
            self.refresh(&mut seen, js, index).await?;
            if !changed()
                && let Some(found) = seen.found.get(target)
            {
                return Ok(Some(found.clone()));
            }
        }
        self.changed.lock().names.remove(target);
        let found = js.look(target).await;
        match (&found, self.seen.try_lock()) {
            (Ok(found), Ok(mut seen)) => seen.note(target, found.as_ref()),
            // Of it there is only what a list had before.
            _ => self.wrote(target),
        }
        found
    }

    /// What this operator just wrote is no longer as it was seen.
    pub fn wrote(&self, target: &Target) {
        self.changed.lock().names.insert(target.clone());
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
            Ok(found) => {
                *seen = Seen { at: Some(Instant::now()), refused: false, found };
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
