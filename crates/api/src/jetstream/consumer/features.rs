//! Checks of the options that the reference does not have.

use super::{AckPolicy, ConsumerConfig};
use crate::ApiError;
use crate::error::jetstream::ErrorCode;
use crate::jetstream::limits::ServerLimits;
use crate::jetstream::stream::StreamConfig;
use crate::jetstream::subjects;

/// Longest subject for dead letters, in bytes.
const DEAD_LETTER_SUBJECT_BYTES_MAX: usize = 1024;

/// What comes after everything that the reference checks, so that its answers stay as they are.
pub(super) fn check(
    config: &ConsumerConfig,
    stream: &StreamConfig,
    server: &ServerLimits,
) -> Result<(), ApiError> {
    if let Some(feature) = server.features.lacks(config) {
        return Err(ErrorCode::FEATURE_NOT_SUPPORTED.because(feature.name()));
    }
    check_dead_letter(config, stream)?;
    check_per_subject(config)
}

fn check_dead_letter(config: &ConsumerConfig, stream: &StreamConfig) -> Result<(), ApiError> {
    let subject = config.dead_letter_subject.as_str();
    if subject.is_empty() {
        return Ok(());
    }
    let refused = |text: &str| Err(ErrorCode::CONSUMER_DEAD_LETTER_SUBJECT_INVALID.because(text));
    if subject.len() > DEAD_LETTER_SUBJECT_BYTES_MAX {
        return refused("is too long");
    }
    if !subjects::is_valid(subject) {
        return refused("is not valid");
    }
    if !subjects::is_literal(subject) {
        return refused("must not have wildcards");
    }
    // What is published there has the rights of the server: it must not become a request to it.
    if subject.starts_with("$JS.") || subject.starts_with("$SYS.") {
        return refused("must not be one of the server's own");
    }
    if config.ack_policy != AckPolicy::Explicit {
        return Err(ErrorCode::CONSUMER_DEAD_LETTER_REQUIRES_EXPLICIT_ACK.into());
    }
    let stored = stream.subjects.iter().any(|stored| subjects::is_subset(subject, stored));
    let filters = config.filters();
    let wanted = filters.is_empty() || filters.iter().any(|filter| subjects::is_subset(subject, filter));
    if stored && (wanted || stream.subject_transform.is_some()) {
        return Err(ErrorCode::CONSUMER_DEAD_LETTER_CYCLE.into());
    }
    Ok(())
}

