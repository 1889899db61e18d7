//! How an object connects: from its spec, an Account or a NatsCluster to addresses, trust and a login.
//!
//! A login goes only to servers that its own owner named: what an Account holds is used with the servers of that Account and with no others,
//! whatever the object that names the Account says beside it. Who may name what is decided by the one that is named.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crd::NatsCluster;
use crd::jetstream::account::{AllowedNamespaces, NamespaceFacts};
use crd::jetstream::options::{AssetOptions, ClusterRef, SERVERS_MAX};
use crd::jetstream::{Account, AccountSpec};
use crd::nats_cluster::auth::AuthMode;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, Client, ResourceExt};
use rustls::ClientConfig;
use sha2::{Digest, Sha256};

use super::desired::is_token;
use super::files;
use super::index::Dependency;
use super::problem::Problem;
use crate::cluster::credentials::{manager_password, manager_user, without_line_end};
use crate::cluster::facts::Server;
use crate::cluster::observe::{self, Access};
use crate::cluster::render;
use crate::nats::address::Address;
use crate::nats::link::When;
use crate::nats::login::Login;
use crate::nats::session;
use crate::nats::trust;
use crate::objects::identity::Identity;
use crate::objects::secrets::text;
use crate::settings::Settings;

/// Longest time to connect, and to wait for an answer, when nothing is said.
const TIMEOUTS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(10));
/// Longest that anybody may ask for; a pass takes no longer than this either way.
const TIMEOUT_MAX: Duration = Duration::from_secs(30);
/// Beginning of the subjects that answers come on when nothing is said.
const INBOX_PREFIX: &str = "_INBOX";

/// Identity of a connection: equal ones may be shared. Only a digest, so that no secret is kept or shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key([u8; 32]);

#[cfg(test)]
impl Key {
    /// A key for tests.
    pub(crate) const fn test(number: u8) -> Self {
        Self([number; 32])
    }
}

/// Everything that is needed to connect.
#[derive(Clone)]
pub struct Connection {
    /// Identity.
    pub key: Key,
    /// Namespace that the login comes from, and that the connection counts for.
    pub home: String,
    /// Where to and as whom.
    pub options: session::Options,
    /// Beginning of the subjects of the API.
    pub prefix: String,
    /// Longest time to wait for an answer.
    pub request_timeout: Duration,
    /// What it was made from.
    pub depends: Vec<Dependency>,
}

/// What resolving needs.
pub struct Resolver<'a> {
    /// Reads.
    pub client: &'a Client,
    /// What the installer chose.
    pub settings: &'a Settings,
    /// Namespace of the object that connects.
    pub namespace: &'a str,
    /// What was looked at so far. When resolving failed, one of them is what will help.
    pub depends: Vec<Dependency>,
}

/// A part of a connection: where to, and what proves who this is there.
struct Source {
    home: String,
    uid: String,
    addresses: Vec<Address>,
    tls: Trust,
    tls_required: bool,
    tls_first: bool,
    login: Login,
    inbox_prefix: String,
    domain: String,
}

/// Trust in servers, and the own certificate.
#[derive(Default)]
struct Trust {
    roots: Option<String>,
    pair: Option<(String, String)>,
    /// Made from the certificates of a cluster; the digest stands for it.
    ready: Option<(Arc<ClientConfig>, String)>,
}

impl<'a> Resolver<'a> {
    /// A resolver for an object of a namespace.
    #[must_use]
    pub const fn new(client: &'a Client, settings: &'a Settings, namespace: &'a str) -> Self {
        Self { client, settings, namespace, depends: Vec::new() }
    }

    /// How a stream, consumer or bucket connects.
    ///
    /// # Errors
    /// When something is missing, not allowed, or cannot be read.
    pub async fn resolve(&mut self, options: &AssetOptions) -> Result<Connection, Problem> {
        let source = self.source(options).await?;
        let source = self.with_inline(source, options).await?;
        let timeouts = (&options.connect_timeout, &options.request_timeout);
        let limit = |span: &crd::jetstream::span::Span, default: Duration, field: &str| {
            let nanos =
                span.nanos().map_err(|error| Problem::stalled("InvalidSpec", format!("{field}: {error}")))?;
            let asked = Duration::from_nanos(u64::try_from(nanos).unwrap_or(0));
            Ok::<_, Problem>(if asked.is_zero() { default } else { asked.min(TIMEOUT_MAX) })
        };
        let connect = limit(timeouts.0, TIMEOUTS.0, "connectTimeout")?;
        let request = limit(timeouts.1, TIMEOUTS.1, "requestTimeout")?;
        self.finish(source, connect, request)
    }

