//! Distinguished names: the subject of a certificate, and user names that are written as one.

use std::fmt::{self, Write};

use x509_parser::x509::X509Name;

/// Attribute types by the short names in which they are read and written.
const SHORT_NAMES: [(&str, &str); 12] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.5", "SERIALNUMBER"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.17", "POSTALCODE"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("1.2.840.113549.1.9.1", "EMAILADDRESS"),
];
/// Order in which the reference writes a subject, whatever the certificate's own: these first, all others behind.
const WRITTEN_ORDER: [&str; 9] = ["SERIALNUMBER", "CN", "POSTALCODE", "STREET", "ST", "L", "OU", "O", "C"];
/// Of these only the last in the certificate is written.
const WRITTEN_ONCE: [&str; 2] = ["SERIALNUMBER", "CN"];
/// Characters that have to be escaped wherever they stand in a value.
const SPECIAL: &[char] = &[',', '+', '"', '\\', '<', '>', ';'];

/// A type, by its short name or else its dotted number, and its value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Attribute {
    kind: String,
    value: String,
}

/// A name, most specific part first. Attributes of one part hold together and have no order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DistinguishedName {
    parts: Vec<Vec<Attribute>>,
}

impl DistinguishedName {
    /// The name in a certificate, where the most specific part is the last.
    pub(super) fn from_certificate(name: &X509Name<'_>) -> Self {
        let mut parts: Vec<Vec<Attribute>> = name
            .iter_rdn()
            .map(|part| {
                let attribute = part.iter().map(|attribute| Attribute {
                    kind: normal_kind(&attribute.attr_type().to_id_string()),
                    value: attribute.as_str().map_or_else(
                        |_| String::from_utf8_lossy(attribute.attr_value().data).into_owned(),
                        ToOwned::to_owned,
                    ),
                });
                sorted(attribute.collect())
            })
            .collect();
        parts.reverse();
        Self { parts }
    }

