//! Streams, consumers and the catalogue of both as state machines without clocks, sockets and files.
