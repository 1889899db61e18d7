//! Reads a source: through the account's own API for consumers, streams and services, through the system account for queue groups.
//!
//! Streams and consumers are asked for by the API, which the server that leads them answers; figures of some other server are never taken.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crd::NatsCluster;
use crd::jetstream::options::{AssetOptions, ClusterRef};
use crd::nats_autoscaler::source::{ServiceSource, Source, WorkqueueSource};
use crd::nats_cluster::auth::AuthMode;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use parking_lot::Mutex;
use serde::Deserialize;

use super::groups::{self, Account, Accounts};
use super::idle::Pending;
use super::lists::Lists;
use super::need::{Reading, Sample};
use crate::cluster::observe::{self, Access};
use crate::context::Context;
use crate::jetstream::api::Js;
use crate::jetstream::connection::{Connection, Key, Resolver};
use crate::jetstream::problem::Problem;
use crate::nats::client::Target;
use crate::nats::document;
use crate::nats::session::{Listener, Session};
use crate::objects::identity::Identity;

/// How long it is believed where the servers of a source are.
const LINK_AGE_MAX: Duration = Duration::from_secs(30);
/// Longest time to wait for an answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// How long instances of a service may take to tell their figures.
const GATHER_WINDOW: Duration = Duration::from_millis(500);
/// The account of a cluster that asks nobody who they are.
const GLOBAL_ACCOUNT: &str = "$G";
/// Connections of autoscalers that come from one namespace at most.
const SESSIONS_MAX: usize = 16;
/// Subjects of a stream that are counted at most, in answers of 100,000 each.
const SUBJECT_PAGES_MAX: u64 = 20;

/// How a source is reached.
pub enum Link {
    /// By a connection to its account.
    Account {
        /// When that was found out.
        at: Instant,
        /// Prefix and identity.
        connection: Box<Connection>,
        /// The connection.
        shared: Arc<Shared>,
    },
    /// By the servers of a cluster.
    System {
        /// When that was found out.
        at: Instant,
        /// The servers.
        targets: Vec<Target>,
        /// The account, as all have it who look at it.
        account: Arc<Account>,
    },
}

impl Link {
    const fn at(&self) -> Instant {
        match self {
            Self::Account { at, .. } | Self::System { at, .. } => *at,
        }
    }
}

/// What looks at the same account share, whoever asks.
#[derive(Default)]
pub struct Sessions {
    /// Connections by their identity. One that nobody has is closed.
    connections: Mutex<HashMap<Key, Held>>,
    accounts: Accounts,
}

/// A connection, and what was read over it for more than one.
pub struct Shared {
    session: Session,
    lists: Lists,
}

/// A connection, and the namespace that its login comes from.
struct Held {
    home: String,
    shared: Weak<Shared>,
}

impl Sessions {
    fn of(&self, connection: &Connection) -> Result<Arc<Shared>, Problem> {
        let mut sessions = self.connections.lock();
        if let Some(shared) = sessions.get(&connection.key).and_then(|held| held.shared.upgrade()) {
            return Ok(shared);
        }
        sessions.retain(|_, held| held.shared.strong_count() > 0);
        if sessions.values().filter(|held| held.home == connection.home).count() >= SESSIONS_MAX {
            let text = format!(
                "namespace {} has {SESSIONS_MAX} connections of autoscalers already",
                connection.home
            );
            return Err(Problem::transient("TooManyConnections", text));
        }
        let session = Session::new(connection.options.clone(), Arc::new(Deaf));
        let shared = Arc::new(Shared { session, lists: Lists::default() });
        let held = Held { home: connection.home.clone(), shared: Arc::downgrade(&shared) };
        sessions.insert(connection.key, held);
        Ok(shared)
    }
}

/// Nobody has to hear what a server tells by itself: sources are looked at again in a moment.
struct Deaf;

impl Listener for Deaf {
    fn up(&self) {}
    fn changed(&self, _: &str, _: Option<&str>) {}
    fn counted(&self, _: &str) {}
}

/// Reads a source that is read each `interval`, over `link` if that is still good, which is made otherwise.
///
/// # Errors
/// When it is not known what the source would say.
pub async fn read(
    context: &Context,
    namespace: &str,
    source: &Source,
    link: &mut Option<Link>,
    interval: Duration,
) -> Result<Reading, Problem> {
    if link.as_ref().is_none_or(|link| link.at().elapsed() >= LINK_AGE_MAX) {
        let fresh = Box::pin(reach(context, namespace, source)).await?;
        *link = Some(fresh);
    }
    let Some(usable) = link.as_ref() else {
        return Err(Problem::transient("Unreachable", "there is no connection"));
    };
    let result = ask(context, source, usable, interval).await;
    // The servers may be elsewhere by now.
    if result.as_ref().is_err_and(Problem::is_unreachable) {
        *link = None;
    }
    result
}

