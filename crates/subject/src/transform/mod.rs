//! Transforms: a source pattern, a destination with functions, and the subject that comes out.
//!
//! A destination token is copied as it is, or is a function of the tokens that stand for `*` in the source.
//! `>` at the end of both copies what is left of the subject.

mod functions;
mod parse;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::matching::{is_subset, matches};
use crate::subject::{ONE, REST, SEPARATOR, has_empty_token, has_wildcard, tokens};
use parse::Function;

/// Why a transform was refused. Texts are those that clients see.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransformError {
    /// One of the two is no subject, the destination holds `*`, or only one of them ends with `>`.
    #[error("invalid subject")]
    InvalidSubject,
    /// A function names a wildcard that the source does not have.
    #[error("invalid mapping destination: wildcard index out of range in {0}")]
    IndexOutOfRange(String),
    /// A function that this language does not have.
    #[error("invalid mapping destination: unknown function in {0}")]
    UnknownFunction(String),
    /// An argument is missing.
    #[error("invalid mapping destination: not enough arguments passed to the function in {0}")]
    NotEnoughArguments(String),
    /// An argument is too much.
    #[error("invalid mapping destination: too many arguments passed to the function in {0}")]
    TooManyArguments(String),
    /// An argument is no number, or a separator holds a space or a dot.
    #[error("invalid mapping destination: function argument is invalid or in the wrong format in {0}")]
    InvalidArgument(String),
    /// An import must be reversible, so it has wildcards only.
    #[error(
        "invalid mapping destination: the only mapping function allowed for import transforms is {{{{Wildcard()}}}} in {0}"
    )]
    NotReversible(String),
    /// An import must be reversible, so it names every wildcard.
    #[error("invalid mapping destination: not using all of the token wildcard(s) in {0}")]
    WildcardUnused(String),
}

/// One token of a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// Copied as it is.
    Literal(Box<[u8]>),
    /// A function of tokens of the subject. The indexes are those of whole tokens, from 0.
    Function(Function, Box<[usize]>),
    /// The rest of the subject.
    Rest,
}

/// A checked pair of source and destination.
#[derive(Debug)]
pub struct Transform {
    source: Box<[u8]>,
    destination: Box<[u8]>,
    parts: Box<[Part]>,
    /// Number of tokens of the source before its `>`.
    prefix_tokens: usize,
    /// State of the generator behind `{{random(n)}}`; it starts from the text of the transform.
    random: AtomicU64,
}

impl Transform {
    /// The transform from `source` to `destination`. An empty source is `>`.
    ///
    /// An empty destination, which stands for "no transform" in some documents, is invalid here.
    pub fn new(source: &[u8], destination: &[u8]) -> Result<Self, TransformError> {
        Self::build(source, destination, false)
    }

    /// A transform that can be reversed: its only function is the wildcard and all of them are named.
    pub fn reversible(source: &[u8], destination: &[u8]) -> Result<Self, TransformError> {
        Self::build(source, destination, true)
    }

