//! Details of streams and consumers, which their shards have: asked for a few streams at a time, so that no shard is held up for long.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use api::jetstream::cluster::ClusterInfo;
use api::jetstream::consumer::{ConsumerConfig, ConsumerInfo};
use api::jetstream::request::StreamInfoDetails;
use api::jetstream::stream::StreamInfo;
use api::monitor::{JszOptions, StreamDetail};
use jetstream::{Request, Response};

use crate::jetstream::shard::{Input, Respond};
use crate::jetstream::{ANSWER_WITHIN, AccountEntry, Shared, StreamEntry};
use crate::monitor::PageError;

/// Streams that are asked at one time.
const STREAMS_AT_ONCE: usize = 64;

/// Place of a stream among those asked, and what its shard says.
type Answer = (usize, Option<Response>);

/// The streams of an account, by name.
pub(super) fn streams(
    shared: &Shared,
    entry: &AccountEntry,
    options: &JszOptions,
) -> Result<Vec<StreamDetail>, PageError> {
    let mut details = Vec::new();
    for chunk in entry.sorted().chunks(STREAMS_AT_ONCE) {
        details.extend(ask(shared, chunk, options)?);
    }
    Ok(details)
}

/// What the shards say of these streams. A stream that goes meanwhile, or that failed to open, is left out.
fn ask(
    shared: &Shared,
    streams: &[Arc<StreamEntry>],
    options: &JszOptions,
) -> Result<Vec<StreamDetail>, PageError> {
    let (sender, receiver) = channel();
    let mut questions = 0;
    for (place, stream) in streams.iter().enumerate() {
        let mut ask = |request| {
            questions += 1;
            question(stream, request, place, sender.clone());
        };
        ask(Request::StreamInfo(StreamInfoDetails::default()));
        if options.consumer || options.direct_consumer {
            ask(Request::ListConsumers { offset: 0, limit: usize::MAX, infos: true });
        }
    }
    let mut details: Vec<Option<StreamDetail>> = streams.iter().map(|_| None).collect();
    let mut consumers: Vec<Vec<ConsumerInfo>> = streams.iter().map(|_| Vec::new()).collect();
    for _ in 0..questions {
        let (place, answer) = receiver.recv_timeout(ANSWER_WITHIN).map_err(|_| PageError::Busy)?;
        match answer {
            Some(Response::StreamPage { info, .. }) => {
                details[place] = Some(detail(&shared.server.identity.name, *info, options));
            }
            Some(Response::Consumers { infos, .. }) => consumers[place] = infos,
            _ => {}
        }
    }
    let complete = details.into_iter().zip(consumers).filter_map(|(detail, consumers)| {
        let [consumers, direct_consumers] = sort(consumers, options);
        Some(StreamDetail { consumers, direct_consumers, ..detail? })
    });
    Ok(complete.collect())
}

fn detail(server: &str, info: StreamInfo, options: &JszOptions) -> StreamDetail {
    StreamDetail {
        created: info.created,
        cluster: Some(ClusterInfo { leader: server.to_owned(), ..ClusterInfo::default() }),
        state: info.state,
        mirror: info.mirror,
        sources: info.sources,
        name: info.config.name.clone(),
        config: options.config.then_some(info.config),
        ..StreamDetail::default()
    }
}

fn question(stream: &StreamEntry, request: Request, place: usize, sender: Sender<Answer>) {
    let respond = Respond::new(move |_, result| {
        // Who asked may have lost patience.
        drop(sender.send((place, result.ok())));
    });
    stream.inbox.push(Input::Glance { group: stream.group, request: Box::new(request), respond });
}

/// Those that users have made and those of mirrors and sources, as far as each are asked for.
fn sort(consumers: Vec<ConsumerInfo>, options: &JszOptions) -> [Vec<ConsumerInfo>; 2] {
    let mut sorted = [Vec::new(), Vec::new()];
    for mut consumer in consumers {
        let internal = consumer.config.as_ref().is_some_and(ConsumerConfig::is_internal);
        let wanted = if internal { options.direct_consumer } else { options.consumer };
        if !options.config {
            consumer.config = None;
        }
        if wanted {
            sorted[usize::from(internal)].push(consumer);
        }
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumers_of_mirrors_are_listed_apart() {
        let consumer = |name: &str, direct| ConsumerInfo {
            name: name.to_owned(),
            config: Some(ConsumerConfig { direct, ..ConsumerConfig::default() }),
            ..ConsumerInfo::default()
        };
        let all = || vec![consumer("a", false), consumer("m", true)];
        let options = JszOptions { consumer: true, ..JszOptions::default() };
        let [users, internal] = sort(all(), &options);
        assert_eq!((users.len(), internal.len()), (1, 0));
        assert_eq!((users[0].name.as_str(), &users[0].config), ("a", &None));
        let options = JszOptions { direct_consumer: true, config: true, ..JszOptions::default() };
        let [users, internal] = sort(all(), &options);
        assert_eq!((users.len(), internal.len()), (0, 1));
        assert!(internal[0].config.is_some());
    }
}
