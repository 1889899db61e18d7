//! External metrics through the real API server, by the real HorizontalPodAutoscaler controller, and what comes past the API server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use ::crd::rbac::{self, EXTERNAL_METRICS_SERVICE};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use operator::cluster::tls;
use operator::context::Context;
use operator::external_metrics::{self, keys};
use operator::metrics::Metrics;
use operator::objects::secrets::text;
use operator::settings::Settings;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::autoscaler::{ask, deploy, make_stream_and_consumer, publish, replicas, until_replicas, world};
use crate::support::objects::{spec, with};
use crate::support::world::{World, settings};
use crate::support::{apiserver, tools, until};

/// Service and Secret of the operator under test, as the chart names those of a release `operator`.
const SERVICE: &str = "operator-external-metrics";
/// What the questions are about.
const CONSUMER: &str = "cluster=demo,stream=ORDERS,consumer=workers";

/// The APIService, which goes in any case: a broken one would hold up the deletion of namespaces by other tests.
struct Aggregated;

impl Drop for Aggregated {
    fn drop(&mut self) {
        let removal = std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let client = Client::try_from(apiserver::config_of(None).await).unwrap();
                let services: Api<APIService> = Api::all(client);
                services.delete(EXTERNAL_METRICS_SERVICE, &DeleteParams::default()).await.map(|_| ())
            })
        });
        assert!(removal.join().is_ok_and(|removed| removed.is_ok()), "the APIService stays");
    }
}

async fn context(namespaces: &[&str]) -> Arc<Context> {
    let settings = Settings {
        watch_namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
        pod_namespace: namespaces[0].to_owned(),
        external_metrics_service: SERVICE.to_owned(),
        ..settings(namespaces[0])
    };
    Arc::new(Context::new(apiserver::operator().await, settings, Metrics::new().unwrap(), None))
}

/// What the chart grants the operator besides.
async fn grant(client: &Client) {
    let parameters = PatchParams::apply("chart").force();
    let name = "operator-external-metrics";
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                       "metadata": { "name": name }, "rules": rbac::external_metrics() });
    Api::<ClusterRole>::all(client.clone()).patch(name, &parameters, &Patch::Apply(&role)).await.unwrap();
    let subjects = json!([{ "kind": "ServiceAccount", "name": "operator", "namespace": "myelin-system" }]);
    let binding = |kind: &str, role_kind: &str, role: &str| {
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": { "name": name },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role }, "subjects": subjects })
    };
    let wide = binding("ClusterRoleBinding", "ClusterRole", name);
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    bindings.patch(name, &parameters, &Patch::Apply(&wide)).await.unwrap();
    let reader = binding("RoleBinding", "Role", "extension-apiserver-authentication-reader");
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), "kube-system");
    bindings.patch(name, &parameters, &Patch::Apply(&reader)).await.unwrap();
}

/// Serves, and lets the API server pass questions on. There is no proxy for services here, so it goes to loopback by name.
async fn serve(world: &World, namespaces: &[&str]) -> (Aggregated, SocketAddr) {
    grant(&world.client).await;
    let address =
        external_metrics::start(context(namespaces).await, ([127, 0, 0, 1], 0).into()).await.unwrap();
    let parameters = PatchParams::apply("chart").force();
    let empty = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": SERVICE } });
    world.api::<Secret>().patch(SERVICE, &parameters, &Patch::Apply(&empty)).await.unwrap();
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": SERVICE },
                          "spec": { "type": "ExternalName", "externalName": "localhost" } });
    world.api::<Service>().patch(SERVICE, &parameters, &Patch::Apply(&service)).await.unwrap();
    let object = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": { "name": EXTERNAL_METRICS_SERVICE },
        "spec": { "group": "external.metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
                  "service": { "name": SERVICE, "namespace": world.namespace, "port": address.port() } },
    });
    let services: Api<APIService> = Api::all(world.client.clone());
    services.patch(EXTERNAL_METRICS_SERVICE, &parameters, &Patch::Apply(&object)).await.unwrap();
    let aggregated = Aggregated;
    until("the API server to pass questions on", async || {
        let status = services.get(EXTERNAL_METRICS_SERVICE).await.unwrap().status?;
        status
            .conditions?
            .into_iter()
            .find(|condition| condition.type_ == "Available" && condition.status == "True")
    })
    .await;
    (aggregated, address)
}

