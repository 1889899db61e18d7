//! Streams whose account has no JetStream: they stay open, so that the log does not have to keep what they have, but nobody leads them.

use api::error::jetstream::ErrorCode;

use super::Shard;

impl Shard {
    /// The stream leads, if its group has chosen this server and its account has JetStream.
    pub(super) fn serve(&mut self, group: u64) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        if !hosted.elected || hosted.leads {
            return;
        }
        if hosted.entry.account.is_enabled() {
            hosted.leads = true;
            hosted
                .with(&mut self.outgoing, self.now, |stream, outside, effects| stream.lead(outside, effects));
            let early = std::mem::take(&mut hosted.early);
            self.opened(group);
            for input in early {
                self.handle(input);
            }
            self.touch(group);
            return;
        }
        self.refuse_early(group, &ErrorCode::NOT_ENABLED_FOR_ACCOUNT.into());
        self.recovered(group);
    }

    /// The stream leads no longer. Who waits for an answer hears why there is none.
    pub(super) fn park(&mut self, group: u64) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        if !hosted.leads {
            return;
        }
        hosted.leads = false;
        hosted.with(&mut self.outgoing, self.now, |stream, outside, effects| stream.follow(outside, effects));
        for (_, respond) in hosted.responders.drain() {
            respond.call(&mut self.outgoing, Err(ErrorCode::NOT_ENABLED_FOR_ACCOUNT.into()));
        }
        hosted.entry.unsubscribe(&self.shared);
        self.touch(group);
    }

    /// Counts a stream of the start as recovered, once.
    pub(super) fn recovered(&mut self, group: u64) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        if std::mem::take(&mut hosted.recovering) {
            self.shared.health.recovered();
        }
    }
}
