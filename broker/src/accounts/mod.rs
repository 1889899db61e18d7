//! The accounts of this server, and what they give to each other.

pub mod deliver;
mod imports;
mod request_info;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use config::options::{GLOBAL_ACCOUNT, Options};
use imports::Links;
use parking_lot::{Mutex, RwLock};
use routing::account::Limits;

use crate::clock;
use crate::net::sink::Account;
use crate::server::{Life, Server};

/// How often replies are forgotten that nobody has answered in time.
const EXPIRE_INTERVAL: Duration = Duration::from_secs(10);

/// Starts to forget replies that nobody has answered in time.
pub fn start(server: &Arc<Server>) {
    let server = Arc::clone(server);
    tokio::spawn(async move {
        while server.life() < Life::Stopping {
            tokio::time::sleep(EXPIRE_INTERVAL).await;
            for account in server.accounts.everywhere() {
                account.responses.expire(clock::now());
            }
        }
    });
}

/// Accounts of peers that are not configured here, at most: a peer must not grow this server's memory without bound.
const DORMANT_MAX: usize = 65_536;

/// All accounts by name.
#[derive(Debug)]
pub struct Registry {
    accounts: RwLock<BTreeMap<String, Arc<Account>>>,
    /// Accounts that peers have spoken of and that are not configured here, or not any more: their interest must be there
    /// when a reload adds the account, because peers tell it only once.
    dormant: RwLock<BTreeMap<String, Arc<Account>>>,
    global: Arc<Account>,
    system: Option<Arc<Account>>,
    links: Mutex<Links>,
}

impl Registry {
    /// The accounts that the options name, with the global and the system account.
    pub fn new(options: &Options) -> Self {
        let global = Arc::new(Account::new(GLOBAL_ACCOUNT, false, Limits::default()));
        let system_name = options.system_account_name();
        let system = system_name.map(|name| Arc::new(Account::new(name, true, limits(options, name))));
        let registry = Self {
            accounts: RwLock::default(),
            dormant: RwLock::default(),
            global,
            system,
            links: Mutex::default(),
        };
        registry.update(options);
        registry
    }

    /// Brings the accounts in line with new options: limits change, new ones appear. Returns those that are gone.
    pub fn update(&self, options: &Options) -> Vec<Arc<Account>> {
        let mut accounts = self.accounts.write();
        let mut next: BTreeMap<String, Arc<Account>> = BTreeMap::new();
        for account in std::iter::once(&self.global).chain(&self.system) {
            account.set_limits(limits(options, account.name()));
            next.insert(account.name().to_owned(), Arc::clone(account));
        }
        for configured in &options.accounts {
            let name = &configured.name;
            if next.contains_key(name) {
                continue;
            }
            let known = accounts.get(name).cloned().or_else(|| self.dormant.write().remove(name));
            let account = known.unwrap_or_else(|| Arc::new(Account::new(name, false, Limits::default())));
            account.set_limits(limits(options, name));
            next.insert(name.clone(), account);
        }
        let gone = accounts.iter().filter(|(name, _)| !next.contains_key(*name));
        let gone: Vec<_> = gone.map(|(_, account)| Arc::clone(account)).collect();
        self.links.lock().update(options, &next);
        for account in &gone {
            account.set_streams(Vec::new());
            self.dormant.write().insert(account.name().to_owned(), Arc::clone(account));
        }
        *accounts = next;
        gone
    }

    /// The account of that name.
    pub fn get(&self, name: &str) -> Option<Arc<Account>> {
        self.accounts.read().get(name).cloned()
    }

    /// The account of that name for interest that a peer tells: it need not be configured here yet. `None` once peers have
    /// named too many.
    pub fn for_peer(&self, name: &str) -> Option<Arc<Account>> {
        if let Some(account) = self.get(name) {
            return Some(account);
        }
        let mut dormant = self.dormant.write();
        if let Some(account) = dormant.get(name) {
            return Some(Arc::clone(account));
        }
        if dormant.len() >= DORMANT_MAX {
            return None;
        }
        let account = Arc::new(Account::new(name, false, Limits::default()));
        dormant.insert(name.to_owned(), Arc::clone(&account));
        Some(account)
    }

    /// All accounts, those that only peers know included.
    pub fn everywhere(&self) -> Vec<Arc<Account>> {
        let mut all = self.all();
        all.extend(self.dormant.read().values().cloned());
        all
    }

    /// The account of clients that authenticate into no other.
    pub fn global(&self) -> Arc<Account> {
        Arc::clone(&self.global)
    }

    /// The system account, unless it is switched off.
    pub fn system(&self) -> Option<Arc<Account>> {
        self.system.clone()
    }

    /// All accounts, by name.
    pub fn all(&self) -> Vec<Arc<Account>> {
        self.accounts.read().values().cloned().collect()
    }
}

fn limits(options: &Options, name: &str) -> Limits {
    let Some(limits) = options.account(name).map(|account| account.limits) else { return Limits::default() };
    Limits {
        connections_max: limits.max_connections,
        subscriptions_max: limits.max_subscriptions,
        payload_max: limits.max_payload.map(|max| max as usize),
    }
}

#[cfg(test)]
mod tests {
    use config::options::DEFAULT_SYSTEM_ACCOUNT;

    use super::*;

    fn options(accounts: &[(&str, Option<u32>)]) -> Options {
        let account = |(name, max_connections): &(&str, Option<u32>)| config::options::Account {
            name: (*name).to_owned(),
            limits: config::options::AccountLimits {
                max_connections: *max_connections,
                ..Default::default()
            },
            ..Default::default()
        };
        Options { accounts: accounts.iter().map(account).collect(), ..Options::default() }
    }

    #[test]
    fn an_account_that_stays_is_the_same_account_with_new_limits() {
        let registry = Registry::new(&options(&[("A", None), ("B", None)]));
        let before = registry.get("A").unwrap();
        let gone = registry.update(&options(&[("A", Some(3)), ("C", None)]));
        assert!(Arc::ptr_eq(&before, &registry.get("A").unwrap()));
        assert_eq!(before.limits().connections_max, Some(3));
        assert_eq!(gone.iter().map(|account| account.name()).collect::<Vec<_>>(), ["B"]);
        assert!(
            !registry.all().iter().any(|account| Arc::ptr_eq(account, &gone[0]))
                && registry.get("B").is_none()
        );
        let names: Vec<_> = registry.all().iter().map(|account| account.name().to_owned()).collect();
        assert_eq!(names, ["$G", DEFAULT_SYSTEM_ACCOUNT, "A", "C"]);
    }
}
