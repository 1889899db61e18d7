//! Where configuration and certificates lie inside a pod, and which Secrets they come from.

use crd::NatsCluster;
use crd::nats_cluster::listeners::TlsSecret;

use crate::objects::identity::Identity;

/// Folder with everything a server reads.
pub const FOLDER: &str = "/etc/nats";
/// The configuration file.
pub const CONFIG_PATH: &str = "/etc/nats/nats.conf";
/// Listener of clients, in names of Secrets and folders.
pub const CLIENTS: &str = "clients";
/// Listener of routes.
pub const ROUTES: &str = "routes";

/// The certificate of one listener: which Secret, and which of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Which listener shows it.
    pub listener: &'static str,
    /// Secret that holds it.
    pub secret: String,
    /// Whether the operator issues it.
    pub builtin: bool,
    /// Key of the certificate chain.
    pub cert_key: String,
    /// Key of the private key.
    pub key_key: String,
    /// Key of the authority that peers are checked against; `None` when peers are not checked.
    pub ca_key: Option<String>,
}

impl TlsFiles {
    /// Keys of the Secret and the files they become below [`FOLDER`].
    #[must_use]
    pub fn items(&self) -> Vec<(String, String)> {
        let mut items =
            vec![(self.cert_key.clone(), self.file("tls.crt")), (self.key_key.clone(), self.file("tls.key"))];
        if let Some(ca_key) = &self.ca_key {
            items.push((ca_key.clone(), self.file("ca.crt")));
        }
        items
    }

    /// Full path of one of the files.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        format!("{FOLDER}/{}", self.file(name))
    }

    fn file(&self, name: &str) -> String {
        format!("tls/{}/{name}", self.listener)
    }
}

/// Certificates that the servers of a cluster need, in a fixed order.
#[must_use]
pub fn tls(identity: &Identity, cluster: &NatsCluster) -> Vec<TlsFiles> {
    let mut files = Vec::new();
    if let Some(tls) = &cluster.spec.clients.tls {
        // Without verification the authority is not needed, and a Secret need not hold one.
        files.push(listener(identity, CLIENTS, tls.secret.as_ref(), tls.verify));
    }
    let routes = cluster.spec.routes.tls.as_ref();
    if !routes.is_some_and(|tls| tls.disabled) {
        files.push(listener(identity, ROUTES, routes.and_then(|tls| tls.secret.as_ref()), true));
    }
    files
}

fn listener(
    identity: &Identity,
    listener: &'static str,
    secret: Option<&TlsSecret>,
    verify: bool,
) -> TlsFiles {
    match secret {
        Some(secret) => TlsFiles {
            listener,
            secret: secret.name.clone(),
            builtin: false,
            cert_key: secret.cert_key.clone(),
            key_key: secret.key_key.clone(),
            ca_key: verify.then(|| secret.ca_key.clone()),
        },
        None => TlsFiles {
            listener,
            secret: identity.certificate(listener),
            builtin: true,
            cert_key: "tls.crt".to_owned(),
            key_key: "tls.key".to_owned(),
            ca_key: verify.then(|| "ca.crt".to_owned()),
        },
    }
}

/// Everything about files that a running process cannot learn by reloading: a change needs a new pod.
#[must_use]
pub fn layout(tls: &[TlsFiles]) -> String {
    tls.iter()
        .map(|files| {
            let items: Vec<String> =
                files.items().into_iter().map(|(key, path)| format!("{key}>{path}")).collect();
            format!("{}:{}:{}", files.listener, files.secret, items.join(","))
        })
        .collect::<Vec<_>>()
        .join(";")
}
