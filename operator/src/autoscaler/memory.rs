//! What is remembered between looks. A new operator begins with what the status says and is careful until its memory is full.

use std::collections::VecDeque;

use crd::nats_autoscaler::source::Source;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::need::Track;

/// Looks remembered at most: those of the longest window at the shortest interval, and some.
const NEEDS_MAX: usize = 4096;
/// Changes remembered at most.
const CHANGES_MAX: usize = 2048;
/// Changes that the status tells the next operator of at most.
const RECENT_MAX: usize = 32;
/// The longest period of a step; what is older counts for none.
const RECENT_AGE_MAX: SignedDuration = SignedDuration::from_mins(30);

/// The memory of one autoscaler.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Needs, oldest first.
    needs: VecDeque<(Timestamp, i32)>,
    /// Changes that were made, oldest first.
    changes: VecDeque<(Timestamp, i32)>,
    /// When there was work last.
    pub last_active: Timestamp,
    /// Looks in a row without an answer.
    pub failures: u32,
    followed: Vec<Followed>,
}

/// What is remembered of one source.
#[derive(Clone, Debug)]
pub struct Followed {
    /// What the source reads.
    place: Source,
    /// Since when it is read.
    since: Timestamp,
    /// What was learnt.
    pub track: Track,
}

impl Followed {
    /// When the source was last read, or else when it was to be read first.
    #[must_use]
    pub fn read_at(&self) -> Timestamp {
        self.track.read_at().unwrap_or(self.since)
    }
}

impl Memory {
    /// A memory of nothing but `replicas` at `now`: for a whole window nothing less is needed, as far as anybody can tell.
    #[must_use]
    pub fn new(now: Timestamp, replicas: i32, last_active: Option<Timestamp>) -> Self {
        Self {
            // Right before now, so that without a window it holds up nothing.
            needs: VecDeque::from([(now - SignedDuration::from_millis(1), replicas)]),
            changes: VecDeque::new(),
            last_active: last_active.unwrap_or(now).min(now),
            failures: 0,
            followed: Vec::new(),
        }
    }

    /// The same with changes that an operator before this one made, oldest first.
    #[must_use]
    pub fn recalled(mut self, changes: impl IntoIterator<Item = (Timestamp, i32)>) -> Self {
        for (at, by) in changes {
            self.changed(at, by);
        }
        self
    }

    /// Changes that may still count for a step, oldest first.
    pub fn recent(&self, now: Timestamp) -> impl Iterator<Item = (Timestamp, i32)> {
        let first = self.changes.len().saturating_sub(RECENT_MAX);
        let counts = move |(at, _): &(Timestamp, i32)| now.duration_since(*at) < RECENT_AGE_MAX;
        self.changes.iter().skip(first).copied().filter(counts)
    }

    /// What is remembered of each of `sources`, in their order. What a former source taught counts for none of them, while one that only has
    /// another target or another position keeps what it learnt.
    pub fn follow(&mut self, now: Timestamp, sources: &[Source]) -> &mut [Followed] {
        let mut former = std::mem::take(&mut self.followed);
        self.followed.extend(sources.iter().map(Source::place).map(|place| {
            let known = former.iter().position(|followed| followed.place == place);
            known.map_or_else(
                || Followed { place, since: now, track: Track::default() },
                |at| former.remove(at),
            )
        }));
        &mut self.followed
    }

    /// Remembers a need.
    pub fn needed(&mut self, now: Timestamp, replicas: i32) {
        if self.needs.len() >= NEEDS_MAX {
            self.needs.pop_front();
        }
        self.needs.push_back((now, replicas));
    }

    /// Remembers a change that was made.
    pub fn changed(&mut self, now: Timestamp, by: i32) {
        if self.changes.len() >= CHANGES_MAX {
            self.changes.pop_front();
        }
        self.changes.push_back((now, by));
    }

    /// Smallest and largest need within a time.
    #[must_use]
    pub fn needs(&self, now: Timestamp, within: SignedDuration) -> Option<(i32, i32)> {
        let recent =
            || self.needs.iter().filter(|(at, _)| now.duration_since(*at) <= within).map(|(_, n)| *n);
        Some((recent().min()?, recent().max()?))
    }

