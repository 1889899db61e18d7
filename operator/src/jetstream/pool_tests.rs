//! What is looked at while a list is being read, against a server that answers lists when it is told to.

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;
use crate::jetstream::index::{Entry, ObjectKey};
use crate::nats::address::Address;
use crate::nats::login::Login;
use crate::nats::{session, trust};

const PATIENCE: Duration = Duration::from_secs(30);
const KEY: Key = Key::test(1);
const INFO: &str = r#"{"config":{"name":"NAME","subjects":["x"],"retention":"limits","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,"max_msgs_per_subject":-1,"max_msg_size":-1,"discard":"old","storage":"memory","num_replicas":1},"created":"2026-01-01T00:00:00Z","state":{"messages":0,"bytes":0,"first_seq":0,"first_ts":"0001-01-01T00:00:00Z","last_seq":0,"last_ts":"0001-01-01T00:00:00Z","consumer_count":0}}"#;

/// A server whose streams all are there.
struct Server {
    port: u16,
    /// Subjects of requests, as they come.
    asked: mpsc::UnboundedReceiver<String>,
    /// Subjects of advisories to send; an empty one lets a list go.
    say: mpsc::UnboundedSender<String>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, asked) = mpsc::unbounded_channel();
        let (say, said) = mpsc::unbounded_channel();
        tokio::spawn(serve(listener, tell, said));
        Self { port, asked, say }
    }
}

async fn serve(
    listener: TcpListener,
    tell: mpsc::UnboundedSender<String>,
    mut said: mpsc::UnboundedReceiver<String>,
) {
    let (socket, _) = listener.accept().await.unwrap();
    let (reader, mut writer) = socket.into_split();
    writer.write_all(b"INFO {}\r\n").await.unwrap();
    let mut lines = BufReader::new(reader).lines();
    let mut lists = Vec::new();
    loop {
        let answer = tokio::select! {
            line = lines.next_line() => {
                let Ok(Some(line)) = line else { return };
                let words: Vec<_> = line.split(' ').collect();
                match words[..] {
                    ["PING"] => "PONG\r\n".to_owned(),
                    ["PUB", subject, reply, _] => {
                        lines.next_line().await.unwrap();
                        tell.send(subject.to_owned()).unwrap();
                        match subject.strip_prefix("$JS.API.STREAM.INFO.") {
                            Some(name) => message(reply, "1", &INFO.replace("NAME", name)),
                            None => {
                                lists.push(reply.to_owned());
                                String::new()
                            }
                        }
                    }
                    _ => String::new(),
                }
            }
            subject = said.recv() => {
                let Some(subject) = subject else { return };
                if subject.is_empty() {
                    let streams: Vec<_> = (0..LIST_OBJECTS_MIN).map(|number| INFO.replace("NAME", &name(number))).collect();
                    let list = format!(r#"{{"total":{0},"offset":0,"limit":256,"streams":[{1}]}}"#, streams.len(), streams.join(","));
                    message(&lists.remove(0), "1", &list)
                } else {
                    message(&subject, "2", "{}")
                }
            }
        };
        writer.write_all(answer.as_bytes()).await.unwrap();
    }
}

fn message(subject: &str, sid: &str, payload: &str) -> String {
    format!("MSG {subject} {sid} {}\r\n{payload}\r\n", payload.len())
}

fn name(number: usize) -> String {
    format!("s{number}")
}

fn connection(port: u16) -> Connection {
    let options = session::Options {
        addresses: vec![Address::parse(&format!("127.0.0.1:{port}")).unwrap()],
        tls: trust::with_roots(Some(""), None).unwrap(),
        tls_required: false,
        tls_first: false,
        login: Login::Anonymous,
        inbox_prefix: "_I".to_owned(),
        connect_timeout: PATIENCE,
    };
    Connection {
        key: KEY,
        home: "ns".to_owned(),
        options,
        prefix: api_prefix(""),
        request_timeout: PATIENCE,
        depends: Vec::new(),
    }
}

/// An index with just as many streams as are listed and not asked for one by one.
fn streams() -> Arc<Index> {
    let index = Index::default();
    for number in 0..LIST_OBJECTS_MIN {
        let object = ObjectKey { kind: "Stream", namespace: "ns".to_owned(), name: name(number) };
        index.record(&object, Entry { session: Some(KEY), stream: name(number), ..Entry::default() });
    }
    Arc::new(index)
}

#[tokio::test]
async fn what_is_told_of_waits_for_no_list_and_is_not_forgotten_because_of_one() {
    let Server { port, mut asked, say } = Server::start().await;
    let (events, mut told) = mpsc::channel(16);
    let index = streams();
    let shared = Pool::new(Arc::clone(&index), events).get(&connection(port)).unwrap();
    let metrics = Metrics::new().unwrap();
    let look = async |number: usize, now: bool| {
        let target = Target::new(&name(number), None);
        let js = shared.js(PATIENCE, &metrics);
        let found = timeout(PATIENCE, shared.look(&js, &index, &target, now)).await;
        assert!(found.unwrap().unwrap().is_some());
    };
    let mut heard = async |expected: Told| {
        assert_eq!(timeout(PATIENCE, told.recv()).await.unwrap().unwrap(), (KEY, expected));
    };
    let mut next = async || timeout(PATIENCE, asked.recv()).await.unwrap().unwrap();
    let say = |subject: &str| say.send(subject.to_owned()).unwrap();
    let changed = |number: usize| say(&format!("$JS.EVENT.ADVISORY.STREAM.DELETED.{}", name(number)));
    let info = |number: usize| format!("$JS.API.STREAM.INFO.{}", name(number));
    let update = |number: usize| Told::Changed(Target::new(&name(number), None));

    shared.server().await.unwrap();
    heard(Told::Up).await;
    changed(1);
    heard(update(1)).await;
    // The pass that asked for the list ends before it is there.
    let mut first = Box::pin(look(0, false));
    tokio::select! {
        () = &mut first => panic!("without a list"),
        subject = next() => assert_eq!(subject, "$JS.API.STREAM.LIST"),
    }
    drop(first);
    look(1, false).await;
    assert_eq!(next().await, info(1), "told before the list began");
    say("$JS.EVENT.ADVISORY.STREAM.DELETED.of-nobody");
    changed(2);
    heard(update(2)).await;
    look(2, false).await;
    assert_eq!(next().await, info(2), "told while it is read");
    look(3, true).await;
    assert_eq!(next().await, info(3), "asked for at once");

    say("");
    look(0, false).await;
    look(4, false).await;
    // What the list has of those is older than what was seen meanwhile.
    for number in [1, 2, 3] {
        look(number, false).await;
        assert_eq!(next().await, info(number));
        look(number, false).await;
    }
    changed(5);
    heard(update(5)).await;
    look(5, false).await;
    assert_eq!(next().await, info(5));
    assert!(asked.try_recv().is_err(), "more was asked for than had to be");
}
