//! Accounts, interest, permissions and the session machines.
