//! What a node knows of the other servers it shares groups with, and the batches it fills for them.

use std::collections::VecDeque;

use bytes::BytesMut;

use crate::message::{HEADER_LEN, Message, begin_batch, end_batch};
use crate::output::Output;
use crate::start::PeerId;

/// One other server.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) peer: PeerId,
    /// Groups shared with it.
    groups: u32,
    /// Empty, or a batch that was begun.
    batch: BytesMut,
    /// A batch goes out at the end of the turn even without messages.
    beat: bool,
    /// Tick of the last batch from it.
    pub(crate) heard_at: u64,
    /// Tick of the last batch to it.
    pub(crate) sent_at: u64,
    /// Nothing was heard for so long that it may be gone.
    pub(crate) silent: bool,
}

/// All of them, by peer.
#[derive(Debug, Default)]
pub(crate) struct Links {
    links: Vec<Link>,
    /// Batches and beats that wait for the end of the turn.
    waiting: bool,
    batch_bytes_max: usize,
}

impl Links {
    pub(crate) fn new(batch_bytes_max: usize) -> Self {
        Self { links: Vec::new(), waiting: false, batch_bytes_max }
    }

    pub(crate) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Link> {
        let at = self.links.binary_search_by_key(&peer, |link| link.peer).ok()?;
        Some(&mut self.links[at])
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.links.iter_mut()
    }

    /// Whether nothing was heard from the peer for long.
    pub(crate) fn is_silent(&self, peer: PeerId) -> bool {
        self.links.binary_search_by_key(&peer, |link| link.peer).is_ok_and(|at| self.links[at].silent)
    }

    /// A group is shared with the peer from now on.
    pub(crate) fn add(&mut self, peer: PeerId, now: u64) {
        match self.links.binary_search_by_key(&peer, |link| link.peer) {
            Ok(at) => self.links[at].groups += 1,
            Err(at) => {
                let link = Link {
                    peer,
                    groups: 1,
                    batch: BytesMut::new(),
                    beat: false,
                    heard_at: now,
                    sent_at: now,
                    silent: false,
                };
                self.links.insert(at, link);
            }
        }
    }

    /// A group is no longer shared with the peer.
    pub(crate) fn remove(&mut self, peer: PeerId) {
        let Ok(at) = self.links.binary_search_by_key(&peer, |link| link.peer) else { return };
        self.links[at].groups -= 1;
        if self.links[at].groups == 0 {
            self.links.remove(at);
        }
    }

    /// Puts a message into the batch of its receiver. A full batch goes to `outputs`.
    pub(crate) fn push(&mut self, message: &Message, outputs: &mut VecDeque<Output>) {
        let limit = self.batch_bytes_max;
        let Some(link) = self.get_mut(message.to) else { return };
        if link.batch.is_empty() {
            begin_batch(&mut link.batch);
        }
        message.encode(&mut link.batch);
        if link.batch.len() >= limit {
            outputs.push_back(Output::Send { peer: link.peer, bytes: end_batch(&mut link.batch) });
        }
        self.waiting = true;
    }

    /// Has a batch go to every peer that got none for `pause` ticks.
    pub(crate) fn beat(&mut self, now: u64, pause: u64) {
        for link in self.links.iter_mut().filter(|link| now - link.sent_at >= pause) {
            link.beat = true;
            link.sent_at = now;
            self.waiting = true;
        }
    }

    /// Ends the turn: all batches go to `outputs`.
    pub(crate) fn flush(&mut self, now: u64, outputs: &mut VecDeque<Output>) {
        if !std::mem::take(&mut self.waiting) {
            return;
        }
        for link in &mut self.links {
            let beat = std::mem::take(&mut link.beat);
            if link.batch.is_empty() && beat {
                begin_batch(&mut link.batch);
            }
            if link.batch.len() >= HEADER_LEN {
                link.sent_at = now;
                outputs.push_back(Output::Send { peer: link.peer, bytes: end_batch(&mut link.batch) });
            }
        }
    }
}
