//! Where the operator looks: everywhere, or in the namespaces it was given.

use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource};

use crate::settings::Settings;

/// What to watch apart: each namespace that is to be looked after, or all of them at once, which is `None`.
#[must_use]
pub fn scopes(settings: &Settings) -> Vec<Option<String>> {
    let namespaces = &settings.watch_namespaces;
    if namespaces.is_empty() { vec![None] } else { namespaces.iter().cloned().map(Some).collect() }
}

/// Objects of a kind, or only their metadata, in a namespace or in all.
#[must_use]
pub fn api<K>(client: &Client, scope: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match scope {
        None => Api::all(client.clone()),
        Some(namespace) => Api::namespaced(client.clone(), namespace),
    }
}
