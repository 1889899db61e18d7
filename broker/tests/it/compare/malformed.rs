//! Malformed and odd input: both servers answer and close alike.

use std::time::Duration;

use testkit::{Client, Frame, Server};

use super::start_both;

/// Lines that are wrong, unusual, or not meant for this port.
const ODD: &[&str] = &[
    "PUB foo 1001",
    "PUB foo 1000000000",
    "PUB foo 0001\r\nx",
    "PUB foo +1\r\nx",
    "PUB  foo   1 \r\nx",
    "PUB\tfoo\t1\r\nx",
    "PUB foo 1\nx",
    "PUB foo bar 1\r\nx",
    "PUB foo bar baz qux 1",
    "PUB 1",
    "PUB foo 1 \t\r\nx",
    "HPUB foo 12 12\r\nNATS/1.0\r\n\r\n",
    "HPUB foo 0 0\r\n",
    "HPUB foo 1 0",
    "HPUB foo 12 1001",
    "HPUB foo 5 5\r\nhello",
    "HPUB foo bar baz 12 12",
    "SUB foo bar baz qux",
    "SUB foo  1",
    "sub foo 1",
    "SuB foo 1",
    "SUBfoo 1",
    "SUB",
    "SUB ",
    "SUB foo",
    "UNSUB",
    "UNSUB ",
    "UNSUB 1 -1",
    "UNSUB 1 2 3",
    "UNSUB 1 1000000000",
    "PING PING",
    "PINGX",
    "PONGX",
    "PON",
    "+OK",
    "+ok",
    "+OKAY",
    "-ERR",
    "-ERR x",
    "-err 'x'",
    "-E",
    "INFO {}",
    "INFO",
    "info x",
    "INFO {bad",
    "CONNECT",
    "CONNECT ",
    "CONNECT {}",
    "CONNECT x",
    "CONNECT {\"verbose\":true}",
    "CONNECT\t{}",
    "MSG foo 1 1\r\nx",
    "HMSG a 1 1 1",
    "RS+ $G foo",
    "RS- $G foo",
    "LS+ foo",
    "A+ $G",
    "R",
    "L",
    "A",
    "X",
    "",
    " ",
    "\t",
    "\0",
    "\u{fe}\u{ff}",
    "GET / HTTP/1.1",
    "POST",
    "HELLO",
    "STATS",
    "CLOSE",
    "UNSUBSCRIBE",
    "SUBSCRIBE foo 1",
];

/// Sends the script and a PING, and tells what came and whether the connection survived.
async fn outcome(server: &Server, script: &[u8]) -> (Vec<String>, bool) {
    let mut client = Client::ready(server).await;
    // One write, so that both servers see it in one read; the line end keeps an open line from swallowing the PING.
    client.send([script, b"\r\nPING\r\n"].concat()).await;
    let mut texts = Vec::new();
    // A server that neither answers nor closes (it waits for more of a payload) shows as not alive, like a closed one.
    while let Some(frame) = client.next_within(Duration::from_secs(1)).await {
        if frame.bytes == b"PONG\r\n" {
            return (texts, true);
        }
        texts.push(Frame::text(&frame));
    }
    (texts, false)
}

#[tokio::test]
async fn odd_input_is_answered_alike() {
    let Some([ours, theirs]) = start_both("max_payload: 1000\nmax_control_line: 256").await else { return };
    let long = "x".repeat(300);
    let mut all: Vec<Vec<u8>> = ODD.iter().map(|script| script.as_bytes().to_vec()).collect();
    all.extend(
        [
            format!("PUB {long} 1\r\nx"),
            format!("SUB {long} 1"),
            format!("UNSUB {long}"),
            format!("CONNECT {{\"name\":\"{long}\"}}"),
            format!("INFO {long}"),
            format!("-ERR {long}"),
        ]
        .map(String::into_bytes),
    );
    all.push(vec![0xff, 0xfe, b'\r', b'\n']);
    let mut differences = Vec::new();
    for script in &all {
        let mine = outcome(&ours, script).await;
        let reference = outcome(&theirs, script).await;
        if mine != reference {
            differences.push((String::from_utf8_lossy(script).into_owned(), mine, reference));
        }
    }
    assert!(differences.is_empty(), "(input, ours, reference): {differences:#?}");
}

#[tokio::test]
async fn damaged_operations_are_answered_alike() {
    let Some([ours, theirs]) = start_both("").await else { return };
    let operations = [
        "SUB foo.bar 1\r\n",
        "SUB foo q 12\r\n",
        "UNSUB 1 5\r\n",
        "PUB foo.bar 5\r\nhello\r\n",
        "PUB foo re.ply 2\r\nhi\r\n",
        "HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
        "PING\r\n",
        "CONNECT {\"verbose\":false}\r\n",
    ];
    let mut differences = Vec::new();
    for operation in operations {
        // A carriage return without a newline is read differently depending on how the bytes are split, also by the reference.
        for position in (0..operation.len()).filter(|&position| operation.as_bytes()[position] != b'\n') {
            // A raw tab inside JSON text is only wrong; what a server makes of an ignored key is its own business.
            let damages: &[u8] = if operation.starts_with("CONNECT") { b" Z9" } else { b" Z\t9" };
            for &damage in damages {
                let mut script = operation.as_bytes().to_vec();
                script[position] = damage;
                let mine = outcome(&ours, &script).await;
                let reference = outcome(&theirs, &script).await;
                if mine != reference {
                    differences.push((String::from_utf8_lossy(&script).into_owned(), mine, reference));
                }
            }
        }
    }
    assert!(differences.is_empty(), "(input, ours, reference): {differences:#?}");
}
