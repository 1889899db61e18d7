//! The tree: values and map entries with the place they were written at.
//!
//! Equality is about content only; positions do not take part.

use std::collections::BTreeMap;
use std::collections::btree_map;

use crate::diagnostic::Position;

/// A value and its place.
#[derive(Debug, Clone)]
pub struct Value {
    /// What it is.
    pub kind: Kind,
    /// Where it begins.
    pub position: Position,
}

/// The kinds of value.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Keys and values.
    Map(Map),
    /// Values in order.
    Array(Vec<Value>),
    /// Text.
    String(String),
    /// Whole number, sizes already multiplied.
    Integer(i64),
    /// Number with a fraction; always finite.
    Float(f64),
    /// Truth value.
    Bool(bool),
    /// `2006-01-02T15:04:05Z`, kept as text.
    Datetime(String),
}

/// A map entry's value, with the place of its key.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Where the key begins.
    pub key_position: Position,
    /// The value.
    pub value: Value,
    /// A variable referred to this entry, so that an unknown name is not a mistake.
    pub is_referenced: bool,
}

/// Keys (as written) and values, sorted by key.
#[derive(Debug, Clone, Default)]
pub struct Map {
    entries: BTreeMap<String, Entry>,
}

impl Map {
    /// Adds or replaces, without positions.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Value>) -> &mut Self {
        self.insert_entry(
            key.into(),
            Entry { key_position: Position::default(), value: value.into(), is_referenced: false },
        );
        self
    }

    /// Adds or replaces.
    pub(crate) fn insert_entry(&mut self, key: String, entry: Entry) {
        self.entries.insert(key, entry);
    }

    /// The entry of exactly this key.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    pub(crate) fn entry_mut(&mut self, key: &str) -> Option<&mut Entry> {
        self.entries.get_mut(key)
    }

    /// The value of exactly this key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// The value of exactly this key, to change.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.entries.remove(key).map(|entry| entry.value)
    }

    /// Entries in the order of their keys.
    pub fn iter(&self) -> btree_map::Iter<'_, String, Entry> {
        self.entries.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> btree_map::IterMut<'_, String, Entry> {
        self.entries.iter_mut()
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&str, &Entry) -> bool) {
        self.entries.retain(|key, entry| keep(key, entry));
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Lays `other` over this map: maps are merged key by key, anything else is replaced.
    pub fn merge(&mut self, other: Self) {
        for (key, entry) in other.entries {
            match (self.entries.get_mut(&key), entry) {
                (
                    Some(Entry { value: Value { kind: Kind::Map(old), .. }, .. }),
                    Entry { value: Value { kind: Kind::Map(new), .. }, .. },
                ) => old.merge(new),
                (_, entry) => {
                    self.entries.insert(key, entry);
                }
            }
        }
    }
}

impl IntoIterator for Map {
    type Item = (String, Entry);
    type IntoIter = btree_map::IntoIter<String, Entry>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = (&'a String, &'a Entry);
    type IntoIter = btree_map::Iter<'a, String, Entry>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.iter()
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        self.entries.len() == other.entries.len()
            && self
                .entries
                .iter()
                .zip(&other.entries)
                .all(|((left, one), (right, two))| left == right && one.value == two.value)
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl Value {
    /// An empty map.
    pub fn map() -> Self {
        Kind::Map(Map::default()).into()
    }

    /// Adds or replaces a key of this map.
    ///
    /// # Panics
    /// If this is not a map: building a tree is the caller's own code.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Self>) -> &mut Self {
        let Kind::Map(map) = &mut self.kind else {
            panic!("insert into a {}", self.kind.name());
        };
        map.insert(key, value);
        self
    }

    /// The map, if it is one.
    pub fn as_map(&self) -> Option<&Map> {
        match &self.kind {
            Kind::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The map, if it is one, to change.
    pub fn as_map_mut(&mut self) -> Option<&mut Map> {
        match &mut self.kind {
            Kind::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The text, if it is a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.kind {
            Kind::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value of exactly this key, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_map()?.get(key)
    }

    /// Values in this tree, itself counted, and how deep it goes.
    pub(crate) fn size(&self) -> (usize, usize) {
        let inner = |sizes: &mut dyn Iterator<Item = (usize, usize)>| {
            sizes.fold((1, 1), |(count, depth), (more, below)| (count + more, depth.max(below + 1)))
        };
        match &self.kind {
            Kind::Map(map) => inner(&mut map.iter().map(|(_, entry)| entry.value.size())),
            Kind::Array(values) => inner(&mut values.iter().map(Self::size)),
            _ => (1, 1),
        }
    }
}

impl Kind {
    /// What to call it in a message.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Map(_) => "map",
            Self::Array(_) => "array",
            Self::String(_) => "string",
            Self::Integer(_) => "integer",
            Self::Float(_) => "float",
            Self::Bool(_) => "boolean",
            Self::Datetime(_) => "datetime",
        }
    }
}

impl From<Kind> for Value {
    fn from(kind: Kind) -> Self {
        Self { kind, position: Position::default() }
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Kind::Map(map).into()
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Kind::String(text.into()).into()
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Kind::String(text).into()
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Kind::String(text.clone()).into()
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Kind::Bool(value).into()
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Kind::Integer(value).into()
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Self {
        Kind::Integer(value.into()).into()
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Kind::Integer(value.into()).into()
    }
}

impl From<u16> for Value {
    fn from(value: u16) -> Self {
        Kind::Integer(value.into()).into()
    }
}

impl From<f64> for Value {
    /// # Panics
    /// If the number is not finite: the language cannot write it.
    fn from(value: f64) -> Self {
        assert!(value.is_finite(), "{value} cannot be written in a configuration");
        Kind::Float(value).into()
    }
}

impl<T: Into<Self>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        Kind::Array(values.into_iter().map(Into::into).collect()).into()
    }
}

impl<T: Into<Self>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Kind::Array(values.into_iter().map(Into::into).collect()).into()
    }
}

impl<K: Into<String>, V: Into<Self>, const N: usize> From<[(K, V); N]> for Value {
    fn from(entries: [(K, V); N]) -> Self {
        let mut map = Map::default();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map.into()
    }
}
