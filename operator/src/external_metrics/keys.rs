//! What the operator shows the API server: a certificate of an authority of its own, which it writes into the APIService.
//!
//! All replicas share one Secret, which the chart brings empty, so that it goes with the release. The first fills it, the others read it, and
//! whoever comes too late for a change reads it again.

use std::collections::BTreeMap;

use crd::rbac::EXTERNAL_METRICS_SERVICE;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::api::ObjectMeta;

use super::front::Front;
use crate::cluster::tls::{self, KeyedCertificate};
use crate::context::Context;
use crate::error::Error;
use crate::objects::secrets;

/// Where the API server says how it is known.
const FRONT: (&str, &str) = ("kube-system", "extension-apiserver-authentication");
/// Keys of the Secret: the authority with its key, the certificate with its key.
const KEYS: [&str; 4] = ["ca.crt", "ca.key", "tls.crt", "tls.key"];

/// Authority and certificate.
pub struct Keys {
    /// The authority.
    pub authority: KeyedCertificate,
    /// What is shown.
    pub shown: KeyedCertificate,
}

/// How the API server is known.
///
/// # Errors
/// When it does not answer, or does not say.
pub async fn front(context: &Context) -> Result<Front, Error> {
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), FRONT.0);
    Front::of(&maps.get(FRONT.1).await?.data.unwrap_or_default())
}

/// The keys of the Secret, which is made, or made again, when there is none or its certificate ends soon.
///
/// # Errors
/// When the API server does not answer, or somebody else was quicker: the next try finds what they wrote.
pub async fn ensure(context: &Context, now: Timestamp) -> Result<Keys, Error> {
    let settings = &context.settings;
    let (namespace, service) = (&settings.pod_namespace, &settings.external_metrics_service);
    let names = vec![format!("{service}.{namespace}.svc")];
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    let live = secrets.get_opt(service).await?;
    let found = live.as_ref().and_then(read);
    let keys = match found {
        Some(keys)
            if tls::read(&keys.authority.certificate).is_ok_and(|ca| !tls::ends_soon(ca.not_after, now)) =>
        {
            if !tls::needs_renewal(&keys.shown.certificate, &names, now) {
                return Ok(keys);
            }
            let shown = tls::issue(&keys.authority, &names, now)?;
            Keys { shown, ..keys }
        }
        _ => {
            let authority = tls::new_authority(service, now)?;
            let shown = tls::issue(&authority, &names, now)?;
            Keys { authority, shown }
        }
    };
    let metadata = ObjectMeta {
        name: Some(service.clone()),
        // With it a write is refused when somebody else was quicker.
        resource_version: live.as_ref().and_then(|secret| secret.metadata.resource_version.clone()),
        ..ObjectMeta::default()
    };
    let secret = Secret { metadata, data: Some(data(&keys)), ..Secret::default() };
    match live {
        Some(_) => context.writer.apply(namespace, &secret).await?,
        None => context.writer.create(namespace, &secret).await?,
    };
    Ok(keys)
}

fn data(keys: &Keys) -> BTreeMap<String, ByteString> {
    let texts = [&keys.authority.certificate, &keys.authority.key, &keys.shown.certificate, &keys.shown.key];
    KEYS.iter()
        .zip(texts)
        .map(|(key, text)| ((*key).to_owned(), ByteString(text.clone().into_bytes())))
        .collect()
}

fn read(secret: &Secret) -> Option<Keys> {
    let text = |key: &str| secrets::text(secret, key);
    Some(Keys {
        authority: KeyedCertificate { certificate: text(KEYS[0])?, key: text(KEYS[1])? },
        shown: KeyedCertificate { certificate: text(KEYS[2])?, key: text(KEYS[3])? },
    })
}

/// Tells the API server whom to believe, if its APIService leads to us. True when it does.
///
/// # Errors
/// When the API server does not answer, or there is no APIService.
pub async fn announce(context: &Context, authority: &str) -> Result<bool, Error> {
    let services: Api<APIService> = Api::all(context.client.clone());
    let live = services.get(EXTERNAL_METRICS_SERVICE).await?;
    let spec = live.spec.unwrap_or_default();
    let settings = &context.settings;
    let ours = spec.service.as_ref().is_some_and(|service| {
        service.name.as_ref() == Some(&settings.external_metrics_service)
            && service.namespace.as_ref() == Some(&settings.pod_namespace)
    });
    if !ours {
        return Ok(false);
    }
    if spec.ca_bundle.as_ref().is_none_or(|bundle| bundle.0 != authority.as_bytes()) {
        let bundle = ByteString(authority.as_bytes().to_vec());
        let version = live.metadata.resource_version;
        let change =
            serde_json::json!({ "metadata": { "resourceVersion": version }, "spec": { "caBundle": bundle } });
        context.writer.api_service(EXTERNAL_METRICS_SERVICE, &change).await?;
    }
    Ok(true)
}
