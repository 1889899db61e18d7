//! The end of a shard: everything it owns is put on stable storage, so that the next start replays nothing.

use std::sync::Arc;

use super::Shard;
use super::hosted::Checkpoint;

impl Shard {
    /// Takes a last checkpoint of every stream that has something the last one lacks.
    pub(super) fn finish(&mut self) {
        let mut groups: Vec<u64> = self.hosted.keys().copied().collect();
        groups.sort_unstable();
        for group in groups {
            self.finish_stream(group);
        }
        self.save_catalogue();
        self.send_records();
        self.outgoing.flush();
    }

    fn finish_stream(&mut self, group: u64) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        // A job that is out is finished by its thread; what it lacks is in the log.
        let is_clean = hosted.applied == hosted.covered;
        if !hosted.durable || hosted.failed.is_some() || hosted.checkpoint != Checkpoint::Idle || is_clean {
            return;
        }
        hosted.covered = hosted.applied;
        let job = match hosted.stream.checkpoint() {
            Ok(job) => job,
            Err(error) => {
                let (account, name) = (hosted.entry.account.account.name(), &hosted.entry.name);
                // Nothing is lost: the log has it.
                return tracing::error!("JetStream stream '{account} > {name}': {error}");
            }
        };
        self.shared.workers.checkpoint(group, Arc::clone(&self.inbox), job);
    }
}
