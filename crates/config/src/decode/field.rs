//! One entry of a known key, and its value as the type that is wanted.

use std::time::Duration;

use super::{Report, described};
use crate::diagnostic::Position;
use crate::duration;
use crate::lang::{Kind, Map, Value};
use crate::options::{Port, WriteTimeout};
use crate::schema::Key;

/// Longest timeout that is not suspected to be a mistake.
const TIMEOUT_USUAL_MAX: Duration = Duration::from_secs(60);

/// One entry of a known key.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) key: &'static Key,
    /// The key as written.
    pub(super) written: &'a str,
    pub(super) position: &'a Position,
    pub(super) value: &'a Value,
}

impl<'a> Field<'a> {
    pub(super) fn name(&self) -> &'static str {
        self.key.name
    }

    fn mismatch(&self, wanted: &str, report: &mut Report) {
        let found = described(&self.value.kind);
        report.error(
            &self.value.position,
            format!("expected \"{}\" to be {wanted}, got {found}", self.written),
        );
    }

    pub(super) fn boolean(&self, report: &mut Report) -> Option<bool> {
        match self.value.kind {
            Kind::Bool(value) => Some(value),
            _ => {
                self.mismatch("a boolean", report);
                None
            }
        }
    }

    pub(super) fn text(&self, report: &mut Report) -> Option<&'a str> {
        let text = self.value.as_str();
        if text.is_none() {
            self.mismatch("a string", report);
        }
        text
    }

    pub(super) fn string(&self, report: &mut Report) -> Option<String> {
        self.text(report).map(Into::into)
    }

    /// A text, where an empty one is the same as none.
    pub(super) fn optional_string(&self, report: &mut Report) -> Option<Option<String>> {
        self.text(report).map(|text| (!text.is_empty()).then(|| text.into()))
    }

    pub(super) fn integer(&self, report: &mut Report) -> Option<i64> {
        match self.value.kind {
            Kind::Integer(number) => Some(number),
            _ => {
                self.mismatch("an integer", report);
                None
            }
        }
    }

    /// An integer from 0 up to `max`.
    pub(super) fn unsigned(&self, max: u32, report: &mut Report) -> Option<u32> {
        let number = self.integer(report)?;
        if number < 0 {
            report.error(&self.value.position, format!("{} value can not be negative", self.name()));
            return None;
        }
        self.fitting(number, max, report)
    }

    /// An integer up to `max`, where what is below 1 means none.
    pub(super) fn optional_count(&self, max: u32, report: &mut Report) -> Option<Option<u32>> {
        let number = self.integer(report)?;
        if number < 1 { Some(None) } else { self.fitting(number, max, report).map(Some) }
    }

    fn fitting(&self, number: i64, max: u32, report: &mut Report) -> Option<u32> {
        let fitting = u32::try_from(number).ok().filter(|number| *number <= max);
        if fitting.is_none() {
            report.error(&self.value.position, format!("{} value is too big", self.name()));
        }
        fitting
    }

    /// An integer from 0 up to `max`, where 0 means the default.
    pub(super) fn unsigned_or_default(&self, max: u32, default: u32, report: &mut Report) -> Option<u32> {
        self.unsigned(max, report).map(|number| if number == 0 { default } else { number })
    }

    /// A port: -1 is random, 0 none.
    pub(super) fn port(&self, report: &mut Report) -> Option<Option<Port>> {
        let number = self.integer(report)?;
        let port = super::address::port_of(number);
        if port.is_none() {
            report.error(&self.value.position, format!("{} {number} is not a port", self.written));
        }
        port
    }

    /// A duration as text; a bare integer counts seconds and is warned about.
    pub(super) fn duration(&self, report: &mut Report) -> Option<Duration> {
        if let Kind::Integer(seconds) = self.value.kind {
            let name = self.name();
            let message = format!(
                "invalid use of field \"{}\": {name} should be converted to a duration",
                self.written
            );
            report.warn(self.position, message);
            let duration = u64::try_from(seconds).ok().filter(|seconds| *seconds <= DURATION_SECONDS_MAX);
            if duration.is_none() {
                report.error(&self.value.position, format!("{name} of {seconds} seconds is out of range"));
            }
            return duration.map(Duration::from_secs);
        }
        self.strict_duration(report)
    }

    /// A duration as text, not negative.
    pub(super) fn strict_duration(&self, report: &mut Report) -> Option<Duration> {
        match self.signed_duration(report)? {
            (true, duration) => {
                let shown = duration::format_duration(duration);
                let message = format!("invalid {} of -{shown}, it can not be negative", self.name());
                report.error(&self.value.position, message);
                None
            }
            (false, duration) => Some(duration),
        }
    }

    /// A duration as text, and whether it is negative.
    pub(super) fn signed_duration(&self, report: &mut Report) -> Option<(bool, Duration)> {
        let Kind::String(text) = &self.value.kind else {
            self.mismatch("a duration such as \"2m\"", report);
            return None;
        };
        match duration::parse(text) {
            Ok(parsed) => Some(parsed),
            Err(error) => {
                report.error(&self.value.position, format!("error parsing {}: {error}", self.name()));
                None
            }
        }
    }

    /// Seconds as a number, or a duration as text, for `timeout` of a block called `block`.
    pub(super) fn timeout(&self, block: &str, report: &mut Report) -> Option<Duration> {
        let seconds = |number: f64| Duration::try_from_secs_f64(number).ok();
        let (shown, timeout) = match &self.value.kind {
            Kind::Integer(number) => (number.to_string(), seconds(*number as f64)),
            Kind::Float(number) => (number.to_string(), seconds(*number)),
            Kind::String(text) => match duration::parse(text) {
                Ok((is_negative, duration)) => (text.clone(), (!is_negative).then_some(duration)),
                Err(error) => {
                    report.error(
                        &self.value.position,
                        format!("error parsing {block} config, 'timeout' {error}"),
                    );
                    return None;
                }
            },
            _ => {
                report.error(
                    &self.value.position,
                    format!("error parsing {block} config, 'timeout' wrong type"),
                );
                return None;
            }
        };
        let Some(timeout) = timeout.filter(|timeout| timeout.as_secs() <= DURATION_SECONDS_MAX) else {
            report.error(&self.value.position, format!("timeout of {shown} is out of range"));
            return None;
        };
        if timeout > TIMEOUT_USUAL_MAX {
            let message = format!(
                "invalid use of field \"timeout\": timeout of {shown} ({:.6} seconds) is high, consider keeping it \
                 under 60 seconds. possibly caused by unquoted duration; use '1m' instead of 1m, for example",
                timeout.as_secs_f64()
            );
            report.warn(self.position, message);
        }
        Some(timeout)
    }

    pub(super) fn write_timeout(&self, report: &mut Report) -> Option<WriteTimeout> {
        let policy = match self.text(report)?.to_ascii_lowercase().as_str() {
            "default" | "" => Some(WriteTimeout::Default),
            "close" => Some(WriteTimeout::Close),
            "retry" => Some(WriteTimeout::Retry),
            _ => None,
        };
        if policy.is_none() {
            report.error(&self.value.position, "write_timeout must be 'default', 'close' or 'retry'");
        }
        policy
    }

    pub(super) fn map(&self, report: &mut Report) -> Option<&'a Map> {
        let map = self.value.as_map();
        if map.is_none() {
            self.mismatch("a map", report);
        }
        map
    }

    pub(super) fn array(&self, report: &mut Report) -> Option<&'a [Value]> {
        match &self.value.kind {
            Kind::Array(values) => Some(values),
            _ => {
                self.mismatch("an array", report);
                None
            }
        }
    }

    /// Strings with their places; one string stands for a list of one.
    pub(super) fn strings(&self, report: &mut Report) -> Option<Vec<(&'a str, &'a Position)>> {
        if let Some(text) = self.value.as_str() {
            return Some(vec![(text, &self.value.position)]);
        }
        let Kind::Array(values) = &self.value.kind else {
            self.mismatch("a string or an array of strings", report);
            return None;
        };
        let mut strings = Vec::with_capacity(values.len());
        for value in values {
            match value.as_str() {
                Some(text) => strings.push((text, &value.position)),
                None => {
                    let found = described(&value.kind);
                    let message = format!("expected \"{}\" to hold strings, got {found}", self.written);
                    report.error(&value.position, message);
                }
            }
        }
        Some(strings)
    }
}

/// The range of a 64-bit count of nanoseconds.
const DURATION_SECONDS_MAX: u64 = i64::MAX as u64 / 1_000_000_000;
