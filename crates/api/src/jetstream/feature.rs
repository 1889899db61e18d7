//! Options that the reference does not have, and which of them all servers of a group know.
//!
//! A server that does not know an option would drop it silently from what it stores. So a stream takes an option only if every server that may
//! hold a replica has told that it knows it; else the request is refused by the name of the option.

use super::consumer::ConsumerConfig;

/// An option beyond the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// `dead_letter_subject` of a consumer.
    DeadLetterSubject,
    /// `max_ack_pending_per_subject` of a consumer.
    AckPendingPerSubject,
}

impl Feature {
    /// All that this version knows.
    pub const ALL: [Self; 2] = [Self::DeadLetterSubject, Self::AckPendingPerSubject];

    /// What the option is called, in configurations and between servers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DeadLetterSubject => "dead_letter_subject",
            Self::AckPendingPerSubject => "max_ack_pending_per_subject",
        }
    }

    const fn bit(self) -> u32 {
        match self {
            Self::DeadLetterSubject => 1,
            Self::AckPendingPerSubject => 1 << 1,
        }
    }

    /// Whether a consumer uses it.
    pub fn is_used(self, config: &ConsumerConfig) -> bool {
        match self {
            Self::DeadLetterSubject => !config.dead_letter_subject.is_empty(),
            Self::AckPendingPerSubject => config.max_ack_pending_per_subject != 0,
        }
    }
}

/// A set of options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features(u32);

impl Features {
    /// None: what a server knows that has not told.
    pub const NONE: Self = Self(0);
    /// Those of this version.
    pub const OWN: Self = Self(Feature::DeadLetterSubject.bit() | Feature::AckPendingPerSubject.bit());

    /// The set that a server told by names. Names of later versions are passed over.
    pub fn of_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let known = |name: &str| Feature::ALL.into_iter().find(|feature| feature.name() == name);
        Self(names.into_iter().filter_map(known).fold(0, |bits, feature| bits | feature.bit()))
    }

    /// The names to tell others.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Feature::ALL.into_iter().filter(move |feature| self.contains(*feature)).map(Feature::name)
    }

    /// Those that are in both sets.
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether an option is among them.
    pub const fn contains(self, feature: Feature) -> bool {
        self.0 & feature.bit() != 0
    }

    /// The first option that a consumer uses and that is not among them.
    pub fn lacks(self, config: &ConsumerConfig) -> Option<Feature> {
        Feature::ALL.into_iter().find(|feature| feature.is_used(config) && !self.contains(*feature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_knows_what_its_oldest_server_knows() {
        let told: Vec<&str> = Features::OWN.names().collect();
        assert_eq!(told, ["dead_letter_subject", "max_ack_pending_per_subject"]);
        assert_eq!(Features::of_names(told), Features::OWN);
        let older = Features::of_names(["dead_letter_subject", "of a later version"]);
        let group = Features::OWN.common(older);
        assert!(group.contains(Feature::DeadLetterSubject) && !group.contains(Feature::AckPendingPerSubject));
        let mut config = ConsumerConfig { dead_letter_subject: "d".to_owned(), ..ConsumerConfig::default() };
        assert_eq!(group.lacks(&config), None);
        config.max_ack_pending_per_subject = 1;
        assert_eq!(group.lacks(&config), Some(Feature::AckPendingPerSubject));
        assert_eq!(Features::NONE.lacks(&config), Some(Feature::DeadLetterSubject));
        assert_eq!(Features::NONE.lacks(&ConsumerConfig::default()), None);
    }
}