    /// The transform that undoes this one. Made by [`Transform::reversible`], every transform has it.
    pub fn reverse(&self) -> Result<Self, TransformError> {
        let mut ordinals = self.ordinals().into_iter();
        let mut next_source = Vec::with_capacity(self.destination.len());
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                next_source.push(SEPARATOR);
            }
            match part {
                Part::Literal(text) => next_source.extend_from_slice(text),
                Part::Function(..) => next_source.extend_from_slice(ONE),
                Part::Rest => next_source.extend_from_slice(REST),
            }
        }
        let mut next_destination = Vec::with_capacity(self.source.len());
        for (index, token) in tokens(&self.source).enumerate() {
            if index > 0 {
                next_destination.push(SEPARATOR);
            }
            if token == ONE {
                let ordinal =
                    ordinals.next().ok_or_else(|| TransformError::WildcardUnused(text(&self.destination)))?;
                next_destination.extend_from_slice(format!("${ordinal}").as_bytes());
            } else {
                next_destination.extend_from_slice(token);
            }
        }
        Self::build(&next_source, &next_destination, true)
    }

    /// The pattern that a subject must match.
    pub fn source(&self) -> &[u8] {
        &self.source
    }

    /// The destination as it was written.
    pub fn destination(&self) -> &[u8] {
        &self.destination
    }

    /// What `literal` becomes; `None` if the source does not match it.
    ///
    /// A split of a token that is nothing but separators leaves an empty token behind, and no subscription
    /// matches such a subject.
    pub fn apply(&self, literal: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(literal.len().max(self.destination.len()));
        self.apply_to(literal, &mut out).then_some(out)
    }

    /// Appends what `literal` becomes to `out`; false, and nothing appended, if the source does not match it.
    pub fn apply_to(&self, literal: &[u8], out: &mut Vec<u8>) -> bool {
        if has_wildcard(literal) || !matches(literal, &self.source) {
            return false;
        }
        self.write(literal, out);
        true
    }

    /// What the subjects of `subset` become, as a pattern; `None` if the source does not match all of them. Only wildcards
    /// can be carried over, so this is for transforms made by [`Transform::reversible`].
    pub fn apply_pattern(&self, subset: &[u8]) -> Option<Vec<u8>> {
        if !is_subset(subset, &self.source) {
            return None;
        }
        let mut out = Vec::with_capacity(subset.len().max(self.destination.len()));
        self.write(subset, &mut out);
        Some(out)
    }

    fn write(&self, literal: &[u8], out: &mut Vec<u8>) {
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                out.push(SEPARATOR);
            }
            match part {
                Part::Literal(text) => out.extend_from_slice(text),
                Part::Rest => out.extend_from_slice(self.rest_of(literal)),
                Part::Function(function, indexes) => {
                    functions::write(function, indexes, literal, || self.next_random(), out);
                }
            }
        }
    }

    fn build(source: &[u8], destination: &[u8], reversible: bool) -> Result<Self, TransformError> {
        let source = if source.is_empty() { REST } else { source };
        let from = Shape::of(source).ok_or(TransformError::InvalidSubject)?;
        let to = Shape::of(destination).ok_or(TransformError::InvalidSubject)?;
        if !to.wildcards.is_empty() || from.rest != to.rest || has_space(source) {
            return Err(TransformError::InvalidSubject);
        }
        let mut parts = Vec::new();
        let mut used = 0;
        for token in tokens(destination) {
            let part = if token == REST { Part::Rest } else { from.part(token, reversible)? };
            if let Part::Function(_, indexes) = &part {
                used += indexes.len();
            }
            parts.push(part);
        }
        if reversible && used < from.wildcards.len() {
            return Err(TransformError::WildcardUnused(text(destination)));
        }
        let seed = functions::fnv(&[source, destination]);
        Ok(Self {
            source: source.into(),
            destination: destination.into(),
            parts: parts.into(),
            prefix_tokens: tokens(source).count() - usize::from(from.rest),
            random: AtomicU64::new(u64::from(seed)),
        })
    }

    /// For each `*` of the source, in order, which function of the destination (from 1) holds it.
    fn ordinals(&self) -> Vec<usize> {
        let held: Vec<&[usize]> = self
            .parts
            .iter()
            .filter_map(|part| if let Part::Function(_, indexes) = part { Some(&**indexes) } else { None })
            .collect();
        let stars = tokens(&self.source).enumerate().filter(|(_, token)| *token == ONE);
        stars
            .filter_map(|(star, _)| held.iter().position(|indexes| indexes.contains(&star)).map(|at| at + 1))
            .collect()
    }

    /// What of `literal` stands for the `>` of the source.
    fn rest_of<'a>(&self, literal: &'a [u8]) -> &'a [u8] {
        let skipped: usize = tokens(literal).take(self.prefix_tokens).map(|token| token.len() + 1).sum();
        &literal[skipped..]
    }

    fn next_random(&self) -> u32 {
        // A counter spread over 64 bits by an odd step, and then mixed: no lock, and no two calls are alike.
        let mut z = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // 31 bits: what a signed number of 32 bits holds.
        u32::try_from(z >> 33).unwrap_or(0)
    }
}

