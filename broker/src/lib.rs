//! The message broker: sockets, threads, clocks and files around the cores that decide.

pub mod accounts;
pub mod auth;
pub mod clock;
pub mod cluster;
pub mod files;
pub mod info;
pub mod jetstream;
pub mod lame_duck;
pub mod logging;
pub mod monitor;
pub mod net;
pub mod reload;
pub mod server;
pub mod signal_sender;
pub mod signals;
pub mod system;
pub mod tls;

pub use server::Server;
