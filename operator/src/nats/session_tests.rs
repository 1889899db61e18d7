//! A session against servers that behave and servers that do not.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;
use crate::nats::link::{LINE_LENGTH_MAX, MESSAGE_LENGTH_MAX};
use crate::nats::trust;

const PATIENCE: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_millis(500);

/// Collects what a session tells.
struct Ears(mpsc::UnboundedSender<String>);

impl Listener for Ears {
    fn up(&self) {
        let _ = self.0.send("up".to_owned());
    }

    fn changed(&self, stream: &str, consumer: Option<&str>) {
        let _ = self.0.send(format!("changed {stream} {}", consumer.unwrap_or_default()));
    }

    fn counted(&self, stream: &str) {
        let _ = self.0.send(format!("counted {stream}"));
    }
}

fn options(port: u16) -> Options {
    Options {
        addresses: vec![Address::parse(&format!("127.0.0.1:{port}")).unwrap()],
        tls: trust::with_roots(Some(""), None).unwrap(),
        tls_required: false,
        tls_first: false,
        login: Login::Password { user: "u".to_owned(), password: "secret".to_owned() },
        inbox_prefix: "_I".to_owned(),
        connect_timeout: Duration::from_secs(2),
    }
}

/// Answers lines: `REPLY` stands for the inbox of the last request.
type Script = &'static [(&'static str, &'static str)];

const LOGIN: (&str, &str) = ("PING", "PONG\r\n");

/// Serves one connection after another, and tells which lines came.
async fn serve(info: &'static str, script: Script) -> (u16, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, lines) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let mut stream = BufReader::new(socket);
            let _ = stream.get_mut().write_all(info.as_bytes()).await;
            let mut inbox = String::new();
            while let Ok(line) = read_line(&mut stream).await {
                if line.starts_with("PUB ") {
                    inbox = line.split(' ').nth(2).unwrap_or_default().to_owned();
                }
                let _ = tell.send(line.clone());
                let answer =
                    script.iter().find(|(start, _)| line.starts_with(start)).map_or("", |(_, text)| text);
                if answer == "CLOSE" {
                    break;
                }
                let _ = stream.get_mut().write_all(answer.replace("REPLY", &inbox).as_bytes()).await;
            }
        }
    });
    (port, lines)
}

const INFO: &str = "INFO {\"server_id\":\"S\",\"server_name\":\"n1\",\"version\":\"2.12.0\",\"connect_urls\":[\"127.0.0.1:1\"]}\r\n";

fn session(port: u16) -> (Session, mpsc::UnboundedReceiver<String>) {
    let (tell, told) = mpsc::unbounded_channel();
    (Session::new(options(port), Arc::new(Ears(tell))), told)
}

async fn next(told: &mut mpsc::UnboundedReceiver<String>) -> String {
    timeout(PATIENCE, told.recv()).await.unwrap().unwrap()
}

#[tokio::test]
async fn answers_find_their_requests_and_advisories_their_listener() {
    let script: Script = &[
        LOGIN,
        (
            "PUB a",
            "MSG $JS.EVENT.ADVISORY.STREAM.DELETED.S1 4 2\r\n{}\r\nMSG $JS.EVENT.ADVISORY.CONSUMER.CREATED.S1.C1 5 2\r\n{}\r\n\
             MSG $JS.EVENT.ADVISORY.CONSUMER.UPDATED.S2.C2 6 2\r\n{}\r\nMSG $JS.EVENT.ADVISORY.CONSUMER.DELETED.S3.C3 7 2\r\n{}\r\n\
             PING\r\nINFO {}\r\n-ERR 'Permissions Violation for Subscription to \"x\"'\r\n\
             MSG _I.0.99 1 4\r\nlate\r\nHMSG REPLY 1 12 14\r\nNATS/1.0\r\n\r\nok\r\n",
        ),
        ("PUB b", "HMSG REPLY 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"),
        ("PUB c", "-ERR 'Permissions Violation for Publish to \"c\"'\r\n"),
    ];
    let (port, _lines) = serve(INFO, script).await;
    let (session, mut told) = session(port);
    assert_eq!(session.request("a", b"x", SOON).await.unwrap(), b"ok");
    for expected in
        ["up", "changed S1 ", "changed S1 C1", "counted S1", "changed S2 C2", "changed S3 C3", "counted S3"]
    {
        assert_eq!(next(&mut told).await, expected);
    }
    assert!(
        matches!(session.request("b", b"", SOON).await, Err(Error::NoResponders(subject)) if subject == "b")
    );
    assert!(matches!(session.request("c", b"", SOON).await, Err(Error::Denied(_))));
    assert!(matches!(session.request("d", b"", SOON).await, Err(Error::Timeout(_))));
    assert_eq!(session.server().await.unwrap().name, "n1");
    assert_eq!(session.server().await.unwrap().version, "2.12.0");
}

#[tokio::test]
async fn a_broken_connection_is_made_again_by_itself() {
    let script: Script = &[LOGIN, ("PUB a", "CLOSE"), ("PUB b", "MSG REPLY 1 2\r\nok\r\n")];
    let (port, _lines) = serve(INFO, script).await;
    let (session, mut told) = session(port);
    assert!(session.request("a", b"", SOON).await.is_err());
    assert_eq!(next(&mut told).await, "up");
    // Nobody asked again.
    assert_eq!(next(&mut told).await, "up");
    assert_eq!(session.request("b", b"", SOON).await.unwrap(), b"ok");
}

