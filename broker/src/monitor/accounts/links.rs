//! What accounts give to and take from each other, and their mappings, as `/accountz` shows them: what is configured.

use std::collections::BTreeMap;

use api::monitor::{AccountExport, AccountImport, AccountMapping};
use config::options::{Destination, Export, ExportKind, Import, ImportKind, Mapping, ResponseType};

const STREAM: &str = "stream";
const SERVICE: &str = "service";

/// Exports: services first.
pub(super) fn exports(exports: &[Export]) -> Vec<AccountExport> {
    let mut shown: Vec<_> = exports.iter().map(export).collect();
    shown.sort_by_key(|export| export.kind == STREAM);
    shown
}

fn export(export: &Export) -> AccountExport {
    let (kind, response_type) = match export.kind {
        ExportKind::Stream => (STREAM, ""),
        ExportKind::Service { response: ResponseType::Singleton, .. } => (SERVICE, "Singleton"),
        ExportKind::Service { response: ResponseType::Stream, .. } => (SERVICE, "Streamed"),
        ExportKind::Service { response: ResponseType::Chunked, .. } => (SERVICE, "Chunked"),
    };
    AccountExport {
        subject: export.subject.clone(),
        kind: kind.to_owned(),
        response_type: response_type.to_owned(),
        approved_accounts: export.accounts.clone().unwrap_or_default(),
    }
}

/// Imports: streams first. A server does not start with one that is not allowed.
pub(super) fn imports(imports: &[Import]) -> Vec<AccountImport> {
    let mut shown: Vec<_> = imports.iter().map(import).collect();
    shown.sort_by_key(|import| import.kind == SERVICE);
    shown
}

fn import(import: &Import) -> AccountImport {
    let shown = AccountImport {
        subject: import.subject.clone(),
        account: import.account.clone(),
        local_subject: with_wildcards(&import.local),
        ..AccountImport::default()
    };
    match import.kind {
        ImportKind::Stream => AccountImport { kind: STREAM.to_owned(), ..shown },
        ImportKind::Service { share } => {
            AccountImport { to: shown.local_subject.clone(), kind: SERVICE.to_owned(), share, ..shown }
        }
    }
}

/// A destination as the subjects that it leads to.
fn with_wildcards(local: &str) -> String {
    let tokens = local.split('.').map(|token| match token.strip_prefix('$') {
        Some(number) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => "*",
        _ if token.starts_with("{{") => "*",
        _ => token,
    });
    tokens.collect::<Vec<_>>().join(".")
}

/// Mappings by source, those for all clusters first.
pub(super) fn mappings(mappings: &[Mapping]) -> BTreeMap<String, Vec<AccountMapping>> {
    let each = mappings.iter().map(|mapping| (mapping.source.clone(), destinations(mapping)));
    each.collect()
}

fn destinations(mapping: &Mapping) -> Vec<AccountMapping> {
    let mut by_cluster: BTreeMap<Option<&str>, Vec<&Destination>> = BTreeMap::new();
    for destination in &mapping.destinations {
        by_cluster.entry(destination.cluster.as_deref()).or_default().push(destination);
    }
    let mut shown = Vec::new();
    for (cluster, mut destinations) in by_cluster {
        destinations.sort_by_key(|destination| destination.weight);
        let cluster = cluster.unwrap_or_default().to_owned();
        let mut sum = 0u8;
        let has_source = destinations.iter().any(|destination| destination.subject == mapping.source);
        for destination in destinations {
            sum = sum.saturating_add(destination.weight);
            shown.push(AccountMapping {
                subject: destination.subject.clone(),
                weight: sum,
                cluster: cluster.clone(),
            });
        }
        if sum < 100 && !has_source {
            // What is left stays where it was published.
            shown.push(AccountMapping { subject: mapping.source.clone(), weight: 100, cluster });
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_shown_as_wildcards() {
        for (local, shown) in
            [("a.b", "a.b"), ("zz.$2.$1", "zz.*.*"), ("$JS.API.>", "$JS.API.>"), ("$.{{wildcard(1)}}", "$.*")]
        {
            assert_eq!(with_wildcards(local), shown);
        }
    }

    #[test]
    fn weights_add_up_and_the_rest_stays() {
        let destination = |subject: &str, weight, cluster: Option<&str>| Destination {
            subject: subject.to_owned(),
            weight,
            cluster: cluster.map(str::to_owned),
        };
        let mapping = Mapping {
            source: "s".to_owned(),
            destinations: vec![
                destination("a", 40, None),
                destination("b", 30, None),
                destination("c", 100, Some("x")),
            ],
        };
        let shown: Vec<_> = destinations(&mapping)
            .into_iter()
            .map(|mapping| (mapping.subject, mapping.weight, mapping.cluster))
            .collect();
        let row = |subject: &str, weight, cluster: &str| (subject.to_owned(), weight, cluster.to_owned());
        assert_eq!(shown, [row("b", 30, ""), row("a", 70, ""), row("s", 100, ""), row("c", 100, "x")]);
    }
}
