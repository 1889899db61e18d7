//! Rules of exports and imports between accounts: who may import what, and that nothing goes round in circles.

use std::collections::BTreeSet;

use subject::Transform;
use subject::transform::{numbered, pattern};

use crate::options::{Account, Export, ExportKind, Import, ImportKind};

/// Accounts that a search for a cycle goes through, at most.
const CYCLE_DEPTH_MAX: usize = 1024;

const CYCLE: &str = "import forms a cycle";
const INVALID_SUBJECT: &str = "invalid subject";

/// Everything that is wrong, as texts.
pub(super) fn check(accounts: &[Account]) -> Vec<String> {
    let mut errors = Vec::new();
    for account in accounts {
        for export in &account.exports {
            check_export(accounts, account, export, &mut errors);
        }
    }
    // Without exports that hold, every import would be at fault.
    if !errors.is_empty() {
        return errors;
    }
    // Those that were found right; a cycle is the fault of the import that closes it.
    let mut accepted: Vec<(&str, &Import)> = Vec::new();
    for wants_streams in [true, false] {
        for account in accounts {
            let imports = account.imports.iter();
            for import in imports.filter(|import| (import.kind == ImportKind::Stream) == wants_streams) {
                match check_import(accounts, account, import, &accepted) {
                    Ok(()) => accepted.push((&account.name, import)),
                    Err(error) => errors.push(error),
                }
            }
        }
    }
    errors
}

fn name(kind: ExportKind) -> &'static str {
    if kind == ExportKind::Stream { "stream" } else { "service" }
}

fn check_export(accounts: &[Account], account: &Account, export: &Export, errors: &mut Vec<String>) {
    let kind = name(export.kind);
    for approved in export.accounts.iter().flatten() {
        if !accounts.iter().any(|account| account.name == *approved) {
            errors.push(format!("{approved:?} account not defined for {kind} export"));
        }
    }
    let subject = export.subject.as_bytes();
    let is_position_wrong = export
        .account_token_position
        .is_some_and(|position| subject::tokens(subject).nth(position as usize - 1) != Some(b"*".as_slice()));
    // The reference takes any text here, and nobody can import it.
    if is_position_wrong || !subject::is_valid(subject) {
        errors.push(format!("Error adding {kind} export {:?}: {INVALID_SUBJECT}", export.subject));
    }
    let same = |other: &&Export| other.subject == export.subject && name(other.kind) == kind;
    let is_first = account.exports.iter().find(same).is_some_and(|first| std::ptr::eq(first, export));
    if !is_first {
        let message = format!("Error adding {kind} export {:?}: {kind} exported twice", export.subject);
        errors.push(message);
    }
}

fn check_import(
    accounts: &[Account],
    account: &Account,
    import: &Import,
    accepted: &[(&str, &Import)],
) -> Result<(), String> {
    let kind = if import.kind == ImportKind::Stream { "stream" } else { "service" };
    let Some(exporter) = accounts.iter().find(|other| other.name == import.account) else {
        return Err(format!("{:?} account not defined for {kind} import", import.account));
    };
    let result = if import.kind == ImportKind::Stream {
        check_stream(accounts, account, exporter, import, accepted)
    } else {
        check_service(account, exporter, import, accepted)
    };
    result.map_err(|error| format!("Error adding {kind} import {:?}: {error}", import.subject))
}

/// May `importer` import this subject?
fn is_authorized(exporter: &Account, importer: &str, subject: &str, kind: &str) -> bool {
    let of_kind = || exporter.exports.iter().filter(|export| name(export.kind) == kind);
    let exact = of_kind().find(|export| export.subject == subject);
    let covering =
        || of_kind().find(|export| subject::is_subset(subject.as_bytes(), export.subject.as_bytes()));
    let Some(export) = exact.or_else(covering) else { return false };
    if let Some(position) = export.account_token_position {
        // The subject must spell the name out: the export itself, with its wildcard, does not.
        return subject::tokens(subject.as_bytes()).nth(position as usize - 1) == Some(importer.as_bytes());
    }
    export.accounts.as_ref().is_none_or(|approved| approved.iter().any(|name| name == importer))
}

