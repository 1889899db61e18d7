//! Messages from the server itself.

use std::sync::atomic::Ordering::Relaxed;

use routing::deliver;
use routing::random::Random;

use crate::net::dispatch::{Dispatch, Finished, Message, Tally, remove_finished};
use crate::net::flush::DirtySet;
use crate::net::sink::Account;
use crate::server::Server;

/// Delivers a message to whoever subscribes to it in the account, here and on peers. Returns the number of receivers.
///
/// Subjects are made of names that may hold anything, such as those of accounts: what would be no subject is not sent.
pub fn publish(
    server: &Server,
    account: &Account,
    subject: &[u8],
    reply: Option<&[u8]>,
    payload: &[u8],
) -> u32 {
    if !subject::is_literal(subject) {
        return 0;
    }
    let (_, plan) = account.interest.plan(subject);
    if plan.is_empty() {
        return 0;
    }
    let (mut dirty, mut tally, mut finished) = (DirtySet::default(), Tally::default(), Finished::new());
    let mut random = Random::new(server.seed() ^ server.system.sequence.load(Relaxed));
    let mut dispatch = Dispatch {
        message: Message { subject, reply, header_len: 0, payload },
        routed_by: subject,
        account,
        publisher: None,
        skip: None,
        drop_for_slow: false,
        dirty: &mut dirty,
        tally: &mut tally,
        finished: &mut finished,
        // Nobody is there to be slowed down.
        stall: &mut false,
    };
    let receivers = deliver::from_client(&plan, &mut random, &mut dispatch);
    if !finished.is_empty() {
        remove_finished(account, &mut finished);
        server.routes().mark_dirty(&mut dirty);
    }
    dirty.flush();
    tally.settle(Some(account), server.stats(), false);
    receivers
}
