//! The end of a shard: everything it owns is put on stable storage, so that the next start replays nothing.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use super::Shard;
use super::hosted::Checkpoint;

impl Shard {
    /// Tells clients that wait for messages that the server ends.
    pub(super) fn take_leave(&mut self, told: &SyncSender<()>) {
        for group in self.groups() {
            let Some(hosted) = self.hosted.get_mut(&group).filter(|hosted| hosted.leads) else { continue };
            hosted.with(&mut self.outgoing, self.now, |stream, outside, effects| {
                stream.take_leave(outside, effects);
            });
            self.touch(group);
        }
        self.settle();
        // Who asked may have given up waiting.
        let _ = told.try_send(());
    }

    fn groups(&self) -> Vec<u64> {
        let mut groups: Vec<u64> = self.hosted.keys().copied().collect();
        groups.sort_unstable();
        groups
    }

    /// Takes a last checkpoint of every stream that has something the last one lacks.
    pub(super) fn finish(&mut self) {
        for group in self.groups() {
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
