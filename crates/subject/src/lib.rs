//! The subject language: validity, wildcards, transforms and the subscription trie.
//!
//! A subject is a byte string of tokens separated by `.`; UTF-8 is not enforced. `*` stands for exactly one
//! token, `>` as the last token for one or more. A token that holds `*` or `>` among other bytes is an
//! ordinary one.

mod matching;
mod subject;
mod sublist;
pub mod transform;

pub use matching::{intersection, is_subset, matches, overlaps};
pub use subject::{has_wildcard, is_literal, is_valid, token_count, tokens};
pub use sublist::{InvalidSubject, SUBSCRIPTION_TOKENS_MAX, Stats, Sublist, Visitor};
pub use transform::{Transform, TransformError};