fn path(namespace: &str, metric: &str, labels: &str) -> String {
    let labels = labels.replace('=', "%3D").replace(',', "%2C");
    format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{metric}?labelSelector={labels}")
}

/// Asks as `kubectl get --raw` does: the value, or the code and words of a refusal.
async fn get(client: &Client, namespace: &str, metric: &str, labels: &str) -> Result<String, (u16, String)> {
    let request = hyper::Request::get(path(namespace, metric, labels)).body(Vec::new()).unwrap();
    match client.request::<Value>(request).await {
        Ok(list) => {
            assert_eq!(list["items"][0]["metricName"], metric, "{list}");
            assert_eq!(list["items"].as_array().unwrap().len(), 1);
            Ok(list["items"][0]["value"].as_str().unwrap().to_owned())
        }
        Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
        Err(error) => panic!("{error}"),
    }
}

async fn refused(
    client: &Client,
    (namespace, metric, labels): (&str, &str, &str),
    (code, part): (u16, &str),
) {
    let (found, message) = get(client, namespace, metric, labels).await.unwrap_err();
    assert!(found == code && message.contains(part), "{metric} {labels}: {found} {message}");
}

#[tokio::test]
async fn a_horizontal_pod_autoscaler_follows_what_waits() {
    let world = world().await;
    let other = World::empty().await;
    make_stream_and_consumer(&world).await;
    publish(&world, 35).await;
    let (_aggregated, address) = serve(&world, &[&world.namespace, &other.namespace]).await;
    let (own, client) = (world.namespace.as_str(), &world.client);
    for (metric, labels, value) in [
        ("nats_consumer_pending", CONSUMER, "35"),
        ("nats_consumer_ack_pending", CONSUMER, "0"),
        ("nats_stream_messages", "cluster=demo,account=APP,stream=ORDERS", "35"),
    ] {
        assert_eq!(get(client, own, metric, labels).await.as_deref(), Ok(value), "{metric}");
    }
    the_chart_asks_who_provides_them_already(&world).await;
    what_is_not_known_is_no_number(client, own).await;
    callers_need_the_right(client, own).await;
    only_the_api_server_is_answered(&world, address).await;
    another_namespace_needs_a_grant(&world, &other.namespace).await;

    deploy(&world, 1).await;
    let hpa = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "workers" },
        "spec": {
            "minReplicas": 1, "maxReplicas": 6,
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "workers" },
            "metrics": [{ "type": "External", "external": {
                "metric": { "name": "nats_consumer_pending", "selector": { "matchLabels": {
                    "cluster": "demo", "stream": "ORDERS", "consumer": "workers" } } },
                "target": { "type": "AverageValue", "averageValue": "10" },
            } }],
        },
    });
    let hpas = world.api::<HorizontalPodAutoscaler>();
    hpas.patch("workers", &PatchParams::apply("person"), &Patch::Apply(&hpa)).await.unwrap();
    until_replicas(&world, 4).await;

    // A consumer that is gone is no work that is done: the controller is told so, and takes nobody away.
    ask(&world, "$JS.API.CONSUMER.DELETE.ORDERS.workers", Value::Null).await;
    let message = until("the controller to hold", async || {
        let status = hpas.get("workers").await.unwrap().status?;
        let condition =
            status.conditions?.into_iter().find(|c| c.type_ == "ScalingActive" && c.status == "False")?;
        condition.message
    })
    .await;
    assert!(message.contains("no consumer workers"), "{message}");
    assert_eq!(replicas(&world).await, 4);
}

