//! What a change of an option asks for: a reload, a restart, or nothing a server can do.
//!
//! The classes stand in the table of options ([`crate::schema`]); broker and operator both read them here.

use std::fmt;

use crate::schema;

/// What a change of an option asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReloadClass {
    /// A reload applies it to the running server.
    Hot,
    /// Only a server that starts anew applies it; a reload that holds such a change is refused as a whole.
    Restart,
    /// This version has no such option, so neither a reload nor a restart takes it.
    Refused,
}

impl fmt::Display for ReloadClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Hot => "hot",
            Self::Restart => "restart",
            Self::Refused => "refused",
        })
    }
}

/// The class of an option by its dotted path with canonical names, such as `max_payload` or `cluster.listen`. What
/// lies below a listed path has the class of the longest listed path above it: `authorization.users` that of
/// `authorization`. `None` for a path that is no option.
pub fn reload_class(path: &str) -> Option<ReloadClass> {
    let mut path = path;
    loop {
        if let Some(key) = schema::by_path(path) {
            return Some(key.reload_class());
        }
        path = path.rsplit_once('.')?.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_the_class_of_the_nearest_listed_one() {
        for (path, expected) in [
            ("max_payload", Some(ReloadClass::Hot)),
            ("max_pending", Some(ReloadClass::Restart)),
            ("cluster.listen", Some(ReloadClass::Restart)),
            ("cluster.tls.cert_file", Some(ReloadClass::Hot)),
            ("tls.cert_file", Some(ReloadClass::Hot)),
            ("tls.verify_and_map", Some(ReloadClass::Restart)),
            ("accounts.A.users", Some(ReloadClass::Hot)),
            ("authorization.users", Some(ReloadClass::Hot)),
            ("jetstream", Some(ReloadClass::Hot)),
            ("jetstream.limits.batch", Some(ReloadClass::Hot)),
            ("jetstream.domain", Some(ReloadClass::Restart)),
            ("jetstream.tpm", Some(ReloadClass::Refused)),
            ("mqtt.port", Some(ReloadClass::Refused)),
            ("nonsense", None),
            ("nonsense.port", None),
        ] {
            assert_eq!(reload_class(path), expected, "{path}");
        }
    }
}
