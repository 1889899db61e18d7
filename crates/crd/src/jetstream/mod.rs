//! The kinds of the group `jetstream.nats.io`: streams, consumers, buckets, and how to connect.
//!
//! Group, names, defaults and finalizers are those that manifests of these kinds have had for years, so that they apply
//! unchanged; what is ours beside them may always be left out. A stored object must stay readable and deletable
//! whatever is in it: no field is required, and rules compare an object with its former self only. What a spec lacks is
//! said in its status.

pub mod account;
pub mod buckets;
pub mod consumer;
mod definition;
pub mod options;
pub mod parts;
pub mod selector;
pub mod span;
pub mod status;
pub mod stream;

pub use account::{Account, AccountSpec};
pub use buckets::{KeyValue, KeyValueSpec, ObjectStore, ObjectStoreSpec};
pub use consumer::{Consumer, ConsumerSpec};
pub use definition::definitions;
pub use stream::{Stream, StreamSpec};

/// API group of these kinds.
pub const GROUP: &str = "jetstream.nats.io";

/// Field manager of what the operator writes about these kinds.
pub const FIELD_MANAGER: &str = "myelin.dev/jetstream";

/// Finalizers, one for each kind. The names let either controller take over from the other.
pub mod finalizer {
    /// Of a Stream.
    pub const STREAM: &str = "stream.nats.io/finalizer";
    /// Of a Consumer.
    pub const CONSUMER: &str = "consumer.nats.io/finalizer";
    /// Of a KeyValue.
    pub const KEY_VALUE: &str = "kv.nats.io/finalizer";
    /// Of an ObjectStore.
    pub const OBJECT_STORE: &str = "objectstore.nats.io/finalizer";
    /// Of an Account.
    pub const ACCOUNT: &str = "account.nats.io/finalizer";
}

/// Names in the metadata of streams and consumers that are the operator's.
pub mod metadata {
    /// Beginning of all of them.
    pub const PREFIX: &str = "myelin.dev/";
    /// The object that manages it.
    pub const OWNER: &str = "myelin.dev/owner";
    /// Where a consumer was to begin that was made anew with its position.
    pub const START: &str = "myelin.dev/start";
}