/// Renders the chart as an installation does, which may ask the API server: what it makes, or why it refuses.
async fn rendered(namespace: &str, release: &str) -> Result<String, String> {
    let folder = tempfile::TempDir::new().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, apiserver::kubeconfig()).unwrap();
    let output = tokio::process::Command::new(tools::helm())
        .args(["template", release, concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/operator")])
        .args(["--namespace", namespace, "--dry-run=server", "--set=externalMetrics.enabled=true"])
        .args(["--kube-version", tools::KUBERNETES])
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", folder.path())
        .output()
        .await
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// Only one can provide external metrics. The release that does so may be rendered again, and no other.
async fn the_chart_asks_who_provides_them_already(world: &World) {
    let own = world.namespace.as_str();
    let made = rendered(own, "operator").await.unwrap();
    assert!(made.contains(&format!("name: {EXTERNAL_METRICS_SERVICE}")), "{made}");
    let refusal = format!("service {SERVICE} of namespace {own} provides external metrics already");
    for (namespace, release) in [("default", "operator"), (own, "other")] {
        let refused = rendered(namespace, release).await.unwrap_err();
        assert!(refused.contains(&refusal), "{namespace} {release}: {refused}");
    }
}

async fn what_is_not_known_is_no_number(client: &Client, own: &str) {
    for (metric, labels, refusal) in [
        ("nats_colour", CONSUMER, (404, "there is no metric nats_colour")),
        ("nats_consumer_pending", "cluster=demo,stream=ORDERS", (400, "needs labels for consumer")),
        ("nats_consumer_pending", "stream=ORDERS,consumer=workers", (400, "give a label account")),
        ("nats_consumer_pending", "cluster=demo,stream=ORDERS,consumer=x", (404, "no consumer x")),
        ("nats_stream_messages", "cluster=demo,stream=NONE", (404, "no stream NONE")),
        ("nats_stream_messages", "cluster=none,stream=ORDERS", (404, "no NatsCluster `none`")),
        ("nats_stream_messages", "account=none,stream=ORDERS", (404, "no Account `none`")),
        ("nats_queue_group_pending_bytes", "cluster=demo,subject=a.b,queue=q", (404, "has no members")),
        ("nats_service_utilisation", "cluster=demo,service=billing", (404, "no instance of service billing")),
    ] {
        refused(client, (own, metric, labels), refusal).await;
    }
    refused(client, ("default", "nats_consumer_pending", CONSUMER), (404, "does not look after")).await;
}

/// Rights are given in Kubernetes, for a metric in a namespace.
async fn callers_need_the_right(admin: &Client, own: &str) {
    let reader = Client::try_from(apiserver::config_of(Some("reader")).await).unwrap();
    refused(&reader, (own, "nats_consumer_pending", CONSUMER), (403, "cannot list")).await;
    let parameters = PatchParams::apply("person");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "metrics-reader" },
        "rules": [{ "apiGroups": ["external.metrics.k8s.io"], "resources": ["nats_consumer_pending"], "verbs": ["list"] }],
    });
    let roles: Api<ClusterRole> = Api::all(admin.clone());
    roles.patch("metrics-reader", &parameters, &Patch::Apply(&role)).await.unwrap();
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "metrics-reader" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics-reader" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader" }],
    });
    let bindings: Api<RoleBinding> = Api::namespaced(admin.clone(), own);
    bindings.patch("metrics-reader", &parameters, &Patch::Apply(&binding)).await.unwrap();
    until("the right to count", async || get(&reader, own, "nats_consumer_pending", CONSUMER).await.ok())
        .await;
    let messages = (own, "nats_stream_messages", "cluster=demo,stream=ORDERS");
    refused(&reader, messages, (403, "cannot list")).await;
}

/// The namespace that asks decides what is seen, and the one that is asked about decides who may.
async fn another_namespace_needs_a_grant(world: &World, other: &str) {
    let (metric, elsewhere) = ("nats_consumer_pending", format!("{CONSUMER},namespace={}", world.namespace));
    refused(&world.client, (other, metric, CONSUMER), (404, "no NatsCluster `demo`")).await;
    refused(&world.client, (other, metric, &elsewhere), (403, "does not allow namespace")).await;
    let open = json!({ "jetstream": {}, "storage": { "ephemeral": { "sizeLimit": "1Gi" } },
                       "allowedNamespaces": { "names": [other] } });
    world.apply("demo", with(spec(1), open)).await.unwrap();
    let value =
        until("the grant to count", async || get(&world.client, other, metric, &elsewhere).await.ok()).await;
    assert_eq!(value, "35");
}

