//! The catalogue: which streams there are, in which account, with which configuration and in which group.
//!
//! It is a machine of its own with its own group. A change is decided against the catalogue as applied, so whoever drives it proposes one
//! change at a time and waits until it is applied before the next is decided; parallel requests for one name then have one winner.
//!
//! Consumers are not here: they live in their stream's group.

mod account;
mod command;
mod subjects;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::jetstream::limits::Totals;
use api::jetstream::stream::StreamConfig;
use bytes::Bytes;
use store::Timestamp;

use account::{Account, Sums};
pub use command::{Command, DecodeError};

/// The catalogue's own group.
pub const META_GROUP: u64 = 1;
/// Groups of streams are numbered from here.
const FIRST_STREAM_GROUP: u64 = 16;

/// A stream as the catalogue knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Asset {
    /// Its group: never used again after the stream is gone, so a stream of the same name is another one.
    pub group: u64,
    /// When it was created.
    pub created: Timestamp,
    /// Its configuration, defaults filled in. One copy serves all who host the stream or answer for it.
    pub config: Arc<StreamConfig>,
}

/// What an applied command did.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// There is a new stream.
    Created {
        /// Account it is in.
        account: Box<str>,
        /// The stream.
        asset: Asset,
    },
    /// A stream's configuration changed.
    Updated {
        /// Account it is in.
        account: Box<str>,
        /// The stream as it is now.
        asset: Asset,
    },
    /// A stream is gone.
    Deleted {
        /// Account it was in.
        account: Box<str>,
        /// The stream as it was.
        asset: Asset,
    },
    /// The command had nothing to act on.
    Nothing,
}

/// Streams by account and name.
#[derive(Debug, Default, PartialEq)]
pub struct Catalogue {
    accounts: BTreeMap<Box<str>, Account>,
    /// Of all accounts.
    sums: Sums,
    next_group: u64,
    /// Groups from here on were in no command and in no file: those that are on disk all the same, the catalogue has lost.
    unnamed: u64,
    /// Groups that it has lost, remembered because later ones were named since.
    lost: BTreeSet<u64>,
    applied: u64,
}

