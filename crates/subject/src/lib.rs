//! The subject language: validity, wildcards and the subscription trie.