    /// Reads the text form of RFC 4514. `None` if it is not one, as most user names are not.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut reader = Reader { rest: text };
        let mut parts = Vec::new();
        loop {
            let mut part = vec![reader.attribute()?];
            while reader.take('+') {
                part.push(reader.attribute()?);
            }
            parts.push(sorted(part));
            if reader.rest.is_empty() {
                return Some(Self { parts });
            }
            if !reader.take(',') && !reader.take(';') {
                return None;
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Are the parts the same, in whatever order?
    pub(super) fn has_same_parts(&self, other: &Self) -> bool {
        let sorted = |name: &Self| {
            let mut parts = name.parts.clone();
            parts.sort();
            parts
        };
        sorted(self) == sorted(other)
    }

    fn attributes(&self) -> impl DoubleEndedIterator<Item = &Attribute> {
        self.parts.iter().flatten()
    }
}

impl fmt::Display for DistinguishedName {
    /// The form of the reference: known types in a fixed order, several of one type joined, all others behind.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for kind in WRITTEN_ORDER {
            let same = self.attributes().filter(|attribute| attribute.kind == kind);
            let same: Vec<_> =
                if WRITTEN_ONCE.contains(&kind) { same.take(1).collect() } else { same.rev().collect() };
            for attribute in same {
                write!(f, "{separator}{attribute}")?;
                separator = "+";
            }
            separator = if separator.is_empty() { "" } else { "," };
        }
        for attribute in
            self.attributes().filter(|attribute| !WRITTEN_ORDER.contains(&attribute.kind.as_str()))
        {
            write!(f, "{separator}{attribute}")?;
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The reference knows fewer short names when it writes.
        let kind = if WRITTEN_ORDER.contains(&self.kind.as_str()) { &self.kind } else { dotted(&self.kind) };
        write!(f, "{kind}=")?;
        let last = self.value.chars().count().saturating_sub(1);
        for (position, char) in self.value.chars().enumerate() {
            let at_edge = (position == 0 && matches!(char, ' ' | '#')) || (position == last && char == ' ');
            if at_edge || SPECIAL.contains(&char) {
                f.write_char('\\')?;
            }
            f.write_char(char)?;
        }
        Ok(())
    }
}

fn sorted(mut attributes: Vec<Attribute>) -> Vec<Attribute> {
    attributes.sort();
    attributes
}

/// The short name of a type that is given by number or in another spelling.
fn normal_kind(kind: &str) -> String {
    let known = SHORT_NAMES.iter().find(|(number, name)| *number == kind || name.eq_ignore_ascii_case(kind));
    match known {
        Some((_, name)) => (*name).to_owned(),
        None if kind.eq_ignore_ascii_case("E") => "EMAILADDRESS".to_owned(),
        None => kind.to_ascii_uppercase(),
    }
}

fn dotted(kind: &str) -> &str {
    SHORT_NAMES.iter().find(|(_, name)| *name == kind).map_or(kind, |(number, _)| number)
}

/// What is still to be read of a name's text.
struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn take(&mut self, char: char) -> bool {
        match self.rest.strip_prefix(char) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn attribute(&mut self) -> Option<Attribute> {
        let (kind, rest) = self.rest.split_once('=')?;
        let kind = kind.trim();
        if kind.is_empty()
            || !kind.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-'))
        {
            return None;
        }
        self.rest = rest;
        Some(Attribute { kind: normal_kind(kind), value: self.value()? })
    }

    /// A value up to the next separator. Spaces around it do not belong to it unless they are escaped.
    fn value(&mut self) -> Option<String> {
        self.rest = self.rest.trim_start_matches(' ');
        if self.rest.starts_with('#') {
            // Encoded values are for types that no certificate of a user has.
            return None;
        }
        let mut bytes = Vec::new();
        let mut kept = 0;
        while let Some(char) = self.rest.chars().next() {
            if matches!(char, ',' | ';' | '+') {
                break;
            }
            self.rest = &self.rest[char.len_utf8()..];
            if char == '\\' {
                self.escaped(&mut bytes)?;
                kept = bytes.len();
                continue;
            }
            bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
            if char != ' ' {
                kept = bytes.len();
            }
        }
        bytes.truncate(kept);
        String::from_utf8(bytes).ok()
    }

    /// What stands behind a backslash: two hex digits of a byte, or a character that means itself.
    fn escaped(&mut self, bytes: &mut Vec<u8>) -> Option<()> {
        let byte = self.rest.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        if let Some(byte) = byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            bytes.push(byte);
            self.rest = &self.rest[2..];
            return Some(());
        }
        let char = self
            .rest
            .chars()
            .next()
            .filter(|char| SPECIAL.contains(char) || matches!(char, ' ' | '#' | '='))?;
        bytes.push(u8::try_from(char).ok()?);
        self.rest = &self.rest[char.len_utf8()..];
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> DistinguishedName {
        DistinguishedName::parse(text).unwrap()
    }

    #[test]
    fn spelling_does_not_matter_but_order_does() {
        let name = parse("CN=bob,OU=x,O=NATS");
        assert_eq!(name, parse("cn=bob, ou = x ;2.5.4.10=NATS"));
        assert_ne!(name, parse("O=NATS,OU=x,CN=bob"));
        assert!(name.has_same_parts(&parse("O=NATS,OU=x,CN=bob")));
        assert!(!name.has_same_parts(&parse("CN=bob,OU=x")));
        assert_ne!(name, parse("CN=Bob,OU=x,O=NATS"));
    }

    #[test]
    fn attributes_of_one_part_have_no_order() {
        assert_eq!(parse("CN=a+UID=7,O=x"), parse("UID=7+CN=a,O=x"));
        assert_ne!(parse("CN=a+UID=7,O=x"), parse("CN=a,UID=7,O=x"));
    }

    #[test]
    fn escapes_are_part_of_the_value() {
        let name = parse(r#"CN=a\, \"b\" \ ,O=\C3\A9t\C3\A9"#);
        assert_eq!(name.parts[0][0].value, "a, \"b\"  ");
        assert_eq!(name.parts[1][0].value, "été");
        assert_eq!(parse(&name.to_string()), name);
    }

    #[test]
    fn ordinary_user_names_are_no_distinguished_names() {
        for text in
            ["", "bob", "bob@nats.io", "=x", "CN=a,", "CN=a,b", r"CN=a\", r"CN=\zz", "CN=#0402", "a b=c"]
        {
            assert_eq!(DistinguishedName::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn it_is_written_in_the_order_of_the_reference() {
        let name = parse("1.2.840.113549.1.9.1=a@b.c,C=US,O=NATS,CN=derek\\, x");
        assert_eq!(name.to_string(), "CN=derek\\, x,O=NATS,C=US,1.2.840.113549.1.9.1=a@b.c");
        assert_eq!(parse("OU=b,OU=a,DC=x").to_string(), "OU=a+OU=b,0.9.2342.19200300.100.1.25=x");
    }
}
