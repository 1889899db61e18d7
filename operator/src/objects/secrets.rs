//! Secrets and the ConfigMap of a cluster.

use std::collections::BTreeMap;

use crd::annotation;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::identity::Identity;

/// Key of the configuration inside its Secret, and name of the file in the pod.
pub const CONFIG_KEY: &str = "nats.conf";

/// Key of the certificates that servers of the cluster may show to the operator. Not mounted into pods.
pub const KNOWN_KEY: &str = "known.crt";

/// The configuration of the servers with the two hashes that drive reload and restart, and the certificates by which
/// the operator recognises them.
#[must_use]
pub fn config(
    identity: &Identity,
    text: &str,
    known: &str,
    (config_hash, restart_hash): (&str, &str),
) -> Secret {
    let mut metadata = identity.owned(identity.config());
    metadata.annotations = Some(BTreeMap::from([
        (annotation::CONFIG_HASH.to_owned(), config_hash.to_owned()),
        (annotation::RESTART_HASH.to_owned(), restart_hash.to_owned()),
    ]));
    Secret {
        metadata,
        type_: Some("Opaque".to_owned()),
        data: Some(data([(CONFIG_KEY, text), (KNOWN_KEY, known)])),
        ..Secret::default()
    }
}

/// The certificate authority of a cluster.
#[must_use]
pub fn authority(identity: &Identity, certificate: &str, key: &str) -> Secret {
    Secret {
        metadata: identity.retainable(identity.authority()),
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(data([("tls.crt", certificate), ("tls.key", key)])),
        ..Secret::default()
    }
}

/// The authority's certificate for clients to trust.
#[must_use]
pub fn authority_bundle(identity: &Identity, certificate: &str) -> ConfigMap {
    ConfigMap {
        metadata: identity.owned(identity.authority_bundle()),
        data: Some(BTreeMap::from([("ca.crt".to_owned(), certificate.to_owned())])),
        ..ConfigMap::default()
    }
}

/// The certificate of a listener.
#[must_use]
pub fn certificate(
    identity: &Identity,
    listener: &str,
    certificate: &str,
    key: &str,
    authority: &str,
) -> Secret {
    Secret {
        metadata: identity.owned(identity.certificate(listener)),
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(data([("tls.crt", certificate), ("tls.key", key), ("ca.crt", authority)])),
        ..Secret::default()
    }
}

/// The operator's own password on the cluster, and the seed of the salts of all passwords in its configuration.
#[must_use]
pub fn operator(identity: &Identity, username: &str, password: &str, salt: &str) -> Secret {
    Secret {
        metadata: identity.retainable(identity.operator()),
        type_: Some("Opaque".to_owned()),
        data: Some(data([("username", username), ("password", password), ("salt", salt)])),
        ..Secret::default()
    }
}

fn data<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, ByteString> {
    entries.map(|(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec()))).into()
}

/// A key of a Secret as text.
#[must_use]
pub fn text(secret: &Secret, key: &str) -> Option<String> {
    String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok()
}
