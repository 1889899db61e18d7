//! Gathers what there is: objects of the cluster, its pods, and what the servers say.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crd::{NatsCluster, annotation};
use futures::future::join_all;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use kube::api::ListParams;
use kube::{Api, Client};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::facts::Server;
use super::files::{self, TlsFiles};
use super::storage::Claim;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::nats::client::Target;
use crate::nats::link::{Tls, When};
use crate::nats::login::Login;
use crate::nats::{system, trust};
use crate::objects::identity::Identity;
use crate::objects::secrets::{CONFIG_KEY, KNOWN_KEY, text};
use crate::objects::storage::VOLUME;

/// Longest time for one step of a request to a server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// The configuration as it was last written.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Text of the file.
    pub text: String,
    /// Hash of everything.
    pub hash: String,
    /// Changes when a new process is needed.
    pub restart_hash: String,
    /// Certificates that servers may show, the newest first.
    pub known: String,
}

/// What there is.
pub struct Observed {
    /// Servers by ordinal.
    pub servers: Vec<Server>,
    /// The StatefulSet.
    pub stateful_set: Option<StatefulSet>,
    /// The configuration.
    pub config: Option<Stored>,
    /// The operator's own password.
    pub operator: Option<Secret>,
    /// The certificate authority.
    pub authority: Option<Secret>,
    /// Each listener's certificate.
    pub certificates: Vec<(TlsFiles, Option<Secret>)>,
    /// The client Service.
    pub service: Option<Service>,
    /// Claims of the servers' volumes.
    pub claims: Vec<Claim>,
}

impl Observed {
    /// Replicas that the StatefulSet asks for.
    #[must_use]
    pub fn replicas(&self) -> Option<i32> {
        self.stateful_set.as_ref()?.spec.as_ref()?.replicas
    }

    /// The certificate chain of the client listener, when it is encrypted.
    #[must_use]
    pub fn client_certificate(&self) -> Option<String> {
        let (files, secret) = self.certificates.iter().find(|(files, _)| files.listener == files::CLIENTS)?;
        text(secret.as_ref()?, &files.cert_key)
    }
}

/// Reads all objects of a cluster.
///
/// # Errors
/// When the API server does not answer.
pub async fn objects(client: &Client, identity: &Identity, cluster: &NatsCluster) -> Result<Observed, Error> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &identity.namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), &identity.namespace);
    let stateful_sets: Api<StatefulSet> = Api::namespaced(client.clone(), &identity.namespace);
    let services: Api<Service> = Api::namespaced(client.clone(), &identity.namespace);
    let selector = ListParams::default().labels(&identity.selector_text());
    let (config, operator, authority) = (identity.config(), identity.operator(), identity.authority());
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &identity.namespace);
    let (pods, claims, stateful_set, service, config, operator, authority) = futures::try_join!(
        pods.list(&selector),
        claims.list(&selector),
        stateful_sets.get_opt(&identity.name),
        services.get_opt(&identity.name),
        secrets.get_opt(&config),
        secrets.get_opt(&operator),
        secrets.get_opt(&authority),
    )?;
    let mut certificates = Vec::new();
    for files in files::tls(identity, cluster) {
        let secret = secrets.get_opt(&files.secret).await?;
        certificates.push((files, secret));
    }
    let mut servers: Vec<Server> =
        pods.items.iter().filter_map(|pod| Server::of(pod, &identity.name)).collect();
    servers.sort_by_key(|server| server.ordinal);
    let config = config.as_ref().and_then(stored);
    let prefix = format!("{VOLUME}-{}-", identity.name);
    let mut claims: Vec<Claim> =
        claims.items.iter().map(Claim::of).filter(|claim| claim.name.starts_with(&prefix)).collect();
    claims.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(Observed { servers, stateful_set, config, operator, authority, certificates, service, claims })
}

fn stored(secret: &Secret) -> Option<Stored> {
    let annotation = |key: &str| secret.metadata.annotations.as_ref()?.get(key).cloned();
    Some(Stored {
        text: text(secret, CONFIG_KEY)?,
        known: text(secret, KNOWN_KEY).unwrap_or_default(),
        hash: annotation(annotation::CONFIG_HASH)?,
        restart_hash: annotation(annotation::RESTART_HASH)?,
    })
}

/// How to reach the servers of one cluster, and as whom.
#[derive(Clone)]
pub struct Access {
    identity: Identity,
    port: u16,
    user: String,
    password: String,
    tls: Option<Arc<ClientConfig>>,
    restart_hash: String,
}

impl Access {
    /// Access with the login and certificates that were observed; `None` before there are any.
    ///
    /// # Errors
    /// When a certificate cannot be read.
    pub fn new(
        identity: &Identity,
        cluster: &NatsCluster,
        observed: &Observed,
    ) -> Result<Option<Self>, Error> {
        let (Some(operator), Some(config)) = (&observed.operator, &observed.config) else {
            return Ok(None);
        };
        let (Some(user), Some(password)) = (text(operator, "username"), text(operator, "password")) else {
            return Ok(None);
        };
        let tls = match observed.certificates.iter().find(|(files, _)| files.listener == files::CLIENTS) {
            None => None,
            Some((_, None)) => return Ok(None),
            Some((files, Some(secret))) => {
                let (Some(chain), Some(key)) = (text(secret, &files.cert_key), text(secret, &files.key_key))
                else {
                    return Ok(None);
                };
                let authority = files.ca_key.as_ref().and_then(|key| text(secret, key));
                let authority = authority.or_else(|| files.builtin.then(|| text(secret, "ca.crt")).flatten());
                Some(trust::client_config(authority.as_deref(), &config.known, &chain, &key)?)
            }
        };
        Ok(Some(Self {
            identity: identity.clone(),
            port: u16::try_from(cluster.spec.clients.port).unwrap_or_default(),
            user,
            password,
            tls,
            restart_hash: config.restart_hash.clone(),
        }))
    }

    /// Where one server is; `None` while its pod has no address.
    #[must_use]
    pub fn target(&self, server: &Server) -> Option<Target> {
        let ip: IpAddr = server.ip.as_deref()?.parse().ok()?;
        let tls = match &self.tls {
            None => None,
            Some(config) => Some(Tls {
                config: Arc::clone(config),
                server_name: Some(ServerName::try_from(self.identity.pod_host(&server.pod)).ok()?),
                // A process from before encryption was switched on still speaks plainly until it is replaced.
                when: if server.restart_hash == self.restart_hash { When::Required } else { When::Expected },
            }),
        };
        Some(Target {
            address: SocketAddr::new(ip, self.port),
            tls,
            login: Login::Password { user: self.user.clone(), password: self.password.clone() },
            timeout: REQUEST_TIMEOUT,
        })
    }
}

/// Asks every server that stays about itself, all at once.
pub async fn ask(servers: &mut [Server], access: &Access, metrics: &Metrics) {
    let questions = servers.iter().map(|server| async {
        if server.stopping {
            return None;
        }
        let target = access.target(server)?;
        let timer = metrics.request_seconds.with_label_values(&["varz"]).start_timer();
        let answer = system::look(&target).await;
        timer.observe_duration();
        match answer {
            Ok(report) => Some(report),
            Err(error) => {
                metrics.request_errors.with_label_values(&["varz"]).inc();
                tracing::debug!(pod = server.pod, %error, "a server did not answer");
                None
            }
        }
    });
    let answers = join_all(questions).await;
    for (server, report) in servers.iter_mut().zip(answers) {
        server.report = report;
    }
}
