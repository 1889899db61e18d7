//! The end of a shard: everything it owns is put on stable storage, so that the next start replays nothing.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;

use super::{Input, Shard};

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

    /// Takes a last checkpoint of every stream that has something the last one lacks, and releases the log.
    pub(super) fn finish(&mut self) {
        for group in self.groups() {
            self.begin_checkpoint(group);
        }
        let mut inputs = VecDeque::new();
        while self.jobs > 0 {
            self.inbox.take(&mut inputs, None, true);
            for input in inputs.drain(..) {
                match input {
                    Input::CheckpointDone { group, result } => self.checkpoint_done(group, result),
                    Input::LogFailed(reason) => self.fail_all(&reason),
                    // Too late: nothing more is taken in.
                    _ => {}
                }
            }
        }
        self.save_catalogue();
        self.send_records();
        self.outgoing.flush();
    }
}
