//! Encryption, ownership and who may be leader.

use ::crd::NatsCluster;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use operator::cluster::tls;
use operator::leader::Elector;
use serde_json::json;

use crate::support::objects::{spec, with};
use crate::support::world::{World, message};
use crate::support::{apiserver, until};

#[tokio::test]
async fn client_encryption_is_switched_on_by_a_gated_roll_and_the_operator_still_gets_its_proof() {
    let world = World::with_servers().await;
    world.secret("users", &[("app", "x")]).await;
    world.apply("demo", spec(2)).await.unwrap();
    world.until_ready("demo").await;

    let encrypted = with(spec(2), json!({ "clients": { "tls": { "builtin": {}, "verify": true } } }));
    world.apply("demo", encrypted).await.unwrap();
    let cluster = world.until_ready("demo").await;
    let certificates = cluster.status.unwrap().certificates;
    assert_eq!(certificates.iter().map(|c| c.listener.as_str()).collect::<Vec<_>>(), ["clients", "routes"]);
    assert!(certificates.iter().all(|certificate| certificate.not_after.is_some()));
}

#[tokio::test]
async fn a_new_certificate_is_reloaded_without_a_restart() {
    let world = World::with_servers().await;
    world.secret("users", &[("app", "x")]).await;
    let encrypted = with(spec(1), json!({ "clients": { "tls": { "secret": { "name": "own-tls" } } } }));
    let now = k8s_openapi::jiff::Timestamp::now();
    let authority = tls::new_authority("own", now).unwrap();
    let issue = || tls::issue(&authority, &["elsewhere.example".to_owned()], now).unwrap();
    let first = issue();
    world.secret("own-tls", &[("tls.crt", &first.certificate), ("tls.key", &first.key)]).await;
    world.apply("demo", encrypted).await.unwrap();
    let before = world.until_ready("demo").await.status.unwrap();

    let second = issue();
    world.secret("own-tls", &[("tls.crt", &second.certificate), ("tls.key", &second.key)]).await;
    let after = until("the new certificate to be applied", async || {
        let status = world.cluster("demo").await.status?;
        let config = status.config.clone()?;
        let old = before.config.as_ref()?;
        (config.hash != old.hash && config.applied_hash.as_ref() == Some(&config.hash)).then_some(status)
    })
    .await;
    assert_eq!(after.servers[0].server_id, before.servers[0].server_id);

    // One that no server could load stops at the operator.
    world.secret("own-tls", &[("tls.crt", "nonsense"), ("tls.key", &second.key)]).await;
    let cluster = world.until_condition("demo", "Stalled", "True", "SecretInvalid").await;
    assert!(message(&cluster, "Stalled").contains("own-tls"));
    let config = world.api::<Secret>().get("demo-config").await.unwrap();
    assert_eq!(config.annotations()["myelin.dev/config-hash"], after.config.unwrap().hash);
}

