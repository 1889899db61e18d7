//! `myelin-operator`: reads the command line, becomes leader, runs the controllers until it is told to stop.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::Shared;
use kube::Client;
use operator::cluster::controller;
use operator::context::Context;
use operator::leader::Elector;
use operator::metrics::Metrics;
use operator::settings::{self, Command, Settings};
use operator::{autoscaler, external_metrics, jetstream, telemetry, uninstall};
use tokio::signal::unix::{SignalKind, signal};

/// Pause between attempts to reach the API server at the start.
const CONNECT_RETRY: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(code) => code,
        Err(error) => {
            #[expect(
                clippy::print_stderr,
                reason = "the last words of a process whose logging may not have started"
            )]
            {
                eprintln!("myelin-operator: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<ExitCode> {
    match settings::parse(std::env::args().skip(1), |name| std::env::var(name).ok())? {
        Command::Version => {
            #[expect(clippy::print_stdout, reason = "the answer to a person's question")]
            {
                println!("myelin-operator {}", env!("CARGO_PKG_VERSION"));
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Uninstall { settings, release_finalizers } => {
            uninstall::run(Client::try_default().await?, &settings, release_finalizers).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Run(settings) => {
            telemetry::start_logging(&settings.log_level)?;
            operate(settings).await
        }
    }
}

async fn operate(settings: Settings) -> anyhow::Result<ExitCode> {
    let stop = stop_signal()?;
    let metrics = Metrics::new()?;
    let ready = Arc::new(AtomicBool::new(false));
    let address = telemetry::serve(settings.metrics_addr, metrics.clone(), Arc::clone(&ready)).await?;
    tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "serving metrics and health");
    let client = Client::try_default().await?;
    tokio::select! {
        () = reach(&client) => {}
        () = stop.clone() => return Ok(ExitCode::SUCCESS),
    }
    let context = Arc::new(Context::new(client.clone(), settings, metrics, None));
    let settings = &context.settings;
    // Values can be read by all replicas, whoever leads.
    if let Some(address) = settings.external_metrics_addr {
        let address = external_metrics::start(Arc::clone(&context), address).await?;
        tracing::info!(%address, "serving external metrics");
    }
    // A standby is ready too, or a rolling update of the operator would wait for ever.
    ready.store(true, Ordering::Relaxed);

    if !settings.leader_elect {
        context.metrics.leader.set(1);
        controllers(Arc::clone(&context), stop).await;
        return Ok(ExitCode::SUCCESS);
    }
    let mut elector =
        Elector::new(client, &settings.pod_namespace, &settings.pod_name, settings.pod_uid.as_deref());
    tokio::select! {
        () = elector.acquire() => {}
        () = stop.clone() => return Ok(ExitCode::SUCCESS),
    }
    tracing::info!("leading");
    context.metrics.leader.set(1);
    let lost = tokio::select! {
        () = controllers(Arc::clone(&context), stop) => false,
        () = elector.hold() => true,
    };
    if lost {
        tracing::error!("leadership was lost");
        return Ok(ExitCode::FAILURE);
    }
    elector.release().await;
    Ok(ExitCode::SUCCESS)
}

/// Runs all controllers until they are told to stop.
async fn controllers<F>(context: Arc<Context>, stop: Shared<F>)
where
    F: Future<Output = ()> + Send + Sync + 'static,
{
    let streams = async {
        if context.settings.jetstream_kinds {
            jetstream::controller::run(Arc::clone(&context), stop.clone()).await;
        }
    };
    let workers = autoscaler::controller::run(Arc::clone(&context), stop.clone());
    tokio::join!(controller::run(Arc::clone(&context), stop.clone()), streams, workers);
}

/// Waits until the API server answers.
async fn reach(client: &Client) {
    while let Err(error) = client.apiserver_version().await {
        tracing::warn!(%error, "kubernetes does not answer yet");
        tokio::time::sleep(CONNECT_RETRY).await;
    }
}

/// Completes when the process is told to stop.
fn stop_signal() -> anyhow::Result<Shared<impl Future<Output = ()> + Send + Sync + 'static>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let wait = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
    };
    Ok(wait.shared())
}
