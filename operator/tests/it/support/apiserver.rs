//! One API server for the whole test binary, and others of their own for tests that end or fill theirs.

use std::io::{BufRead, BufReader};
use std::path::Path;
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
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::gate::Gate;
use super::until;

/// Who the operator is: it has the rights of its own rules and no others, so a missing rule fails a test.
const OPERATOR: &str = "system:serviceaccount:myelin-system:operator";
/// Controllers that clusters need.
const CONTROLLERS: &str = "statefulset,garbage-collector-controller,disruption,namespace-controller,horizontal-pod-autoscaler-controller";

static SERVER: OnceLock<Apiserver> = OnceLock::new();

/// An API server with its etcd and controllers.
pub(crate) struct Apiserver {
    kubeconfig: Kubeconfig,
    // The server ends when its standard input does, with the test binary at the latest.
    process: Child,
    folder: TempDir,
}

impl Apiserver {
    /// A server without data.
    pub(crate) async fn start() -> Self {
        tokio::task::spawn_blocking(start).await.unwrap()
    }

    /// Kills API server, etcd and controllers at once.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts the server again with all that it had: data, certificates, ports.
    pub(crate) async fn restart(&mut self) {
        let folder = self.folder.path().to_owned();
        let (process, _) = tokio::task::spawn_blocking(move || run(&folder, &["-keep"])).await.unwrap();
        self.process = process;
    }

    /// Makes etcd forget all revisions but the newest, so that nobody can go on from an older one.
    pub(crate) async fn compact(&self, revision: &str) {
        let ports = std::fs::read_to_string(self.folder.path().join("ports")).unwrap();
        let etcd: u16 = ports.split(' ').nth(1).unwrap().parse().unwrap();
        let body = format!(r#"{{"revision":"{revision}","physical":true}}"#);
        let request = format!(
            "POST /v3/kv/compaction HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut socket = TcpStream::connect(("127.0.0.1", etcd)).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    async fn config(&self) -> Config {
        let options = KubeConfigOptions::default();
        Config::from_custom_kubeconfig(self.kubeconfig.clone(), &options).await.unwrap()
    }

    /// A client that may do everything, with the definitions and the operator's rights in place.
    pub(crate) async fn admin(&self) -> Client {
        prepared(Client::try_from(self.config().await).unwrap()).await
    }

    async fn operator_config(&self) -> Config {
        let mut config = self.config().await;
        config.auth_info.impersonate = Some(OPERATOR.to_owned());
        config.auth_info.impersonate_groups = Some(groups());
        config
    }

    /// A client with the rights of the operator.
    pub(crate) async fn operator(&self) -> Client {
        Client::try_from(self.operator_config().await).unwrap()
    }

    /// A client with the rights of the operator that reaches the API server through a gate.
    pub(crate) async fn operator_behind_a_gate(&self) -> (Client, Gate) {
        let mut config = self.operator_config().await;
        let gate = Gate::before(config.cluster_url.port_u16().unwrap()).await;
        config.cluster_url = format!("https://127.0.0.1:{}", gate.port).parse().unwrap();
        (Client::try_from(config).unwrap(), gate)
    }

    /// How an operator in a process of its own reaches the API server, with its rights.
    pub(crate) fn operator_kubeconfig(&self) -> String {
        let mut kubeconfig = self.kubeconfig.clone();
        for user in &mut kubeconfig.auth_infos {
            let info = user.auth_info.as_mut().unwrap();
            info.impersonate = Some(OPERATOR.to_owned());
            info.impersonate_groups = Some(groups());
        }
        serde_yaml::to_string(&kubeconfig).unwrap()
    }
}

/// Runs the program on a folder until it says where its kubeconfig is.
fn run(folder: &Path, more: &[&str]) -> (Child, String) {
    let Some(program) = std::env::var_os("MYELIN_KUBENODE") else {
        panic!(
            "MYELIN_KUBENODE is not set: these tests need a real API server. `make test` sets it; by hand, \
             MYELIN_KUBENODE=$(testing/kubernetes/build.sh)/kubenode cargo test -p operator"
        );
    };
    let mut process = Command::new(&program)
        .args(["apiserver", "-watch-stdin", "-controllers", CONTROLLERS, "-dir"])
        .arg(folder)
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("MYELIN_KUBENODE={}: {error}", program.display()));
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (process, line.trim().to_owned())
}

fn start() -> Apiserver {
    let folder = TempDir::new().unwrap();
    let (process, said) = run(folder.path(), &[]);
    let kubeconfig =
        Kubeconfig::read_from(&said).unwrap_or_else(|error| panic!("the API server says {said:?}: {error}"));
    Apiserver { kubeconfig, process, folder }
}

/// The server that tests share.
async fn shared() -> &'static Apiserver {
    match SERVER.get() {
        Some(server) => server,
        None => tokio::task::spawn_blocking(|| SERVER.get_or_init(start)).await.unwrap(),
    }
}

/// A client for the shared server that may do everything.
pub(crate) async fn admin() -> Client {
    shared().await.admin().await
}

/// Puts the definitions and the operator's rights in place.
async fn prepared(client: Client) -> Client {
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

/// A client for the shared server with the rights of the operator.
pub(crate) async fn operator() -> Client {
    shared().await.operator().await
}

/// The same through a gate.
pub(crate) async fn operator_behind_a_gate() -> (Client, Gate) {
    shared().await.operator_behind_a_gate().await
}

/// A client for the shared server with the rights of the operator, and how many requests it made, those that only wait for news aside.
pub(crate) async fn operator_that_counts() -> (Client, Arc<Requests>) {
    let requests = Arc::new(Requests::default());
    let counter = Arc::clone(&requests);
    let count = tower::util::MapRequestLayer::new(move |request: hyper::Request<Body>| {
        let uri = request.uri();
        if !uri.query().is_some_and(|query| query.contains("watch=true")) {
            counter.all.fetch_add(1, Ordering::Relaxed);
        }
        if request.method() == hyper::Method::PATCH && uri.path().ends_with("/status") {
            counter.statuses.fetch_add(1, Ordering::Relaxed);
        }
        request
    });
    let config = shared().await.operator_config().await;
    (ClientBuilder::try_from(config).unwrap().with_layer(&count).build(), requests)
}

/// What an operator asked of the API server so far.
#[derive(Default)]
pub(crate) struct Requests {
    all: AtomicUsize,
    statuses: AtomicUsize,
}

impl Requests {
    /// All requests, watches aside.
    pub(crate) fn all(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    /// Those of them that wrote a status.
    pub(crate) fn statuses(&self) -> usize {
        self.statuses.load(Ordering::Relaxed)
    }
}

/// How somebody with a name of their own, or with all rights, reaches the API server.
pub(crate) async fn config_of(user: Option<&str>) -> Config {
    let mut config = shared().await.config().await;
    config.auth_info.impersonate = user.map(str::to_owned);
    config
}

/// How a program of its own reaches the shared server with all rights. There has to be a client already.
pub(crate) fn kubeconfig() -> String {
    serde_yaml::to_string(&SERVER.get().unwrap().kubeconfig).unwrap()
}

/// Certificate and key by which a part of the API server proves who it is. There has to be a client already.
pub(crate) fn identity(name: &str) -> (String, String) {
    let folder = SERVER.get().unwrap().folder.path().join("pki");
    let read = |ending| std::fs::read_to_string(folder.join(format!("{name}.{ending}"))).unwrap();
    (read("crt"), read("key"))
}

fn groups() -> Vec<String> {
    ["system:serviceaccounts", "system:authenticated"].map(str::to_owned).to_vec()
}
