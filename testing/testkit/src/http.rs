//! A GET for monitoring endpoints, plain and small: one request, one connection.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::Io;
use crate::wait::{PATIENCE, within};

/// Answer to a GET.
#[derive(Debug)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Header lines, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body as text.
    pub body: String,
}

impl Response {
    /// First header of this name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        match serde_json::from_str(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("status {}: body is not JSON: {error}: {:?}", self.status, self.body),
        }
    }
}

/// GET over a fresh connection.
pub async fn get(address: SocketAddr, path: &str) -> Response {
    within(PATIENCE, &format!("GET {path}"), async {
        match TcpStream::connect(address).await {
            Ok(stream) => get_over(Box::new(stream), path).await,
            Err(error) => panic!("GET {path}: connect {address}: {error}"),
        }
    })
    .await
}

/// GET over a connection that is already there (for https).
pub async fn get_over(mut stream: Box<dyn Io>, path: &str) -> Response {
    // HTTP/1.0, so that the answer is never chunked and ends with the connection.
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    let mut answer = Vec::new();
    let result = async {
        stream.write_all(request.as_bytes()).await?;
        stream.read_to_end(&mut answer).await
    };
    if let Err(error) = result.await {
        // TLS peers may end without a closing alert; what came before it still counts.
        assert!(!answer.is_empty(), "GET {path}: {error}");
    }
    parse(path, &String::from_utf8_lossy(&answer))
}

fn parse(path: &str, answer: &str) -> Response {
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        panic!("GET {path}: no end of headers in {answer:?}")
    };
    let mut lines = head.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let Some(status) = status_line.split(' ').nth(1).and_then(|code| code.parse().ok()) else {
        panic!("GET {path}: bad status line {status_line:?}")
    };
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Response { status, headers, body: body.to_owned() }
}
