//! Leader election on a Lease: at most one process works, a second one waits ready.
//!
//! A lease counts as free when nobody has renewed it for its whole duration as seen by this process: clocks of
//! different nodes are never compared.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ObjectMeta, PostParams, Preconditions};
use kube::{Api, Client};
use tokio::time::{Instant, sleep};

/// Name of the lease.
const LEASE: &str = "myelin-operator";
/// How long a silent leader is believed to live.
const DURATION: Duration = Duration::from_secs(15);
/// How long a leader that cannot renew goes on working; shorter than [`DURATION`], so that two never work at once.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Pause between attempts.
const RETRY: Duration = Duration::from_secs(2);

/// What this process last saw in the lease, and when that was new.
struct Seen {
    holder: String,
    renewed: Option<MicroTime>,
    at: Instant,
}

/// A candidate for leadership.
pub struct Elector {
    api: Api<Lease>,
    identity: String,
    owner: Option<OwnerReference>,
    seen: Option<Seen>,
}

impl Elector {
    /// A candidate under the name of its pod. A random part keeps two processes of one name apart.
    ///
    /// A lease that the pod with this uid holds goes with the pod: when the operator is uninstalled its rights end
    /// before it does, so that it cannot clean up itself.
    #[must_use]
    pub fn new(client: Client, namespace: &str, pod: &str, uid: Option<&str>) -> Self {
        let owner = uid.map(|uid| OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: pod.to_owned(),
            uid: uid.to_owned(),
            ..OwnerReference::default()
        });
        Self {
            api: Api::namespaced(client, namespace),
            identity: format!("{pod}_{:016x}", rand::random::<u64>()),
            owner,
            seen: None,
        }
    }

    /// Waits until this process is the leader.
    pub async fn acquire(&mut self) {
        loop {
            match self.attempt().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "the lease could not be read or written"),
            }
            sleep(RETRY).await;
        }
    }

    /// Renews until that fails for too long or somebody else holds the lease. Returns when leadership is lost.
    pub async fn hold(&mut self) {
        let mut renewed = Instant::now();
        loop {
            sleep(RETRY).await;
            match self.attempt().await {
                Ok(true) => renewed = Instant::now(),
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(%error, "the lease could not be renewed");
                    if renewed.elapsed() > RENEW_DEADLINE {
                        return;
                    }
                }
            }
        }
    }

    /// Gives the lease back by removing it: the next leader need not wait, and nothing stays behind when the operator
    /// is uninstalled. Failing to only costs that wait.
    pub async fn release(&mut self) {
        let Ok(Some(lease)) = self.api.get_opt(LEASE).await else {
            return;
        };
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_ref());
        if holder != Some(&self.identity) {
            return;
        }
        // Exactly what was just seen to be ours, never what another candidate took meanwhile.
        let preconditions =
            Preconditions { uid: lease.metadata.uid, resource_version: lease.metadata.resource_version };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        if let Err(error) = self.api.delete(LEASE, &parameters).await {
            tracing::debug!(%error, "the lease could not be given back");
        }
    }

    /// One try to take or renew the lease. True when this process holds it now.
    async fn attempt(&mut self) -> kube::Result<bool> {
        let Some(lease) = self.api.get_opt(LEASE).await? else {
            let fresh = Lease {
                metadata: ObjectMeta {
                    name: Some(LEASE.to_owned()),
                    owner_references: self.owner.clone().map(|owner| vec![owner]),
                    ..ObjectMeta::default()
                },
                spec: Some(self.claim(None)),
            };
            return won(self.api.create(&PostParams::default(), &fresh).await);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        if !holder.is_empty() && holder != self.identity && !self.expired(&holder, spec.renew_time.clone()) {
            return Ok(false);
        }
        // The resource version in the object makes this fail when somebody else was faster.
        let mut claimed = Lease { spec: Some(self.claim(Some(&spec))), ..lease };
        claimed.metadata.owner_references = self.owner.clone().map(|owner| vec![owner]);
        won(self.api.replace(LEASE, &PostParams::default(), &claimed).await)
    }

    /// Whether the same holder has shown no life for the whole duration.
    fn expired(&mut self, holder: &str, renewed: Option<MicroTime>) -> bool {
        match &self.seen {
            Some(seen) if seen.holder == holder && seen.renewed == renewed => seen.at.elapsed() >= DURATION,
            _ => {
                self.seen = Some(Seen { holder: holder.to_owned(), renewed, at: Instant::now() });
                false
            }
        }
    }

    fn claim(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let kept = before.filter(|spec| spec.holder_identity.as_ref() == Some(&self.identity));
        let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            acquire_time: kept.and_then(|spec| spec.acquire_time.clone()).or_else(|| Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if kept.is_some() { transitions } else { transitions.saturating_add(1) }),
            ..LeaseSpec::default()
        }
    }
}

/// A conflict means that another candidate was faster, which is an answer and not a failure.
fn won(result: kube::Result<Lease>) -> kube::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}
