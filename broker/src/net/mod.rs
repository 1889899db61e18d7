//! Sockets, buffers and the tasks that read and write them.

pub mod buffer;
pub mod client;
pub mod connection;
pub mod dispatch;
pub mod flush;
pub mod listener;
pub mod outbound;
pub mod session;
pub mod sink;
pub mod stream;
pub mod trace;
