//! The tree to typed options: names, types and ranges of every key, with all errors collected.

mod accounts;
mod address;
mod authorization;
mod cluster;
mod field;
mod imports;
mod jetstream;
mod tls;
mod top;
mod variables;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub(crate) use address::{check_advertise, parse_host_port, parse_route_url};
use field::Field;
pub use variables::strip_variables;

use crate::diagnostic::{Diagnostic, Position};
use crate::lang::{Kind, Map, Value};
use crate::options::Options;
use crate::schema::{self, Section};

/// What was found wrong so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) errors: Vec<Diagnostic>,
    pub(crate) warnings: Vec<Diagnostic>,
}

impl Report {
    pub(crate) fn error(&mut self, position: &Position, message: impl Into<String>) {
        self.errors.push(Diagnostic::at(position, message));
    }

    pub(crate) fn warn(&mut self, position: &Position, message: impl Into<String>) {
        self.warnings.push(Diagnostic::at(position, message));
    }

    /// The known and supported entries of a map; the others are reported.
    fn fields<'a>(&mut self, section: Section, map: &'a Map) -> Vec<Field<'a>> {
        let mut fields = Vec::with_capacity(map.len());
        for (written, entry) in map {
            match schema::find(section, written) {
                Some(key) if key.is_supported => {
                    fields.push(Field { key, written, position: &entry.key_position, value: &entry.value });
                }
                Some(_) if is_switched_off(&entry.value) => {}
                Some(_) => {
                    self.error(
                        &entry.key_position,
                        format!("\"{written}\" is not supported in this version"),
                    );
                }
                // A key that holds the value of a variable needs no other meaning.
                None if entry.is_referenced => {}
                None => self.error(&entry.key_position, unknown_text(section, written)),
            }
        }
        fields
    }
}

/// Places of the keys of the outermost map, of `cluster` and of `jetstream`, by dotted path, for rules that span sections.
pub(crate) type Places = BTreeMap<String, Position>;

/// What decoding gives: options as far as they could be read, and what was wrong.
pub(crate) struct Decoded {
    pub(crate) options: Options,
    pub(crate) places: Places,
    pub(crate) report: Report,
}

/// Decodes the tree of a whole configuration.
pub(crate) fn decode(root: &Value) -> Decoded {
    let mut report = Report::default();
    let mut places = Places::new();
    let Kind::Map(map) = &root.kind else {
        report.error(&root.position, format!("a configuration is a map, not {}", described(&root.kind)));
        return Decoded { options: Options::default(), places, report };
    };
    for (written, entry) in map {
        let Some(key) = schema::find(Section::Top, written) else { continue };
        places.insert(key.name.into(), entry.key_position.clone());
        let section = match key.name {
            "cluster" => Section::Cluster,
            "jetstream" => Section::JetStream,
            _ => continue,
        };
        let Kind::Map(inner) = &entry.value.kind else { continue };
        for (written, entry) in inner {
            if let Some(inner) = schema::find(section, written) {
                places.insert(format!("{}.{}", key.name, inner.name), entry.key_position.clone());
            }
        }
    }
    let options = top::decode(map, &mut report);
    Decoded { options, places, report }
}

/// True if an option that this version lacks is only told to stay off, or holds nothing.
fn is_switched_off(value: &Value) -> bool {
    match &value.kind {
        Kind::Bool(value) => !value,
        Kind::Integer(number) => *number == 0,
        Kind::String(text) => text.is_empty() || text.eq_ignore_ascii_case("disabled"),
        Kind::Array(values) => values.is_empty(),
        Kind::Map(map) => map.is_empty(),
        Kind::Float(_) | Kind::Datetime(_) => false,
    }
}

fn unknown_text(section: Section, written: &str) -> String {
    match section {
        Section::Permissions | Section::Responses => {
            format!("Unknown field \"{written}\" parsing permissions")
        }
        Section::SubjectPermission => format!(
            "Unknown field name \"{written}\" parsing subject permissions, only 'allow' or 'deny' are permitted"
        ),
        Section::AccountLimits => format!("Unknown field \"{written}\" parsing account limits"),
        Section::Tls => format!("error parsing tls config, unknown field \"{written}\""),
        Section::Certificate => format!("error parsing tls certs config, unknown field \"{written}\""),
        Section::Destination => format!("Unknown field \"{written}\" for mapping destination"),
        _ => format!("unknown field \"{written}\""),
    }
}

/// A kind of value with its article.
fn described(kind: &Kind) -> String {
    let name = kind.name();
    let article = if name.starts_with(['a', 'i']) { "an" } else { "a" };
    format!("{article} {name}")
}

fn set<T>(slot: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *slot = value;
    }
}
