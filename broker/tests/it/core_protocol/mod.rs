//! The client protocol: every operation, its answers and its errors, byte for byte.

mod connect;
mod deliver;
mod errors;
mod fast_producer;
mod greeting;
mod headers;
mod keepalive;
mod lame_duck;
mod limits;
mod parser;
mod queue;
mod slow_consumer;
mod subscribe;
