//! What servers say to each other: routes, gateways, leafnodes.

pub mod encode;
mod parser;

pub use parser::{Message, PeerLimits, PeerOp, Queues, Step, parse};

/// Kind of connection between servers. The lines of the kinds differ in their arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Servers of one cluster.
    Route,
    /// Servers of two clusters.
    Gateway,
    /// A leafnode and its hub.
    Leaf,
}
