//! The controller of `NatsAutoscaler`: reads what work there is, decides how many workers it takes, and asks their owner for so many.
//!
//! What is not known is not zero: while a source cannot be read nothing shrinks. The decision is a pure function of what was read, and of a
//! memory that a new operator makes again from the status.

pub mod conflict;
pub mod controller;
pub mod decide;
pub mod groups;
pub mod idle;
pub mod lists;
pub mod memory;
pub mod need;
pub mod plan;
pub mod read;
pub mod reconcile;
pub mod report;
pub mod stale;
pub mod target;
