//! Passes over Accounts: whether one can log in, what it finds there, and who uses it.

use std::sync::Arc;
use std::time::Duration;

use api::jetstream::account::AccountStats;
use crd::annotation;
use crd::conditions::{self, Finding, Status as Holds};
use crd::jetstream::status::{AccountStatus, AccountUsage, LIST_MAX, Server};
use crd::jetstream::{Account, FIELD_MANAGER, finalizer};
use k8s_openapi::jiff::Timestamp;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};

use super::connection::Resolver;
use super::index::{Entry, ObjectKey};
use super::problem::Problem;
use super::report;
use super::state::{State, label};
use crate::error::Error;

/// Name of the kind.
pub const KIND: &str = "Account";
/// Pause between looks while objects still use an Account that is being deleted; their end wakes it as well.
const DEPENDANTS_PAUSE: Duration = Duration::from_secs(5);
/// Longest pause after a failure.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Entry from the controller.
///
/// # Errors
/// When the API server is in the way, or a test stops the operator.
pub async fn reconcile(account: Arc<Account>, state: Arc<State>) -> Result<Action, Error> {
    let result = Box::pin(run(&account, &state)).await;
    let word = if result.is_ok() { "success" } else { "error" };
    state.context.metrics.reconciles.with_label_values(&[KIND, word]).inc();
    result
}

/// What to do after a pass that the API server ended.
#[must_use]
#[expect(clippy::needless_pass_by_value, reason = "the controller hands over its own reference")]
pub fn after_error(account: Arc<Account>, error: &Error, state: Arc<State>) -> Action {
    let key = key_of(&account);
    let pause = state.context.backoff(&label(&key));
    tracing::warn!(object = label(&key), %error, pause_ms = pause.as_millis(), "a pass failed");
    Action::requeue(pause)
}

fn key_of(account: &Account) -> ObjectKey {
    ObjectKey { kind: KIND, namespace: account.namespace().unwrap_or_default(), name: account.name_any() }
}

/// What an Account was found to be.
struct Login {
    server: Server,
    stats: AccountStats,
}

async fn run(account: &Account, state: &State) -> Result<Action, Error> {
    let class = account.annotations().get(annotation::CONTROLLER_CLASS).map_or("", String::as_str);
    if class != state.context.settings.controller_class {
        return Ok(Action::await_change());
    }
    let key = key_of(account);
    let uid = account.uid().ok_or(Error::Incomplete("uid"))?;
    let dependants = state.dependants(&key.namespace, &key.name);
    let ending = account.metadata.deletion_timestamp.is_some();
    let paused = account.annotations().get(annotation::PAUSED).map(String::as_str) == Some("true");
    if ending && dependants.is_empty() {
        state.context.writer.set_finalizer_of(account, finalizer::ACCOUNT, FIELD_MANAGER, false).await?;
        state.forget(&key, &uid);
        return Ok(Action::await_change());
    }
    if !ending && !paused {
        state.context.writer.set_finalizer_of(account, finalizer::ACCOUNT, FIELD_MANAGER, true).await?;
    }
    let result = log_in(account, &key, state).await;
    if let Err(Problem::Operator(error @ Error::Stopped(_))) = result {
        return Err(error);
    }
    let remembered = state.memory(&uid).status();
    let before: AccountStatus = remembered.or_else(|| account.status.clone()).unwrap_or_default();
    let mut status = before.clone();
    fill(&mut status, &result);
    status.dependants = dependants.iter().take(LIST_MAX).cloned().collect();
    let generation = account.metadata.generation.unwrap_or_default();
    let findings = findings(&result, ending.then_some(dependants.len()));
    status.report.observed_generation = Some(generation);
    status.report.last_handled_reconcile_at = account.annotations().get(annotation::RECONCILE_AT).cloned();
    let events = report::merge(&mut status.report.conditions, &findings, generation, Timestamp::now());
    let important = status.report != before.report || status.dependants != before.dependants;
    if status != before && (important || state.may_write_numbers(false)) {
        state.context.writer.status_of(account, FIELD_MANAGER, &status).await?;
        state.remember(&uid, |memory| memory.wrote(&status));
    }
    for event in events {
        state.publish(&account.object_ref(&()), &event).await;
    }
    let ready =
        conditions::find(&status.report.conditions, "Ready").is_some_and(|ready| ready.status == "True");
    state.context.metrics.ready.with_label_values(&[KIND, &key.namespace, &key.name]).set(i64::from(ready));
    Ok(next(&key, state, &result, ending))
}

