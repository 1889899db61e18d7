//! The stream machine as its shell sees it: scripts with the full expected trace, and a model of restarts.

mod harness;
mod model;
mod script;
