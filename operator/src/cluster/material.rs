//! Secrets that a configuration is made of: generated ones are made once, named ones are read.

use std::collections::BTreeMap;
use std::sync::Arc;

use crd::NatsCluster;
use crd::nats_cluster::auth::AuthMode;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt};

use super::credentials::{self, OPERATOR_USER, manager_password, manager_user, without_line_end};
use super::files::{self, TlsFiles};
use super::observe::Observed;
use super::render::{self, Login, RouteLogin};
use super::tls::{self, KeyedCertificate};
use crate::context::Context;
use crate::error::Error;
use crate::nats::trust;
use crate::objects::identity::Identity;
use crate::objects::secrets::{self, text};

/// Everything secret that the configuration needs.
pub struct Material {
    /// The operator's own login.
    pub operator: Login,
    /// bcrypt of each user's password.
    pub passwords: BTreeMap<String, String>,
    /// Login of routes.
    pub routes: Option<RouteLogin>,
    /// Where certificates lie.
    pub tls: Vec<TlsFiles>,
    /// Hash of the certificates' content.
    pub certificates_hash: String,
    /// The authority's certificate, when there is an authority.
    pub authority: Option<String>,
    /// Keys of encryption at rest: the present one and the one before.
    pub store_keys: (Option<String>, Option<String>),
}

/// Makes what is missing and reads what is named. Updates `observed` with what it made.
///
/// # Errors
/// When a named Secret is not there, or the API server does not answer.
pub async fn gather(
    context: &Context,
    identity: &Identity,
    cluster: &NatsCluster,
    observed: &mut Observed,
    now: Timestamp,
) -> Result<Material, Error> {
    let operator = operator_secret(context, identity, observed).await?;
    let authority = issue_certificates(context, identity, observed, now).await?;
    let field = |key: &str| text(&operator, key).ok_or_else(|| missing(&operator.name_any(), key));
    let (user, password, seed) = (field("username")?, field("password")?, field("salt")?);
    let mut plain = user_passwords(context, identity, cluster).await?;
    if cluster.spec.auth.mode == AuthMode::Config {
        for account in &cluster.spec.auth.accounts {
            plain.insert(manager_user(&account.name), manager_password(&password, &account.name));
        }
    }
    plain.insert(user.clone(), password);
    let mut passwords = hash_all(context, seed, plain).await?;
    let hash = passwords.remove(&user).ok_or(Error::Incomplete("the operator's password"))?;
    let certificates_hash = certificates_hash(observed)?;
    Ok(Material {
        operator: Login { user, hash },
        passwords,
        routes: route_login(context, identity, cluster).await?,
        tls: observed.certificates.iter().map(|(files, _)| files.clone()).collect(),
        certificates_hash,
        authority,
        store_keys: store_keys(context, identity, cluster).await?,
    })
}

fn missing(secret: &str, key: &str) -> Error {
    Error::Secret {
        name: secret.to_owned(),
        problem: format!("has no key `{key}`: add it or correct the name"),
    }
}

/// The operator's own password and the seed of all salts, made at the first pass.
async fn operator_secret(
    context: &Context,
    identity: &Identity,
    observed: &mut Observed,
) -> Result<Secret, Error> {
    if let Some(secret) = &observed.operator {
        return Ok(secret.clone());
    }
    let fresh =
        secrets::operator(identity, OPERATOR_USER, &credentials::generate(), &credentials::generate());
    let created = context.writer.create(&identity.namespace, &fresh).await?;
    observed.operator = Some(created.clone());
    Ok(created)
}

/// Makes the authority and the certificates that it has to issue. Returns the authority's certificate.
async fn issue_certificates(
    context: &Context,
    identity: &Identity,
    observed: &mut Observed,
    now: Timestamp,
) -> Result<Option<String>, Error> {
    if !observed.certificates.iter().any(|(files, _)| files.builtin) {
        return Ok(None);
    }
    let authority = authority(context, identity, observed, now).await?;
    let domain = &context.settings.cluster_domain;
    for (files, secret) in observed.certificates.iter_mut().filter(|(files, _)| files.builtin) {
        let names = names(identity, files.listener, domain);
        let current = secret.as_ref().and_then(|secret| text(secret, "tls.crt"));
        let signed_by = secret.as_ref().and_then(|secret| text(secret, "ca.crt"));
        let keep = current.is_some_and(|pem| !tls::needs_renewal(&pem, &names, now))
            && signed_by.as_deref() == Some(authority.certificate.as_str());
        if keep {
            continue;
        }
        let issued = tls::issue(&authority, &names, now)?;
        let wanted = secrets::certificate(
            identity,
            files.listener,
            &issued.certificate,
            &issued.key,
            &authority.certificate,
        );
        *secret = Some(context.writer.apply(&identity.namespace, &wanted).await?);
    }
    Ok(Some(authority.certificate))
}

async fn authority(
    context: &Context,
    identity: &Identity,
    observed: &mut Observed,
    now: Timestamp,
) -> Result<KeyedCertificate, Error> {
    if observed.authority.is_none() {
        let made = tls::new_authority(&identity.name, now)?;
        let fresh = secrets::authority(identity, &made.certificate, &made.key);
        observed.authority = Some(context.writer.create(&identity.namespace, &fresh).await?);
    }
    let secret = observed.authority.as_ref().ok_or(Error::Incomplete("certificate authority"))?;
    let field = |key: &str| text(secret, key).ok_or_else(|| missing(&identity.authority(), key));
    Ok(KeyedCertificate { certificate: field("tls.crt")?, key: field("tls.key")? })
}

