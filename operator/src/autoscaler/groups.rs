//! Members of the queue groups of an account, read together: what each server tells once is what all who look at the account want to know.
//!
//! Of an answer only what somebody wants is kept, for as long as somebody wants it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use api::monitor::SubDetail;
use crd::nats_autoscaler::source::QueueGroupSource;
use futures::future::try_join_all;
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;

use super::idle::Pending;
use super::need::{Counts, Reading, Sample, SlowMembers};
use crate::jetstream::problem::Problem;
use crate::nats::client::Target;
use crate::nats::system;

/// How long an answer is good at most; otherwise it is for half an interval.
const ANSWER_AGE_MAX: Duration = Duration::from_secs(10);
/// How a server begins to say that it closed a connection because it took too slowly.
const SLOW_REASON: &str = "Slow Consumer";

/// Accounts by their cluster and name. One that nobody looks at is gone.
#[derive(Default)]
pub struct Accounts(Mutex<HashMap<(String, String), Weak<Account>>>);

impl Accounts {
    /// An account of the cluster with a uid.
    pub fn of(&self, cluster: &str, name: &str) -> Arc<Account> {
        let mut accounts = self.0.lock();
        let key = (cluster.to_owned(), name.to_owned());
        if let Some(account) = accounts.get(&key).and_then(Weak::upgrade) {
            return account;
        }
        accounts.retain(|_, account| account.strong_count() > 0);
        let account = Arc::new(Account::new(name));
        accounts.insert(key, Arc::downgrade(&account));
        account
    }
}

/// An account, and what was read of it.
pub struct Account {
    name: String,
    members: Board<Counts>,
    slow: Board<SlowMembers>,
}

impl Account {
    /// An account of which nothing was read.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), members: Board::default(), slow: Board::default() }
    }

    /// Reads a group that is read each `interval`, at all servers.
    ///
    /// # Errors
    /// When a server does not answer, or the group has no members.
    pub async fn read(
        &self,
        targets: &[Target],
        source: &QueueGroupSource,
        interval: Duration,
    ) -> Result<Reading, Problem> {
        let group = Group { subject: source.subject.clone(), queue: source.queue.clone() };
        let read = async |wanted: &Wanted| members(targets, &self.name, wanted).await;
        let (at, members) = self.members.find(&group, Duration::ZERO, interval, read).await?;
        let slow = match &source.slow_consumers {
            Some(settings) => {
                let window = settings.window.parse().unwrap_or(Duration::MAX);
                let read = async |wanted: &Wanted| cut_off(targets, &self.name, wanted).await;
                let (_, mut slow) = self.slow.find(&group, window, interval, read).await?;
                // Somebody else may look further back.
                slow.retain(|_, ago| *ago <= window.as_secs());
                slow
            }
            None => SlowMembers::new(),
        };
        if members.is_empty() && slow.is_empty() {
            let text = format!("queue group {} of {} has no members", group.queue, group.subject);
            return Err(Problem::transient("SourceMissing", text));
        }
        Ok(Reading { at, sample: Sample::Group { members, slow } })
    }
}

/// Bytes on their way to each address that connections of an account come from.
///
/// # Errors
/// When a server does not answer.
pub async fn pending(targets: &[Target], account: &Account) -> Result<Pending, Problem> {
    let ask = targets.iter().map(|target| system::connections(target, &account.name));
    let mut pending = Pending::new();
    for (_, connections) in try_join_all(ask).await? {
        for connection in connections {
            if let Ok(address) = connection.ip.parse() {
                let sum = pending.entry(address).or_default();
                *sum = sum.saturating_add(connection.pending_bytes);
            }
        }
    }
    Ok(pending)
}

/// What members subscribe to, and in which group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Group {
    subject: String,
    queue: String,
}

impl Group {
    fn of(sub: &SubDetail) -> Self {
        Self { subject: sub.subject.clone(), queue: sub.queue.clone() }
    }
}

/// Groups that are wanted, and how far back.
type Wanted = HashMap<Group, Duration>;

/// One kind of answers about groups.
struct Board<T> {
    /// How far back each group is wanted, and until when that counts.
    wanted: Mutex<HashMap<Group, (Duration, Instant)>>,
    last: tokio::sync::Mutex<Last<T>>,
}