    /// How an Account itself connects.
    ///
    /// # Errors
    /// When something is missing, not allowed, or cannot be read.
    pub async fn resolve_account(&mut self, account: &Account) -> Result<Connection, Problem> {
        let source = self.of_account(account).await?;
        self.finish(source, TIMEOUTS.0, TIMEOUTS.1)
    }

    /// What the object names: a cluster, an Account, or nothing.
    async fn source(&mut self, options: &AssetOptions) -> Result<Option<Source>, Problem> {
        let named =
            [options.cluster_ref.is_some(), options.account_ref.is_some(), !options.account.is_empty()];
        if named.iter().filter(|named| **named).count() > 1 {
            return Err(Problem::stalled(
                "InvalidSpec",
                "name one of clusterRef, accountRef and account, not several",
            ));
        }
        if let Some(reference) = &options.cluster_ref {
            if !options.servers.is_empty() {
                return Err(Problem::stalled(
                    "InvalidSpec",
                    "clusterRef says where to connect: remove servers, or clusterRef",
                ));
            }
            return self.of_cluster(reference, self.namespace).await.map(Some);
        }
        let named = match &options.account_ref {
            Some(reference) => {
                Some((namespace_or(&reference.namespace, self.namespace).to_owned(), reference.name.clone()))
            }
            None if !options.account.is_empty() => Some((self.namespace.to_owned(), options.account.clone())),
            None if options.servers.is_empty() => self.settings.default_account.clone(),
            None => None,
        };
        match named {
            Some((namespace, name)) => {
                let account = self.account(&namespace, &name).await?;
                self.of_account(&account).await.map(Some)
            }
            None if options.servers.is_empty() => Err(Problem::stalled(
                "InvalidSpec",
                "nothing says where to connect: name a clusterRef, an account or servers",
            )),
            None => Ok(None),
        }
    }

    /// What the object says itself, over what it named.
    async fn with_inline(&self, source: Option<Source>, options: &AssetOptions) -> Result<Source, Problem> {
        let inline = self.inline_login(options).await?;
        let mut source = match source {
            // A login never meets servers that somebody else named.
            Some(source) if options.servers.is_empty() => source,
            _ => Source {
                home: self.namespace.to_owned(),
                uid: String::new(),
                addresses: addresses(&options.servers)?,
                tls: Trust::default(),
                tls_required: false,
                tls_first: false,
                login: Login::Anonymous,
                inbox_prefix: INBOX_PREFIX.to_owned(),
                domain: String::new(),
            },
        };
        if let Some(login) = inline {
            source.login = login;
            self.namespace.clone_into(&mut source.home);
        }
        if let Some(tls) = &options.tls {
            let mut roots = String::new();
            for path in tls.root_cas.iter().take(SERVERS_MAX) {
                roots.push_str(&files::read(&self.settings.credential_roots, self.namespace, path).await?);
                roots.push('\n');
            }
            let own = !tls.client_cert.is_empty() && !tls.client_key.is_empty();
            let pair = if own {
                let read = |path| files::read(&self.settings.credential_roots, self.namespace, path);
                Some((read(&tls.client_cert).await?, read(&tls.client_key).await?))
            } else {
                None
            };
            source.tls_required |= !roots.is_empty() || pair.is_some();
            source.tls = Trust { roots: (!roots.is_empty()).then_some(roots), pair, ready: None };
        }
        source.tls_first |= options.tls_first;
        if !options.js_domain.is_empty() {
            source.domain.clone_from(&options.js_domain);
        }
        Ok(source)
    }

    async fn inline_login(&self, options: &AssetOptions) -> Result<Option<Login>, Problem> {
        let read = |path| files::read(&self.settings.credential_roots, self.namespace, path);
        if !options.creds.is_empty() {
            return Ok(Some(Login::from_credentials(&read(&options.creds).await?)?));
        }
        if !options.nkey.is_empty() {
            return Ok(Some(Login::from_seed(&read(&options.nkey).await?)?));
        }
        Ok(None)
    }

