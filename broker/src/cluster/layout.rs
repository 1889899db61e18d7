//! Which of the connections between two servers carries an account (routes, section 2, pooling).

use std::collections::BTreeSet;

/// One connection's place among those of a pair of servers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// A connection of the pool, shared by accounts.
    Pool(u32),
    /// A connection of one account alone.
    Account(String),
}

/// How accounts are spread over connections, as one server wants it or as two have agreed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Connections of the pool; `None` is one connection that carries everything.
    pub pool: Option<u32>,
    /// Accounts with a connection of their own.
    pub pinned: BTreeSet<String>,
}

impl Layout {
    /// What two servers make of each other's wishes: the larger pool, or one connection if either knows no pool.
    pub fn agree(&self, peer_pool: Option<u32>) -> Self {
        match (self.pool, peer_pool) {
            (Some(own), Some(peer)) => Self { pool: Some(own.max(peer)), pinned: self.pinned.clone() },
            _ => Self { pool: None, pinned: BTreeSet::new() },
        }
    }

    /// Every place that has to be filled.
    pub fn slots(&self) -> Vec<Slot> {
        let pool = (0..self.pool.unwrap_or(1)).map(Slot::Pool);
        pool.chain(self.pinned.iter().cloned().map(Slot::Account)).collect()
    }

    /// The place that carries `account`.
    pub fn slot(&self, account: &str) -> Slot {
        match self.pool {
            Some(_) if self.pinned.contains(account) => Slot::Account(account.to_owned()),
            Some(size) if size > 1 => Slot::Pool(fnv1a(account.as_bytes()) % size),
            _ => Slot::Pool(0),
        }
    }
}

/// FNV-1a, 32 bits: what the reference spreads accounts with, so both sides of a link must compute it alike.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(pool: Option<u32>, pinned: &[&str]) -> Layout {
        Layout { pool, pinned: pinned.iter().map(|name| (*name).to_owned()).collect() }
    }

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv1a(b""), 0x811C_9DC5);
        assert_eq!(fnv1a(b"a"), 0xE40C_292C);
        assert_eq!(fnv1a(b"foobar"), 0xBF9C_F968);
    }

    #[test]
    fn the_larger_pool_wins_and_a_peer_without_one_gets_a_single_connection() {
        let own = layout(Some(3), &["$SYS"]);
        assert_eq!(own.agree(Some(5)).pool, Some(5));
        assert_eq!(own.agree(Some(1)).slots().len(), 4);
        let single = own.agree(None);
        assert_eq!(single.slots(), [Slot::Pool(0)]);
        assert_eq!(single.slot("$SYS"), Slot::Pool(0));
    }

    #[test]
    fn a_pinned_account_has_its_own_place_and_others_share_the_pool() {
        let layout = layout(Some(3), &["$SYS"]);
        assert_eq!(layout.slot("$SYS"), Slot::Account("$SYS".into()));
        let used: BTreeSet<Slot> = (0..50).map(|n| layout.slot(&format!("A{n}"))).collect();
        assert_eq!(used.len(), 3);
        assert!(used.iter().all(|slot| matches!(slot, Slot::Pool(0..3))));
    }
}
