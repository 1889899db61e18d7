//! Figures about the operator and its clusters, in Prometheus text.

use prometheus::{
    Encoder, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

/// Prefix of every name.
const PREFIX: &str = "natsop";

/// All figures of one process.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    /// Passes by result.
    pub reconciles: IntCounterVec,
    /// Seconds that a pass took.
    pub reconcile_seconds: HistogramVec,
    /// When the last pass without error ended.
    pub last_success: GaugeVec,
    /// 1 for a cluster that is ready.
    pub ready: IntGaugeVec,
    /// Seconds that a request to a server took.
    pub request_seconds: HistogramVec,
    /// Requests to servers that failed.
    pub request_errors: IntCounterVec,
    /// Reloads by result.
    pub reloads: IntCounterVec,
    /// Seconds until a certificate ends.
    pub certificate_seconds: GaugeVec,
    /// Seconds since a rollout began.
    pub rollout_seconds: GaugeVec,
    /// Figures of autoscalers.
    pub autoscaling: Autoscaling,
    /// 1 while this process holds the lease.
    pub leader: IntGauge,
}

/// Figures of autoscalers.
#[derive(Clone)]
pub struct Autoscaling {
    /// Replicas that targets ask for.
    pub current: IntGaugeVec,
    /// Replicas that they should ask for.
    pub desired: IntGaugeVec,
    /// What the sources count.
    pub value: IntGaugeVec,
    /// Decisions by direction.
    pub decisions: IntCounterVec,
}

impl Autoscaling {
    fn new() -> Result<Self, prometheus::Error> {
        let object = &["namespace", "name"];
        Ok(Self {
            current: IntGaugeVec::new(
                Opts::new("autoscaler_current", "Replicas that the target asks for"),
                object,
            )?,
            desired: IntGaugeVec::new(
                Opts::new("autoscaler_desired", "Replicas that the target should ask for"),
                object,
            )?,
            value: IntGaugeVec::new(
                Opts::new("autoscaler_metric_value", "What a source counts"),
                &["namespace", "name", "source"],
            )?,
            decisions: IntCounterVec::new(
                Opts::new("autoscaler_decisions_total", "Decisions by direction"),
                &["direction"],
            )?,
        })
    }

    fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.current.clone()))?;
        registry.register(Box::new(self.desired.clone()))?;
        registry.register(Box::new(self.value.clone()))?;
        registry.register(Box::new(self.decisions.clone()))
    }

    /// Drops the figures of an autoscaler that is gone. A missing one is what is wanted.
    pub fn forget<'a>(&self, namespace: &str, name: &str, sources: impl Iterator<Item = &'a str>) {
        let _ = self.current.remove_label_values(&[namespace, name]);
        let _ = self.desired.remove_label_values(&[namespace, name]);
        for source in sources {
            let _ = self.value.remove_label_values(&[namespace, name, source]);
        }
    }
}

impl Metrics {
    /// Registers every figure.
    ///
    /// # Errors
    /// When two figures have one name.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new_custom(Some(PREFIX.to_owned()), None)?;
        let cluster = &["namespace", "name"];
        let listener = &["namespace", "name", "listener"];
        let build = IntGaugeVec::new(Opts::new("build_info", "Version of the operator"), &["version"])?;
        let metrics = Self {
            reconciles: IntCounterVec::new(
                Opts::new("reconcile_total", "Passes by result"),
                &["controller", "result"],
            )?,
            reconcile_seconds: HistogramVec::new(
                HistogramOpts::new("reconcile_duration_seconds", "Time of a pass"),
                &["controller"],
            )?,
            last_success: GaugeVec::new(
                Opts::new("reconcile_last_success_timestamp", "End of the last pass without error"),
                &["controller"],
            )?,
            ready: IntGaugeVec::new(
                Opts::new("object_ready", "1 for an object that is ready"),
                &["kind", "namespace", "name"],
            )?,
            request_seconds: HistogramVec::new(
                HistogramOpts::new("nats_request_duration_seconds", "Time of a request to a server"),
                &["op"],
            )?,
            request_errors: IntCounterVec::new(
                Opts::new("nats_request_errors_total", "Requests to servers that failed"),
                &["op"],
            )?,
            reloads: IntCounterVec::new(
                Opts::new("config_reload_total", "Reloads of servers"),
                &["namespace", "name", "result"],
            )?,
            certificate_seconds: GaugeVec::new(
                Opts::new("certificate_expiry_seconds", "Time until a certificate ends"),
                listener,
            )?,
            rollout_seconds: GaugeVec::new(
                Opts::new("rollout_waiting_seconds", "Time since a rollout began"),
                cluster,
            )?,
            autoscaling: Autoscaling::new()?,
            leader: IntGauge::new("leader", "1 while this process holds the lease")?,
            registry,
        };
        let registry = &metrics.registry;
        registry.register(Box::new(metrics.reconciles.clone()))?;
        registry.register(Box::new(metrics.reconcile_seconds.clone()))?;
        registry.register(Box::new(metrics.last_success.clone()))?;
        registry.register(Box::new(metrics.ready.clone()))?;
        registry.register(Box::new(metrics.request_seconds.clone()))?;
        registry.register(Box::new(metrics.request_errors.clone()))?;
        registry.register(Box::new(metrics.reloads.clone()))?;
        registry.register(Box::new(metrics.certificate_seconds.clone()))?;
        registry.register(Box::new(metrics.rollout_seconds.clone()))?;
        metrics.autoscaling.register(registry)?;
        registry.register(Box::new(metrics.leader.clone()))?;
        registry.register(Box::new(build.clone()))?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        Ok(metrics)
    }

    /// Everything as Prometheus text.
    ///
    /// # Errors
    /// When a figure cannot be written.
    pub fn text(&self) -> Result<Vec<u8>, prometheus::Error> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }

    /// Drops the figures of a cluster that is gone. A missing one is what is wanted.
    pub fn forget(&self, namespace: &str, name: &str) {
        let _ = self.ready.remove_label_values(&["NatsCluster", namespace, name]);
        let _ = self.rollout_seconds.remove_label_values(&[namespace, name]);
        for listener in [crate::cluster::files::CLIENTS, crate::cluster::files::ROUTES] {
            let _ = self.certificate_seconds.remove_label_values(&[namespace, name, listener]);
        }
        for result in ["applied", "refused", "failed"] {
            let _ = self.reloads.remove_label_values(&[namespace, name, result]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_and_go_with_their_cluster() {
        let metrics = Metrics::new().unwrap();
        metrics.ready.with_label_values(&["NatsCluster", "ns", "demo"]).set(1);
        let text = || String::from_utf8(metrics.text().unwrap()).unwrap();
        assert!(
            text().contains("natsop_object_ready{kind=\"NatsCluster\",name=\"demo\",namespace=\"ns\"} 1")
        );
        assert!(text().contains("natsop_build_info"));
        metrics.forget("ns", "demo");
        assert!(!text().contains("demo"));
    }
}