fn check_stream(
    accounts: &[Account],
    account: &Account,
    exporter: &Account,
    import: &Import,
    accepted: &[(&str, &Import)],
) -> Result<(), String> {
    if !subject::is_valid(import.subject.as_bytes()) {
        return Err(INVALID_SUBJECT.into());
    }
    if !is_authorized(exporter, &account.name, &import.subject, "stream") {
        return Err("stream import not authorized".into());
    }
    let search = StreamSearch { accounts, accepted };
    for subject in [import.local.as_bytes(), import.subject.as_bytes()] {
        let mut visited = BTreeSet::from([account.name.as_str()]);
        search.visit(exporter, subject.to_vec(), &mut visited)?;
    }
    let local = pattern(import.local.as_bytes());
    if !subject::is_valid(&local) {
        return Err(INVALID_SUBJECT.into());
    }
    if subject::has_wildcard(import.subject.as_bytes()) {
        if import.local != import.subject {
            let destination = numbered(import.local.as_bytes());
            Transform::reversible(import.subject.as_bytes(), &destination).map_err(|error| {
                format!(
                    "failed to create mapping transform for stream import subject from {:?} to {:?}: {error}",
                    import.subject, import.local
                )
            })?;
        }
    } else if subject::has_wildcard(&local) {
        return Err(INVALID_SUBJECT.into());
    }
    let is_twice = accepted.iter().any(|(name, other)| {
        *name == account.name
            && other.kind == ImportKind::Stream
            && (&other.account, &other.subject) == (&import.account, &import.subject)
    });
    if is_twice { Err("stream import already exists".into()) } else { Ok(()) }
}

fn check_service(
    account: &Account,
    exporter: &Account,
    import: &Import,
    accepted: &[(&str, &Import)],
) -> Result<(), String> {
    let (local, subject) = (import.local.as_bytes(), import.subject.as_bytes());
    if !subject::is_valid(local) || !subject::is_valid(subject) {
        return Err(INVALID_SUBJECT.into());
    }
    if !is_authorized(exporter, &account.name, &import.subject, "service") {
        return Err("service import not authorized".into());
    }
    let has_wildcard = subject::has_wildcard(subject);
    let from = if has_wildcard { pattern(local) } else { local.to_vec() };
    let mut visited = BTreeSet::from([account.name.as_str()]);
    visit_services(&exporter.name, from, accepted, &mut visited)?;
    if has_wildcard && import.local != import.subject {
        Transform::reversible(subject, &numbered(local)).and_then(|there| there.reverse()).map_err(|error| {
            format!(
                "failed to create mapping transform for service import subject from {:?} to {:?}: {error}",
                import.local, import.subject
            )
        })?;
    }
    Ok(())
}

/// Follows what reaches `name` under `from` through its own imports of services.
fn visit_services<'a>(
    name: &'a str,
    from: Vec<u8>,
    accepted: &[(&'a str, &'a Import)],
    visited: &mut BTreeSet<&'a str>,
) -> Result<(), String> {
    if visited.len() >= CYCLE_DEPTH_MAX {
        return Err("search cycle depth exhausted".into());
    }
    let own = accepted.iter().filter(|(of, import)| *of == name && import.kind != ImportKind::Stream);
    for (_, import) in own {
        // The names compared are the ones of the reference. What gets past them does no harm: a message never goes
        // through one export twice.
        if !subject::overlaps(&from, import.subject.as_bytes()) {
            continue;
        }
        let local = pattern(import.local.as_bytes());
        if visited.contains(import.account.as_str()) {
            return Err(CYCLE.into());
        }
        visited.insert(name);
        let next = if subject::is_subset(&local, &from) { local } else { from.clone() };
        visit_services(&import.account, next, accepted, visited)?;
    }
    Ok(())
}

/// Follows the messages of a stream back to where they come from.
struct StreamSearch<'a> {
    accounts: &'a [Account],
    accepted: &'a [(&'a str, &'a Import)],
}

impl<'a> StreamSearch<'a> {
    fn visit(
        &self,
        account: &'a Account,
        to: Vec<u8>,
        visited: &mut BTreeSet<&'a str>,
    ) -> Result<(), String> {
        if visited.len() >= CYCLE_DEPTH_MAX {
            return Err("search cycle depth exhausted".into());
        }
        let mut exports = account.exports.iter().filter(|export| export.kind == ExportKind::Stream);
        if !exports.any(|export| subject::is_subset(&to, export.subject.as_bytes())) {
            return Ok(());
        }
        let own = self.accepted.iter();
        for (_, import) in
            own.filter(|(name, import)| *name == account.name && import.kind == ImportKind::Stream)
        {
            let local = pattern(import.local.as_bytes());
            if !subject::overlaps(&to, &local) {
                continue;
            }
            if visited.contains(import.account.as_str()) {
                return Err(CYCLE.into());
            }
            visited.insert(&account.name);
            let Some(next) = self.accounts.iter().find(|other| other.name == import.account) else {
                continue;
            };
            let subject = if subject::is_subset(&local, &to) { local } else { to.clone() };
            self.visit(next, subject, visited)?;
        }
        Ok(())
    }
}
