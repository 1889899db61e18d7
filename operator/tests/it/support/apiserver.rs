//! One API server for the whole test binary.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use ::crd::{FIELD_MANAGER, NatsAutoscaler, NatsCluster};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleRef, Subject};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, CustomResourceExt};
use tempfile::TempDir;

use super::gate::Gate;
use super::until;

/// Who the operator is: it has the rights of its own rules and no others, so a missing rule fails a test.
const OPERATOR: &str = "system:serviceaccount:myelin-system:operator";
/// Controllers that clusters need.
const CONTROLLERS: &str = "statefulset,garbage-collector-controller,disruption,namespace-controller";

static SERVER: OnceLock<Apiserver> = OnceLock::new();

struct Apiserver {
    kubeconfig: Kubeconfig,
    // Both live as long as the test binary; the server ends when its standard input does.
    _process: Child,
    _folder: TempDir,
}

fn start() -> Apiserver {
    let Some(program) = std::env::var_os("MYELIN_KUBENODE") else {
        panic!(
            "MYELIN_KUBENODE is not set: these tests need a real API server. `make test` sets it; by hand, \
             MYELIN_KUBENODE=$(testing/kubernetes/build.sh)/kubenode cargo test -p operator"
        );
    };
    let folder = TempDir::new().unwrap();
    let mut process = Command::new(&program)
        .args(["apiserver", "-watch-stdin", "-controllers", CONTROLLERS, "-dir"])
        .arg(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("MYELIN_KUBENODE={}: {error}", program.display()));
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let kubeconfig = Kubeconfig::read_from(line.trim())
        .unwrap_or_else(|error| panic!("the API server says {line:?}: {error}"));
    Apiserver { kubeconfig, _process: process, _folder: folder }
}

async fn config() -> Config {
    let server = match SERVER.get() {
        Some(server) => server,
        None => tokio::task::spawn_blocking(|| SERVER.get_or_init(start)).await.unwrap(),
    };
    Config::from_custom_kubeconfig(server.kubeconfig.clone(), &KubeConfigOptions::default()).await.unwrap()
}

/// A client that may do everything, with the definitions and the operator's rights in place.
pub(crate) async fn admin() -> Client {
    let client = Client::try_from(config().await).unwrap();
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let own = [NatsCluster::crd(), NatsAutoscaler::crd()];
    for definition in ::crd::jetstream::definitions().into_iter().chain(own) {
        let name = definition.metadata.name.clone().unwrap();
        definitions.patch(&name, &parameters, &Patch::Apply(&definition)).await.unwrap();
    }
    grant(&client, &parameters).await;
    until("the definitions to be served", async || {
        let everything = kube::api::ListParams::default();
        Api::<NatsCluster>::all(client.clone()).list_metadata(&everything).await.ok()?;
        Api::<NatsAutoscaler>::all(client.clone()).list_metadata(&everything).await.ok()?;
        Api::<::crd::jetstream::Account>::all(client.clone()).list_metadata(&everything).await.ok()?;
        Api::<::crd::jetstream::ObjectStore>::all(client.clone()).list_metadata(&everything).await.ok()?;
        Api::<::crd::jetstream::Stream>::all(client.clone()).list_metadata(&everything).await.ok()
    })
    .await;
    client
}

async fn grant(client: &Client, parameters: &PatchParams) {
    let metadata = || ObjectMeta { name: Some("operator".to_owned()), ..ObjectMeta::default() };
    let rules = [::crd::rbac::WATCHED, ::crd::rbac::OWN_NAMESPACE].concat();
    let role = ClusterRole {
        metadata: metadata(),
        rules: Some(::crd::rbac::rules(&rules)),
        ..ClusterRole::default()
    };
    let binding = ClusterRoleBinding {
        metadata: metadata(),
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".to_owned(),
            kind: "ClusterRole".to_owned(),
            name: "operator".to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: "operator".to_owned(),
            namespace: Some("myelin-system".to_owned()),
            ..Subject::default()
        }]),
    };
    let roles: Api<ClusterRole> = Api::all(client.clone());
    roles.patch("operator", parameters, &Patch::Apply(&role)).await.unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    bindings.patch("operator", parameters, &Patch::Apply(&binding)).await.unwrap();
}

/// A client with the rights of the operator.
pub(crate) async fn operator() -> Client {
    Client::try_from(operator_config().await).unwrap()
}

/// A client with the rights of the operator that reaches the API server through a gate.
pub(crate) async fn operator_behind_a_gate() -> (Client, Gate) {
    let mut config = operator_config().await;
    let gate = Gate::before(config.cluster_url.port_u16().unwrap()).await;
    config.cluster_url = format!("https://127.0.0.1:{}", gate.port).parse().unwrap();
    (Client::try_from(config).unwrap(), gate)
}

/// A client with the rights of the operator, and how many requests it made, those that only wait for news aside.
pub(crate) async fn operator_that_counts() -> (Client, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    let count = tower::util::MapRequestLayer::new(move |request: hyper::Request<Body>| {
        if !request.uri().query().is_some_and(|query| query.contains("watch=true")) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        request
    });
    let client = ClientBuilder::try_from(operator_config().await).unwrap().with_layer(&count).build();
    (client, requests)
}

/// How an operator in a process of its own reaches the API server, with its rights. There has to be a client already.
pub(crate) fn operator_kubeconfig() -> String {
    let mut kubeconfig = SERVER.get().unwrap().kubeconfig.clone();
    for user in &mut kubeconfig.auth_infos {
        let info = user.auth_info.as_mut().unwrap();
        info.impersonate = Some(OPERATOR.to_owned());
        info.impersonate_groups = Some(groups());
    }
    serde_yaml::to_string(&kubeconfig).unwrap()
}

fn groups() -> Vec<String> {
    ["system:serviceaccounts", "system:authenticated"].map(str::to_owned).to_vec()
}

async fn operator_config() -> Config {
    let mut config = config().await;
    config.auth_info.impersonate = Some(OPERATOR.to_owned());
    config.auth_info.impersonate_groups = Some(groups());
    config
}
