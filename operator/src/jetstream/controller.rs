//! What wakes passes: the objects themselves, what connections tell, and the Secrets, Accounts and clusters that connections are made from.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crd::NatsCluster;
use crd::jetstream::{Account, Consumer, KeyValue, ObjectStore, Stream};
use futures::future::{BoxFuture, Shared, join_all};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::controller::{Action, Config, ReconcileRequest, applier};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Resource, ResourceExt};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::accounts;
use super::asset::Asset;
use super::connection::Key;
use super::index::{Dependency, ObjectKey};
use super::pass;
use super::pool::Told;
use super::state::State;
use super::versions::Versions;
use crate::apply::Object;
use crate::context::Context;
use crate::error::Error;
use crate::scope::{api, scopes};

/// Passes of one kind at a time.
const CONCURRENCY: u16 = 32;
/// Changes within this time wake one pass.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// How often at most the object of a stream is woken because its number of consumers changed.
const COUNT_PAUSE: Duration = Duration::from_secs(2);

/// Runs the controllers of all kinds until `stop` completes and the passes under way have ended.
pub async fn run<F>(context: Arc<Context>, stop: Shared<F>)
where
    F: Future<Output = ()> + Send + Sync + 'static,
    F::Output: Clone + Send + Sync,
{
    let scopes = scopes(&context.settings);
    let (state, told) = State::new(context);
    let mut tasks: Vec<BoxFuture<'static, ()>> = Vec::new();
    for scope in scopes {
        tasks.push(assets::<Stream, _>(Arc::clone(&state), scope.clone(), stop.clone()).boxed());
        tasks.push(assets::<Consumer, _>(Arc::clone(&state), scope.clone(), stop.clone()).boxed());
        tasks.push(assets::<KeyValue, _>(Arc::clone(&state), scope.clone(), stop.clone()).boxed());
        tasks.push(assets::<ObjectStore, _>(Arc::clone(&state), scope.clone(), stop.clone()).boxed());
        tasks.push(logins(Arc::clone(&state), scope.clone(), stop.clone()).boxed());
        tasks.push(until(dependencies(Arc::clone(&state), scope), stop.clone()).boxed());
    }
    tasks.push(until(listen(state, told), stop).boxed());
    join_all(tasks).await;
}

/// Runs something that has no end of its own.
async fn until<F>(task: impl Future<Output = ()>, stop: Shared<F>)
where
    F: Future<Output = ()>,
    F::Output: Clone,
{
    tokio::select! {
        () = task => {}
        () = stop => {}
    }
}

/// Wake-ups as the controller wants them.
fn wake_ups<K>(receiver: mpsc::Receiver<ObjectKey>) -> BoxStream<'static, Trigger<K>>
where
    K: Resource<DynamicType = ()> + 'static,
{
    stream::unfold(receiver, async |mut receiver| {
        let object = receiver.recv().await?;
        let reference = ObjectRef::new(&object.name).within(&object.namespace);
        Some((Ok(ReconcileRequest::from(reference)), receiver))
    })
    .boxed()
}

/// A request for a pass, or what became of the watch.
type Trigger<K> = Result<ReconcileRequest<K>, watcher::Error>;

/// What `kubectl apply` notes about an object: nothing that a pass asks for, and as long as the object itself.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object of a kind, and which one of its name.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Identity {
    key: ObjectKey,
    uid: String,
}

impl Identity {
    fn of<K: Resource>(kind: &'static str, object: &K) -> Self {
        let key =
            ObjectKey { kind, namespace: object.namespace().unwrap_or_default(), name: object.name_any() };
        Self { key, uid: object.uid().unwrap_or_default() }
    }
}