fn check_per_subject(config: &ConsumerConfig) -> Result<(), ApiError> {
    let limit = config.max_ack_pending_per_subject;
    if limit == 0 {
        return Ok(());
    }
    let refused = |text: &str| Err(ErrorCode::CONSUMER_ACK_PENDING_PER_SUBJECT_INVALID.because(text));
    if limit < 0 {
        return refused("must not be negative");
    }
    // To acknowledge all before would cover messages that were held back.
    if config.ack_policy != AckPolicy::Explicit {
        return refused("requires explicit ack policy");
    }
    if config.max_ack_pending > 0 && limit > config.max_ack_pending {
        return refused("must not be above max ack pending");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jetstream::account::Limits;
    use crate::jetstream::consumer::validate_create;
    use crate::jetstream::feature::Features;
    use crate::jetstream::stream::{StreamConfig, SubjectTransform};

    fn config() -> ConsumerConfig {
        ConsumerConfig {
            durable_name: "c".to_owned(),
            ack_policy: AckPolicy::Explicit,
            filter_subject: "orders.>".to_owned(),
            dead_letter_subject: "dead.orders".to_owned(),
            max_ack_pending_per_subject: 1,
            ..ConsumerConfig::default()
        }
    }

    fn judge(change: impl FnOnce(&mut ConsumerConfig, &mut StreamConfig)) -> (u16, String) {
        let mut config = config();
        let mut stream = StreamConfig { subjects: vec!["orders.>".to_owned()], ..StreamConfig::default() };
        change(&mut config, &mut stream);
        let server = ServerLimits::default();
        match validate_create(&config, &stream, &server, &Limits::UNLIMITED, false) {
            Ok(_) => (0, String::new()),
            Err(error) => (error.err_code, error.description),
        }
    }

    #[test]
    fn dead_letters_go_to_a_literal_subject_that_does_not_come_back() {
        assert_eq!(judge(|_, _| {}).0, 0);
        let subject = |subject: &'static str| judge(move |c, _| c.dead_letter_subject = subject.to_owned());
        assert_eq!(subject("a..b").1, "consumer dead letter subject is not valid");
        assert_eq!(subject("a.*").1, "consumer dead letter subject must not have wildcards");
        assert_eq!(subject("$JS.API.STREAM.DELETE.X").0, 20_001);
        assert_eq!(judge(|c, _| c.dead_letter_subject = "a".repeat(2000)).0, 20_001);
        assert_eq!(subject("orders.dead").0, 20_002);
        assert_eq!(
            judge(|c, _| (c.ack_policy, c.max_ack_pending_per_subject) = (AckPolicy::All, 0)).0,
            20_003
        );
        // The stream may keep its own dead letters as long as the consumer does not want them.
        let own = |c: &mut ConsumerConfig, s: &mut StreamConfig| {
            c.filter_subject = "orders.new".to_owned();
            c.dead_letter_subject = "orders.dead".to_owned();
            s.subject_transform = None;
        };
        assert_eq!(judge(own).0, 0);
        let transformed = judge(|c, s| {
            own(c, s);
            s.subject_transform = Some(SubjectTransform::default());
        });
        assert_eq!(transformed.0, 20_002);
    }

    #[test]
    fn limits_for_each_subject_fit_the_other_limits() {
        assert_eq!(judge(|c, _| c.max_ack_pending_per_subject = -1).0, 20_004);
        assert_eq!(judge(|c, _| (c.max_ack_pending, c.max_ack_pending_per_subject) = (5, 5)).0, 0);
        let above = judge(|c, _| (c.max_ack_pending, c.max_ack_pending_per_subject) = (5, 6));
        assert_eq!(above.1, "consumer max ack pending per subject must not be above max ack pending");
        assert_eq!(judge(|c, _| (c.max_ack_pending, c.max_ack_pending_per_subject) = (-1, 6)).0, 0);
        for policy in [AckPolicy::None, AckPolicy::All] {
            let other = |c: &mut ConsumerConfig, _: &mut StreamConfig| {
                c.ack_policy = policy;
                c.dead_letter_subject.clear();
            };
            assert_eq!(judge(other).1, "consumer max ack pending per subject requires explicit ack policy");
            let off = judge(|c, s| {
                other(c, s);
                c.max_ack_pending_per_subject = 0;
            });
            assert_eq!(off.0, 0);
        }
    }

    #[test]
    fn options_that_an_older_server_does_not_know_are_refused_by_name() {
        let server = ServerLimits {
            features: Features::OWN.common(Features::of_names(["dead_letter_subject"])),
            ..ServerLimits::default()
        };
        let stream = StreamConfig::default();
        let check =
            |config: &ConsumerConfig| check(config, &stream, &server).map_err(|error| error.description);
        let text = "max_ack_pending_per_subject is not supported by all servers that may hold the stream";
        assert_eq!(check(&config()), Err(text.to_owned()));
        assert_eq!(check(&ConsumerConfig { max_ack_pending_per_subject: 0, ..config() }), Ok(()));
    }

    #[test]
    fn what_is_not_set_is_not_written() {
        let json = crate::json::to_vec(&ConsumerConfig::default()).unwrap();
        let text = String::from_utf8(json).unwrap();
        assert!(!text.contains("dead_letter") && !text.contains("per_subject"), "{text}");
        let json = crate::json::to_vec(&config()).unwrap();
        let text = String::from_utf8(json).unwrap();
        assert!(
            text.ends_with(r#","dead_letter_subject":"dead.orders","max_ack_pending_per_subject":1}"#),
            "{text}"
        );
    }
}
