//! A steady load with proof that nothing is lost.
//!
//! One publisher reaches the cluster through its Service and sends numbered messages in small batches. A batch counts
//! as sent when the server answered the ping behind it; otherwise the publisher reconnects and sends the batch again.
//! One subscriber per server returns to its own server whenever that is there again. As servers are replaced one at a
//! time, every confirmed message must have reached at least one of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};

use crate::client::{Client, Event};
use crate::wait;

const SUBJECT: &str = "load.numbers";
/// The last message, which ends the subscribers' wait.
const END: &str = "end";
/// Messages between two proofs.
const BATCH: u64 = 10;
/// Pause between batches: some two thousand messages per second leave the processor to the cluster.
const PAUSE: Duration = Duration::from_millis(5);
/// Pause before the next attempt to connect.
const RETRY: Duration = Duration::from_millis(100);
/// How long a subscriber looks at its connection before it looks at everything else.
const GLANCE: Duration = Duration::from_millis(100);
/// How long the last message may take to reach everybody.
const END_LIMIT: Duration = Duration::from_secs(20);

/// How to log in.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// What was found out.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Messages whose arrival at a server was confirmed.
    pub(crate) confirmed: u64,
    /// Confirmed messages that no subscriber has seen.
    pub(crate) lost: BTreeSet<u64>,
    /// How often the publisher had to connect again.
    pub(crate) publisher_reconnects: u64,
    /// How often each subscriber had to connect again.
    pub(crate) subscriber_reconnects: Vec<u64>,
}

#[derive(Default)]
struct Shared {
    stopping: AtomicBool,
    /// Messages that are confirmed so far.
    confirmed: AtomicU64,
    /// Subscribers that are connected now.
    listening: AtomicUsize,
}

/// A load under way.
pub(crate) struct Load {
    shared: Arc<Shared>,
    publisher: JoinHandle<Result<u64>>,
    subscribers: Vec<JoinHandle<Result<Seen>>>,
}

struct Seen {
    numbers: BTreeSet<u64>,
    reconnects: u64,
}

impl Load {
    /// Starts subscribers at the servers and a publisher at the service.
    pub(crate) fn start(service: &str, servers: &[String], login: &Login) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let subscribers: Vec<JoinHandle<Result<Seen>>> = servers
            .iter()
            .map(|address| {
                let (address, login, shared) = (address.clone(), login.clone(), Arc::clone(&shared));
                thread::spawn(move || subscribe(&address, &login, &shared))
            })
            .collect();
        await_listening(&shared, servers.len())?;
        let (address, login, state) = (service.to_owned(), login.clone(), Arc::clone(&shared));
        let publisher = thread::spawn(move || publish(&address, &login, &state));
        Ok(Self { shared, publisher, subscribers })
    }

    /// Messages that are confirmed so far.
    pub(crate) fn confirmed(&self) -> u64 {
        self.shared.confirmed.load(Ordering::SeqCst)
    }

    /// Ends the load and compares what was sent with what arrived.
    pub(crate) fn finish(self) -> Result<Outcome> {
        // The newest server is ready, but its subscriber may not have come back yet.
        await_listening(&self.shared, self.subscribers.len())?;
        self.shared.stopping.store(true, Ordering::SeqCst);
        let publisher_reconnects = self.publisher.join().map_err(|_| anyhow!("the publisher panicked"))??;
        let confirmed = self.shared.confirmed.load(Ordering::SeqCst);
        let mut lost: BTreeSet<u64> = (0..confirmed).collect();
        let mut subscriber_reconnects = Vec::new();
        for subscriber in self.subscribers {
            let seen = subscriber.join().map_err(|_| anyhow!("a subscriber panicked"))??;
            lost.retain(|number| !seen.numbers.contains(number));
            subscriber_reconnects.push(seen.reconnects);
        }
        Ok(Outcome { confirmed, lost, publisher_reconnects, subscriber_reconnects })
    }
}

fn await_listening(shared: &Shared, wanted: usize) -> Result<()> {
    wait::until("all subscribers are connected", END_LIMIT, || {
        let listening = shared.listening.load(Ordering::SeqCst);
        ensure!(listening == wanted, "{listening} of {wanted} are");
        Ok(())
    })
}

fn connect(address: &str, login: &Login) -> Result<Client> {
    Client::connect(address, &login.user, &login.password)
}

/// Publishes until it is told to stop. Returns how often it had to reconnect.
fn publish(address: &str, login: &Login, shared: &Shared) -> Result<u64> {
    let mut client = wait::until("the publisher connects", END_LIMIT, || connect(address, login))?;
    let mut reconnects = 0;
    let mut next = 0;
    while !shared.stopping.load(Ordering::SeqCst) {
        if send(&mut client, (next..next + BATCH).map(|number| number.to_string())).is_ok() {
            next += BATCH;
            shared.confirmed.store(next, Ordering::SeqCst);
            wait::pause(PAUSE);
            continue;
        }
        reconnects += 1;
        client = reconnect(address, login)?;
    }
    wait::until("the last message is sent", END_LIMIT, || {
        client = connect(address, login)?;
        send(&mut client, [END.to_owned()])
    })?;
    Ok(reconnects)
}

fn send(client: &mut Client, payloads: impl IntoIterator<Item = String>) -> Result<()> {
    client.publish(payloads.into_iter().map(|payload| (SUBJECT, payload)))?;
    client.flush()
}

fn reconnect(address: &str, login: &Login) -> Result<Client> {
    wait::until("a client reconnects", Duration::from_secs(60), || connect(address, login))
}

/// Collects numbers until the last message comes.
fn subscribe(address: &str, login: &Login, shared: &Shared) -> Result<Seen> {
    let mut numbers = BTreeSet::new();
    let mut client: Option<Client> = None;
    let mut connections: u64 = 0;
    let mut stopped = None;
    loop {
        if shared.stopping.load(Ordering::SeqCst) {
            let since: &Instant = stopped.get_or_insert_with(Instant::now);
            ensure!(since.elapsed() < END_LIMIT, "the last message did not reach {address}");
        }
        let Some(connection) = &mut client else {
            client = listen(address, login).ok();
            if client.is_some() {
                connections += 1;
                shared.listening.fetch_add(1, Ordering::SeqCst);
            } else {
                wait::pause(RETRY);
            }
            continue;
        };
        match connection.next(GLANCE) {
            Ok(Some(Event::Message(_, payload))) if payload == END => {
                return Ok(Seen { numbers, reconnects: connections - 1 });
            }
            Ok(Some(Event::Message(_, payload))) => {
                numbers.insert(payload.parse()?);
            }
            Ok(Some(Event::Closed)) | Err(_) => {
                shared.listening.fetch_sub(1, Ordering::SeqCst);
                client = None;
            }
            Ok(_) => {}
        }
    }
}

fn listen(address: &str, login: &Login) -> Result<Client> {
    let mut client = connect(address, login)?;
    client.subscribe(SUBJECT)?;
    Ok(client)
}