    /// An Account, if the object may use it. Who may not learns nothing about it.
    async fn account(&mut self, namespace: &str, name: &str) -> Result<Account, Problem> {
        self.depends.push(Dependency::account(namespace, name));
        let api: Api<Account> = Api::namespaced(self.client.clone(), namespace);
        let account = found(api.get_opt(name).await, namespace != self.namespace)?;
        if namespace != self.namespace {
            let grant = account.as_ref().and_then(|account| account.spec.allowed_namespaces.as_ref());
            self.admit(grant, namespace, &format!("Account `{name}`")).await?;
        }
        account.ok_or_else(|| {
            Problem::stalled(
                "AccountMissing",
                format!("there is no Account `{name}`: create it, or name another"),
            )
        })
    }

    /// Whether the namespace of the object is among those that a grant names.
    async fn admit(&self, grant: Option<&AllowedNamespaces>, home: &str, what: &str) -> Result<(), Problem> {
        let refused = || {
            Problem::stalled(
                "GrantMissing",
                format!(
                    "{what} of namespace `{home}` does not allow namespace `{}`: list it in allowedNamespaces there",
                    self.namespace
                ),
            )
        };
        let grant = grant.ok_or_else(refused)?;
        let needs_labels = grant.selector.is_some();
        let labels = if needs_labels { self.labels().await? } else { BTreeMap::new() };
        let asking = NamespaceFacts { name: self.namespace.to_owned(), labels };
        if AllowedNamespaces::admits(Some(grant), home, &asking) { Ok(()) } else { Err(refused()) }
    }

