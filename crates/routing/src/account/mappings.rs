//! Mappings of an account: what is published to one subject goes to another.

use subject::transform::numbered;
use subject::{Transform, TransformError};

use crate::random::Random;

/// Weights of a mapping in all.
const WEIGHT_MAX: u8 = 100;

/// The mappings of one account, in the order in which they are tried.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Mappings(Vec<Mapping>);

#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    source: Box<[u8]>,
    /// Each with the sum of its weight and those before.
    destinations: Vec<(u8, Transform)>,
}

/// What became of a subject.
#[derive(Debug, PartialEq, Eq)]
pub enum Mapped {
    /// No mapping is about it.
    Unchanged,
    /// It goes here.
    To(Vec<u8>),
    /// It goes nowhere: the weights leave room for that.
    Lost,
}

impl Mappings {
    /// Mappings from source and destinations with their weights. The source itself takes what the weights leave, unless it
    /// is among the destinations.
    pub fn new<'a>(
        mappings: impl IntoIterator<Item = (&'a [u8], Vec<(&'a [u8], u8)>)>,
    ) -> Result<Self, TransformError> {
        let mut list = mappings
            .into_iter()
            .map(|(source, destinations)| Mapping::new(source, &destinations))
            .collect::<Result<Vec<_>, _>>()?;
        // The narrower sources first: a mapping of everything would hide all others.
        list.sort_by_key(|mapping| (subject::has_wildcard(&mapping.source), mapping.source.ends_with(b">")));
        Ok(Self(list))
    }

    /// Are there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where `literal` goes: the first mapping that is about it decides.
    pub fn select(&self, literal: &[u8], random: &mut Random) -> Mapped {
        let Some(mapping) = self.0.iter().find(|mapping| subject::matches(literal, &mapping.source)) else {
            return Mapped::Unchanged;
        };
        let chosen = match &mapping.destinations[..] {
            [(WEIGHT_MAX, only)] => Some(only),
            destinations => {
                let drawn = random.below(u32::from(WEIGHT_MAX));
                destinations.iter().find(|(sum, _)| drawn < u32::from(*sum)).map(|(_, transform)| transform)
            }
        };
        match chosen {
            // Wildcards in the subject itself are no subject to map.
            Some(transform) => transform.apply(literal).map_or(Mapped::Unchanged, Mapped::To),
            None => Mapped::Lost,
        }
    }
}

impl Mapping {
    fn new(source: &[u8], destinations: &[(&[u8], u8)]) -> Result<Self, TransformError> {
        let mut weighted = destinations
            .iter()
            .map(|(destination, weight)| Transform::new(source, destination).map(|made| (*weight, made)))
            .collect::<Result<Vec<_>, _>>()?;
        let total: u8 = weighted.iter().fold(0, |sum, (weight, _)| sum.saturating_add(*weight));
        let rest = WEIGHT_MAX.saturating_sub(total);
        let is_named = destinations.iter().any(|(destination, _)| *destination == source);
        if rest > 0 && !is_named {
            weighted.push((rest, Transform::new(source, &numbered(source))?));
        }
        weighted.sort_by_key(|(weight, _)| *weight);
        let mut sum = 0_u8;
        for (weight, _) in &mut weighted {
            sum = sum.saturating_add(*weight);
            *weight = sum;
        }
        Ok(Self { source: source.into(), destinations: weighted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(mappings: &Mappings, literal: &str) -> Vec<(String, u32)> {
        let mut random = Random::new(3);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..10_000 {
            let name = match mappings.select(literal.as_bytes(), &mut random) {
                Mapped::Unchanged => "unchanged".to_owned(),
                Mapped::To(subject) => String::from_utf8(subject).unwrap(),
                Mapped::Lost => "lost".to_owned(),
            };
            *counts.entry(name).or_insert(0) += 1;
        }
        counts.into_iter().collect()
    }

    #[test]
    fn one_destination_takes_all_and_others_are_left_alone() {
        let mappings = Mappings::new([(b"a.*".as_slice(), vec![(b"b.$1".as_slice(), 100)])]).unwrap();
        assert_eq!(counts(&mappings, "a.x"), [("b.x".to_owned(), 10_000)]);
        assert_eq!(counts(&mappings, "c"), [("unchanged".to_owned(), 10_000)]);
        assert_eq!(counts(&mappings, "a.*"), [("unchanged".to_owned(), 10_000)]);
    }

    #[test]
    fn weights_share_and_the_source_takes_the_rest() {
        let mappings =
            Mappings::new([(b"a".as_slice(), vec![(b"x".as_slice(), 20), (b"y".as_slice(), 30)])]).unwrap();
        let found = counts(&mappings, "a");
        for ((name, count), (expected, share)) in found.iter().zip([("a", 5_000), ("x", 2_000), ("y", 3_000)])
        {
            assert_eq!(name, expected);
            assert!(count.abs_diff(share) < 250, "{found:?}");
        }
    }

    #[test]
    fn a_source_that_is_named_leaves_the_rest_to_be_lost() {
        let mappings = Mappings::new([(b"a".as_slice(), vec![(b"a".as_slice(), 40)])]).unwrap();
        let found = counts(&mappings, "a");
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "lost"]);
        assert!(found[1].1.abs_diff(6_000) < 250, "{found:?}");
    }

    #[test]
    fn narrower_sources_come_first() {
        let all = |to: &'static [u8]| vec![(to, 100)];
        let mappings = Mappings::new([
            (b">".as_slice(), all(b"rest.>")),
            (b"a.*".as_slice(), all(b"star.$1")),
            (b"a.b".as_slice(), all(b"exact")),
        ])
        .unwrap();
        let mut random = Random::new(1);
        for (literal, expected) in [("a.b", "exact"), ("a.c", "star.c"), ("b", "rest.b")] {
            let found = mappings.select(literal.as_bytes(), &mut random);
            assert_eq!(found, Mapped::To(expected.as_bytes().to_vec()));
        }
    }
}
