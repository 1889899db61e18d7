//! Stands in for scheduler and kubelet in one namespace: binds pods, writes their files, runs a real server for each,
//! tells the API server how it is, and stops it when the pod is deleted.
//!
//! Every pod gets a loopback address of its own, so that all servers can use the ports of their spec.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::{Binding, ObjectReference, PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::LOOK;

/// Last parts of loopback addresses given out.
static ADDRESSES: AtomicU32 = AtomicU32::new(1);

/// Image names that start with this cannot be pulled.
pub(crate) const BROKEN: &str = "broken";

/// Where the server binary is.
pub(crate) fn broker() -> PathBuf {
    if let Some(path) = std::env::var_os("MYELIN_BROKER") {
        return path.into();
    }
    let tests = std::env::current_exe().unwrap();
    let path = tests.parent().and_then(Path::parent).unwrap().join("myelin");
    assert!(
        path.exists(),
        "{} is missing: run `cargo build -p broker` first, or set MYELIN_BROKER",
        path.display()
    );
    path
}

struct Running {
    uid: String,
    ip: String,
    folder: TempDir,
    process: Option<Child>,
    ready: bool,
    /// Resource version of the pod at which the files were last written.
    written_at: Option<String>,
}

/// A node for one namespace.
pub(crate) struct Kubelet {
    client: Client,
    namespace: String,
    running: HashMap<String, Running>,
    /// Folders of volumes by claim; they outlive pods.
    volumes: HashMap<String, TempDir>,
    broker: PathBuf,
}

impl Kubelet {
    /// Runs until the task is dropped; the servers die with it.
    pub(crate) fn start(client: Client, namespace: &str) -> tokio::task::JoinHandle<()> {
        let mut kubelet = Self {
            client,
            namespace: namespace.to_owned(),
            running: HashMap::new(),
            volumes: HashMap::new(),
            broker: broker(),
        };
        tokio::spawn(async move {
            let mut turns = tokio::time::interval(LOOK);
            loop {
                turns.tick().await;
                kubelet.sync().await;
            }
        })
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn sync(&mut self) {
        if let Err(error) = self.sync_claims().await {
            tracing::debug!(%error, "the stand-in for volumes goes on");
        }
        let Ok(list) = self.pods().list(&ListParams::default()).await else {
            return;
        };
        let uids: BTreeSet<String> = list.items.iter().filter_map(ResourceExt::uid).collect();
        self.running.retain(|_, running| uids.contains(&running.uid));
        for pod in list.items {
            let name = pod.name_any();
            // A test that removes the namespace at its end makes requests fail; the next turn looks again.
            if let Err(error) = self.sync_pod(&name, &pod).await {
                tracing::debug!(name, %error, "the stand-in kubelet goes on");
            }
        }
    }

    /// Gives each claim a folder and lets volumes grow, as a provisioner does.
    async fn sync_claims(&mut self) -> kube::Result<()> {
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &self.namespace);
        for claim in claims.list(&ListParams::default()).await?.items {
            let name = claim.name_any();
            self.volumes.entry(name.clone()).or_insert_with(|| TempDir::new().unwrap());
            bind_claim(&claims, &claim).await?;
        }
        Ok(())
    }