    async fn labels(&self) -> Result<BTreeMap<String, String>, Problem> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        Ok(api.get(self.namespace).await?.metadata.labels.unwrap_or_default())
    }

    async fn of_account(&mut self, account: &Account) -> Result<Source, Problem> {
        let home = account.namespace().unwrap_or_default();
        let spec = &account.spec;
        let mut source = match &spec.cluster_ref {
            Some(reference) => self.of_cluster(reference, &home).await?,
            None => Source {
                home: home.clone(),
                uid: account.uid().unwrap_or_default(),
                addresses: addresses(&spec.servers)?,
                tls: self.account_trust(spec, &home).await?,
                tls_required: spec.tls.is_some(),
                tls_first: spec.tls_first,
                login: self.account_login(spec, &home).await?,
                inbox_prefix: INBOX_PREFIX.to_owned(),
                domain: String::new(),
            },
        };
        source.domain.clone_from(&spec.js_domain);
        if !spec.inbox_prefix.is_empty() {
            source.inbox_prefix.clone_from(&spec.inbox_prefix);
        }
        Ok(source)
    }

    /// The login of an Account. Of several the first counts, as it always has: credentials, nkey, token, user.
    async fn account_login(&mut self, spec: &AccountSpec, home: &str) -> Result<Login, Problem> {
        if let Some(creds) = &spec.creds {
            let secret = creds.secret.as_ref().map(|secret| secret.name.as_str());
            return Ok(Login::from_credentials(&self.value(home, secret, &creds.file).await?)?);
        }
        if let Some(nkey) = &spec.nkey {
            let secret = nkey.secret.as_ref().map(|secret| secret.name.as_str());
            return Ok(Login::from_seed(&self.value(home, secret, &nkey.seed).await?)?);
        }
        if let Some(token) = &spec.token {
            let text = self.value(home, Some(&token.secret.name), &token.token).await?;
            return Ok(Login::Token(without_line_end(&text).to_owned()));
        }
        if let Some(user) = &spec.user {
            let name = self.value(home, Some(&user.secret.name), &user.user).await?;
            let password = self.value(home, Some(&user.secret.name), &user.password).await?;
            return Ok(Login::Password {
                user: without_line_end(&name).to_owned(),
                password: without_line_end(&password).to_owned(),
            });
        }
        Ok(Login::Anonymous)
    }

    async fn account_trust(&mut self, spec: &AccountSpec, home: &str) -> Result<Trust, Problem> {
        let Some(tls) = &spec.tls else { return Ok(Trust::default()) };
        let secret = tls.secret.as_ref().map(|secret| secret.name.as_str());
        let roots = match tls.ca.as_str() {
            "" => None,
            key => Some(self.value(home, secret, key).await?),
        };
        let pair = match (tls.cert.as_str(), tls.key.as_str()) {
            ("", _) | (_, "") => None,
            (cert, key) => {
                Some((self.value(home, secret, cert).await?, self.value(home, secret, key).await?))
            }
        };
        Ok(Trust { roots, pair, ready: None })
    }

    /// A key of a Secret, or a file when there is no Secret.
    async fn value(&mut self, home: &str, secret: Option<&str>, key: &str) -> Result<String, Problem> {
        let Some(name) = secret.filter(|name| !name.is_empty()) else {
            return Ok(files::read(&self.settings.credential_roots, home, key).await?);
        };
        self.depends.push(Dependency::secret(home, name));
        let elsewhere = home != self.namespace;
        let missing = |problem: String| {
            // Names of Secrets of another namespace are nobody's business here.
            let text = if elsewhere {
                "the Account cannot be used: its Secret is missing or incomplete".to_owned()
            } else {
                problem
            };
            Problem::stalled("SecretMissing", text)
        };
        let api: Api<Secret> = Api::namespaced(self.client.clone(), home);
        let secret = found(api.get_opt(name).await, elsewhere)?
            .ok_or_else(|| missing(format!("there is no Secret `{name}`: create it")))?;
        text(&secret, key)
            .ok_or_else(|| missing(format!("Secret `{name}` has no text under `{key}`: add it")))
    }

    /// A NatsCluster by the operator's own user in one of its accounts.
    async fn of_cluster(&mut self, reference: &ClusterRef, asking: &str) -> Result<Source, Problem> {
        let namespace = namespace_or(&reference.namespace, asking).to_owned();
        self.depends.push(Dependency::cluster(&namespace, &reference.name));
        let api: Api<NatsCluster> = Api::namespaced(self.client.clone(), &namespace);
        let cluster = found(api.get_opt(&reference.name).await, namespace != self.namespace)?;
        if namespace != self.namespace {
            let grant = cluster.as_ref().and_then(|cluster| cluster.spec.allowed_namespaces.as_ref());
            self.admit(grant, &namespace, &format!("NatsCluster `{}`", reference.name)).await?;
        }
        let cluster = cluster.ok_or_else(|| {
            let text = format!("there is no NatsCluster `{}`: create it, or name another", reference.name);
            Problem::stalled("ClusterMissing", text)
        })?;
        let account = account_of(&cluster, &reference.account)?;
        let identity = Identity::of(&cluster).map_err(Problem::Operator)?;
        self.depends.push(Dependency::secret(&namespace, &identity.operator()));
        let observed =
            Box::pin(observe::objects(self.client, &identity, &cluster)).await.map_err(Problem::Operator)?;
        let starting = || {
            Problem::transient(
                "Unreachable",
                format!("NatsCluster `{}` has no server that is ready", reference.name),
            )
        };
        let access =
            Access::new(&identity, &cluster, &observed).map_err(Problem::Operator)?.ok_or_else(starting)?;
        let password =
            observed.operator.as_ref().and_then(|secret| text(secret, "password")).ok_or_else(starting)?;
        let targets: Vec<_> = observed
            .servers
            .iter()
            .filter(|server| server.is_ready() && !server.stopping)
            .filter_map(|server| Some((server, access.target(server)?)))
            .collect();
        let (_, first) = targets.first().ok_or_else(starting)?;
        let ready = first.tls.as_ref().map(|tls| {
            let parts = [
                observed.client_certificate().unwrap_or_default(),
                observed.config.as_ref().map(|config| config.known.clone()).unwrap_or_default(),
            ];
            (Arc::clone(&tls.config), parts.concat())
        });
        let address = |(server, target): &(&Server, crate::nats::client::Target)| Address {
            host: target.address.ip().to_string(),
            port: target.address.port(),
            tls: target.tls.as_ref().is_some_and(|tls| tls.when == When::Required),
            certificate_name: Some(identity.pod_host(&server.pod)),
        };
        Ok(Source {
            home: namespace,
            uid: identity.uid.clone(),
            addresses: targets.iter().map(address).collect(),
            tls: Trust { ready, ..Trust::default() },
            tls_required: false,
            tls_first: false,
            login: account.map_or(Login::Anonymous, |account| Login::Password {
                user: manager_user(&account),
                password: manager_password(&password, &account),
            }),
            inbox_prefix: render::INBOX_PREFIX.to_owned(),
            domain: String::new(),
        })
    }

    fn finish(
        &self,
        source: Source,
        connect_timeout: Duration,
        request_timeout: Duration,
    ) -> Result<Connection, Problem> {
        if !source.domain.is_empty() && !is_token(&source.domain) {
            return Err(Problem::stalled(
                "InvalidSpec",
                "jsDomain: is no name of a domain: write it without dots and spaces",
            ));
        }
        if !source.inbox_prefix.split('.').all(is_token) {
            return Err(Problem::stalled(
                "InvalidSpec",
                "inboxPrefix: is no subject: write words with dots between",
            ));
        }
        let key = key(&source);
        let tls = match &source.tls.ready {
            Some((config, _)) => Arc::clone(config),
            None => {
                let pair = source.tls.pair.as_ref().map(|(chain, key)| (chain.as_str(), key.as_str()));
                trust::with_roots(source.tls.roots.as_deref(), pair).map_err(|_| {
                    Problem::stalled(
                        "InvalidSpec",
                        "tls: the certificates or the key cannot be read: they must be PEM",
                    )
                })?
            }
        };
        Ok(Connection {
            key,
            home: source.home,
            options: session::Options {
                addresses: source.addresses,
                tls,
                tls_required: source.tls_required,
                tls_first: source.tls_first,
                login: source.login,
                inbox_prefix: source.inbox_prefix,
                connect_timeout,
            },
            prefix: api_prefix(&source.domain),
            request_timeout,
            depends: self.depends.clone(),
        })
    }
}