/// Bytes on their way to each address that connects to an account of a cluster.
///
/// # Errors
/// When the namespace may not see the account, or a server does not answer.
pub async fn pending(context: &Context, namespace: &str, reference: &ClusterRef) -> Result<Pending, Problem> {
    let options = AssetOptions { cluster_ref: Some(reference.clone()), ..AssetOptions::default() };
    // Says whether this namespace may see the account at all.
    Resolver::new(&context.client, &context.settings, namespace).resolve(&options).await?;
    let (targets, account) = Box::pin(system(context, namespace, reference)).await?;
    groups::pending(&targets, &account).await
}

/// Finds out how a source is reached. A connection stays when everything about it is still so.
async fn reach(context: &Context, namespace: &str, source: &Source) -> Result<Link, Problem> {
    let options = AssetOptions {
        account: source.account.clone().unwrap_or_default(),
        account_ref: source.account_ref.clone(),
        cluster_ref: source.cluster_ref.clone(),
        ..AssetOptions::default()
    };
    // For a queue group too: it says whether this namespace may see the account at all.
    let connection = Resolver::new(&context.client, &context.settings, namespace).resolve(&options).await?;
    let at = Instant::now();
    if let (Some(_), Some(reference)) = (&source.queue_group, &source.cluster_ref) {
        let (targets, account) = Box::pin(system(context, namespace, reference)).await?;
        return Ok(Link::System { at, targets, account });
    }
    let shared = context.sources.of(&connection)?;
    Ok(Link::Account { at, connection: Box::new(connection), shared })
}

/// The servers of a cluster, and the account that is meant.
async fn system(
    context: &Context,
    namespace: &str,
    reference: &ClusterRef,
) -> Result<(Vec<Target>, Arc<Account>), Problem> {
    let namespace = if reference.namespace.is_empty() { namespace } else { &reference.namespace };
    let clusters: Api<NatsCluster> = Api::namespaced(context.client.clone(), namespace);
    let cluster = clusters.get(&reference.name).await?;
    let identity = Identity::of(&cluster).map_err(Problem::Operator)?;
    let observed = observe::objects(&context.client, &identity, &cluster).await.map_err(Problem::Operator)?;
    let starting = || Problem::transient("Unreachable", "the cluster has no server that is ready");
    let access =
        Access::new(&identity, &cluster, &observed).map_err(Problem::Operator)?.ok_or_else(starting)?;
    // A server that is not ready has members too; without its answer the group is not known.
    let staying = observed.servers.iter().filter(|server| !server.stopping);
    let targets: Vec<Target> =
        staying.map(|server| access.target(server).ok_or_else(starting)).collect::<Result<_, _>>()?;
    if targets.is_empty() {
        return Err(starting());
    }
    let auth = &cluster.spec.auth;
    let account = match (auth.mode, reference.account.as_str()) {
        (AuthMode::None, _) => GLOBAL_ACCOUNT.to_owned(),
        (AuthMode::Config, "") => {
            auth.accounts.first().map(|account| account.name.clone()).unwrap_or_default()
        }
        (AuthMode::Config, named) => named.to_owned(),
    };
    Ok((targets, context.sources.accounts.of(&identity.uid, &account)))
}

async fn ask(
    context: &Context,
    source: &Source,
    link: &Link,
    interval: Duration,
) -> Result<Reading, Problem> {
    let sample = match link {
        Link::System { targets, account, .. } => {
            return match &source.queue_group {
                Some(group) => account.read(targets, group, interval).await,
                None => Err(Problem::stalled("InvalidSpec", "the source names nothing")),
            };
        }
        Link::Account { connection, shared, .. } => {
            let session = &shared.session;
            let js = Js {
                session,
                prefix: &connection.prefix,
                timeout: connection.request_timeout.min(REQUEST_TIMEOUT),
                metrics: &context.metrics,
            };
            if let Some(consumer) = &source.consumer {
                let (stream, name) = (&consumer.stream, &consumer.consumer);
                if let Some(listed) = shared.lists.find(&js, stream, name, interval).await {
                    return Ok(listed);
                }
                self::consumer(&js, stream, name).await?
            } else if let Some(workqueue) = &source.workqueue {
                messages(&js, workqueue).await?
            } else if let Some(service) = &source.service {
                instances(session, service).await?
            } else {
                return Err(Problem::stalled("InvalidSpec", "the source names nothing"));
            }
        }
    };
    Ok(Reading { at: Timestamp::now(), sample })
}

