//! `exports`, `imports` and `mappings` of an account.

use std::time::Duration;

use subject::Transform;

use super::Report;
use super::field::Field;
use crate::diagnostic::Position;
use crate::duration;
use crate::lang::{Kind, Map, Value};
use crate::options::{
    Destination, Export, ExportKind, Import, ImportKind, Mapping, RESPONSE_THRESHOLD_DEFAULT, ResponseType,
};
use crate::schema::Section;

/// Decodes `exports`.
pub(super) fn exports(field: &Field<'_>, report: &mut Report) -> Vec<Export> {
    let maps = entries(field, ("Exports", "Export"), report);
    maps.into_iter().filter_map(|(map, position)| export(map, position, report)).collect()
}

/// Decodes `imports`.
pub(super) fn imports(field: &Field<'_>, report: &mut Report) -> Vec<Import> {
    let mut imports: Vec<Import> = Vec::new();
    for (map, position) in entries(field, ("Imports", "Import"), report) {
        let Some(import) = import(map, position, report) else { continue };
        let is_service = |import: &Import| matches!(import.kind, ImportKind::Service { .. });
        let twin = imports.iter().find(|other| {
            is_service(other)
                && is_service(&import)
                && (&other.local, &other.account) == (&import.local, &import.account)
        });
        if let Some(twin) = twin {
            let message = format!(
                "Duplicate service import subject {:?}, previously used in import for account {:?}, subject {:?}",
                import.local, twin.account, twin.subject
            );
            report.error(position, message);
            continue;
        }
        imports.push(import);
    }
    imports
}

/// The maps of a list, with their places.
fn entries<'a>(
    field: &Field<'a>,
    (list, item): (&str, &str),
    report: &mut Report,
) -> Vec<(&'a Map, &'a Position)> {
    let Kind::Array(values) = &field.value.kind else {
        let found = field.value.kind.name();
        report.error(&field.value.position, format!("{list} should be an array, got {found}"));
        return Vec::new();
    };
    let mut maps = Vec::with_capacity(values.len());
    for value in values {
        match value.as_map() {
            Some(map) => maps.push((map, &value.position)),
            None => {
                let found = value.kind.name();
                let message = format!("{item} Items should be a map with type entry, got {found}");
                report.error(&value.position, message);
            }
        }
    }
    maps
}