/// Beginning of the subjects of the API, of a domain if one is named.
#[must_use]
pub fn api_prefix(domain: &str) -> String {
    if domain.is_empty() { "$JS.API".to_owned() } else { format!("$JS.{domain}.API") }
}

/// What another namespace forbids to read looks as if it were not there.
fn found<T>(result: kube::Result<Option<T>>, elsewhere: bool) -> Result<Option<T>, Problem> {
    match result {
        Ok(object) => Ok(object),
        Err(kube::Error::Api(status)) if status.code == 403 && elsewhere => Err(Problem::stalled(
            "GrantMissing",
            "the operator may not read that namespace: add it to the namespaces that the operator watches",
        )),
        Err(error) => Err(error.into()),
    }
}

fn namespace_or<'t>(named: &'t str, own: &'t str) -> &'t str {
    if named.is_empty() { own } else { named }
}

fn addresses(servers: &[String]) -> Result<Vec<Address>, Problem> {
    // One entry may hold several with commas between.
    let all: Vec<&str> = servers
        .iter()
        .flat_map(|entry| entry.split(','))
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .collect();
    if all.is_empty() {
        return Err(Problem::stalled(
            "InvalidSpec",
            "servers: there are none: write at least one, such as nats://nats:4222",
        ));
    }
    if all.len() > SERVERS_MAX {
        return Err(Problem::stalled("InvalidSpec", format!("servers: more than {SERVERS_MAX}: name fewer")));
    }
    all.into_iter().map(|text| Address::parse(text).map_err(Problem::from)).collect()
}

/// The account of a cluster that is meant; `None` when the cluster asks nobody who they are.
fn account_of(cluster: &NatsCluster, named: &str) -> Result<Option<String>, Problem> {
    let auth = &cluster.spec.auth;
    if auth.mode == AuthMode::None {
        return Ok(None);
    }
    let names: Vec<&String> = auth.accounts.iter().map(|account| &account.name).collect();
    match (named, names.as_slice()) {
        ("", [only]) => Ok(Some((*only).clone())),
        ("", _) => Err(Problem::stalled(
            "InvalidSpec",
            "clusterRef: the cluster has several accounts: name one of them as clusterRef.account",
        )),
        (named, names) if names.iter().any(|name| *name == named) => Ok(Some(named.to_owned())),
        _ => Err(Problem::stalled("InvalidSpec", "clusterRef: the cluster has no account of this name")),
    }
}