async fn consumer(js: &Js<'_>, stream: &str, name: &str) -> Result<Sample, Problem> {
    let info = js.consumer(stream, name).await?.ok_or_else(|| {
        Problem::transient(
            "SourceMissing",
            format!("stream {stream} has no consumer {name}, or there is no such stream"),
        )
    })?;
    Ok(Sample::of_consumer(&info))
}

/// Counts the messages of a stream, or those of some of its subjects.
async fn messages(js: &Js<'_>, source: &WorkqueueSource) -> Result<Sample, Problem> {
    let Some(filter) = &source.filter else {
        let info = js.stream(&source.stream).await?.ok_or_else(|| missing(&source.stream))?;
        return Ok(Sample::Stream { messages: i64::try_from(info.state.messages).unwrap_or(i64::MAX) });
    };
    let mut messages = 0_i64;
    let mut offset = 0_u64;
    for _ in 0..SUBJECT_PAGES_MAX {
        let request = serde_json::json!({ "subjects_filter": filter, "offset": offset }).to_string();
        let subject = format!("{}.STREAM.INFO.{}", js.prefix, source.stream);
        let bytes = js.session.request(&subject, request.as_bytes(), js.timeout).await?;
        let answer = subjects(&bytes)?;
        if let Some(error) = answer.error {
            return Err(if error.code == 404 {
                missing(&source.stream)
            } else {
                Problem::transient("NatsError", error.description)
            });
        }
        let page = answer.state.unwrap_or_default().subjects.unwrap_or_default();
        messages = page
            .values()
            .fold(messages, |sum, count| sum.saturating_add(i64::try_from(*count).unwrap_or(i64::MAX)));
        offset += u64::try_from(page.len()).unwrap_or(u64::MAX);
        if page.is_empty() || offset >= answer.total {
            break;
        }
    }
    Ok(Sample::Stream { messages })
}

fn subjects(answer: &[u8]) -> Result<Subjects, Problem> {
    document::parse(answer)
        .map_err(|_| Problem::transient("NatsError", "the answer is not what JetStream answers"))
}

fn missing(stream: &str) -> Problem {
    Problem::transient("SourceMissing", format!("there is no stream {stream}"))
}

/// The parts of an answer about a stream that say how many messages each subject has.
#[derive(Deserialize)]
struct Subjects {
    #[serde(default)]
    error: Option<api::ApiError>,
    #[serde(default)]
    state: Option<SubjectCounts>,
    #[serde(default)]
    total: u64,
}

#[derive(Default, Deserialize)]
struct SubjectCounts {
    #[serde(default)]
    subjects: Option<BTreeMap<String, u64>>,
}

/// Figures of a service, by instance.
async fn instances(session: &Session, source: &ServiceSource) -> Result<Sample, Problem> {
    let subject = format!("$SRV.STATS.{}", source.name);
    let answers = match session.gather(&subject, b"", GATHER_WINDOW).await {
        Err(crate::nats::client::Error::NoResponders(_)) => Vec::new(),
        answers => answers?,
    };
    let mut instances = BTreeMap::new();
    for answer in answers {
        // One instance that answers nonsense does not hide the others.
        let Ok(stats) = stats(&answer) else { continue };
        let wanted =
            |endpoint: &&Endpoint| source.endpoint.as_ref().is_none_or(|name| endpoint.name == *name);
        let counts = stats.endpoints.iter().filter(wanted).fold((0_i64, 0_i64), |sum, endpoint| {
            (sum.0.saturating_add(endpoint.num_requests), sum.1.saturating_add(endpoint.processing_time))
        });
        if stats.name == source.name && !stats.id.is_empty() {
            instances.insert(stats.id, counts);
        }
    }
    if instances.is_empty() {
        let text = format!("no instance of service {} answers", source.name);
        return Err(Problem::transient("SourceMissing", text));
    }
    Ok(Sample::Service { instances })
}

fn stats(answer: &[u8]) -> Result<Stats, serde_json::Error> {
    document::parse(answer)
}

/// What an instance of a service tells of itself.
#[derive(Deserialize)]
struct Stats {
    #[serde(default)]
    name: String,
    #[serde(default)]
    id: String,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Deserialize)]
struct Endpoint {
    #[serde(default)]
    name: String,
    #[serde(default)]
    num_requests: i64,
    #[serde(default)]
    processing_time: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_nested_too_deep_are_none() {
        // The object around the field is a level, too.
        let answer = |depth: usize| format!(r#"{{"x":{}{}}}"#, "[".repeat(depth - 1), "]".repeat(depth - 1));
        let (most, more) = (answer(document::DEPTH_MAX), answer(document::DEPTH_MAX + 1));
        assert!(subjects(most.as_bytes()).is_ok() && stats(most.as_bytes()).is_ok());
        assert!(subjects(more.as_bytes()).is_err() && stats(more.as_bytes()).is_err());
    }
}