impl Catalogue {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self { next_group: FIRST_STREAM_GROUP, unnamed: FIRST_STREAM_GROUP, ..Self::default() }
    }

    /// The stream of that name.
    #[must_use]
    pub fn get(&self, account: &str, name: &str) -> Option<&Asset> {
        self.accounts.get(account)?.get(name)
    }

    /// Streams of an account, by name.
    pub fn streams(&self, account: &str) -> impl Iterator<Item = &Asset> {
        self.accounts.get(account).into_iter().flat_map(Account::streams)
    }

    /// Does a stream of the account, other than the one of that name, store what one of these subjects matches?
    #[must_use]
    pub fn overlaps(&self, account: &str, name: &str, subjects: &[String]) -> bool {
        self.accounts.get(account).is_some_and(|account| account.overlaps(name, subjects))
    }

    /// How many streams of an account there are and what they may grow to, by replicas and storage.
    pub fn totals(&self, account: &str) -> impl Iterator<Item = Totals> {
        self.accounts.get(account).into_iter().flat_map(|account| account.sums.iter())
    }

    /// The same of all accounts.
    pub fn totals_of_all(&self) -> impl Iterator<Item = Totals> {
        self.sums.iter()
    }

    /// All streams with their account.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Asset)> {
        self.accounts
            .iter()
            .flat_map(|(account, streams)| streams.streams().map(move |asset| (&**account, asset)))
    }

    /// Index of the last command that was applied.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Entries up to this index hold nothing more for it: those of Raft itself are not commands.
    pub fn cover(&mut self, index: u64) {
        self.applied = self.applied.max(index);
    }

    /// Groups up to this one are taken: something of theirs is on disk, although the catalogue may have lost them.
    pub fn avoid(&mut self, group: u64) {
        self.next_group = self.next_group.max(group.saturating_add(1));
    }

    /// Of the groups whose files are on disk, those that it never named: entries that did are lost. True if that is news, so that the catalogue has to
    /// be written before another stream is made.
    pub fn find_lost(&mut self, on_disk: impl Iterator<Item = u64>) -> bool {
        let named: BTreeSet<u64> = self.all().map(|(_, asset)| asset.group).collect();
        let is_lost =
            |group: &u64| (*group >= self.unnamed || self.lost.contains(group)) && !named.contains(group);
        let lost: BTreeSet<u64> = on_disk.filter(is_lost).collect();
        let is_news = lost != self.lost;
        self.lost = lost;
        is_news
    }

    /// Groups that it has lost.
    pub fn lost(&self) -> impl Iterator<Item = u64> + '_ {
        self.lost.iter().copied()
    }

    /// The command that creates a stream. The leader has checked that the name is free.
    pub fn create(&self, account: &str, config: StreamConfig, now: Timestamp) -> Command {
        Command::Create {
            account: account.into(),
            asset: Box::new(Asset { group: self.next_group, created: now, config: config.into() }),
        }
    }

    /// A group for a stream that will be created later, or never. It is remembered by this process alone: after a restart it may be given again.
    pub fn reserve(&mut self) -> u64 {
        let group = self.next_group;
        self.next_group += 1;
        group
    }

    /// Obeys a committed command.
    pub fn apply(&mut self, index: u64, payload: &[u8]) -> Result<Change, DecodeError> {
        let command = Command::decode(payload)?;
        assert!(index > self.applied, "catalogue applies index {index} after {}", self.applied);
        self.applied = index;
        Ok(match command {
            Command::Create { account, asset } => self.apply_create(account, *asset),
            Command::Update { account, config } => self.apply_update(account, *config),
            Command::Delete { account, name } => self.apply_delete(account, &name),
        })
    }

    fn apply_create(&mut self, account: Box<str>, asset: Asset) -> Change {
        self.next_group = self.next_group.max(asset.group + 1);
        self.unnamed = self.unnamed.max(asset.group + 1);
        let streams = self.accounts.entry(account.clone()).or_default();
        if streams.get(&asset.config.name).is_some() {
            return Change::Nothing;
        }
        streams.put(asset.clone(), &mut self.sums);
        Change::Created { account, asset }
    }

    fn apply_update(&mut self, account: Box<str>, config: StreamConfig) -> Change {
        let Some(streams) = self.accounts.get_mut(&account) else { return Change::Nothing };
        let Some(known) = streams.get(&config.name) else { return Change::Nothing };
        let asset = Asset { config: config.into(), ..*known };
        streams.put(asset.clone(), &mut self.sums);
        Change::Updated { account, asset }
    }

    fn apply_delete(&mut self, account: Box<str>, name: &str) -> Change {
        let Some(streams) = self.accounts.get_mut(&account) else { return Change::Nothing };
        let Some(asset) = streams.remove(name, &mut self.sums) else { return Change::Nothing };
        if streams.is_empty() {
            self.accounts.remove(&account);
        }
        Change::Deleted { account, asset }
    }

    /// The whole catalogue as bytes, for the state file.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        command::encode_catalogue(self)
    }

    /// A catalogue from such bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        command::decode_catalogue(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(name: &str) -> StreamConfig {
        StreamConfig { name: name.to_owned(), subjects: vec![name.to_lowercase()], ..StreamConfig::default() }
    }

    fn apply(catalogue: &mut Catalogue, command: &Command) -> Change {
        let index = catalogue.applied() + 1;
        catalogue.apply(index, &command.encode()).unwrap()
    }

    #[test]
    fn a_stream_created_again_is_another_one() {
        let mut catalogue = Catalogue::new();
        let create = catalogue.create("A", config("S"), Timestamp(5));
        let Change::Created { asset: first, .. } = apply(&mut catalogue, &create) else {
            panic!("not created")
        };
        assert_eq!(apply(&mut catalogue, &create), Change::Nothing);
        let delete = Command::Delete { account: "A".into(), name: "S".into() };
        assert!(matches!(apply(&mut catalogue, &delete), Change::Deleted { .. }));
        assert_eq!(apply(&mut catalogue, &delete), Change::Nothing);
        let create = catalogue.create("A", config("S"), Timestamp(6));
        let Change::Created { asset: second, .. } = apply(&mut catalogue, &create) else {
            panic!("not created")
        };
        assert!(second.group > first.group);
    }

    #[test]
    fn it_comes_back_from_its_bytes() {
        let mut catalogue = Catalogue::new();
        for (account, name) in [("A", "S"), ("A", "T"), ("B", "S")] {
            let create = catalogue.create(account, config(name), Timestamp(5));
            apply(&mut catalogue, &create);
        }
        let update = Command::Update {
            account: "A".into(),
            config: Box::new(StreamConfig { max_msgs: 7, ..config("T") }),
        };
        assert!(matches!(apply(&mut catalogue, &update), Change::Updated { .. }));
        apply(&mut catalogue, &Command::Delete { account: "B".into(), name: "S".into() });
        assert_eq!(Catalogue::decode(&catalogue.encode()).unwrap(), catalogue);
        assert_eq!(catalogue.all().count(), 2);
        assert_eq!(catalogue.get("A", "T").unwrap().config.max_msgs, 7);
    }

    #[test]
    fn sums_and_subjects_follow_every_change() {
        let sized = |name: &str, max_bytes| StreamConfig { max_bytes, num_replicas: 1, ..config(name) };
        let mut catalogue = Catalogue::new();
        for (account, config) in [("A", sized("S", 100)), ("A", sized("T", -1)), ("B", sized("S", 7))] {
            let create = catalogue.create(account, config, Timestamp(5));
            apply(&mut catalogue, &create);
        }
        let sum = |totals: Vec<Totals>| {
            totals
                .iter()
                .fold((0, 0), |(streams, bytes), totals| (streams + totals.streams, bytes + totals.bytes))
        };
        assert_eq!(sum(catalogue.totals("A").collect()), (2, 100));
        assert_eq!(sum(catalogue.totals_of_all().collect()), (3, 107));
        assert!(catalogue.overlaps("A", "U", &["*".to_owned()]));
        assert!(catalogue.overlaps("A", "T", &["x".to_owned(), "s".to_owned()]));
        assert!(!catalogue.overlaps("A", "S", &["s".to_owned()]));
        assert!(!catalogue.overlaps("C", "S", &["s".to_owned()]));
        let changed = StreamConfig { subjects: vec!["other".to_owned()], ..sized("S", 1000) };
        apply(&mut catalogue, &Command::Update { account: "A".into(), config: Box::new(changed) });
        assert_eq!(sum(catalogue.totals("A").collect()), (2, 1000));
        assert_eq!(sum(catalogue.totals_of_all().collect()), (3, 1007));
        assert!(!catalogue.overlaps("A", "T", &["s".to_owned()]));
        assert!(catalogue.overlaps("A", "T", &["other".to_owned()]));
        apply(&mut catalogue, &Command::Delete { account: "A".into(), name: "S".into() });
        assert_eq!(sum(catalogue.totals("A").collect()), (1, 0));
        assert_eq!(sum(catalogue.totals_of_all().collect()), (2, 7));
        assert!(!catalogue.overlaps("A", "T", &[">".to_owned()]));
    }

    #[test]
    fn groups_that_it_never_named_are_lost_until_their_files_are_gone() {
        let mut catalogue = Catalogue::new();
        let create = catalogue.create("A", config("S"), Timestamp(5));
        apply(&mut catalogue, &create);
        apply(&mut catalogue, &Command::Delete { account: "A".into(), name: "S".into() });
        // What is left of a deleted stream is not lost.
        assert!(!catalogue.find_lost([FIRST_STREAM_GROUP].into_iter()));
        let on_disk = [FIRST_STREAM_GROUP, FIRST_STREAM_GROUP + 3];
        catalogue.avoid(FIRST_STREAM_GROUP + 3);
        assert!(catalogue.find_lost(on_disk.into_iter()) && !catalogue.find_lost(on_disk.into_iter()));
        let create = catalogue.create("A", config("T"), Timestamp(6));
        apply(&mut catalogue, &create);
        let mut again = Catalogue::decode(&catalogue.encode()).unwrap();
        assert!(!again.find_lost(on_disk.into_iter()));
        assert_eq!(again.lost().collect::<Vec<_>>(), [FIRST_STREAM_GROUP + 3]);
        assert!(again.find_lost(std::iter::empty()) && again.lost().next().is_none());
    }

    #[test]
    fn what_is_no_catalogue_is_refused() {
        assert!(Catalogue::decode(b"{}").is_err());
        assert!(Catalogue::new().apply(1, b"nonsense").is_err());
    }
}
