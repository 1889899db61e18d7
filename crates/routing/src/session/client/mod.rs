//! The client's side of a connection: what it asked for in CONNECT, what it may publish, what it subscribed to.

mod connect;
mod publish;
mod subscriptions;

pub use connect::{ConnectError, Settings};
pub use publish::{Denied, Publisher};
pub use subscriptions::{SubscribeError, Subscribed, Subscriptions, Unsubscribed};

/// Reserved queue name: the server uses it for itself.
const QUEUE_RESERVED: &[u8] = b"_sys_";