    async fn sync_pod(&mut self, name: &str, pod: &Pod) -> kube::Result<()> {
        if pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()) {
            return self.bind(name).await;
        }
        if pod.metadata.deletion_timestamp.is_some() {
            return self.stop(name, pod).await;
        }
        let claims = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let mut claims = claims.filter_map(|volume| volume.persistent_volume_claim.as_ref());
        if claims.any(|claim| !self.volumes.contains_key(&claim.claim_name)) {
            return Ok(());
        }
        let image = pod.spec.as_ref().and_then(|spec| spec.containers[0].image.clone()).unwrap_or_default();
        if image.starts_with(BROKEN) {
            return self.report_failure(name, pod, &image).await;
        }
        if !self.running.contains_key(name) {
            let ip = format!(
                "127.77.{}.{}",
                std::process::id() % 250,
                ADDRESSES.fetch_add(1, Ordering::SeqCst) % 250 + 1
            );
            let running = Running {
                uid: pod.uid().unwrap_or_default(),
                ip,
                folder: TempDir::new().unwrap(),
                process: None,
                ready: false,
                written_at: None,
            };
            self.running.insert(name.to_owned(), running);
        }
        self.write_files(name, pod).await?;
        self.run(name, pod);
        self.report(name, pod).await
    }

    async fn bind(&self, name: &str) -> kube::Result<()> {
        let binding = Binding {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            target: ObjectReference {
                kind: Some("Node".to_owned()),
                name: Some("node".to_owned()),
                ..ObjectReference::default()
            },
        };
        // The answer is a status and not a binding, so only the request counts.
        let _: kube::Result<serde_json::Value> =
            self.pods().create_subresource("binding", name, &PostParams::default(), &binding).await;
        Ok(())
    }

    /// Ends the server by SIGTERM, waits for it, and lets the pod go.
    async fn stop(&mut self, name: &str, pod: &Pod) -> kube::Result<()> {
        if let Some(mut running) = self.running.remove(name)
            && let Some(process) = &mut running.process
        {
            if let Some(id) = process.id() {
                let _ = Command::new("kill").arg(id.to_string()).status().await;
            }
            let _ = tokio::time::timeout(std::time::Duration::from_secs(20), process.wait()).await;
        }
        let parameters = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(kube::api::Preconditions { uid: pod.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        self.pods().delete(name, &parameters).await.map(|_| ())
    }

    /// Writes what the projected volume holds, again whenever the pod object changes: as a kubelet does.
    async fn write_files(&mut self, name: &str, pod: &Pod) -> kube::Result<()> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let Some(running) = self.running.get_mut(name) else {
            return Ok(());
        };
        let seen = pod.metadata.annotations.as_ref().map(|annotations| format!("{annotations:?}"));
        if running.written_at.is_some() && running.written_at == seen {
            return Ok(());
        }
        let folder = running.folder.path();
        let volumes = || pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let claim = volumes().find_map(|volume| volume.persistent_volume_claim.as_ref());
        let data = match claim.and_then(|claim| self.volumes.get(&claim.claim_name)) {
            Some(volume) => volume.path().to_owned(),
            None => folder.join("data"),
        };
        for source in
            volumes().filter_map(|volume| volume.projected.as_ref()).flat_map(|p| p.sources.iter().flatten())
        {
            let Some(projection) = &source.secret else { continue };
            let secret = secrets.get(&projection.name).await?;
            for item in projection.items.iter().flatten() {
                let content = &secret.data.as_ref().and_then(|data| data.get(&item.key)).unwrap().0;
                let path = folder.join(&item.path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                let content = match item.path.as_str() {
                    "nats.conf" => {
                        localised(std::str::from_utf8(content).unwrap(), folder, &data, &running.ip)
                            .into_bytes()
                    }
                    _ => content.clone(),
                };
                std::fs::write(path, content).unwrap();
            }
        }
        running.written_at = seen;
        Ok(())
    }

    fn run(&mut self, name: &str, pod: &Pod) {
        let Some(running) = self.running.get_mut(name).filter(|running| running.process.is_none()) else {
            return;
        };
        let folder = running.folder.path();
        let arguments =
            pod.spec.iter().flat_map(|spec| spec.containers[0].args.iter().flatten()).map(|argument| {
                argument.replace("/etc/nats", &folder.display().to_string()).replace("$(POD_NAME)", name)
            });
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let process = Command::new(&self.broker)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        running.process = Some(process);
    }

    async fn report(&mut self, name: &str, pod: &Pod) -> kube::Result<()> {
        let Some(running) = self.running.get_mut(name) else {
            return Ok(());
        };
        if running.ready {
            return Ok(());
        }
        // A server that ends by itself ends the test: the log says why, and nobody starts it again.
        if let Some(process) = &mut running.process
            && let Ok(Some(status)) = process.try_wait()
        {
            let log = std::fs::read_to_string(running.folder.path().join("log")).unwrap_or_default();
            panic!("the server of {name} ended with {status}: {log}");
        }
        let port = pod
            .spec
            .iter()
            .flat_map(|spec| spec.containers[0].ports.iter().flatten())
            .find(|port| port.name.as_deref() == Some("monitor"))
            .map_or(8222, |port| port.container_port);
        let address = format!("{}:{port}", running.ip);
        running.ready = answers(&address, &readiness(pod)).await.is_some_and(|ready| ready);
        let (ready, ip, image) =
            (running.ready, running.ip.clone(), pod.spec.as_ref().unwrap().containers[0].image.clone());
        let status = json!({ "status": {
            "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }], "startTime": Timestamp::now().to_string(),
            "conditions": [condition("Ready", ready), condition("ContainersReady", ready)],
            "containerStatuses": [{ "name": "nats", "image": image, "imageID": "", "ready": ready, "restartCount": 0,
                                    "state": { "running": {} } }],
        }});
        self.patch_status(name, &status).await
    }

    async fn report_failure(&self, name: &str, pod: &Pod, image: &str) -> kube::Result<()> {
        if pod.status.as_ref().is_some_and(|status| status.container_statuses.is_some()) {
            return Ok(());
        }
        let status = json!({ "status": {
            "phase": "Pending",
            "conditions": [condition("Ready", false)],
            "containerStatuses": [{ "name": "nats", "image": image, "imageID": "", "ready": false, "restartCount": 0,
                                    "state": { "waiting": { "reason": "ErrImagePull", "message": "there is no such image" } } }],
        }});
        self.patch_status(name, &status).await
    }

    async fn patch_status(&self, name: &str, status: &serde_json::Value) -> kube::Result<()> {
        self.pods().patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.map(|_| ())
    }
}

/// Binds a claim, and lets its volume have the size that it asks for.
pub(crate) async fn bind_claim(
    claims: &Api<PersistentVolumeClaim>,
    claim: &PersistentVolumeClaim,
) -> kube::Result<()> {
    let name = claim.name_any();
    let spec = claim.spec.as_ref().unwrap();
    let requested = &spec.resources.as_ref().unwrap().requests.as_ref().unwrap()["storage"];
    let status = claim.status.as_ref();
    let capacity = status.and_then(|status| status.capacity.as_ref()).map(|capacity| &capacity["storage"]);
    if capacity == Some(requested) {
        return Ok(());
    }
    let parameters = PatchParams::default();
    if spec.volume_name.is_none() {
        let volume = json!({ "spec": { "volumeName": format!("volume-of-{name}") } });
        claims.patch(&name, &parameters, &Patch::Merge(&volume)).await?;
    }
    let status = json!({ "status": { "phase": "Bound", "accessModes": spec.access_modes, "capacity": { "storage": requested } } });
    claims.patch_status(&name, &parameters, &Patch::Merge(&status)).await.map(|_| ())
}

/// What the readiness probe of a pod asks for.
fn readiness(pod: &Pod) -> String {
    let container = pod.spec.as_ref().map(|spec| &spec.containers[0]);
    let probe = container.and_then(|container| container.readiness_probe.as_ref());
    let path = probe.and_then(|probe| probe.http_get.as_ref()).and_then(|get| get.path.clone());
    path.unwrap_or_else(|| "/".to_owned())
}

/// Whether an address answers a request with 200; `None` when nobody is there.
async fn answers(address: &str, path: &str) -> Option<bool> {
    let mut stream = tokio::net::TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok()?;
    Some(answer.starts_with(b"HTTP/1.1 200"))
}

fn condition(type_: &str, holds: bool) -> serde_json::Value {
    json!({ "type": type_, "status": if holds { "True" } else { "False" }, "lastTransitionTime": Timestamp::now().to_string() })
}

/// The configuration as it works outside a pod: in another folder and on one address.
fn localised(text: &str, folder: &Path, data: &Path, ip: &str) -> String {
    let folder = folder.display().to_string();
    let text = text.replace("/etc/nats", &folder).replace("/var/run/nats", &folder);
    let text = text.replace("\"/data\"", &format!("{:?}", data.display().to_string()));
    let text = text.replacen("cluster: {\n", &format!("cluster: {{\n  host: \"{ip}\"\n"), 1);
    format!("host: \"{ip}\"\n{text}")
}
