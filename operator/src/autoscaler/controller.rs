//! What wakes looks: the autoscalers themselves, and the clock of each.

use std::sync::Arc;
use std::time::Duration;

use crd::NatsAutoscaler;
use futures::StreamExt;
use futures::future::{Shared, join_all};
use kube::Api;
use kube::runtime::controller::{Config, Controller};
use kube::runtime::watcher;

use super::reconcile::{self, State};
use crate::context::Context;

/// Looks at a time.
const CONCURRENCY: u16 = 32;
/// Changes within this time wake one look.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// Runs the controller until `stop` completes and the looks under way have ended.
pub async fn run<F>(context: Arc<Context>, stop: Shared<F>)
where
    F: Future<Output = ()> + Send + Sync + 'static,
    F::Output: Clone + Send + Sync,
{
    let namespaces = &context.settings.watch_namespaces;
    let scopes: Vec<Option<String>> =
        if namespaces.is_empty() { vec![None] } else { namespaces.iter().cloned().map(Some).collect() };
    join_all(scopes.into_iter().map(|scope| run_in(State::new(Arc::clone(&context)), scope, stop.clone())))
        .await;
}

async fn run_in<F>(state: Arc<State>, scope: Option<String>, stop: Shared<F>)
where
    F: Future<Output = ()> + Send + Sync + 'static,
    F::Output: Clone + Send + Sync,
{
    let client = state.context.client.clone();
    let api: Api<NatsAutoscaler> = match &scope {
        None => Api::all(client),
        Some(namespace) => Api::namespaced(client, namespace),
    };
    let controller = Controller::new(api, watcher::Config::default());
    let objects = controller.store();
    controller
        .with_config(Config::default().concurrency(CONCURRENCY).debounce(DEBOUNCE))
        .graceful_shutdown_on(stop)
        .run(reconcile::reconcile, reconcile::after_error, Arc::clone(&state))
        .for_each(|result| {
            if let Err(error) = result {
                tracing::debug!(%error, "the controller reports");
            }
            state.prune(&objects.state());
            std::future::ready(())
        })
        .await;
}
