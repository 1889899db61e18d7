//! Replies that are on their way back: what the exporting account is given as a reply, and whose it is.
//!
//! A reply is the account's prefix on this server, which peers know of, and a token of its own. Times grow along `order`, so
//! what is over is found at its front; an entry that was used since is put behind again.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::service::{Response, ServiceImport};
use super::{Import, MakeSink};
use crate::account::Account;
use crate::interest::Subscription;
use crate::random::Random;

/// Replies of one account that are waited for, at most; the oldest goes when there are more.
const WAITING_MAX: usize = 65_536;
/// Entries looked at for their age whenever one is made: more than one, so that those that are over cannot pile up.
const EXPIRE_PER_CALL: usize = 4;
/// Start of every such reply.
const START: &[u8] = b"_R_.";
/// Characters of a token: as many as the reference has.
const TOKEN_LEN: usize = 6;
/// Length of `_R_.` with the account's token and its dot.
const PREFIX_LEN: usize = START.len() + TOKEN_LEN + 1;

type Token = [u8; TOKEN_LEN];

/// Replies that one account owes to others.
#[derive(Debug)]
pub struct Responses<S>(Mutex<Option<Box<Table<S>>>>);

impl<S> Default for Responses<S> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

#[derive(Debug)]
struct Table<S> {
    prefix: [u8; PREFIX_LEN],
    waiting: HashMap<Token, Waiting<S>>,
    order: VecDeque<(Token, Instant)>,
    random: Random,
    make: MakeSink<S>,
}

#[derive(Debug)]
struct Waiting<S> {
    answer: Answer<S>,
    response: Response,
    threshold: Duration,
    last: Instant,
}

/// Where an answer goes.
#[derive(Debug, Clone)]
pub struct Answer<S> {
    /// The account that asked.
    pub requestor: Weak<Account<S>>,
    /// The account that answers.
    pub responder: Weak<Account<S>>,
    /// The reply that the request had there.
    pub reply: Box<[u8]>,
    /// Identity of the export.
    pub export: u64,
    /// How the service answers, for a request that comes back with the answer.
    pub response: Response,
    /// In what time.
    pub threshold: Duration,
}

impl<S: Clone + PartialEq> Responses<S> {
    /// Makes the reply that a request of `import` has in the exporting account.
    pub fn open(
        &self,
        account: &Arc<Account<S>>,
        import: &ServiceImport<S>,
        (requestor, reply): (Weak<Account<S>>, &[u8]),
        now: Instant,
    ) -> Vec<u8> {
        let answer = Answer {
            requestor,
            responder: Arc::downgrade(account),
            reply: reply.into(),
            export: import.export,
            response: import.response,
            threshold: import.threshold,
        };
        let mut table = self.0.lock();
        let table = table.get_or_insert_with(|| {
            let table = Box::new(Table::new(import.make, import.seed));
            table.subscribe(account);
            table
        });
        table.open(answer, now)
    }

    /// Makes the reply that an answer has, which itself asks for one: it leads back to the account that answers.
    ///
    /// `None` if the account that asked owes nothing to anybody yet and there is nothing to make a sink with.
    pub fn open_again(
        &self,
        account: &Arc<Account<S>>,
        (back, answer): (&Self, &Answer<S>),
        reply: &[u8],
        now: Instant,
    ) -> Option<Vec<u8>> {
        let (make, seed) = {
            let mut table = back.0.lock();
            let table = table.as_mut()?;
            (table.make, table.random.next_u64())
        };
        let again = Answer {
            requestor: answer.responder.clone(),
            responder: answer.requestor.clone(),
            reply: reply.into(),
            ..answer.clone()
        };
        let mut table = self.0.lock();
        let table = table.get_or_insert_with(|| {
            let table = Box::new(Table::new(make, seed));
            table.subscribe(account);
            table
        });
        Some(table.open(again, now))
    }

