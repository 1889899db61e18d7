//! Monitoring documents, one module a page, and the options each page takes.
//!
//! Options come from an HTTP query ([`crate::query::Query`]) or from the JSON body of a system request
//! ([`crate::json::decode_options`]); the names differ, the resulting types do not.

pub mod account;
pub mod connz;
pub mod health;
pub mod jsz;
pub mod links;
mod page;
pub mod subsz;
pub mod varz;

pub use account::{
    AccountDetail, AccountExport, AccountImport, AccountMapping, AccountStat, Accountz, AccountzOptions,
    Accstatz, AccstatzOptions,
};
pub use connz::{ConnInfo, ConnSort, ConnState, Connz, ConnzOptions, Proxy, SubDetail, TlsPeerCert};
pub use health::{HealthError, HealthErrorKind, HealthStatus, HealthzOptions, JetStreamFault};
pub use jsz::{
    JetStreamAccount, JetStreamConfig, JetStreamLimits, JetStreamStats, JetStreamVarz, Jsz, JszOptions,
    MetaClusterInfo, MetaSnapshotStats, RaftGroupDetail, StreamDetail, WorkingMemory,
};
pub use links::{RouteInfo, Routez, RoutezOptions, SubjectPermission};
pub use page::{LIMIT_DEFAULT, OptionsError, Page};
pub use subsz::{SublistStats, Subsz, SubszOptions};
pub use varz::{ClusterVarz, DiskIoWaitStats, Empty, KindCounts, Varz};
