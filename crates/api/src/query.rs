//! The query part of a monitoring address: decoding and typed access with the reference's error texts.

use std::borrow::Cow;

/// Parameters read from one query; what follows is ignored, since no page has this many options.
const PARAMETERS_MAX: usize = 64;

/// A query value has the wrong form. Sent as the text body of a 400 response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// Not one of the accepted spellings of a boolean.
    #[error("Error decoding boolean for '{name}': strconv.ParseBool: parsing {value:?}: invalid syntax")]
    Boolean {
        /// Name of the parameter.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// Not a signed number.
    #[error("Error decoding int for '{name}': strconv.Atoi: parsing {value:?}: {reason}")]
    Signed {
        /// Name of the parameter.
        name: &'static str,
        /// Its value.
        value: String,
        /// Whether the form or the size is wrong.
        reason: &'static str,
    },
    /// Not an unsigned number.
    #[error("Error decoding uint64 for '{name}': strconv.ParseUint: parsing {value:?}: {reason}")]
    Unsigned {
        /// Name of the parameter.
        name: &'static str,
        /// Its value.
        value: String,
        /// Whether the form or the size is wrong.
        reason: &'static str,
    },
    /// Not a connection state.
    #[error("Error decoding state for {value}")]
    State {
        /// Value of the parameter.
        value: String,
    },
}

/// Decoded parameters of one request. The first of several equal names counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query<'a> {
    parameters: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Query<'a> {
    /// Splits and decodes the part of an address after `?`. A parameter with a broken escape is left out.
    pub fn parse(raw: &'a str) -> Self {
        let pairs =
            raw.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')).take(PARAMETERS_MAX);
        let parameters = pairs.filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((unescape(name)?, unescape(value)?))
        });
        Self { parameters: parameters.collect() }
    }

    /// Value of a parameter, empty when it is absent.
    pub fn text(&self, name: &str) -> &str {
        let found = self.parameters.iter().find(|(candidate, _)| candidate == name);
        found.map_or("", |(_, value)| value)
    }

    /// A boolean parameter, false when absent or empty.
    pub fn boolean(&self, name: &'static str) -> Result<bool, QueryError> {
        match self.text(name) {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
            "" | "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
            value => Err(QueryError::Boolean { name, value: value.to_owned() }),
        }
    }

    /// A signed parameter, zero when absent or empty.
    pub fn signed(&self, name: &'static str) -> Result<i64, QueryError> {
        let value = self.text(name);
        let unsigned = value.strip_prefix(['+', '-']).unwrap_or(value);
        if value.is_empty() {
            return Ok(0);
        }
        let error = |reason| QueryError::Signed { name, value: value.to_owned(), reason };
        check_digits(unsigned).map_err(error)?;
        value.parse().map_err(|_| error("value out of range"))
    }

    /// An unsigned parameter, zero when absent or empty.
    pub fn unsigned(&self, name: &'static str) -> Result<u64, QueryError> {
        let value = self.text(name);
        if value.is_empty() {
            return Ok(0);
        }
        let error = |reason| QueryError::Unsigned { name, value: value.to_owned(), reason };
        check_digits(value).map_err(error)?;
        value.parse().map_err(|_| error("value out of range"))
    }

    /// The `subs` parameter: whether subscriptions are listed, and whether in detail.
    pub fn subscriptions(&self) -> Result<(bool, bool), QueryError> {
        if self.text("subs").eq_ignore_ascii_case("detail") {
            return Ok((true, true));
        }
        Ok((self.boolean("subs")?, false))
    }
}

fn check_digits(text: &str) -> Result<(), &'static str> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("invalid syntax");
    }
    Ok(())
}

/// Undoes `+` and `%XX`; `None` for a broken escape. Bytes that are not UTF-8 become the replacement character.
fn unescape(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains(['+', '%']) {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => hex(bytes.next()?)? * 16 + hex(bytes.next()?)?,
            other => other,
        });
    }
    Some(Cow::Owned(String::from_utf8_lossy(&out).into_owned()))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_and_the_first_counts() {
        let query = Query::parse("acc=A%26B+c&acc=second&flag&bad=%zz&semi=1;2&empty=");
        assert_eq!(query.text("acc"), "A&B c");
        assert_eq!(query.text("flag"), "");
        assert_eq!(query.text("bad"), "");
        assert_eq!(query.text("semi"), "");
        assert_eq!(query.text("absent"), "");
    }

    #[test]
    fn booleans_have_the_six_spellings_each() {
        for value in ["1", "t", "T", "true", "TRUE", "True"] {
            assert_eq!(Query::parse(&format!("auth={value}")).boolean("auth"), Ok(true));
        }
        for value in ["0", "f", "F", "false", "FALSE", "False", ""] {
            assert_eq!(Query::parse(&format!("auth={value}")).boolean("auth"), Ok(false));
        }
        let error = Query::parse("auth=maybe").boolean("auth").unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"Error decoding boolean for 'auth': strconv.ParseBool: parsing "maybe": invalid syntax"#
        );
    }

    #[test]
    fn numbers_tell_form_from_size() {
        assert_eq!(Query::parse("limit=%2B5").signed("limit"), Ok(5));
        assert_eq!(Query::parse("limit=-5").signed("limit"), Ok(-5));
        assert_eq!(Query::parse("limit=9223372036854775807").signed("limit"), Ok(i64::MAX));
        let text = |raw: &str| Query::parse(raw).signed("limit").unwrap_err().to_string();
        assert_eq!(
            text("limit=x"),
            r#"Error decoding int for 'limit': strconv.Atoi: parsing "x": invalid syntax"#
        );
        assert_eq!(
            text("limit=99999999999999999999"),
            r#"Error decoding int for 'limit': strconv.Atoi: parsing "99999999999999999999": value out of range"#
        );
        assert!(text("limit=%2B").ends_with("invalid syntax"));
        let error = Query::parse("cid=-4").unsigned("cid").unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"Error decoding uint64 for 'cid': strconv.ParseUint: parsing "-4": invalid syntax"#
        );
        assert_eq!(Query::parse("cid=18446744073709551615").unsigned("cid"), Ok(u64::MAX));
        assert!(Query::parse("cid=18446744073709551616").unsigned("cid").is_err());
    }

    #[test]
    fn detail_lists_subscriptions_too() {
        assert_eq!(Query::parse("subs=Detail").subscriptions(), Ok((true, true)));
        assert_eq!(Query::parse("subs=1").subscriptions(), Ok((true, false)));
        assert_eq!(Query::parse("").subscriptions(), Ok((false, false)));
        assert!(Query::parse("subs=foo").subscriptions().is_err());
    }

    #[test]
    fn parameters_beyond_the_bound_are_ignored() {
        let raw: Vec<String> = (0..PARAMETERS_MAX + 1).map(|i| format!("p{i}=x")).collect();
        let raw = raw.join("&");
        let query = Query::parse(&raw);
        assert_eq!(query.text(&format!("p{}", PARAMETERS_MAX - 1)), "x");
        assert_eq!(query.text(&format!("p{PARAMETERS_MAX}")), "");
    }
}
