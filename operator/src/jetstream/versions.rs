//! What a watch has shown so far: whether an object has changed since, and which are gone.
//!
//! A watch that is made again lists what there is. What went meanwhile is in no event: it is what was known and is not in the list.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Versions by object. Only digests are kept: annotations may be long, and objects many.
pub struct Versions<K> {
    known: HashMap<K, u64>,
    listing: Option<HashSet<K>>,
}

impl<K> Default for Versions<K> {
    fn default() -> Self {
        Self { known: HashMap::new(), listing: None }
    }
}

impl<K: Hash + Eq + Clone> Versions<K> {
    /// A list begins.
    pub fn begin(&mut self) {
        self.listing = Some(HashSet::new());
    }

    /// An object was shown. True when this version of it is new.
    pub fn shown(&mut self, key: K, version: &impl Hash) -> bool {
        let mut hasher = DefaultHasher::new();
        version.hash(&mut hasher);
        let digest = hasher.finish();
        if let Some(listing) = &mut self.listing {
            listing.insert(key.clone());
        }
        self.known.insert(key, digest) != Some(digest)
    }

    /// An object is gone.
    pub fn gone(&mut self, key: &K) {
        self.known.remove(key);
    }

    /// A list is complete. Returns what was known and is not in it.
    pub fn complete(&mut self) -> Vec<K> {
        let Some(listed) = self.listing.take() else { return Vec::new() };
        let missing: Vec<K> = self.known.keys().filter(|key| !listed.contains(*key)).cloned().collect();
        for key in &missing {
            self.known.remove(key);
        }
        missing
    }

    /// Objects known at present.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.known.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_counts_once_and_a_list_shows_what_is_gone() {
        let mut versions = Versions::default();
        versions.begin();
        assert!(versions.shown("a", &1) && versions.shown("b", &1) && versions.shown("c", &1));
        assert!(versions.complete().is_empty());
        assert!(!versions.shown("a", &1));
        assert!(versions.shown("a", &2));
        versions.gone(&"c");
        assert!(versions.shown("c", &1), "one that came again");
        versions.begin();
        assert!(!versions.shown("a", &2));
        assert!(versions.shown("c", &2));
        assert_eq!(versions.complete(), ["b"]);
        assert_eq!(versions.keys().count(), 2);
        // What is told between lists is no list.
        assert!(versions.complete().is_empty());
        assert!(versions.shown("b", &1));
    }
}
