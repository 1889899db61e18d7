//! Types that several kinds share: durations, references to Secrets, resource amounts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration as StdDuration;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Units of a duration, longest name first so that `ms` is not read as `m`.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
    ("d", 86_400 * 1_000_000_000),
    ("w", 604_800 * 1_000_000_000),
];

/// Longest text of a duration; far above any sensible one, low enough for the API server's rule budget.
const DURATION_LENGTH_MAX: usize = 32;

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a duration: write numbers with units ns, us, ms, s, m, h, d or w, such as 30s or 1h30m"
)]
pub struct DurationError {
    /// The text as written.
    pub text: String,
}

/// A span of time as people write it: `30s`, `1h30m`, `2d`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Duration(pub String);

impl Duration {
    /// A duration of whole seconds.
    #[must_use]
    pub fn seconds(seconds: u64) -> Self {
        Self(format!("{seconds}s"))
    }

    /// Reads the text.
    ///
    /// # Errors
    /// When the text is empty, has an unknown unit, or exceeds 292 years.
    pub fn parse(&self) -> Result<StdDuration, DurationError> {
        parse_nanos(&self.0)
            .map(StdDuration::from_nanos)
            .ok_or_else(|| DurationError { text: self.0.clone() })
    }
}

fn parse_nanos(text: &str) -> Option<u64> {
    if text.len() > DURATION_LENGTH_MAX {
        return None;
    }
    let total = sum_of_units(text, PointStyle::Between)?;
    // The wire form is a signed 64-bit count of nanoseconds.
    i64::try_from(total).ok()?;
    Some(total)
}

/// Where a decimal point may stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PointStyle {
    /// Between digits.
    Between,
    /// Also before the first digit and behind the last, as Go takes it.
    Anywhere,
}

/// Nanoseconds of numbers with units, one behind another.
pub(crate) fn sum_of_units(text: &str, style: PointStyle) -> Option<u64> {
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(scaled(number, *factor, style)?)?;
        rest = tail;
    }
    (!text.is_empty()).then_some(total)
}

/// `number` times `factor`, exact for the digits before the point and cut to whole nanoseconds after it.
fn scaled(number: &str, factor: u64, style: PointStyle) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let one_sided = number.contains('.') && (whole.is_empty() || fraction.is_empty());
    let has_digits = !whole.is_empty() || !fraction.is_empty();
    if !has_digits || (one_sided && style == PointStyle::Between) {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
    let mut nanos = whole.checked_mul(factor)?;
    let mut step = factor;
    for digit in fraction.bytes() {
        if !digit.is_ascii_digit() {
            return None;
        }
        step /= 10;
        nanos = nanos.checked_add(step * u64::from(digit - b'0'))?;
    }
    Some(nanos)
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": DURATION_LENGTH_MAX,
            "pattern": r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h|d|w))+$",
        })
    }
}

/// One key of a Secret in the namespace of the object that names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key inside the Secret.
    #[serde(default = "password_key")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

fn password_key() -> String {
    "password".to_owned()
}

/// An amount of bytes: a whole number, or a quantity such as `10Gi`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Size {
    /// Bytes.
    Bytes(i64),
    /// A quantity.
    Text(String),
}

impl Size {
    /// The bytes; `None` when the text is no quantity, or does not fit 63 bits.
    #[must_use]
    pub fn bytes(&self) -> Option<i64> {
        match self {
            Self::Bytes(bytes) => Some(*bytes),
            Self::Text(text) => quantity_bytes(text),
        }
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl JsonSchema for Size {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true })
    }
}

/// Bytes of a whole number with a decimal or binary suffix.
#[must_use]
pub fn quantity_bytes(text: &str) -> Option<i64> {
    const SUFFIXES: [(&str, i64); 8] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
    ];
    let (number, factor) = SUFFIXES
        .iter()
        .find_map(|(suffix, factor)| text.strip_suffix(suffix).map(|number| (number, *factor)))
        .unwrap_or((text, 1));
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    number.parse::<i64>().ok()?.checked_mul(factor)
}

/// A choice that carries no settings of its own: `{}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Empty {}

/// Compute resources of a container. Amounts may be numbers or quantity strings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// What the scheduler reserves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub requests: BTreeMap<String, IntOrString>,
    /// What the container may use at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub limits: BTreeMap<String, IntOrString>,
}

/// Amounts in the form that Kubernetes types use.
#[must_use]
pub fn quantities(amounts: &BTreeMap<String, IntOrString>) -> BTreeMap<String, Quantity> {
    let text = |amount: &IntOrString| match amount {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    };
    amounts.iter().map(|(name, amount)| (name.clone(), Quantity(text(amount)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(text: &str) -> Option<u64> {
        Duration(text.to_owned()).parse().ok().map(|d| u64::try_from(d.as_nanos()).unwrap())
    }

    #[test]
    fn durations_read_as_written() {
        for (text, expected) in [
            ("10ns", 10),
            ("1us", 1_000),
            ("30s", 30_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5s", 1_500_000_000),
            ("0s", 0),
            ("1d", 86_400_000_000_000),
            ("2w1d", 15 * 86_400_000_000_000),
        ] {
            assert_eq!(nanos(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_durations_are_refused() {
        for text in ["", "5", "s", "-1s", "1y", "1.s", "1..5s", "1s ", "99999999999w", "1m2"] {
            assert_eq!(nanos(text), None, "{text}");
        }
    }

    #[test]
    fn amounts_may_be_numbers() {
        let amounts = BTreeMap::from([
            ("cpu".to_owned(), IntOrString::Int(1)),
            ("memory".to_owned(), IntOrString::String("64Mi".to_owned())),
        ]);
        let quantities = quantities(&amounts);
        assert_eq!(quantities["cpu"], Quantity("1".to_owned()));
        assert_eq!(quantities["memory"], Quantity("64Mi".to_owned()));
    }
}
