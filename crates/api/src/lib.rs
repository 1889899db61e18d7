//! JSON documents that clients and tools see: data and validation only.
