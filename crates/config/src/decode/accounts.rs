//! `accounts`.

use super::authorization::{apply_default_permissions, decode_permissions, decode_users};
use super::field::Field;
use super::{Report, described, imports, jetstream, set};
use crate::diagnostic::Position;
use crate::lang::{Kind, Map};
use crate::options::{Account, AccountLimits, GLOBAL_ACCOUNT};
use crate::schema::Section;

/// Decodes `accounts`: a map, or a list of names.
pub(super) fn decode(field: &Field<'_>, report: &mut Report) -> Vec<Account> {
    match &field.value.kind {
        Kind::Map(map) => {
            let mut accounts = Vec::with_capacity(map.len());
            for (name, entry) in map {
                if entry.is_referenced && entry.value.as_map().is_none() {
                    // A variable that was set among the accounts.
                    continue;
                }
                check_name(name, &entry.key_position, report);
                let Some(map) = entry.value.as_map() else {
                    report.error(&entry.value.position, "Expected map entries for accounts");
                    continue;
                };
                accounts.push(decode_account(name, map, report));
            }
            accounts
        }
        Kind::Array(_) => decode_names(field, report),
        kind => {
            let found = described(kind);
            report.error(
                &field.value.position,
                format!("expected accounts to be a map or a list of names, got {found}"),
            );
            Vec::new()
        }
    }
}

fn decode_names(field: &Field<'_>, report: &mut Report) -> Vec<Account> {
    let mut accounts: Vec<Account> = Vec::new();
    for (name, position) in field.strings(report).unwrap_or_default() {
        check_name(name, position, report);
        if accounts.iter().any(|account| account.name == name) {
            report.error(position, format!("Duplicate Account Entry: {name}"));
            continue;
        }
        accounts.push(Account { name: name.into(), ..Account::default() });
    }
    accounts.sort_by(|one, other| one.name.cmp(&other.name));
    accounts
}

/// Routes carry account names between spaces, so a name with one would be read as two.
fn check_name(name: &str, position: &Position, report: &mut Report) {
    if name == GLOBAL_ACCOUNT {
        report.error(position, format!("\"{GLOBAL_ACCOUNT}\" is a Reserved Account"));
    } else if name.is_empty() {
        report.error(position, "account name cannot be empty");
    } else if name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        report.error(position, format!("account name \"{}\" cannot contain spaces", name.escape_debug()));
    }
}

fn decode_account(name: &str, map: &Map, report: &mut Report) -> Account {
    let mut account = Account { name: name.into(), ..Account::default() };
    for field in report.fields(Section::Account, map) {
        match field.name() {
            "users" => set(&mut account.users, decode_users(&field, report)),
            "default_permissions" => account.default_permissions = decode_permissions(field.value, report),
            "exports" => account.exports = imports::exports(&field, report),
            "imports" => account.imports = imports::imports(&field, report),
            "mappings" => account.mappings = imports::mappings(&field, report),
            "jetstream" => account.jetstream = jetstream::decode_account(&field, report),
            "limits" => decode_limits(&field, &mut account.limits, report),
            name => unreachable!("account key {name}"),
        }
    }
    apply_default_permissions(&mut account.users, account.default_permissions.as_ref());
    account
}

fn decode_limits(field: &Field<'_>, limits: &mut AccountLimits, report: &mut Report) {
    let Some(map) = field.value.as_map() else {
        let found = described(&field.value.kind);
        report
            .error(&field.value.position, format!("Expected account limits to be a map/struct, got {found}"));
        return;
    };
    for inner in report.fields(Section::AccountLimits, map) {
        let Some(number) = inner.integer(report) else { continue };
        let limit = match u32::try_from(number) {
            Ok(limit) => Some(limit),
            Err(_) if number < 0 => None,
            Err(_) => {
                report.error(&inner.value.position, format!("{} value is too big", inner.name()));
                continue;
            }
        };
        match inner.name() {
            "max_connections" => limits.max_connections = limit,
            "max_subscriptions" => limits.max_subscriptions = limit,
            "max_payload" => limits.max_payload = limit,
            _ => limits.max_leafnodes = limit,
        }
    }
}
