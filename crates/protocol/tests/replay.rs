//! Replays the fuzz corpora of the parsers, and changed copies of their entries.

#![allow(clippy::unwrap_used, reason = "helpers of a test")]

#[path = "../../../testing/fuzz/checks/client_parser.rs"]
mod client_parser;
#[path = "../../../testing/fuzz/checks/header.rs"]
mod header;
#[path = "../../../testing/fuzz/checks/mutate.rs"]
mod mutate;
#[path = "../../../testing/fuzz/checks/peer_parser.rs"]
mod peer_parser;

#[test]
fn client_parser_survives_its_corpus_and_changes_of_it() {
    let words: &[&[u8]] = &[
        b"PUB ",
        b"HPUB ",
        b"SUB ",
        b"UNSUB ",
        b"PING",
        b"PONG",
        b"CONNECT ",
        b"INFO ",
        b"+OK",
        b"-ERR ",
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b"0",
        b"999999999",
        b"4096",
        b"4097",
    ];
    mutate::replay("client_parser", words, client_parser::check);
}

#[test]
fn peer_parser_survives_its_corpus_and_changes_of_it() {
    let words: &[&[u8]] = &[
        b"RMSG ",
        b"HMSG ",
        b"LMSG ",
        b"RS+ ",
        b"RS- ",
        b"LS+ ",
        b"LS- ",
        b"A+ ",
        b"A- ",
        b" + ",
        b" | ",
        b"\r\n",
        b"\n",
        b" ",
        b"0",
        b"999999999",
        b"4097",
        b"$G ",
    ];
    mutate::replay("peer_parser", words, peer_parser::check);
}

#[test]
fn header_block_survives_its_corpus_and_changes_of_it() {
    let words: &[&[u8]] = &[b"NATS/1.0", b"\r\n", b"\n", b"\r", b":", b": ", b" 503", b"Nats-Msg-Id", b"X-"];
    mutate::replay("header", words, header::check);
}
