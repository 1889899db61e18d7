//! Black-box harness: starts servers, speaks the raw protocol.
