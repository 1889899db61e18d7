//! Threads for work that waits for the disk and that nobody's turn should: the jobs of checkpoints.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use store::stream::{CheckpointJob, Error};

use super::inbox::Inbox;
use super::shard::Input;
use super::slow::Watch;
use crate::clock;

/// Threads: enough to keep a disk busy while one waits for it.
const THREADS: usize = 2;

struct Task {
    group: u64,
    inbox: Arc<Inbox>,
    job: CheckpointJob,
}

/// The pool. Its queue is bounded by the number of streams, because each has at most one job out.
#[derive(Debug)]
pub struct Workers {
    queue: Mutex<Option<Sender<Task>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stats: Arc<Stats>,
}

/// Counters of checkpoints, for monitoring.
#[derive(Debug)]
pub struct Stats {
    /// Checkpoints written.
    pub checkpoints: AtomicU64,
    /// Those that took long.
    pub slow: Watch,
}

impl Workers {
    /// Starts the threads.
    pub fn start() -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let stats = Arc::new(Stats { checkpoints: AtomicU64::new(0), slow: Watch::new("a checkpoint") });
        let threads: std::io::Result<Vec<_>> = (0..THREADS)
            .map(|number| {
                let (receiver, stats) = (Arc::clone(&receiver), Arc::clone(&stats));
                let name = format!("checkpoint-{number}");
                std::thread::Builder::new().name(name).spawn(move || run(&receiver, &stats))
            })
            .collect();
        Ok(Self { queue: Mutex::new(Some(sender)), threads: Mutex::new(threads?), stats })
    }

    /// Counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Has the job done. The inbox hears of it.
    pub fn checkpoint(&self, group: u64, inbox: Arc<Inbox>, job: CheckpointJob) {
        let task = Task { group, inbox, job };
        if let Some(queue) = &*self.queue.lock() {
            // The threads end only after the queue was closed, which takes it away above.
            let _ = queue.send(task);
        }
    }

    /// Waits until all jobs are done and ends the threads.
    pub fn stop(&self) {
        drop(self.queue.lock().take());
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a checkpoint thread ended in a panic");
            }
        }
    }
}

fn run(receiver: &Mutex<Receiver<Task>>, stats: &Stats) {
    loop {
        let task = receiver.lock().recv();
        let Ok(Task { group, inbox, job }) = task else { return };
        let began = clock::now();
        // Who waits for it would wait for ever.
        let result = catch_unwind(AssertUnwindSafe(job))
            .unwrap_or_else(|_| Err(Error::Failed { reason: "its checkpoint ended in a panic".to_owned() }));
        let ended = clock::now();
        stats.checkpoints.fetch_add(1, Relaxed);
        stats.slow.took(ended.saturating_duration_since(began), ended);
        inbox.push(Input::CheckpointDone { group, result });
    }
}
