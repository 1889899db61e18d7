//! A server with JetStream on loopback, and a person who manages it by hand.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nkeys::KeyPair;
use operator::jetstream::api::Js;
use operator::metrics::Metrics;
use operator::nats::address::Address;
use operator::nats::login::Login;
use operator::nats::session::{Listener, Options, Session};
use operator::nats::trust;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::kubelet;
use super::until;

/// The reference server: named by `MYELIN_REFERENCE`, or in the directory `MYELIN_TOOLS`. Some tests need it, and none is skipped.
fn reference() -> PathBuf {
    let named = std::env::var_os("MYELIN_REFERENCE").map(PathBuf::from);
    let beside = || std::env::var_os("MYELIN_TOOLS").map(|tools| PathBuf::from(tools).join("nats-server"));
    let Some(path) = named.or_else(beside) else {
        panic!(
            "the reference server is not known: `make test` names it; by hand, set MYELIN_TOOLS=$(testing/tools/build.sh)"
        );
    };
    assert!(path.is_file(), "{}: no such file", path.display());
    path
}

/// A server in a process of its own.
pub(crate) struct Broker {
    program: PathBuf,
    folder: TempDir,
    key: KeyPair,
    process: Option<Child>,
    pub(crate) port: u16,
}

struct Deaf;

impl Listener for Deaf {
    fn up(&self) {}
    fn changed(&self, _: &str, _: Option<&str>) {}
    fn counted(&self, _: &str) {}
}

/// Somebody with a connection.
pub(crate) struct Person {
    session: Session,
    metrics: Metrics,
}

impl Person {
    pub(crate) fn js(&self) -> Js<'_> {
        Js {
            session: &self.session,
            prefix: "$JS.API",
            timeout: Duration::from_secs(10),
            metrics: &self.metrics,
        }
    }

    /// Publishes a message and waits for its acknowledgement.
    pub(crate) async fn publish(&self, subject: &str) {
        self.session.request(subject, b"hello", Duration::from_secs(10)).await.unwrap();
    }

    /// Takes the next message of a pull consumer. It comes under its own subject, so nobody waits for it here; that it was delivered
    /// is seen at the consumer.
    pub(crate) async fn take(&self, stream: &str, consumer: &str) {
        let delivered = async || {
            let info = self.js().consumer(stream, consumer).await.unwrap().unwrap();
            info.delivered.consumer_seq
        };
        let before = delivered().await;
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
        let answer = self.session.request(&subject, b"", Duration::from_millis(500)).await;
        assert!(answer.is_err(), "an error instead of a message");
        until("the message to be delivered", async || (delivered().await > before).then_some(())).await;
    }
}

impl Broker {
    /// Our server.
    pub(crate) async fn start() -> Self {
        Self::of(kubelet::broker(), |_| String::new(), "").await
    }

    /// The reference server, with a tag for placements. There B has a user with an nkey as well, which our server does not take yet.
    pub(crate) async fn reference() -> Self {
        let nkey = |key: &KeyPair| format!(", {{ nkey: {} }}", key.public_key());
        Self::of(reference(), nkey, "server_tags: [NODE_0]\n").await
    }

    /// Any server that takes the same configuration: accounts A and B, each with a user of the same name in lower case.
    async fn of(program: PathBuf, more_users: impl Fn(&KeyPair) -> String, more: &str) -> Self {
        let reserved = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = reserved.local_addr().unwrap().port();
        drop(reserved);
        let folder = TempDir::new().unwrap();
        let key = KeyPair::new_user();
        let config = format!(
            "listen: \"127.0.0.1:{port}\"\nserver_name: broker-{port}\njetstream {{ store_dir: \"{}\" }}\n\
             accounts {{\n\
               A {{ jetstream: enabled, users: [ {{ user: a, password: secret-a }} ] }}\n\
               B {{ jetstream: enabled, users: [ {{ user: b, password: secret-b }}{} ] }}\n\
               SYS {{ users: [ {{ user: sys, password: secret-sys }} ] }}\n\
             }}\nsystem_account: SYS\n{more}",
            folder.path().join("store").display(),
            more_users(&key)
        );
        std::fs::write(folder.path().join("nats.conf"), config).unwrap();
        let mut broker = Self { program, folder, key, process: None, port };
        broker.run().await;
        broker
    }

    /// Runs the server, again after it was stopped.
    pub(crate) async fn run(&mut self) {
        let log =
            std::fs::File::options().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let process = Command::new(&self.program)
            .arg("-c")
            .arg(self.folder.path().join("nats.conf"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        self.process = Some(process);
        let address = format!("127.0.0.1:{}", self.port);
        until("the broker to listen", async || tokio::net::TcpStream::connect(&address).await.ok()).await;
        let person = self.person("a");
        until("JetStream to answer", async || person.js().account().await.ok()).await;
    }

    /// Kills the server.
    pub(crate) async fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().await.unwrap();
    }

    /// Its address as manifests write it.
    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Seed of the nkey that account B has a user for.
    pub(crate) fn seed(&self) -> String {
        self.key.seed().unwrap()
    }

    /// A person in one of the accounts.
    pub(crate) fn person(&self, user: &str) -> Person {
        let options = Options {
            addresses: vec![Address::parse(&self.url()).unwrap()],
            tls: trust::with_roots(Some(""), None).unwrap(),
            tls_required: false,
            tls_first: false,
            login: Login::Password { user: user.to_owned(), password: format!("secret-{user}") },
            inbox_prefix: "_INBOX".to_owned(),
            connect_timeout: Duration::from_secs(5),
        };
        Person { session: Session::new(options, Arc::new(Deaf)), metrics: Metrics::new().unwrap() }
    }
}