    /// Whose reply this is. With a single answer it is over, and so it is with the `last` of many.
    pub fn take(&self, subject: &[u8], last: bool, now: Instant) -> Option<Answer<S>> {
        let mut table = self.0.lock();
        let table = table.as_mut()?;
        let token = table.token(subject)?;
        let waiting = table.waiting.get_mut(&token)?;
        let is_late = now.saturating_duration_since(waiting.last) > waiting.threshold;
        let is_over = is_late || last || waiting.response == Response::Single;
        waiting.last = now;
        let answer = waiting.answer.clone();
        if is_over {
            table.waiting.remove(&token);
        }
        (!is_late).then_some(answer)
    }

    /// Nobody waits for this reply any more, or nobody got the request.
    pub fn forget(&self, subject: &[u8]) {
        if let Some(table) = self.0.lock().as_mut()
            && let Some(token) = table.token(subject)
        {
            table.waiting.remove(&token);
        }
    }

    /// Forgets those whose time is over.
    pub fn expire(&self, now: Instant) {
        if let Some(table) = self.0.lock().as_mut() {
            while table.expire_oldest(now) {}
        }
    }

    /// Replies that are waited for.
    pub fn len(&self) -> usize {
        self.0.lock().as_ref().map_or(0, |table| table.waiting.len())
    }

    /// Is none waited for?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<S: Clone + PartialEq> Table<S> {
    fn new(make: MakeSink<S>, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut prefix = [b'.'; PREFIX_LEN];
        prefix[..START.len()].copy_from_slice(START);
        prefix[START.len()..PREFIX_LEN - 1].copy_from_slice(&token(&mut random));
        Self { prefix, waiting: HashMap::new(), order: VecDeque::new(), random, make }
    }

    /// The answers' own subscription, for good: peers have to know the way back.
    fn subscribe(&self, account: &Account<S>) {
        let subject = [&self.prefix[..], b">"].concat();
        let sink = (self.make)(Arc::new(Import::Responses));
        let subscription = Arc::new(Subscription::import(sink, &subject, None, b""));
        let inserted = account.interest.insert_alone(account.name(), &subscription);
        assert!(inserted.is_ok(), "a reply of letters and digits is no subject");
    }

    fn open(&mut self, answer: Answer<S>, now: Instant) -> Vec<u8> {
        for _ in 0..EXPIRE_PER_CALL {
            if !self.expire_oldest(now) {
                break;
            }
        }
        if self.waiting.len() >= WAITING_MAX {
            self.drop_oldest();
        }
        let mut own = token(&mut self.random);
        while self.waiting.contains_key(&own) {
            own = token(&mut self.random);
        }
        let (response, threshold) = (answer.response, answer.threshold);
        self.waiting.insert(own, Waiting { answer, response, threshold, last: now });
        self.order.push_back((own, now));
        [&self.prefix[..], &own[..]].concat()
    }

    fn token(&self, subject: &[u8]) -> Option<Token> {
        Token::try_from(subject.strip_prefix(&self.prefix[..])?).ok()
    }

    /// Looks at the front of the order: true if something was taken off or put behind, so that there may be more.
    fn expire_oldest(&mut self, now: Instant) -> bool {
        let Some((token, noted)) = self.order.front().copied() else { return false };
        if let Some(waiting) = self.waiting.get(&token) {
            if now.saturating_duration_since(waiting.last) > waiting.threshold {
                self.waiting.remove(&token);
            } else if waiting.last > noted {
                self.order.push_back((token, waiting.last));
            } else {
                return false;
            }
        }
        self.order.pop_front();
        true
    }

    fn drop_oldest(&mut self) {
        while let Some((token, _)) = self.order.pop_front() {
            if self.waiting.remove(&token).is_some() {
                return;
            }
        }
    }
}

fn token(random: &mut Random) -> Token {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut number = random.next_u64();
    std::array::from_fn(|_| {
        let digit = DIGITS[(number % 62) as usize];
        number /= 62;
        digit
    })
}