/// A certificate with its key, as a client shows it.
type Shown = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn shown((certificate, key): &(String, String)) -> Shown {
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>().unwrap();
    (chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
}

/// A certificate with the API server's own name, of somebody else's authority.
fn forged() -> Shown {
    let authority = tls::new_authority("front", Timestamp::now()).unwrap();
    let key = rcgen::KeyPair::from_pem(&authority.key).unwrap();
    let issuer = rcgen::Issuer::from_ca_cert_pem(&authority.certificate, key).unwrap();
    let mut parameters = rcgen::CertificateParams::default();
    parameters.distinguished_name.push(rcgen::DnType::CommonName, "front-proxy");
    parameters.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = parameters.signed_by(&key, &issuer).unwrap();
    shown(&(certificate.pem(), key.serialize_pem()))
}

/// Asks past the API server; `None` when nothing was answered.
async fn past(world: &World, address: SocketAddr, who: Option<Shown>, headers: &str) -> Option<String> {
    let secret = world.api::<Secret>().get(SERVICE).await.unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(text(&secret, "ca.crt").unwrap().as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match who {
        Some((chain, key)) => config.with_client_auth_cert(chain, key).unwrap(),
        None => config.with_no_client_auth(),
    };
    let name = ServerName::try_from(format!("{SERVICE}.{}.svc", world.namespace)).unwrap();
    let socket = TcpStream::connect(address).await.unwrap();
    // What is refused is refused here or at the first read, as the version of the protocol wants it.
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await.ok()?;
    let path = path(&world.namespace, "nats_consumer_pending", CONSUMER);
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    (!answer.is_empty()).then(|| String::from_utf8(answer).unwrap())
}

async fn only_the_api_server_is_answered(world: &World, address: SocketAddr) {
    let master = "x-remote-user: root\r\nx-remote-group: system:masters\r\n";
    let front = || Some(shown(&apiserver::identity("front-proxy")));
    for (who, what) in [
        (None, "without a certificate"),
        (Some(forged()), "with a certificate of another authority"),
        (Some(shown(&apiserver::identity("admin"))), "with a certificate of another name"),
    ] {
        assert_eq!(past(world, address, who, master).await, None, "{what}");
    }
    for (headers, status) in [
        ("", "HTTP/1.1 401"),
        ("x-remote-user: nobody\r\nx-remote-group: system:authenticated\r\n", "HTTP/1.1 403"),
        (master, "HTTP/1.1 200"),
    ] {
        let answer = past(world, address, front(), headers).await.unwrap();
        assert!(answer.starts_with(status), "{headers}: {answer}");
        assert_eq!(answer.contains(r#""value":"35""#), headers == master, "{answer}");
    }
}

#[tokio::test]
async fn replicas_share_a_certificate_that_is_made_again_in_time() {
    let world = World::empty().await;
    let (one, two) = (context(&[&world.namespace]).await, context(&[&world.namespace]).await);
    let now = Timestamp::now();
    let (first, second) = tokio::join!(keys::ensure(&one, now), keys::ensure(&two, now));
    assert!(first.is_ok() || second.is_ok(), "{:?} {:?}", first.err(), second.err());
    let (first, second) = (keys::ensure(&one, now).await.unwrap(), keys::ensure(&two, now).await.unwrap());
    assert_eq!(first.shown.certificate, second.shown.certificate);

    // The authority lives on, so whoever believes it believes the next certificate.
    let later = keys::ensure(&one, now + SignedDuration::from_hours(24 * 65)).await.unwrap();
    assert_ne!(later.shown.certificate, first.shown.certificate);
    assert_eq!(later.authority.certificate, first.authority.certificate);
    let stored: BTreeMap<_, _> = world.api::<Secret>().get(SERVICE).await.unwrap().data.unwrap();
    assert_eq!(stored["tls.crt"].0, later.shown.certificate.as_bytes());
}
