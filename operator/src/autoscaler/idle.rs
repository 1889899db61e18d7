//! Which pods go first when there are to be fewer: those with least on its way to them, by the cost that Kubernetes lets a ReplicaSet's pod have.

use std::collections::HashMap;
use std::net::IpAddr;

use crd::NatsAutoscaler;
use crd::jetstream::options::ClusterRef;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::read;
use super::target::Target;
use crate::context::Context;
use crate::jetstream::problem::Problem;

/// What it costs to delete a pod, for its ReplicaSet: of those that are alike the cheapest goes.
pub const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Pods that are told apart at most; of a larger target the rest costs what it did.
const PODS_MAX: u32 = 500;

/// Bytes on their way to each address.
pub type Pending = HashMap<IpAddr, i64>;

/// Writes what each pod of a target costs, before some of them go.
///
/// # Errors
/// When it is not known what is on its way, or a pod cannot be written.
pub async fn rank(
    context: &Context,
    namespace: &str,
    object: &NatsAutoscaler,
    target: &Target,
) -> Result<(), Problem> {
    let Some(selector) = target.selector.as_deref().filter(|selector| !selector.is_empty()) else {
        return Err(Problem::transient("NoSelector", "its scale names no selector of pods"));
    };
    let pods: Api<Pod> = Api::namespaced(context.client.clone(), namespace);
    let pods = pods.list(&ListParams::default().labels(selector).limit(PODS_MAX)).await?.items;
    let mut pending = Pending::new();
    let mut seen: Vec<&ClusterRef> = Vec::new();
    for reference in object.spec.sources.iter().filter_map(|source| source.cluster_ref.as_ref()) {
        if !seen.contains(&reference) {
            seen.push(reference);
            for (address, bytes) in Box::pin(read::pending(context, namespace, reference)).await? {
                let sum = pending.entry(address).or_default();
                *sum = sum.saturating_add(bytes);
            }
        }
    }
    for (name, cost) in changes(&pods, &pending) {
        context.writer.annotate_pod(namespace, &name, COST, &cost.to_string()).await?;
    }
    Ok(())
}

/// Pods that cost something else than they should, and what they should. One without the annotation costs nothing.
fn changes(pods: &[Pod], pending: &Pending) -> Vec<(String, i32)> {
    let stays = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let costs = stays.map(|pod| {
        let status = pod.status.as_ref();
        let all = status.and_then(|status| status.pod_ips.as_deref()).unwrap_or_default();
        let bytes = all
            .iter()
            .filter_map(|ip| pending.get(&ip.ip.parse::<IpAddr>().ok()?))
            .fold(0, |sum: i64, bytes| sum.saturating_add(*bytes));
        (pod, i32::try_from(bytes.max(0)).unwrap_or(i32::MAX))
    });
    costs
        .filter(|(pod, cost)| {
            let written = pod.annotations().get(COST).map_or("0", String::as_str);
            written != cost.to_string()
        })
        .map(|(pod, cost)| (pod.name_any(), cost))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, ips: &[&str], cost: Option<&str>) -> Pod {
        let ips: Vec<_> = ips.iter().map(|ip| json!({ "ip": ip })).collect();
        let mut pod = json!({ "metadata": { "name": name }, "status": { "podIPs": ips } });
        if let Some(cost) = cost {
            pod["metadata"]["annotations"] = json!({ COST: cost });
        }
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn a_pod_costs_what_is_on_its_way_to_all_its_addresses() {
        let pending = Pending::from([
            ("10.0.0.1".parse().unwrap(), 7),
            ("fd00::1".parse().unwrap(), 5),
            ("10.0.0.2".parse().unwrap(), i64::MAX),
            ("10.0.0.9".parse().unwrap(), 3),
        ]);
        let mut going = pod("going", &["10.0.0.9"], None);
        going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        let pods = [
            pod("both", &["10.0.0.1", "fd00:0::1"], Some("4")),
            pod("most", &["10.0.0.2"], None),
            pod("written", &["10.0.0.1"], Some("7")),
            pod("idle", &["10.0.0.3"], None),
            pod("idle-now", &["10.0.0.4"], Some("9")),
            pod("starting", &[], None),
            going,
        ];
        let expected = [("both", 12), ("most", i32::MAX), ("idle-now", 0)];
        assert_eq!(changes(&pods, &pending), expected.map(|(name, cost)| (name.to_owned(), cost)));
    }
}
