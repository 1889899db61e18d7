//! What wakes passes: the objects themselves, what connections tell, and the Secrets, Accounts and clusters that connections are made from.

use std::collections::HashMap;
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
use kube::{Client, Resource, ResourceExt};
use tokio::sync::mpsc;

use super::accounts;
use super::asset::Asset;
use super::connection::Key;
use super::index::{Dependency, ObjectKey};
use super::pass;
use super::pool::Told;
use super::state::State;
use crate::apply::Object;
use crate::context::Context;
use crate::error::Error;
use crate::scope::{api, scopes};

/// Passes of one kind at a time.
const CONCURRENCY: u16 = 32;
/// Changes within this time wake one pass.
const DEBOUNCE: Duration = Duration::from_millis(200);

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

/// Watches the objects of a kind: all of them in memory, and a request for each change that a person may have made. What the operator
/// itself writes into statuses wakes nobody.
fn watched<K: Object + 'static>(
    client: &Client,
    scope: Option<&str>,
) -> (Store<K>, BoxStream<'static, Trigger<K>>) {
    let (store, writer) = reflector::store::<K>();
    let mut versions: HashMap<String, String> = HashMap::new();
    let requests = watcher(api::<K>(client, scope), watcher::Config::default())
        .default_backoff()
        .modify(|object| object.managed_fields_mut().clear())
        .reflect(writer)
        .filter_map(move |event| {
            let request = match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => {
                    let version = version_of(&object);
                    let known = versions.insert(object.uid().unwrap_or_default(), version.clone());
                    (known.as_ref() != Some(&version)).then(|| Ok(ObjectRef::from_obj(&object).into()))
                }
                Ok(Event::Delete(object)) => {
                    versions.remove(&object.uid().unwrap_or_default());
                    None
                }
                Ok(Event::Init | Event::InitDone) => None,
                Err(error) => Some(Err(error)),
            };
            futures::future::ready(request)
        })
        .boxed();
    (store, requests)
}

/// What of an object only others change: spec, annotations, and whether it is to go.
fn version_of<K: Resource>(object: &K) -> String {
    let meta = object.meta();
    format!("{:?} {:?} {:?}", meta.generation, meta.deletion_timestamp.is_some(), meta.annotations)
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
    let receiver = state.register(K::KIND, scope.clone());
    let (store, requests) = watched::<K>(&state.context.client, scope.as_deref());
    let users = store.clone();
    state.add_dependants(Box::new(move |namespace, name| users_of(&users, namespace, name)));
    let queue = stream::select(requests, wake_ups::<K>(receiver)).take_until(stop);
    applier(
        |object: Arc<K>, state: Arc<State>| apart(pass::reconcile::<K>(object, state)),
        pass::after_error::<K>,
        state,
        store,
        queue,
        Config::default().concurrency(CONCURRENCY).debounce(DEBOUNCE),
    )
    .for_each(|result| async move {
        if let Err(error) = result {
            tracing::debug!(%error, kind = K::KIND, "the controller reports");
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
    let receiver = state.register(accounts::KIND, scope.clone());
    let (store, requests) = watched::<Account>(&state.context.client, scope.as_deref());
    let queue = stream::select(requests, wake_ups::<Account>(receiver)).take_until(stop);
    applier(
        |account: Arc<Account>, state: Arc<State>| apart(accounts::reconcile(account, state)),
        accounts::after_error,
        state,
        store,
        queue,
        Config::default().concurrency(CONCURRENCY).debounce(DEBOUNCE),
    )
    .for_each(|result| async move {
        if let Err(error) = result {
            tracing::debug!(%error, kind = accounts::KIND, "the controller reports");
        }
    })
    .await;
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
    let mut versions: HashMap<Dependency, String> = HashMap::new();
    while let Some(event) = events.next().await {
        let (object, gone) = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => (object, false),
            Ok(Event::Delete(object)) => (object, true),
            Ok(Event::Init | Event::InitDone) => continue,
            Err(error) => {
                tracing::debug!(%error, "a watch is made again");
                continue;
            }
        };
        let changed = dependency(&object.namespace().unwrap_or_default(), &object.name_any());
        if gone {
            versions.remove(&changed);
        } else {
            let version = version(&object).unwrap_or_default();
            if versions.insert(changed.clone(), version.clone()) == Some(version) {
                continue;
            }
        }
        state.changed(&changed);
    }
}

/// Passes on what connections tell.
async fn listen(state: Arc<State>, mut told: mpsc::Receiver<(Key, Told)>) {
    while let Some((key, event)) = told.recv().await {
        state.told(key, &event);
    }
}
