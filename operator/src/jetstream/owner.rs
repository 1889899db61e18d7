//! Which object manages a stream or consumer: a mark in its metadata.

use std::collections::BTreeMap;
use std::fmt;

use crd::jetstream::metadata::OWNER;

/// The mark of an object. It names the Kubernetes cluster, so that two clusters that manage one NATS system do not undo each
/// other's work, and the kind, because a Stream and a KeyValue of one name may ask for the same stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Identity of the Kubernetes cluster.
    pub cluster: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}/{}", self.cluster, self.namespace, self.kind, self.name, self.uid)
    }
}

/// Who manages what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Nobody that we know.
    Unmarked,
    /// This object.
    Ours,
    /// An object of the same kind and name that is gone.
    Former,
    /// Another object; its namespace and name only when it is in this namespace, else a word.
    Other(String),
}

impl Mark {
    /// Reads who manages something from its metadata.
    #[must_use]
    pub fn judge(&self, metadata: &BTreeMap<String, String>) -> Ownership {
        let Some(text) = metadata.get(OWNER) else { return Ownership::Unmarked };
        if *text == self.to_string() {
            return Ownership::Ours;
        }
        let parts: Vec<&str> = text.splitn(5, '/').collect();
        let [cluster, namespace, kind, name, _] = parts[..] else {
            return Ownership::Other("something else".to_owned());
        };
        if cluster != self.cluster {
            return Ownership::Other("an object of another Kubernetes cluster".to_owned());
        }
        if namespace != self.namespace {
            return Ownership::Other("an object of another namespace".to_owned());
        }
        if (kind, name) == (self.kind, self.name.as_str()) {
            return Ownership::Former;
        }
        let shown: String =
            format!("{kind} `{name}`").chars().filter(|c| !c.is_control()).take(300).collect();
        Ownership::Other(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(cluster: &str, namespace: &str, kind: &'static str, name: &str, uid: &str) -> Mark {
        let owned = str::to_owned;
        Mark {
            cluster: owned(cluster),
            namespace: owned(namespace),
            kind,
            name: owned(name),
            uid: owned(uid),
        }
    }

    #[test]
    fn the_mark_says_who_manages_it() {
        let own = mark("c", "ns", "Stream", "a", "u1");
        let judge = |text: String| own.judge(&BTreeMap::from([(OWNER.to_owned(), text)]));
        assert_eq!(own.judge(&BTreeMap::new()), Ownership::Unmarked);
        assert_eq!(judge(own.to_string()), Ownership::Ours);
        assert_eq!(judge(mark("c", "ns", "Stream", "a", "u2").to_string()), Ownership::Former);
        assert_eq!(
            judge(mark("c", "ns", "Stream", "b", "u1").to_string()),
            Ownership::Other("Stream `b`".to_owned())
        );
        assert_eq!(
            judge(mark("c", "ns", "KeyValue", "a", "u2").to_string()),
            Ownership::Other("KeyValue `a`".to_owned())
        );
        // Names of other namespaces are nobody's business here.
        for other in [mark("c", "secret-ns", "Stream", "a", "u1"), mark("d", "ns", "Stream", "a", "u1")] {
            let Ownership::Other(text) = judge(other.to_string()) else { panic!("another object") };
            assert!(!text.contains("secret-ns"), "{text}");
        }
        assert!(matches!(judge("by hand".to_owned()), Ownership::Other(_)));
    }
}
