//! Documents of servers, whose nesting is bounded before anything is built from them.

use serde::de::{DeserializeOwned, Error as _};

/// Deepest nesting taken from a server; what servers send has five or six levels.
pub const DEPTH_MAX: usize = 64;

/// Reads a document.
///
/// # Errors
/// When it is none, is nested deeper than [`DEPTH_MAX`], or is not what was asked for.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    if is_deep(bytes) {
        return Err(serde_json::Error::custom("nested too deep"));
    }
    serde_json::from_slice(bytes)
}

/// Whether objects and lists are nested deeper than allowed. Fields that nobody asks for count as well.
fn is_deep(bytes: &[u8]) -> bool {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return true;
                }
            }
            // What closes more than was opened is no document, as the parser will find.
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::*;

    fn nested(depth: usize) -> String {
        format!("{}{}", "[".repeat(depth), "]".repeat(depth))
    }

    #[test]
    fn nesting_is_taken_up_to_its_bound_and_not_one_deeper() {
        assert!(parse::<Value>(nested(DEPTH_MAX).as_bytes()).is_ok());
        assert!(parse::<Value>(nested(DEPTH_MAX + 1).as_bytes()).is_err());
        // In a field that nobody asks for, too.
        #[derive(serde::Deserialize)]
        struct Empty {}
        let field = |depth| format!(r#"{{"unknown":{}}}"#, nested(depth));
        assert!(parse::<Empty>(field(DEPTH_MAX - 1).as_bytes()).is_ok());
        assert!(parse::<Empty>(field(DEPTH_MAX).as_bytes()).is_err());
    }

    #[test]
    fn brackets_in_texts_and_beside_each_other_nest_nothing() {
        let text = format!(r#"{{"a\\":"{}","\"b":"\"["}}"#, "[".repeat(1_000));
        assert_eq!(parse::<Map<String, Value>>(text.as_bytes()).unwrap().len(), 2);
        let flat = format!("[{}0]", "[],{},".repeat(1_000));
        assert!(parse::<Value>(flat.as_bytes()).is_ok());
        for broken in ["]]]]", "{", "\"", "\\"] {
            assert!(parse::<Value>(broken.as_bytes()).is_err());
        }
    }
}
