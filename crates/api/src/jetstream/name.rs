//! Names, descriptions and metadata: what they may be and how long.

use std::collections::BTreeMap;

/// Longest name in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest description in bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 4 * 1024;
/// Most bytes of all names and values of metadata together.
pub const METADATA_BYTES_MAX: usize = 128 * 1024;

/// Longest name of a priority group in bytes.
const GROUP_BYTES_MAX: usize = 16;

/// Whether a stream or consumer may have this name, its length aside.
pub fn is_valid(name: &str) -> bool {
    let refused =
        |byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'\x0c' | b'.' | b'*' | b'>' | b'\\' | b'/');
    !name.is_empty() && !name.bytes().any(refused)
}

/// Whether a name holds what separates folders of a path.
pub fn has_path_separator(name: &str) -> bool {
    name.contains(['\\', '/'])
}

/// Whether a priority group may have this name.
pub fn is_valid_group(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'=' | b'-');
    (1..=GROUP_BYTES_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

/// Bytes of all names and values.
pub(super) fn metadata_bytes(metadata: &BTreeMap<String, String>) -> usize {
    metadata.iter().map(|(name, value)| name.len() + value.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_spaces_wildcards_or_separators() {
        for name in ["a", "A-b_c", "é", "a:b", "\u{7f}"] {
            assert!(is_valid(name), "{name}");
        }
        for name in ["", "a b", "a.b", "*", "a>", "a\\b", "a/b", "a\t", "a\r", "a\n", "a\x0c"] {
            assert!(!is_valid(name), "{name}");
        }
        assert!(has_path_separator("a/b") && has_path_separator("\\") && !has_path_separator("a"));
    }

    #[test]
    fn groups_have_one_to_sixteen_bytes_of_few_kinds() {
        for name in ["a", "A9/_=-", "aaaaaaaaaaaaaaaa"] {
            assert!(is_valid_group(name), "{name}");
        }
        for name in ["", "aaaaaaaaaaaaaaaaa", "a b", "a.b", "é"] {
            assert!(!is_valid_group(name), "{name}");
        }
    }
}