#[tokio::test]
async fn an_expiring_certificate_is_made_again() {
    let mut world = World::empty().await;
    world.secret("users", &[("app", "x")]).await;
    world.start_operator().await;
    world.apply("demo", spec(1)).await.unwrap();
    let secrets: Api<Secret> = world.api();
    let made = until("the certificate", async || secrets.get_opt("demo-routes-tls").await.unwrap()).await;
    // As if it had been made long ago: three months of life, of which a month is left.
    let now = k8s_openapi::jiff::Timestamp::now();
    let long_ago = now - k8s_openapi::jiff::SignedDuration::from_hours(24 * 61);
    let authority = secrets.get("demo-ca").await.unwrap();
    let text = |secret: &Secret, key: &str| operator::objects::secrets::text(secret, key).unwrap();
    let authority =
        tls::KeyedCertificate { certificate: text(&authority, "tls.crt"), key: text(&authority, "tls.key") };
    let names = tls::read(&text(&made, "tls.crt")).unwrap().names;
    let old = tls::issue(&authority, &names, long_ago).unwrap();
    let patch = json!({ "stringData": { "tls.crt": old.certificate, "tls.key": old.key } });
    secrets.patch("demo-routes-tls", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    until("a fresh certificate", async || {
        let pem = text(&secrets.get("demo-routes-tls").await.unwrap(), "tls.crt");
        (!tls::needs_renewal(&pem, &names, now)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn fields_of_other_managers_survive() {
    let world = World::with_servers().await;
    world.secret("users", &[("app", "x")]).await;
    world.apply("demo", spec(1)).await.unwrap();
    world.until_ready("demo").await;
    let note = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "demo", "annotations": { "cloud": "yes" } } });
    let services: Api<Service> = world.api();
    services.patch("demo", &PatchParams::apply("cloud"), &Patch::Apply(&note)).await.unwrap();
    // The operator's next passes neither drop the annotation nor bring about a conflict for a person's apply.
    world.apply("demo", with(spec(1), json!({ "service": { "labels": { "team": "blue" } } }))).await.unwrap();
    until("the label", async || {
        let service = services.get("demo").await.unwrap();
        service.metadata.labels.as_ref()?.get("team").cloned()
    })
    .await;
    assert_eq!(services.get("demo").await.unwrap().metadata.annotations.unwrap()["cloud"], "yes");
    world.apply("demo", spec(1)).await.unwrap();
}

#[tokio::test]
async fn what_is_to_be_retained_serves_the_next_cluster_of_the_name() {
    let mut world = World::empty().await;
    world.secret("users", &[("app", "x")]).await;
    world.start_operator().await;
    let retained = with(spec(1), json!({ "deletionPolicy": "Retain" }));
    world.apply("demo", retained.clone()).await.unwrap();
    let secrets: Api<Secret> = world.api();
    let first = until("the authority", async || secrets.get_opt("demo-ca").await.unwrap()).await;
    until("a status", async || world.cluster("demo").await.status).await;
    world.api::<NatsCluster>().delete("demo", &DeleteParams::default()).await.unwrap();
    world.until_gone("demo").await;
    assert_eq!(secrets.get("demo-ca").await.unwrap().data, first.data);

    world.apply("demo", retained).await.unwrap();
    until("the certificate of the second cluster", async || {
        secrets.get_opt("demo-routes-tls").await.unwrap()
    })
    .await;
    assert_eq!(secrets.get("demo-ca").await.unwrap().data, first.data);
}

#[tokio::test]
async fn one_of_two_candidates_leads_and_the_other_follows_at_once_when_it_ends() {
    let world = World::empty().await;
    let client = apiserver::operator().await;
    let mut first = Elector::new(client.clone(), &world.namespace, "one", None);
    let mut second = Elector::new(client, &world.namespace, "two", None);
    first.acquire().await;
    let waited = tokio::time::timeout(std::time::Duration::from_secs(5), second.acquire()).await;
    assert!(waited.is_err(), "two leaders");
    first.release().await;
    assert!(world.api::<Lease>().get_opt("myelin-operator").await.unwrap().is_none());
    tokio::time::timeout(std::time::Duration::from_secs(10), second.acquire()).await.unwrap();
    // The first one notices that it leads no more.
    tokio::time::timeout(std::time::Duration::from_secs(10), first.hold()).await.unwrap();
}

#[tokio::test]
async fn a_lease_goes_with_the_pod_that_held_it() {
    let world = World::empty().await;
    let client = apiserver::operator().await;
    // No pod has this uid: as if it had just been removed together with the rights to give the lease back.
    let uid = "00000000-0000-0000-0000-000000000001";
    let mut elector = Elector::new(client, &world.namespace, "gone", Some(uid));
    elector.acquire().await;
    until("the lease to be removed", async || {
        world.api::<Lease>().get_opt("myelin-operator").await.unwrap().is_none().then_some(())
    })
    .await;
}