/// A digest of everything that makes a connection what it is.
fn key(source: &Source) -> Key {
    let mut hasher = Sha256::new();
    let mut add = |part: &str| {
        hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(part.as_bytes());
    };
    for part in [&source.home, &source.uid, &source.inbox_prefix, &source.domain] {
        add(part);
    }
    add(&format!("{} {}", source.tls_required, source.tls_first));
    for address in &source.addresses {
        add(&format!("{address} {} {:?}", address.tls, address.certificate_name));
    }
    add(&format!("{:?}", source.login));
    match &source.login {
        Login::Anonymous => {}
        Login::Token(secret) | Login::Nkey(secret) => add(secret),
        Login::Password { user: name, password: secret } | Login::Jwt { jwt: name, seed: secret } => {
            add(name);
            add(secret);
        }
    }
    add(source.tls.roots.as_deref().unwrap_or("system"));
    for part in source.tls.pair.iter().flat_map(|(chain, key)| [chain, key]) {
        add(part);
    }
    add(source.tls.ready.as_ref().map_or("", |(_, digest)| digest.as_str()));
    Key(hasher.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(login: Login) -> Source {
        Source {
            home: "ns".to_owned(),
            uid: "u".to_owned(),
            addresses: vec![Address::parse("a:1").unwrap()],
            tls: Trust::default(),
            tls_required: false,
            tls_first: false,
            login,
            inbox_prefix: "_INBOX".to_owned(),
            domain: String::new(),
        }
    }

    #[test]
    fn connections_are_shared_only_when_everything_is_equal() {
        let token = || source(Login::Token("secret".to_owned()));
        assert_eq!(key(&token()), key(&token()));
        let others = [
            source(Login::Anonymous),
            source(Login::Nkey("secret".to_owned())),
            source(Login::Token("other".to_owned())),
            Source { home: "other".to_owned(), ..token() },
            Source { uid: "other".to_owned(), ..token() },
            Source { domain: "d".to_owned(), ..token() },
            Source { tls_required: true, ..token() },
            Source { addresses: vec![Address::parse("tls://a:1").unwrap()], ..token() },
            Source { tls: Trust { roots: Some("x".to_owned()), ..Trust::default() }, ..token() },
            Source {
                tls: Trust { pair: Some(("x".to_owned(), "y".to_owned())), ..Trust::default() },
                ..token()
            },
        ];
        for (at, other) in others.iter().enumerate() {
            assert_ne!(key(other), key(&token()), "{at}");
        }
        assert!(!format!("{:?}", key(&token())).contains("secret"));
    }

    #[test]
    fn servers_may_stand_in_one_entry() {
        assert_eq!(addresses(&["a:1, nats://b:2".to_owned(), "c".to_owned()]).unwrap().len(), 3);
        for none in
            [vec![], vec![String::new()], vec!["a".to_owned(); SERVERS_MAX + 1], vec!["http://a".to_owned()]]
        {
            assert!(addresses(&none).is_err());
        }
    }

    #[test]
    fn the_only_account_of_a_cluster_need_not_be_named() {
        let cluster = |accounts: &str| -> NatsCluster {
            serde_json::from_str(&format!(
                r#"{{"apiVersion":"myelin.dev/v1alpha1","kind":"NatsCluster","metadata":{{"name":"c"}},"spec":{{"auth":{accounts}}}}}"#
            ))
            .unwrap()
        };
        let one = cluster(r#"{"accounts":[{"name":"A"}]}"#);
        assert_eq!(account_of(&one, "").unwrap().as_deref(), Some("A"));
        assert_eq!(account_of(&one, "A").unwrap().as_deref(), Some("A"));
        assert!(account_of(&one, "SYS").is_err());
        let two = cluster(r#"{"accounts":[{"name":"A"},{"name":"B"}]}"#);
        assert!(account_of(&two, "").is_err());
        assert_eq!(account_of(&two, "B").unwrap().as_deref(), Some("B"));
        assert_eq!(account_of(&cluster(r#"{"mode":"None","allowAnonymous":true}"#), "").unwrap(), None);
    }
}