/// Watches the objects of a kind: all of them in memory, and a request for each change that a person may have made. What the operator
/// itself writes into statuses wakes nobody.
fn watched<K: Object + 'static>(
    state: &Arc<State>,
    kind: &'static str,
    scope: Option<&str>,
) -> (Store<K>, BoxStream<'static, Trigger<K>>) {
    let (store, writer) = reflector::store::<K>();
    let mut versions = Versions::<Identity>::default();
    let state = Arc::clone(state);
    let requests = watcher(api::<K>(&state.context.client, scope), watcher::Config::default())
        .default_backoff()
        .modify(|object| {
            object.managed_fields_mut().clear();
            object.annotations_mut().remove(LAST_APPLIED);
        })
        .reflect(writer)
        .filter_map(move |event| {
            let request = match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => {
                    let new = versions.shown(Identity::of(kind, &object), &version_of(&object));
                    new.then(|| Ok(ObjectRef::from_obj(&object).into()))
                }
                Ok(Event::Delete(object)) => {
                    let gone = Identity::of(kind, &object);
                    versions.gone(&gone);
                    state.forget(&gone.key, &gone.uid);
                    None
                }
                Ok(Event::Init) => {
                    versions.begin();
                    None
                }
                Ok(Event::InitDone) => {
                    let missing = versions.complete();
                    let living: HashSet<_> = versions.keys().map(|identity| &identity.key).collect();
                    for gone in &missing {
                        // A successor of the name was shown already, and is looked after.
                        if living.contains(&gone.key) {
                            state.forget_status(&gone.uid);
                        } else {
                            state.forget(&gone.key, &gone.uid);
                        }
                    }
                    None
                }
                Err(error) => Some(Err(error)),
            };
            futures::future::ready(request)
        })
        .boxed();
    (store, requests)
}

/// What of an object only others change: spec, annotations, and whether it is to go.
fn version_of<K: Resource>(object: &K) -> (Option<i64>, bool, Option<BTreeMap<String, String>>) {
    let meta = object.meta();
    (meta.generation, meta.deletion_timestamp.is_some(), meta.annotations.clone())
}

/// A task that ends with its handle.
struct Running<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs a pass as a task of its own, so that passes run beside each other and one that panics ends alone.
fn apart(
    pass: impl Future<Output = Result<Action, Error>> + Send + 'static,
) -> BoxFuture<'static, Result<Action, Error>> {
    let mut task = Running(tokio::spawn(pass));
    async move { (&mut task.0).await.unwrap_or(Err(Error::Panicked)) }.boxed()
}

async fn assets<K, F>(state: Arc<State>, scope: Option<String>, stop: Shared<F>)
where
    K: Asset,
    F: Future<Output = ()> + Send + Sync + 'static,
    F::Output: Clone + Send + Sync,
{
    let dependants = |store: &Store<K>| {
        let users = store.clone();
        state.add_dependants(Box::new(move |namespace, name| users_of(&users, namespace, name)));
    };
    let pass = |object: Arc<K>, state: Arc<State>| apart(pass::reconcile::<K>(object, state));
    work(&state, (K::KIND, scope), dependants, (pass, pass::after_error::<K>), stop).await;
}

