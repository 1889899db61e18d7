//! The connections that one read, or one turn of a task, has written to: each is flushed once at its end.

use std::sync::Arc;

use super::outbound::Outbound;

/// Outbound sides that wait for a flush.
#[derive(Debug, Default)]
pub struct DirtySet(Vec<Arc<Outbound>>);

impl DirtySet {
    /// Notes that `outbound` was appended to.
    #[inline]
    pub fn mark(&mut self, outbound: &Arc<Outbound>) {
        if outbound.mark_dirty() {
            self.0.push(Arc::clone(outbound));
        }
    }

    /// Flushes all.
    pub fn flush(&mut self) {
        for outbound in self.0.drain(..) {
            outbound.flush();
        }
    }
}

impl Drop for DirtySet {
    /// Who marks owes a flush: a task that ends early must not leave bytes behind that others rely on it to write.
    fn drop(&mut self) {
        self.flush();
    }
}
