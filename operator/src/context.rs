//! What every pass is given: clients, settings, memory that may be lost at any time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::runtime::events::{Recorder, Reporter};
use parking_lot::Mutex;

use crate::apply::{Failpoint, Writer};
use crate::autoscaler::read::Sessions;
use crate::cluster::credentials::Hasher;
use crate::metrics::Metrics;
use crate::settings::Settings;

/// First and longest pause after a failed pass.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// Handed to every pass.
pub struct Context {
    /// Reads.
    pub client: Client,
    /// Writes.
    pub writer: Writer,
    /// Events.
    pub recorder: Recorder,
    /// What the installer chose.
    pub settings: Settings,
    /// Figures.
    pub metrics: Metrics,
    /// Password hashes already computed.
    pub hasher: Arc<Hasher>,
    /// Connections to what work is judged by.
    pub sources: Sessions,
    failures: Mutex<HashMap<String, u32>>,
}

impl Context {
    /// A context with nothing remembered.
    #[must_use]
    pub fn new(
        client: Client,
        settings: Settings,
        metrics: Metrics,
        failpoint: Option<Arc<Failpoint>>,
    ) -> Self {
        let reporter =
            Reporter { controller: crd::FIELD_MANAGER.to_owned(), instance: Some(settings.pod_name.clone()) };
        Self {
            writer: Writer::new(client.clone(), failpoint),
            recorder: Recorder::new(client.clone(), reporter),
            client,
            settings,
            metrics,
            hasher: Arc::default(),
            sources: Sessions::default(),
            failures: Mutex::default(),
        }
    }

    /// Pause before the next try after a failure of `object`: doubles each time, and differs between objects.
    #[must_use]
    pub fn backoff(&self, object: &str) -> Duration {
        let mut failures = self.failures.lock();
        let count = failures.entry(object.to_owned()).or_insert(0);
        *count = count.saturating_add(1);
        let doubled = BACKOFF.0.saturating_mul(1 << (*count - 1).min(16));
        doubled.min(BACKOFF.1).mul_f64(rand::random_range(0.8..1.2))
    }

    /// Forgets the failures of an object after a success or its end.
    pub fn succeeded(&self, object: &str) {
        self.failures.lock().remove(object);
    }
}