/// Watches the objects of a kind and runs passes over them until `stop` completes. `begin` sees the store before anything is in it.
async fn work<K, F>(
    state: &Arc<State>,
    (kind, scope): (&'static str, Option<String>),
    begin: impl FnOnce(&Store<K>),
    (pass, after_error): (
        impl FnMut(Arc<K>, Arc<State>) -> BoxFuture<'static, Result<Action, Error>>,
        impl Fn(Arc<K>, &Error, Arc<State>) -> Action,
    ),
    stop: Shared<F>,
) where
    K: Object + 'static,
    F: Future<Output = ()> + Send + Sync + 'static,
    F::Output: Clone + Send + Sync,
{
    let receiver = state.register(kind, scope.clone());
    let (store, requests) = watched::<K>(state, kind, scope.as_deref());
    begin(&store);
    let queue = stream::select(requests, wake_ups::<K>(receiver)).take_until(stop);
    let config = Config::default().concurrency(CONCURRENCY).debounce(DEBOUNCE);
    applier(pass, after_error, Arc::clone(state), store, queue, config)
        .for_each(|result| async move {
            if let Err(error) = result {
                tracing::debug!(%error, kind, "the controller reports");
            }
        })
        .await;
}

/// Objects of one kind that connect by an Account.
fn users_of<K: Asset>(store: &Store<K>, namespace: &str, name: &str) -> Vec<String> {
    let uses = |object: &&Arc<K>| {
        let own = object.namespace().unwrap_or_default();
        let options = object.options();
        let by_name = own == namespace && options.account == name;
        let by_reference = options.account_ref.as_ref().is_some_and(|reference| {
            let there = if reference.namespace.is_empty() { own.as_str() } else { &reference.namespace };
            reference.name == name && there == namespace
        });
        by_name || by_reference
    };
    let state = store.state();
    state
        .iter()
        .filter(uses)
        .map(|object| format!("{} {}/{}", K::KIND, object.namespace().unwrap_or_default(), object.name_any()))
        .collect()
}

async fn logins<F>(state: Arc<State>, scope: Option<String>, stop: Shared<F>)
where
    F: Future<Output = ()> + Send + Sync + 'static,
    F::Output: Clone + Send + Sync,
{
    let pass = |account: Arc<Account>, state: Arc<State>| apart(accounts::reconcile(account, state));
    work(&state, (accounts::KIND, scope), |_| (), (pass, accounts::after_error), stop).await;
}

/// Watches what connections are made from. Contents stay at the API server until somebody needs them.
async fn dependencies(state: Arc<State>, scope: Option<String>) {
    let client = &state.context.client;
    let scope = scope.as_deref();
    let everything = watcher::Config::default;
    let secrets =
        watcher(api::<PartialObjectMeta<Secret>>(client, scope), everything()).default_backoff().boxed();
    let accounts =
        watcher(api::<PartialObjectMeta<Account>>(client, scope), everything()).default_backoff().boxed();
    let clusters = watcher(api::<NatsCluster>(client, scope), everything()).default_backoff().boxed();
    let secrets = changes(&state, secrets, Dependency::secret, ResourceExt::resource_version);
    let accounts = changes(&state, accounts, Dependency::account, generation);
    let clusters = changes(&state, clusters, Dependency::cluster, servers);
    tokio::join!(secrets, accounts, clusters);
}

/// Statuses change all the time and say nothing about how to connect.
fn generation<K: Resource>(object: &K) -> Option<String> {
    let ending = object.meta().deletion_timestamp.is_some();
    object.meta().generation.map(|generation| format!("{generation} {ending}"))
}

/// Connections lead to the servers that are ready. One that took the place of another has another address.
fn servers(cluster: &NatsCluster) -> Option<String> {
    let ready = cluster.status.iter().flat_map(|status| &status.servers).filter(|server| server.ready);
    let ready: Vec<_> = ready.map(|server| (&server.pod, &server.server_id)).collect();
    generation(cluster).map(|generation| format!("{generation} {ready:?}"))
}

/// Passes on what changed, once for each version.
async fn changes<K>(
    state: &State,
    mut events: BoxStream<'_, watcher::Result<Event<K>>>,
    dependency: fn(&str, &str) -> Dependency,
    version: fn(&K) -> Option<String>,
) where
    K: Resource<DynamicType = ()> + Send + 'static,
{
    let mut versions = Versions::<Dependency>::default();
    while let Some(event) = events.next().await {
        let named = |object: &K| dependency(&object.namespace().unwrap_or_default(), &object.name_any());
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                if versions.shown(named(&object), &version(&object)) {
                    state.changed(&named(&object));
                }
            }
            Ok(Event::Delete(object)) => {
                versions.gone(&named(&object));
                state.changed(&named(&object));
            }
            Ok(Event::Init) => versions.begin(),
            Ok(Event::InitDone) => versions.complete().iter().for_each(|gone| state.changed(gone)),
            Err(error) => tracing::debug!(%error, "a watch is made again"),
        }
    }
}

/// Passes on what connections tell. Numbers of consumers wait until there may be more of them: clients that come and go, each with a consumer
/// of its own, or thousands that are made, wake the object of a stream no more often than that.
async fn listen(state: Arc<State>, mut told: mpsc::Receiver<(Key, Told)>) {
    let mut counted = HashSet::new();
    let mut turns = tokio::time::interval(COUNT_PAUSE);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = told.recv() => match event {
                None => return,
                Some((key, Told::Counted(stream))) => {
                    counted.insert((key, stream));
                }
                Some((key, event)) => state.told(key, &event),
            },
            _ = turns.tick(), if !counted.is_empty() => {
                for (key, stream) in counted.drain() {
                    state.told(key, &Told::Counted(stream));
                }
            }
        }
    }
}