impl Clone for Transform {
    fn clone(&self) -> Self {
        Self {
            source: self.source.clone(),
            destination: self.destination.clone(),
            parts: self.parts.clone(),
            prefix_tokens: self.prefix_tokens,
            random: AtomicU64::new(self.random.load(Ordering::Relaxed)),
        }
    }
}

impl PartialEq for Transform {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.destination == other.destination
    }
}

impl Eq for Transform {}

/// What the tokens of one side look like.
struct Shape {
    /// Indexes of the tokens `*`.
    wildcards: Vec<usize>,
    /// Whether it ends with `>`.
    rest: bool,
}

impl Shape {
    /// `None` if a token is empty or `>` is not the last.
    fn of(subject: &[u8]) -> Option<Self> {
        let mut shape = Self { wildcards: Vec::new(), rest: false };
        if has_empty_token(subject) {
            return None;
        }
        for (index, token) in tokens(subject).enumerate() {
            if shape.rest {
                return None;
            }
            shape.rest = token == REST;
            if token == ONE {
                shape.wildcards.push(index);
            }
        }
        Some(shape)
    }

    /// The part that a token of the destination becomes, when this is the source.
    fn part(&self, token: &[u8], reversible: bool) -> Result<Part, TransformError> {
        let Some((function, arguments)) = parse::function(token)? else {
            if has_space(token) {
                return Err(TransformError::InvalidSubject);
            }
            return Ok(Part::Literal(token.into()));
        };
        let free = matches!(function, Function::Random(_) | Function::Partition(_));
        if self.wildcards.is_empty() && !self.rest {
            // Nothing to name: the hash is over the whole subject, and positions are not looked at.
            return if free {
                Ok(Part::Function(function, Box::default()))
            } else {
                Err(TransformError::IndexOutOfRange(text(token)))
            };
        }
        if reversible && function != Function::Wildcard {
            return Err(TransformError::NotReversible(text(token)));
        }
        let mut indexes = Vec::with_capacity(arguments.len());
        for ordinal in arguments {
            // Ordinals below 1 name the first token, as they always did.
            let index = match usize::try_from(ordinal) {
                Ok(ordinal) if ordinal >= 1 => self.wildcards.get(ordinal - 1).copied(),
                _ => Some(0),
            };
            let Some(index) = index else {
                return Err(TransformError::IndexOutOfRange(format!("{}: [{ordinal}]", text(token))));
            };
            indexes.push(index);
        }
        Ok(Part::Function(function, indexes.into()))
    }
}

/// A destination in which every `*` of `pattern` has its number: `a.*.*` becomes `a.$1.$2`.
pub fn numbered(pattern: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(pattern.len() + 4);
    let mut number = 0;
    for (index, token) in tokens(pattern).enumerate() {
        if index > 0 {
            out.push(SEPARATOR);
        }
        if token == ONE {
            number += 1;
            out.extend_from_slice(format!("${number}").as_bytes());
        } else {
            out.extend_from_slice(token);
        }
    }
    out
}

/// The subjects that a destination of wildcards can give: `a.$2.{{wildcard(1)}}` becomes `a.*.*`.
pub fn pattern(destination: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(destination.len());
    for (index, token) in tokens(destination).enumerate() {
        if index > 0 {
            out.push(SEPARATOR);
        }
        let is_wildcard = matches!(parse::function(token), Ok(Some((Function::Wildcard, _))));
        out.extend_from_slice(if is_wildcard { ONE } else { token });
    }
    out
}

/// Whether a byte would end a subject on the wire.
fn has_space(subject: &[u8]) -> bool {
    subject.iter().any(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'\x0c'))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