impl<T> Default for Board<T> {
    fn default() -> Self {
        Self { wanted: Mutex::default(), last: tokio::sync::Mutex::new(Last::None) }
    }
}

/// What came of the last question.
enum Last<T> {
    None,
    Answer {
        asked: Instant,
        at: Timestamp,
        wanted: Wanted,
        groups: HashMap<Group, T>,
    },
    /// When it was known that no answer came, and why.
    Failed {
        known: Instant,
        reason: &'static str,
        message: String,
    },
}

impl<T: Clone + Default> Board<T> {
    /// What is known of a group, and since when. Who comes while others ask waits for their answer, or their failure, and is in the next
    /// question otherwise.
    async fn find(
        &self,
        group: &Group,
        back: Duration,
        interval: Duration,
        read: impl AsyncFnOnce(&Wanted) -> Result<HashMap<Group, T>, Problem>,
    ) -> Result<(Timestamp, T), Problem> {
        let came = Instant::now();
        self.want(group, back, came + interval * 2);
        let mut last = self.last.lock().await;
        match &*last {
            Last::Answer { asked, at, wanted, groups }
                if asked.elapsed() <= (interval / 2).min(ANSWER_AGE_MAX)
                    && wanted.get(group).is_some_and(|so_far| *so_far >= back) =>
            {
                return Ok((*at, groups.get(group).cloned().unwrap_or_default()));
            }
            Last::Failed { known, reason, message } if *known >= came => {
                return Err(Problem::transient(reason, message.clone()));
            }
            _ => {}
        }
        // Whoever stops waiting for it leaves nothing behind that is half true.
        *last = Last::None;
        let asked = Instant::now();
        let wanted = self.wanted(asked);
        match read(&wanted).await {
            Ok(mut groups) => {
                let (at, found) = (Timestamp::now(), groups.get(group).cloned().unwrap_or_default());
                groups.retain(|group, _| wanted.contains_key(group));
                *last = Last::Answer { asked, at, wanted, groups };
                Ok((at, found))
            }
            Err(problem) => {
                let (reason, message) = (problem.reason(), problem.to_string());
                *last = Last::Failed { known: Instant::now(), reason, message };
                Err(problem)
            }
        }
    }

    fn want(&self, group: &Group, back: Duration, until: Instant) {
        let mut wanted = self.wanted.lock();
        let wish = wanted.entry(group.clone()).or_insert((back, until));
        *wish = (wish.0.max(back), wish.1.max(until));
    }

    /// Groups that are wanted now.
    fn wanted(&self, now: Instant) -> Wanted {
        let mut wanted = self.wanted.lock();
        wanted.retain(|_, (_, until)| *until > now);
        wanted.iter().map(|(group, (back, _))| (group.clone(), *back)).collect()
    }
}

/// Members of groups at all servers.
async fn members(
    targets: &[Target],
    account: &str,
    wanted: &Wanted,
) -> Result<HashMap<Group, Counts>, Problem> {
    let answers = try_join_all(targets.iter().map(|target| system::connections(target, account))).await?;
    let mut groups: HashMap<Group, Counts> = HashMap::new();
    for (server, connections) in answers {
        for connection in connections {
            let mut counted = HashSet::new();
            for sub in &connection.subscriptions_list_detail {
                let group = Group::of(sub);
                if !wanted.contains_key(&group) {
                    continue;
                }
                // What waits for a connection waits for all of its subscriptions together.
                let pending = if counted.insert(group.clone()) { connection.pending_bytes } else { 0 };
                let member = format!("{server}/{}/{}", connection.cid, sub.sid);
                groups.entry(group).or_default().insert(member, (pending, sub.msgs));
            }
        }
    }
    Ok(groups)
}