/// What an export says, before it is known what it is.
#[derive(Default)]
struct ExportParts<'a> {
    stream: Option<Field<'a>>,
    service: Option<Field<'a>>,
    accounts: Option<Vec<String>>,
    position: Option<u32>,
    response: Option<(ResponseType, &'a Position)>,
    threshold: Option<(Duration, &'a Position)>,
}

fn export(map: &Map, place: &Position, report: &mut Report) -> Option<Export> {
    let mut parts = ExportParts::default();
    for field in report.fields(Section::Export, map) {
        match field.name() {
            "stream" => parts.stream = Some(field),
            "service" => parts.service = Some(field),
            "accounts" => {
                // An empty list is no list.
                let names = field.strings(report).unwrap_or_default();
                let names: Vec<String> = names.into_iter().map(|(name, _)| name.into()).collect();
                parts.accounts = (!names.is_empty()).then_some(names);
            }
            "account_token_position" => {
                parts.position = field.unsigned(u32::MAX, report).filter(|position| *position > 0);
            }
            "response_type" => {
                parts.response = response(&field, report).map(|response| (response, field.position));
            }
            _ => parts.threshold = threshold(&field, report).map(|time| (time, field.position)),
        }
    }
    let (is_service, field) = match (parts.stream, parts.service) {
        (Some(_), Some(service)) => {
            let name = service.value.as_str().unwrap_or_default();
            let message = format!("Detected service {name:?} but already saw a stream");
            report.error(&service.value.position, message);
            return None;
        }
        (Some(stream), None) => (false, stream),
        (None, Some(service)) => (true, service),
        (None, None) => {
            report.error(place, "Expected a stream or a service");
            return None;
        }
    };
    let directive = parts.response.map(|(_, at)| at).or_else(|| parts.threshold.map(|(_, at)| at));
    if let (false, Some(at)) = (is_service, directive) {
        report.error(at, "Detected response directive on non-service");
        return None;
    }
    let Some(subject) = field.value.as_str() else {
        let (name, found) = (field.name(), field.value.kind.name());
        report.error(&field.value.position, format!("Expected {name} name to be string, got {found}"));
        return None;
    };
    let kind = if is_service {
        ExportKind::Service {
            response: parts.response.map(|(response, _)| response).unwrap_or_default(),
            threshold: parts.threshold.map_or(RESPONSE_THRESHOLD_DEFAULT, |(time, _)| time),
        }
    } else {
        ExportKind::Stream
    };
    Some(Export {
        kind,
        subject: subject.into(),
        accounts: parts.accounts,
        account_token_position: parts.position,
    })
}

fn response(field: &Field<'_>, report: &mut Report) -> Option<ResponseType> {
    let Some(name) = field.value.as_str() else {
        let found = field.value.kind.name();
        report.error(&field.value.position, format!("Expected response type to be string, got {found}"));
        return None;
    };
    let response = match name.to_ascii_lowercase().as_str() {
        "single" | "singleton" => Some(ResponseType::Singleton),
        "stream" => Some(ResponseType::Stream),
        "chunk" | "chunked" => Some(ResponseType::Chunked),
        _ => None,
    };
    if response.is_none() {
        report.error(&field.value.position, format!("Unknown response type: {name:?}"));
    }
    response
}

/// A threshold; 0 is the default.
fn threshold(field: &Field<'_>, report: &mut Report) -> Option<Duration> {
    let shown = match &field.value.kind {
        Kind::String(text) => match duration::parse(text) {
            Ok((false, time)) => return Some(time).filter(|time| !time.is_zero()),
            _ => format!("{text:?}"),
        },
        kind => kind.name().into(),
    };
    let message = format!("Expected response threshold to be a parseable time duration, got {shown}");
    report.error(&field.value.position, message);
    None
}

/// What an import says, before it is known what it is.
#[derive(Default)]
struct ImportParts<'a> {
    stream: Option<Field<'a>>,
    service: Option<Field<'a>>,
    prefix: Option<(String, &'a Position)>,
    to: Option<String>,
    share: bool,
}

fn import(map: &Map, place: &Position, report: &mut Report) -> Option<Import> {
    let mut parts = ImportParts::default();
    for field in report.fields(Section::Import, map) {
        match field.name() {
            "stream" => parts.stream = Some(field),
            "service" => parts.service = Some(field),
            "prefix" => {
                let prefix = field.string(report).filter(|prefix| !prefix.is_empty());
                parts.prefix = prefix.map(|prefix| (prefix, &field.value.position));
            }
            "to" => parts.to = field.string(report).filter(|to| !to.is_empty()),
            _ => parts.share = field.boolean(report).unwrap_or_default(),
        }
    }
    let (kind, field) = match (parts.stream, parts.service) {
        (Some(_), Some(service)) => {
            report.error(&service.value.position, "Detected service but already saw a stream");
            return None;
        }
        (Some(stream), None) => (ImportKind::Stream, stream),
        (None, Some(service)) => (ImportKind::Service { share: parts.share }, service),
        (None, None) => {
            report.error(place, "Expected a stream or a service");
            return None;
        }
    };
    let (account, subject) = import_source(&field, report)?;
    let local = match (parts.prefix, parts.to) {
        (Some((_, position)), Some(_)) => {
            report.error(position, "Stream import can not have a 'prefix' and a 'to' property");
            return None;
        }
        (Some((prefix, position)), None) => {
            if kind != ImportKind::Stream {
                report.error(position, "Service import can not have a 'prefix' property, use 'to'");
                return None;
            }
            let prefix = prefix.strip_suffix('.').unwrap_or(&prefix);
            if !subject::is_literal(prefix.as_bytes()) {
                let text = "stream import prefix can not contain wildcard tokens";
                report.error(position, format!("Error adding stream import {subject:?}: {text}"));
                return None;
            }
            format!("{prefix}.{subject}")
        }
        (None, Some(to)) => to,
        (None, None) => subject.clone(),
    };
    Some(Import { kind, account, subject, local })
}

/// Account and subject that an import names.
fn import_source(field: &Field<'_>, report: &mut Report) -> Option<(String, String)> {
    let is_stream = field.name() == "stream";
    let Some(map) = field.value.as_map() else {
        let (name, found) = (if is_stream { "Stream" } else { "Service" }, field.value.kind.name());
        let message = format!("{name} entry should be an account map, got {found}");
        report.error(&field.value.position, message);
        return None;
    };
    let (mut account, mut subject) = (None, None);
    for inner in report.fields(Section::ImportSource, map) {
        match inner.name() {
            "account" => account = inner.string(report),
            _ => subject = inner.string(report),
        }
    }
    let pair = account.zip(subject).filter(|(account, subject)| !account.is_empty() && !subject.is_empty());
    if pair.is_none() {
        report.error(&field.value.position, "Expect an account name and a subject");
    }
    pair
}

/// Decodes `mappings`.
pub(super) fn mappings(field: &Field<'_>, report: &mut Report) -> Vec<Mapping> {
    let Some(map) = field.map(report) else { return Vec::new() };
    let mut mappings = Vec::with_capacity(map.len());
    for (source, entry) in map {
        if !subject::is_valid(source.as_bytes()) {
            report.error(&entry.key_position, format!("Subject {source:?} is not a valid subject"));
            continue;
        }
        let destinations = match &entry.value.kind {
            Kind::String(subject) => {
                vec![Destination { subject: subject.clone(), weight: 100, cluster: None }]
            }
            Kind::Array(values) => values.iter().filter_map(|value| destination(value, report)).collect(),
            _ => destination(&entry.value, report).into_iter().collect(),
        };
        if let Err(error) = check_destinations(source, &destinations) {
            let message = match &entry.value.kind {
                Kind::String(subject) => {
                    format!("Error adding mapping for {source:?} to {subject:?} : {error}")
                }
                _ => format!("Error adding mapping for {source:?} : {error}"),
            };
            report.error(&entry.value.position, message);
            continue;
        }
        mappings.push(Mapping { source: source.clone(), destinations });
    }
    mappings
}

fn destination(value: &Value, report: &mut Report) -> Option<Destination> {
    let Some(map) = value.as_map() else {
        report.error(&value.position, "Expected an entry for the mapping destination");
        return None;
    };
    let (mut subject, mut share, mut cluster) = (String::new(), None, None);
    for field in report.fields(Section::Destination, map) {
        match field.name() {
            "destination" => subject = field.string(report).unwrap_or_default(),
            "cluster" => cluster = field.string(report).filter(|name| !name.is_empty()),
            _ => share = Some(weight(&field, report)?),
        }
    }
    let Some(weight) = share else {
        let message = format!("Missing weight for mapping destination {subject:?}");
        report.error(&value.position, message);
        return None;
    };
    Some(Destination { subject, weight, cluster })
}

/// A weight: a number, or a text with a percent sign.
fn weight(field: &Field<'_>, report: &mut Report) -> Option<u8> {
    let number = match &field.value.kind {
        Kind::Integer(number) => Ok(*number),
        Kind::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or(text);
            digits.parse().map_err(|_| format!("Invalid weight {digits:?} for mapping destination"))
        }
        kind => Err(format!("Unknown entry type for weight of {}", kind.name())),
    };
    let weight = number.and_then(|number| {
        let fitting = u8::try_from(number).ok().filter(|weight| *weight <= 100);
        fitting.ok_or_else(|| format!("Invalid weight {number} for mapping destination"))
    });
    weight.map_err(|message| report.error(&field.value.position, message)).ok()
}

/// The rules of a mapping.
fn check_destinations(source: &str, destinations: &[Destination]) -> Result<(), String> {
    for (index, destination) in destinations.iter().enumerate() {
        let before = &destinations[..index];
        if before.iter().any(|other| other.subject == destination.subject) {
            return Err(format!("duplicate entry for {:?}", destination.subject));
        }
        let same_cluster = before.iter().filter(|other| other.cluster == destination.cluster);
        let total: u32 = same_cluster.map(|other| u32::from(other.weight)).sum();
        if total + u32::from(destination.weight) > 100 {
            return Err("total weight needs to be <= 100".into());
        }
        Transform::new(source.as_bytes(), destination.subject.as_bytes())
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}
