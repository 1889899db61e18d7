//! A server with JetStream on loopback, and a person who manages it by hand.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use nkeys::KeyPair;
use operator::cluster::tls;
use operator::jetstream::api::Js;
use operator::metrics::Metrics;
use operator::nats::address::Address;
use operator::nats::client::Target;
use operator::nats::login::Login;
use operator::nats::session::{Listener, Options, Session};
use operator::nats::trust;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::kubelet;
use super::tools::reference;
use super::until;

/// A server in a process of its own.
pub(crate) struct Broker {
    program: PathBuf,
    folder: TempDir,
    key: KeyPair,
    process: Option<Child>,
    pub(crate) port: u16,
    /// What clients show, where they need a certificate.
    pub(crate) identity: Option<Identity>,
}

/// A certificate with its key, and the authority that all have.
pub(crate) struct Identity {
    pub(crate) authority: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// What a server is told besides.
#[derive(Default)]
struct More {
    users_of_a: String,
    users_of_b: String,
    top: String,
    identity: Option<Identity>,
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
        Self::of(kubelet::broker(), |_, _| More::default()).await
    }

    /// The reference server, with a tag for placements. There B has a user with an nkey as well, which our server does not take yet.
    pub(crate) async fn reference() -> Self {
        Self::of(reference(), |_, key| More {
            users_of_b: format!(", {{ nkey: {} }}", key.public_key()),
            top: "server_tags: [NODE_0]\n".to_owned(),
            ..More::default()
        })
        .await
    }

    /// The reference server where clients are who their certificates say, and that of `nack-a` stands for account A.
    pub(crate) async fn with_certificates() -> Self {
        let now = Timestamp::now();
        let authority = tls::new_authority("nats-ca", now).unwrap();
        let issued = |name: &str| {
            let issued = tls::issue(&authority, &[name.to_owned()], now).unwrap();
            Identity {
                authority: authority.certificate.clone(),
                certificate: issued.certificate,
                key: issued.key,
            }
        };
        let server = issued("127.0.0.1");
        Self::of(reference(), |folder, _| {
            let file = |name: &str, text: &str| {
                std::fs::write(folder.join(name), text).unwrap();
                folder.join(name).display().to_string()
            };
            let (ca, chain, key) = (
                file("ca.crt", &server.authority),
                file("tls.crt", &server.certificate),
                file("tls.key", &server.key),
            );
            More {
                users_of_a: ", { user: nack-a }".to_owned(),
                top: format!(
                    "tls {{ ca_file: \"{ca}\", cert_file: \"{chain}\", key_file: \"{key}\", verify_and_map: true }}\n"
                ),
                identity: Some(issued("nack-a")),
                ..More::default()
            }
        })
        .await
    }

    /// Any server that takes the same configuration: accounts A and B, each with a user of the same name in lower case.
    async fn of(program: PathBuf, more: impl FnOnce(&Path, &KeyPair) -> More) -> Self {
        let reserved = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = reserved.local_addr().unwrap().port();
        drop(reserved);
        let folder = TempDir::new().unwrap();
        let key = KeyPair::new_user();
        let more = more(folder.path(), &key);
        let config = format!(
            "listen: \"127.0.0.1:{port}\"\nserver_name: broker-{port}\njetstream {{ store_dir: \"{}\" }}\n\
             accounts {{\n\
               A {{ jetstream: enabled, users: [ {{ user: a, password: secret-a }}{} ] }}\n\
               B {{ jetstream: enabled, users: [ {{ user: b, password: secret-b }}{} ] }}\n\
               SYS {{ users: [ {{ user: sys, password: secret-sys }} ] }}\n\
             }}\nsystem_account: SYS\n{}",
            folder.path().join("store").display(),
            more.users_of_a,
            more.users_of_b,
            more.top
        );
        std::fs::write(folder.path().join("nats.conf"), config).unwrap();
        let mut broker = Self { program, folder, key, process: None, port, identity: more.identity };
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

    /// The server as the system account reaches it.
    pub(crate) fn system_target(&self) -> Target {
        Target {
            address: ([127, 0, 0, 1], self.port).into(),
            tls: None,
            login: Login::Password { user: "sys".to_owned(), password: "secret-sys".to_owned() },
            timeout: Duration::from_secs(10),
        }
    }

    /// Seed of the nkey that account B has a user for.
    pub(crate) fn seed(&self) -> String {
        self.key.seed().unwrap()
    }

    /// A person in one of the accounts: that of the certificate where one has to be shown, else that of the user.
    pub(crate) fn person(&self, user: &str) -> Person {
        let shown = self.identity.as_ref();
        let roots = shown.map_or("", |shown| &shown.authority);
        let pair = shown.map(|shown| (shown.certificate.as_str(), shown.key.as_str()));
        // Who shows a certificate may not say that it is somebody else.
        let login = if shown.is_some() {
            Login::Anonymous
        } else {
            Login::Password { user: user.to_owned(), password: format!("secret-{user}") }
        };
        let options = Options {
            addresses: vec![Address::parse(&self.url()).unwrap()],
            tls: trust::with_roots(Some(roots), pair).unwrap(),
            tls_required: shown.is_some(),
            tls_first: false,
            login,
            inbox_prefix: "_INBOX".to_owned(),
            connect_timeout: Duration::from_secs(5),
        };
        Person { session: Session::new(options, Arc::new(Deaf)), metrics: Metrics::new().unwrap() }
    }
}