fn next(key: &ObjectKey, state: &State, result: &Result<Login, Problem>, ending: bool) -> Action {
    if ending {
        return Action::requeue(DEPENDANTS_PAUSE);
    }
    match result {
        Ok(_) => {
            state.context.succeeded(&label(key));
            Action::requeue(state.context.settings.sync_interval.mul_f64(rand::random_range(0.8..1.2)))
        }
        Err(_) => Action::requeue(state.context.backoff(&label(key)).min(PAUSE_MAX)),
    }
}

async fn log_in(account: &Account, key: &ObjectKey, state: &State) -> Result<Login, Problem> {
    let mut resolver = Resolver::new(&state.context.client, &state.context.settings, &key.namespace);
    let result = resolver.resolve_account(account).await;
    let session = result.as_ref().ok().map(|connection| connection.key);
    state.index.record(key, Entry { session, depends: resolver.depends.clone(), ..Entry::default() });
    let connection = result?;
    let shared = state.pool.get(&connection)?;
    let js = shared.js(connection.request_timeout, &state.context.metrics);
    let server = shared.server().await?;
    let stats = shared.account(&js).await?;
    let server = report::introduced(&server, stats.api.level);
    Ok(Login { server, stats })
}

fn fill(status: &mut AccountStatus, result: &Result<Login, Problem>) {
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    match result {
        Ok(Login { server, stats }) => {
            status.report.last_error.clear();
            status.report.server = Some(server.clone());
            status.usage = Some(AccountUsage {
                memory: count(stats.memory),
                storage: count(stats.storage),
                streams: stats.streams,
                consumers: stats.consumers,
                max_memory: stats.limits.max_memory,
                max_storage: stats.limits.max_storage,
                max_streams: stats.limits.max_streams,
                max_consumers: stats.limits.max_consumers,
            });
        }
        Err(problem) => status.report.last_error = problem.to_string(),
    }
}

fn findings(result: &Result<Login, Problem>, leaving: Option<usize>) -> Vec<Finding> {
    let finding = |type_, status: Holds, reason, message: String| Finding { type_, status, reason, message };
    let connected = match result {
        Ok(login) => {
            finding("Connected", Holds::True, "LoginOk", format!("logged in to {}", login.server.name))
        }
        Err(problem) => {
            let reason = match problem.reason() {
                "Unreachable" if problem.to_string().contains("uthorization") => "LoginRefused",
                reason => reason,
            };
            finding("Connected", Holds::False, reason, problem.to_string())
        }
    };
    let stalled = match result.as_ref().err().and_then(Problem::stalled_reason) {
        Some(reason) => finding("Stalled", Holds::True, reason, connected.message.clone()),
        None => finding("Stalled", Holds::False, "Progressing", "nothing is in the way".to_owned()),
    };
    let ready = match (leaving, result) {
        (Some(count), _) => {
            let text =
                format!("{count} objects still connect by this one: delete them, or let them name another");
            finding("Ready", Holds::False, "Deleting", text)
        }
        (None, Ok(_)) => finding("Ready", Holds::True, "Ready", connected.message.clone()),
        (None, Err(problem)) => finding("Ready", Holds::False, "Errored", problem.to_string()),
    };
    let reconciled = match result {
        Ok(_) => finding("Reconciled", Holds::True, "Success", "the last pass finished".to_owned()),
        Err(problem) => finding("Reconciled", Holds::False, problem.reason(), problem.to_string()),
    };
    vec![ready, reconciled, stalled, connected]
}