    /// Replicas that were added, or taken away, within a time.
    #[must_use]
    pub fn change(&self, now: Timestamp, within: SignedDuration, added: bool) -> i32 {
        self.changes
            .iter()
            .rev()
            .take_while(|(at, _)| now.duration_since(*at) < within)
            .filter(|(_, by)| (*by > 0) == added)
            .map(|(_, by)| by.abs())
            .fold(0, i32::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::need::{self, Counts, Reading, Sample, SlowMembers};
    use super::*;

    fn sources(entries: &[Value]) -> Vec<Source> {
        entries.iter().map(|entry| serde_json::from_value(entry.clone()).unwrap()).collect()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn consumer(cluster: &str, name: &str, seconds: &str) -> Value {
        json!({ "clusterRef": { "name": cluster },
            "consumer": { "stream": "S", "consumer": name, "drainTime": { "target": seconds } } })
    }

    /// Two replicas did 100 in each of ten seconds, out of a backlog that stays.
    fn taught(sources: &[Source]) -> Memory {
        let mut memory = Memory::new(at(0), 2, None);
        for second in [0, 10] {
            for (source, followed) in sources.iter().zip(memory.follow(at(second), sources)) {
                need::need(source, &mut followed.track, &worked(second), 2);
            }
        }
        memory
    }

    fn worked(second: i64) -> Reading {
        let sample = Sample::Consumer {
            created: api::Time::ZERO,
            pending: 5000,
            ack_pending: 0,
            acknowledged: second * 100,
            waiting: 0,
            ack_pending_max: 0,
            paused: false,
        };
        Reading { at: at(second), sample }
    }

    /// What a replica does in a second, as far as it is known after one more look at each source.
    fn rates(memory: &mut Memory, sources: &[Source]) -> Vec<Option<f64>> {
        let followed = memory.follow(at(20), sources);
        let look = |(source, followed): (&Source, &mut Followed)| {
            need::need(source, &mut followed.track, &worked(20), 2)?.service_rate
        };
        sources.iter().zip(followed).map(look).collect()
    }

    #[test]
    fn what_one_source_taught_counts_for_no_other_in_its_place() {
        let before = sources(&[consumer("nats", "c", "30s"), consumer("nats", "d", "30s")]);
        let asked = |after: &[Value]| rates(&mut taught(&before), &sources(after));
        let (known, unknown) = (Some(50.0), None);
        assert_eq!(asked(&[consumer("nats", "c", "60s"), consumer("nats", "d", "30s")]), [known, known]);
        assert_eq!(asked(&[consumer("nats", "e", "30s"), consumer("nats", "d", "30s")]), [unknown, known]);
        assert_eq!(asked(&[consumer("other", "c", "30s"), consumer("nats", "d", "30s")]), [unknown, known]);
        assert_eq!(asked(&[consumer("nats", "d", "30s")]), [known], "the first was taken away");
        assert_eq!(asked(&[consumer("nats", "x", "30s"), consumer("nats", "c", "30s")]), [unknown, known]);
        let twice = [consumer("nats", "c", "30s"), consumer("nats", "c", "60s")];
        assert_eq!(asked(&twice), [known, unknown], "what two sources learn is not one");
    }

    #[test]
    fn members_that_another_window_shows_were_not_cut_off_just_now() {
        let group = |measure: Value| {
            let mut group = json!({ "subject": "a", "queue": "q" });
            group.as_object_mut().unwrap().extend(measure.as_object().unwrap().clone());
            sources(&[json!({ "clusterRef": { "name": "nats" }, "queueGroup": group })])
        };
        let slow = |window: &str| group(json!({ "slowConsumers": { "window": window } }));
        let step = |before: &[Source], after: &[Source]| {
            let mut memory = Memory::new(at(0), 2, None);
            let mut look = |second, sources: &[Source], slow: SlowMembers| {
                let reading =
                    Reading { at: at(second), sample: Sample::Group { members: Counts::new(), slow } };
                let track = &mut memory.follow(at(second), sources)[0].track;
                need::need(&sources[0], track, &reading, 2).unwrap().step
            };
            look(0, before, SlowMembers::new());
            look(5, after, SlowMembers::from([("1".to_owned(), 100)]))
        };
        assert_eq!(step(&slow("300s"), &slow("300s")), Some(1));
        assert_eq!(step(&slow("60s"), &slow("300s")), Some(0));
        assert_eq!(step(&group(json!({ "pendingBytesPerMember": 9 })), &slow("300s")), Some(0));
    }

    #[test]
    fn a_source_that_came_later_is_not_stale_at_its_first_look() {
        let mut memory = taught(&sources(&[consumer("nats", "c", "30s")]));
        let both = sources(&[consumer("nats", "c", "30s"), consumer("nats", "d", "30s")]);
        let read = |memory: &mut Memory, second| -> Vec<Timestamp> {
            memory.follow(at(second), &both).iter().map(Followed::read_at).collect()
        };
        assert_eq!(read(&mut memory, 90), [at(10), at(90)]);
        assert_eq!(read(&mut memory, 95), [at(10), at(90)]);
    }
}