#[tokio::test]
async fn a_server_that_is_away_is_asked_less_often_and_found_when_it_is_back() {
    let reserved = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = reserved.local_addr().unwrap().port();
    drop(reserved);
    let (session, mut told) = session(port);
    assert!(session.request("a", b"", SOON).await.is_err());
    let started = Instant::now();
    let error = session.request("a", b"", SOON).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)) && started.elapsed() < SOON, "{error}");
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let mut stream = BufReader::new(socket);
        stream.get_mut().write_all(INFO.as_bytes()).await.unwrap();
        while let Ok(line) = read_line(&mut stream).await {
            if line == "PING" {
                stream.get_mut().write_all(b"PONG\r\n").await.unwrap();
            }
        }
    });
    assert_eq!(next(&mut told).await, "up");
}

#[tokio::test]
async fn a_login_is_not_sent_in_the_open_when_encryption_was_asked_for() {
    let (port, mut lines) = serve(INFO, &[LOGIN]).await;
    let (tell, _told) = mpsc::unbounded_channel();
    let session = Session::new(Options { tls_required: true, ..options(port) }, Arc::new(Ears(tell)));
    let error = session.request("a", b"", SOON).await.unwrap_err();
    assert!(matches!(error, Error::Plain), "{error}");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(lines.try_recv().is_err(), "something was said");
}

#[tokio::test]
async fn what_is_no_server_costs_one_attempt_and_tells_nothing() {
    for greeting in ["HTTP/1.1 200 OK secret-banner\r\n", "INFO secret-banner\r\n", "\r\n"] {
        let (port, _lines) = serve(greeting, &[]).await;
        let (session, _told) = session(port);
        let error = session.request("a", b"", SOON).await.unwrap_err().public();
        assert!(!error.contains("secret-banner"), "{error}");
    }
}

#[tokio::test]
async fn sizes_above_the_bound_and_lines_without_end_break_the_connection() {
    for answer in [
        "MSG REPLY 1 99999999\r\n",
        "HMSG REPLY 1 20 10\r\n",
        "MSG REPLY\r\n",
        "MSG REPLY 1 -1\r\n",
        "NONSENSE\r\n",
    ] {
        let script: Script = Box::leak(Box::new([LOGIN, ("PUB", answer)]));
        let (port, _lines) = serve(INFO, script).await;
        let (session, _told) = session(port);
        let error = session.request("a", b"", PATIENCE).await.unwrap_err();
        assert!(matches!(error, Error::Unreachable(_)), "{answer}: {error}");
    }
}

#[tokio::test]
async fn a_message_is_taken_up_to_its_bound_and_not_one_byte_larger() {
    for (size, taken) in [(MESSAGE_LENGTH_MAX, true), (MESSAGE_LENGTH_MAX + 1, false)] {
        let answer = format!("MSG REPLY 1 {size}\r\n{}\r\n", "x".repeat(size));
        let script: Script = Box::leak(Box::new([LOGIN, ("PUB", &*Box::leak(answer.into_boxed_str()))]));
        let (port, _lines) = serve(INFO, script).await;
        let (session, _told) = session(port);
        match session.request("a", b"", PATIENCE).await {
            Ok(payload) => assert!(taken && payload.len() == size, "{size}"),
            Err(error) => assert!(!taken && matches!(error, Error::Unreachable(_)), "{size}: {error}"),
        }
    }
}

#[tokio::test]
async fn a_line_is_taken_up_to_its_bound_and_not_one_byte_longer() {
    for (more, taken) in [(0, true), (1, false)] {
        let rest = usize::try_from(LINE_LENGTH_MAX).unwrap() - "INFO {\"nonce\":\"\"}\r\n".len() + more;
        let info = format!("INFO {{\"nonce\":\"{}\"}}\r\n", "x".repeat(rest));
        let (port, _lines) = serve(Box::leak(info.into_boxed_str()), &[LOGIN]).await;
        let (session, _told) = session(port);
        assert_eq!(session.server().await.is_ok(), taken, "{more} more");
    }
}

#[tokio::test]
async fn requests_have_a_bound() {
    let (port, _lines) = serve(INFO, &[LOGIN]).await;
    let (session, _told) = session(port);
    session.server().await.unwrap();
    let waiting = (0..PENDING_MAX).map(|_| session.request("a", b"", SOON));
    let all = futures::future::join_all(waiting);
    let one_more = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        session.request("a", b"", SOON).await
    };
    let (_, refused) = tokio::join!(all, one_more);
    assert!(matches!(refused, Err(Error::Busy)));
    // What nobody waits for any more takes no place.
    assert!(matches!(session.request("a", b"", SOON).await, Err(Error::Timeout(_))));
}

#[test]
fn attempts_to_connect_become_rarer_up_to_a_bound() {
    assert_eq!(pause_after(0), BACKOFF.0);
    assert_eq!([1, 2, 3, 4].map(|failures| pause_after(failures).as_secs()), [1, 2, 4, 5]);
    assert_eq!(pause_after(u32::MAX), BACKOFF.1);
}
