//! One stream: what its leader checks, what its replicas apply, and what it answers.

pub mod facts;