/// Members that servers cut off for taking too slowly, and how many seconds ago.
async fn cut_off(
    targets: &[Target],
    account: &str,
    wanted: &Wanted,
) -> Result<HashMap<Group, SlowMembers>, Problem> {
    let furthest = wanted.values().max().copied().unwrap_or_default();
    let ask = targets.iter().map(|target| system::gone(target, account, furthest));
    let answers = try_join_all(ask).await?;
    let mut groups: HashMap<Group, SlowMembers> = HashMap::new();
    for (server, gone) in answers {
        let slow = gone.iter().filter(|(connection, _)| connection.reason.starts_with(SLOW_REASON));
        for (connection, ago) in slow {
            for sub in &connection.subscriptions_list_detail {
                let group = Group::of(sub);
                if wanted.contains_key(&group) {
                    let slow = groups.entry(group).or_default();
                    slow.insert(format!("{server}/{}", connection.cid), ago.as_secs());
                }
            }
        }
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    const INTERVAL: Duration = Duration::from_secs(60);
    const BACK: Duration = Duration::from_secs(30);

    fn group(queue: &str) -> Group {
        Group { subject: "work".to_owned(), queue: queue.to_owned() }
    }

    /// Asks for a group; `asked` counts questions, and the answer tells how far back each went.
    async fn find(
        board: &Board<u64>,
        asked: &Mutex<usize>,
        (queue, back, interval): (&str, Duration, Duration),
    ) -> Result<u64, Problem> {
        let read = async |wanted: &Wanted| {
            *asked.lock() += 1;
            tokio::task::yield_now().await;
            if wanted.contains_key(&group("broken")) {
                return Err(Problem::transient("Unreachable", "no server"));
            }
            let known = wanted.iter().map(|(group, back)| (group.clone(), back.as_secs()));
            // A server tells of others too.
            Ok(std::iter::once((group("stranger"), 1)).chain(known).collect())
        };
        Ok(board.find(&group(queue), back, interval, read).await?.1)
    }

    #[tokio::test]
    async fn one_answer_is_for_all_who_want_something_of_it() {
        let (board, asked) = (Board::default(), Mutex::new(0));
        let ask = |queue, back, interval| find(&board, &asked, (queue, back, interval));
        let queues: Vec<String> = (0..50).map(|number| format!("q{number}")).collect();
        for found in join_all(queues.iter().map(|queue| ask(queue, BACK, INTERVAL))).await {
            assert_eq!(found.unwrap(), 30);
        }
        assert_eq!(*asked.lock(), 2, "the first, and one for all who came meanwhile");
        assert_eq!(ask("q7", BACK / 2, INTERVAL).await.unwrap(), 30);
        assert_eq!(*asked.lock(), 2);
        assert_eq!(ask("q7", BACK * 2, INTERVAL).await.unwrap(), 60, "further back than anybody asked for");
        assert_eq!(ask("stranger", BACK, INTERVAL).await.unwrap(), 30, "nobody wanted it before");
        assert_eq!(ask("stranger", BACK, INTERVAL).await.unwrap(), 30);
        assert_eq!(*asked.lock(), 4);
        assert_eq!(ask("q7", BACK, Duration::ZERO).await.unwrap(), 60, "older than half of no time");
        assert_eq!(*asked.lock(), 5);
    }

    #[tokio::test]
    async fn what_nobody_wants_any_more_is_not_kept() {
        let (board, asked) = (Board::default(), Mutex::new(0));
        find(&board, &asked, ("gone", BACK, Duration::ZERO)).await.unwrap();
        find(&board, &asked, ("stays", BACK, INTERVAL)).await.unwrap();
        assert_eq!(board.wanted.lock().keys().collect::<Vec<_>>(), [&group("stays")]);
        let Last::Answer { groups, .. } = &*board.last.lock().await else { panic!("no answer") };
        assert_eq!(groups.keys().collect::<Vec<_>>(), [&group("stays")]);

        let accounts = Accounts::default();
        let one = accounts.of("uid", "A");
        assert!(Arc::ptr_eq(&one, &accounts.of("uid", "A")));
        assert!(!Arc::ptr_eq(&one, &accounts.of("other", "A")));
        drop(one);
        let _other = accounts.of("uid", "B");
        assert_eq!(accounts.0.lock().len(), 1);
    }

    #[tokio::test]
    async fn who_waited_for_an_answer_that_did_not_come_does_not_wait_again() {
        let (board, asked) = (Board::default(), Mutex::new(0));
        let all = join_all((0..9).map(|_| find(&board, &asked, ("broken", BACK, INTERVAL)))).await;
        for found in all {
            let problem = found.unwrap_err();
            assert_eq!((problem.reason(), problem.to_string().as_str()), ("Unreachable", "no server"));
        }
        assert_eq!(*asked.lock(), 1);
        find(&board, &asked, ("broken", BACK, INTERVAL)).await.unwrap_err();
        assert_eq!(*asked.lock(), 2, "who comes later asks again");
    }
}