/// Names that the certificate of a listener is for.
#[must_use]
pub fn names(identity: &Identity, listener: &str, domain: &str) -> Vec<String> {
    let namespace = &identity.namespace;
    let headless = identity.headless();
    let mut names =
        vec![format!("*.{headless}.{namespace}.svc"), format!("*.{headless}.{namespace}.svc.{domain}")];
    if listener == files::CLIENTS {
        let name = &identity.name;
        names.extend([
            name.clone(),
            format!("{name}.{namespace}"),
            format!("{name}.{namespace}.svc"),
            format!("{name}.{namespace}.svc.{domain}"),
            "localhost".to_owned(),
        ]);
    }
    names
}

/// The passwords of all users, as they lie in their Secrets.
async fn user_passwords(
    context: &Context,
    identity: &Identity,
    cluster: &NatsCluster,
) -> Result<BTreeMap<String, String>, Error> {
    let mut passwords = BTreeMap::new();
    if cluster.spec.auth.mode != AuthMode::Config {
        return Ok(passwords);
    }
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &identity.namespace);
    let mut read: BTreeMap<&str, Secret> = BTreeMap::new();
    for user in cluster.spec.auth.accounts.iter().flat_map(|account| &account.users) {
        let reference = &user.password_secret_ref;
        if !read.contains_key(reference.name.as_str()) {
            read.insert(&reference.name, named(&api, &reference.name).await?);
        }
        let password = text(&read[reference.name.as_str()], &reference.key)
            .ok_or_else(|| missing(&reference.name, &reference.key))?;
        passwords.insert(user.name.clone(), without_line_end(&password).to_owned());
    }
    Ok(passwords)
}

async fn named(api: &Api<Secret>, name: &str) -> Result<Secret, Error> {
    api.get_opt(name).await?.ok_or_else(|| Error::Secret {
        name: name.to_owned(),
        problem: "does not exist: create it or correct the name".to_owned(),
    })
}

/// bcrypt is slow on purpose, so it runs where it holds up nobody.
async fn hash_all(
    context: &Context,
    seed: String,
    plain: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, Error> {
    let hasher = Arc::clone(&context.hasher);
    let cost = context.settings.password_cost;
    let work = move || {
        plain
            .into_iter()
            .map(|(user, password)| {
                let hash = hasher.hash(&seed, &user, &password, cost)?;
                Ok((user, hash))
            })
            .collect()
    };
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Error::Password { user: "all".to_owned(), problem: error.to_string() })?
}

async fn route_login(
    context: &Context,
    identity: &Identity,
    cluster: &NatsCluster,
) -> Result<Option<RouteLogin>, Error> {
    let Some(reference) = &cluster.spec.routes.auth_secret_ref else {
        return Ok(None);
    };
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &identity.namespace);
    let secret = named(&api, &reference.name).await?;
    let field = |key: &str| {
        text(&secret, key)
            .map(|value| without_line_end(&value).to_owned())
            .ok_or_else(|| missing(&reference.name, key))
    };
    Ok(Some(RouteLogin { user: field(&reference.username_key)?, password: field(&reference.password_key)? }))
}

/// The keys of encryption at rest, as they lie in their Secrets.
async fn store_keys(
    context: &Context,
    identity: &Identity,
    cluster: &NatsCluster,
) -> Result<(Option<String>, Option<String>), Error> {
    let Some(encryption) = cluster.jetstream().and_then(|jetstream| jetstream.encryption.as_ref()) else {
        return Ok((None, None));
    };
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &identity.namespace);
    let mut keys = [None, None];
    let references = [Some(&encryption.key_secret_ref), encryption.previous_key_secret_ref.as_ref()];
    for (key, reference) in keys.iter_mut().zip(references) {
        let Some(reference) = reference else { continue };
        let secret = named(&api, &reference.name).await?;
        let text = text(&secret, &reference.key).ok_or_else(|| missing(&reference.name, &reference.key))?;
        let text = without_line_end(&text);
        if text.is_empty() {
            let problem = format!("has an empty key `{}`", reference.key);
            return Err(Error::BadSecret { name: reference.name.clone(), problem });
        }
        *key = Some(text.to_owned());
    }
    let [key, previous] = keys;
    Ok((key, previous))
}

/// Hash of every file that servers read beside the configuration itself.
fn certificates_hash(observed: &Observed) -> Result<String, Error> {
    let mut parts = Vec::new();
    for (files, secret) in &observed.certificates {
        let Some(secret) = secret else {
            return Err(Error::Secret {
                name: files.secret.clone(),
                problem: "does not exist: create it or correct the name".to_owned(),
            });
        };
        let field = |key: &str| text(secret, key).ok_or_else(|| missing(&files.secret, key));
        let (chain, key) = (field(&files.cert_key)?, field(&files.key_key)?);
        let authority = files.ca_key.as_deref().map(field).transpose()?;
        // What a server could not load must not reach it: it would not start again.
        trust::client_config(authority.as_deref(), "", &chain, &key)
            .map_err(|error| Error::BadSecret { name: files.secret.clone(), problem: error.to_string() })?;
        parts.extend([chain, key]);
        parts.extend(authority);
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    Ok(render::hash(&parts))
}
