//! The table of options as a page of Markdown.

use std::fmt::Write;

use super::{Section, keys};

/// Sections in the order of the page, with their titles.
const SECTIONS: &[(Section, &str)] = &[
    (Section::Top, "Top level"),
    (Section::Authorization, "`authorization`"),
    (Section::User, "An entry of `users`"),
    (Section::Permissions, "`permissions`"),
    (Section::SubjectPermission, "`publish` and `subscribe` as a map"),
    (Section::Responses, "`allow_responses` as a map"),
    (Section::Account, "An account of `accounts`"),
    (Section::AccountLimits, "`limits` of an account"),
    (Section::Export, "An entry of `exports`"),
    (Section::Import, "An entry of `imports`"),
    (Section::ImportSource, "`stream` or `service` of an import"),
    (Section::Destination, "A destination of `mappings`, as a map"),
    (Section::AccountJetStream, "`jetstream` of an account, as a map"),
    (Section::JetStream, "`jetstream` as a map"),
    (Section::JetStreamLimits, "`limits` of `jetstream`"),
    (Section::JetStreamBatch, "`batch` in these limits"),
    (Section::Tls, "`tls`"),
    (Section::Certificate, "An entry of `certs`"),
    (Section::Cluster, "`cluster`"),
    (Section::ClusterAuthorization, "`authorization` of the cluster"),
    (Section::Compression, "`compression` of the cluster, as a map"),
];

const PREFACE: &str = "\
# Options

Made from the table in `crates/config/src/schema`; do not edit.

Keys are read in any case. *Reload* says what a change asks for: **hot** is applied by a reload, **restart** makes a
reload fail until the server starts anew, and a key inside a block without an entry is as the block.
";

/// The option reference.
pub fn reference() -> String {
    let mut page = PREFACE.to_owned();
    for (section, title) in SECTIONS {
        // Writing to a string cannot fail.
        let _ = write!(
            page,
            "\n## {title}\n\n| Key | Type | Default | Reload | Meaning |\n|---|---|---|---|---|\n"
        );
        for key in keys().filter(|key| key.section == *section && key.is_supported && !key.kind.is_empty()) {
            let names: Vec<String> =
                std::iter::once(&key.name).chain(key.aliases).map(|name| format!("`{name}`")).collect();
            let class = key.class.map(|class| class.to_string()).unwrap_or_default();
            let (names, kind, default, summary) = (names.join(", "), key.kind, key.default, key.summary);
            let _ = writeln!(page, "| {names} | {kind} | {default} | {class} | {summary} |");
        }
        let absent: Vec<String> = keys()
            .filter(|key| key.section == *section && !key.is_supported)
            .map(|key| format!("`{}`", key.name))
            .collect();
        if !absent.is_empty() {
            let _ = writeln!(page, "\nRefused by this version unless off or empty: {}.", absent.join(", "));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_is_on_the_page() {
        for key in keys() {
            assert!(
                SECTIONS.iter().any(|(section, _)| *section == key.section),
                "{:?} is missing",
                key.section
            );
        }
    }
}
