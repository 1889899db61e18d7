//! Accounts, interest, permissions, delivery plans and the session machines of the broker.
//!
//! **Invariants.** Nothing here opens a socket, reads a clock or waits: the time and the seed of every random choice come in as
//! arguments. What a message needs on its way (interest, plan, pick of a queue member) is decided here; who writes bytes to whom
//! is the shell's business, seen here only as the type parameter `S`, a cheap handle of a connection.

pub mod account;
pub mod deliver;
pub mod imports;
pub mod interest;
pub mod permission;
pub mod random;
pub mod session;

pub use account::Account;
pub use interest::{Interest, Subscription};
pub use permission::Permissions;
