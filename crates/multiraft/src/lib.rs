//! Many small Raft groups as one state machine: bytes in, bytes out.
