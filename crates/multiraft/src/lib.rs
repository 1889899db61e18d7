//! Many small Raft groups as one state machine: bytes in, bytes out.
//!
//! A [`Node`] holds this server's part of every group it is a member of. It reads no clock, owns no socket and no file. Whoever owns it (a
//! shard) works in turns:
//!
//! 1. put in what happened: [`Node::step`] for a batch of a peer, [`Node::propose`] for payloads, [`Node::persisted`] for what the log has
//!    synced, [`Node::tick`] at a steady pace;
//! 2. take out what is to be done: [`Node::poll`] until it returns `None`.
//!
//! | Output | What the owner does |
//! |---|---|
//! | [`Output::Persist`] | writes it to the shared log, in this order, and calls [`Node::persisted`] with its ticket once it is synced |
//! | [`Output::Send`] | sends the bytes to the peer, after everything else of this turn; losing them is allowed |
//! | [`Output::Committed`] | applies the payloads, in order |
//! | [`Output::Role`] | starts or stops to lead |
//! | [`Output::NeedEntries`] | reads entries from the log and calls [`Node::supply_entries`] |
//! | [`Output::NeedSnapshot`] | has the peer catch up by other means: its entries are gone |
//!
//! # Promises
//!
//! - A committed payload is on stable storage of a majority, as far as every `persisted` was true.
//! - `Committed` hands out each index once and in order, beginning behind [`Start::applied`].
//! - `Output::Role` with [`Role::Leader`] comes after `Committed` has handed out everything that earlier leaders committed; a leader that was
//!   told so may decide on top of what it has applied. Proposals are taken from then on.
//! - Several `Persist` may be outstanding, of one group too. An entry with the index of an earlier one replaces it and all that follow it.
//!
//! # What an idle group costs
//!
//! Only groups that something happened to are looked at in `poll`. A group stops being ticked when all its members are at the same point and
//! nothing happens (hibernation, described in `heartbeat.rs`); one small message per peer then stands for all groups shared with it.
//!
//! Applied entries of a group of one are not kept in memory; those of a group with peers are kept up to [`Limits::tail_bytes_max`].
//!
//! # Chance
//!
//! The only chance is in election timeouts. They are drawn from [`NodeConfig::seed`], so a run is repeatable.
//!
//! # Deliberately absent
//!
//! Membership changes, transfer of snapshots and linearizable reads on followers. Messages of those kinds are refused when they arrive.

mod core;
mod group;
mod heartbeat;
mod link;
mod log;
mod message;
mod node;
mod output;
mod start;

pub use message::DecodeError;
pub use node::{Node, ProposeError, StepError};
pub use output::{Output, Role, Status, Ticket};
pub use start::{Entry, GroupId, HardState, Limits, NodeConfig, PeerId, Position, Start, StartError};
