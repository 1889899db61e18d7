//! Which accounts have JetStream, at the start and after each reload, and what they are subscribed to because of it.
//!
//! Every account of the configuration is subscribed to the API: one without JetStream answers each request by saying so. The streams of an
//! account that loses JetStream stay where they are, but nobody leads them, so nothing comes in or goes out.

use std::sync::Arc;

use config::options::{GLOBAL_ACCOUNT, ImportKind, Options};

use super::directory::{AccountEntry, StreamEntry};
use super::shard::Input;
use super::sinks::ApiSink;
use super::transfers;
use super::watch::Watchers;
use super::{Shared, limits};
use crate::net::sink::{Account, Sink, Subscription};

/// Every request of the API.
const API: &str = "$JS.API.>";
/// What only an account with JetStream listens to.
const ACKS: [&str; 2] = ["$JS.ACK.>", "$JS.FC.>"];

/// Interest of one account in its API.
#[derive(Debug, Default)]
pub struct ApiInterest {
    /// Number of its sink among the connections; zero before there was one.
    sink: u64,
    subscriptions: Vec<Arc<Subscription>>,
}

/// Gives JetStream to the accounts that the options give it to, with their limits, and takes it from the others. Interest follows with
/// [`serve`].
pub fn apply(shared: &Shared, options: &Options) {
    for account in shared.server.accounts.all() {
        entry(shared, &account);
    }
    for entry in shared.directory.entries() {
        let name = entry.account.name();
        let capacity = *shared.capacity.lock();
        let limits = limits::of_account(options, name, capacity, (&shared.usage, &entry.usage));
        entry.limits.store(Arc::new(limits));
        let is_there = shared.server.accounts.get(name).is_some();
        let enabled = is_there && has_jetstream(options, name);
        if entry.set_enabled(enabled) {
            for stream in entry.sorted() {
                tell(&stream, enabled);
            }
        }
    }
}

fn tell(stream: &StreamEntry, enabled: bool) {
    let group = stream.group;
    stream.inbox.push(if enabled { Input::Serve { group } } else { Input::Park { group } });
}

/// The entry of an account; a new one has no JetStream yet.
pub fn entry(shared: &Shared, account: &Arc<Account>) -> Arc<AccountEntry> {
    if let Some(entry) = shared.directory.entry(account.name()) {
        return entry;
    }
    let watchers = Watchers::attach(shared.server.next_id(), account);
    let entry = Arc::new(AccountEntry::new(Arc::clone(account), watchers));
    shared.directory.insert(Arc::clone(&entry));
    entry
}

/// Accounts that say so have JetStream, or the global one if it is the only one.
fn has_jetstream(options: &Options, name: &str) -> bool {
    if options.accounts.iter().any(|account| account.jetstream.is_some()) {
        return options.account(name).is_some_and(|account| account.jetstream.is_some());
    }
    let system = options.system_account_name();
    name == GLOBAL_ACCOUNT && options.accounts.iter().all(|account| Some(account.name.as_str()) == system)
}

/// Brings the interest of all accounts in requests in line with what they have.
pub fn serve(shared: &Arc<Shared>, options: &Options) {
    let domain = shared.domain.as_ref().map(|domain| format!("$JS.{domain}.API."));
    for entry in shared.directory.entries() {
        let mut subjects = Vec::new();
        let is_there = shared.server.accounts.get(entry.account.name()).is_some();
        if entry.is_enabled() || (is_there && !imports_api(options, entry.account.name())) {
            subjects.push(API.to_owned());
            subjects.extend(domain.iter().map(|domain| format!("{domain}>")));
        }
        if entry.is_enabled() {
            subjects.extend(ACKS.into_iter().chain(transfers::SUBJECTS).map(str::to_owned));
        }
        subscribe(shared, &entry, &subjects, domain.as_deref());
    }
    crate::system::flush_interest(&shared.server);
}

/// Does the account take the API from another one? Then that one answers.
fn imports_api(options: &Options, name: &str) -> bool {
    let imports = options.account(name).map(|account| &account.imports[..]).unwrap_or_default();
    let mut services = imports.iter().filter(|import| matches!(import.kind, ImportKind::Service { .. }));
    services.any(|import| subject::overlaps(import.local.as_bytes(), API.as_bytes()))
}

fn subscribe(shared: &Arc<Shared>, entry: &Arc<AccountEntry>, subjects: &[String], domain: Option<&str>) {
    let account = &entry.account;
    let mut interest = entry.interest.lock();
    let ApiInterest { sink, subscriptions } = &mut *interest;
    subscriptions.retain(|subscription| {
        let kept = subjects.iter().any(|subject| *subscription.subject == *subject.as_bytes());
        if !kept {
            account.interest.remove(account.name(), subscription);
        }
        kept
    });
    if *sink == 0 {
        *sink = shared.server.next_id();
    }
    let sink = Arc::new(ApiSink {
        id: *sink,
        account: Arc::clone(entry),
        domain_prefix: domain.map(|domain| domain.as_bytes().into()),
        requests: shared.requests.clone(),
        overflow: Arc::clone(&shared.overflow),
        transfers: Arc::clone(&shared.transfers),
    });
    for subject in subjects {
        if subscriptions.iter().any(|known| *known.subject == *subject.as_bytes()) {
            continue;
        }
        let sink = Sink::Api(Arc::clone(&sink));
        let subscription = Arc::new(Subscription::local(sink, subject.as_bytes(), None, subject.as_bytes()));
        let inserted = account.interest.insert(account.name(), &subscription);
        assert!(inserted.is_ok(), "JetStream subscribes to {subject:?}, which is no subject");
        subscriptions.push(subscription);
    }
}

#[cfg(test)]
mod tests {
    use config::options::{Account, JetStreamAccountLimits};

    use super::*;

    fn options(accounts: &[(&str, bool)]) -> Options {
        let account = |(name, jetstream): &(&str, bool)| Account {
            name: (*name).to_owned(),
            jetstream: jetstream.then(JetStreamAccountLimits::default),
            ..Account::default()
        };
        Options { accounts: accounts.iter().map(account).collect(), ..Options::default() }
    }

    #[test]
    fn the_global_account_has_jetstream_only_where_there_is_no_other() {
        let has = |accounts: &[(&str, bool)], name| has_jetstream(&options(accounts), name);
        assert!(has(&[], GLOBAL_ACCOUNT));
        assert!(has(&[("$SYS", false)], GLOBAL_ACCOUNT));
        assert!(!has(&[("A", false)], GLOBAL_ACCOUNT) && !has(&[("A", false)], "A"));
        assert!(!has(&[("A", true), ("B", false)], GLOBAL_ACCOUNT));
        assert!(has(&[("A", true), ("B", false)], "A") && !has(&[("A", true), ("B", false)], "B"));
    }

    #[test]
    fn an_account_that_imports_the_api_leaves_the_answers_to_the_other() {
        let mut options = options(&[("A", true), ("B", false)]);
        assert!(!imports_api(&options, "B"));
        options.accounts[1].imports.push(config::options::Import {
            kind: ImportKind::Service { share: false },
            account: "A".to_owned(),
            subject: "$JS.API.STREAM.INFO.S".to_owned(),
            local: "$JS.API.STREAM.INFO.S".to_owned(),
        });
        assert!(imports_api(&options, "B"));
    }
}
