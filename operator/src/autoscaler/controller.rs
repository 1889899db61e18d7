//! What wakes looks: the autoscalers themselves, and the clock of each.

use std::sync::Arc;
use std::time::Duration;

use crd::NatsAutoscaler;
use futures::StreamExt;
use futures::future::{Shared, join_all};
use kube::runtime::controller::{Config, Controller};
use kube::runtime::watcher;

use super::reconcile::{self, State};
use crate::context::Context;
use crate::scope::{api, scopes};

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
    let scopes = scopes(&context.settings);
    join_all(scopes.into_iter().map(|scope| run_in(State::new(Arc::clone(&context)), scope, stop.clone())))
        .await;
}

async fn run_in<F>(state: Arc<State>, scope: Option<String>, stop: Shared<F>)
where
    F: Future<Output = ()> + Send + Sync + 'static,
    F::Output: Clone + Send + Sync,
{
    let api = api::<NatsAutoscaler>(&state.context.client, scope.as_deref());
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
