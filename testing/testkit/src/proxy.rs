//! A TCP proxy that can be told to misbehave: cut all connections or one of them, refuse new ones.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What the proxy does at the moment.
#[derive(Debug, Default)]
struct State {
    /// Where everything goes; connections wait until it is known.
    upstream: Option<SocketAddr>,
    /// New connections are refused.
    refusing: bool,
    /// Connections of an older generation are cut.
    generation: usize,
    /// Connections that were cut one by one, by their number.
    cut: BTreeSet<usize>,
}

/// Numbers of the open connections, in the order in which they were accepted.
#[derive(Clone, Default)]
struct Open(Arc<Mutex<BTreeSet<usize>>>);

impl Open {
    fn numbers(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A proxy in front of one address.
pub struct Proxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    accepted: Arc<AtomicUsize>,
    open: Open,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a random port and passes everything to `upstream`.
    pub async fn to(upstream: SocketAddr) -> Self {
        let proxy = Self::waiting().await;
        proxy.forward_to(upstream);
        proxy
    }

    /// Listens on a random port and holds connections until it is told where to pass them, for a server that has to know
    /// the proxy's address before it has one itself.
    pub async fn waiting() -> Self {
        let listener = match TcpListener::bind("127.0.0.1:0").await {
            Ok(listener) => listener,
            Err(error) => panic!("proxy listener: {error}"),
        };
        let address = match listener.local_addr() {
            Ok(address) => address,
            Err(error) => panic!("proxy address: {error}"),
        };
        let (state, watched) = watch::channel(State::default());
        let accepted = Arc::new(AtomicUsize::new(0));
        let open = Open::default();
        let task = tokio::spawn(accept(listener, watched, accepted.clone(), open.clone()));
        Self { address, state, accepted, open, task }
    }

    /// Passes everything to `upstream` from now on.
    pub fn forward_to(&self, upstream: SocketAddr) {
        self.state.send_modify(|state| state.upstream = Some(upstream));
    }

    /// Where to connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections accepted since the start, refused ones included.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Connections that are open.
    pub fn open(&self) -> usize {
        self.open.numbers().len()
    }

    /// Cuts every open connection.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.generation += 1);
    }

    /// Cuts the open connection at this place, counted from the oldest.
    pub fn cut_one(&self, place: usize) {
        let Some(number) = self.open.numbers().iter().nth(place).copied() else {
            panic!("cut of connection {place}, open are {}", self.open());
        };
        self.state.send_modify(|state| {
            state.cut.insert(number);
        });
    }

    /// Refuses new connections (they are accepted and closed at once).
    pub fn refuse(&self, refusing: bool) {
        self.state.send_modify(|state| state.refusing = refusing);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        self.task.abort();
    }
}

async fn accept(
    listener: TcpListener,
    state: watch::Receiver<State>,
    accepted: Arc<AtomicUsize>,
    open: Open,
) {
    while let Ok((downstream, _)) = listener.accept().await {
        let number = accepted.fetch_add(1, Ordering::SeqCst);
        if state.borrow().refusing {
            continue;
        }
        tokio::spawn(pass(downstream, number, state.clone(), open.clone()));
    }
}

async fn pass(mut downstream: TcpStream, number: usize, mut state: watch::Receiver<State>, open: Open) {
    let born = state.borrow().generation;
    let upstream = match state.wait_for(|state| state.upstream.is_some()).await {
        Ok(state) => state.upstream,
        // The proxy is gone.
        Err(_) => return,
    };
    let Some(upstream) = upstream else { return };
    let Ok(mut upstream) = TcpStream::connect(upstream).await else { return };
    open.numbers().insert(number);
    // Either end closing, or the order to cut, ends the pair; there is nothing to report.
    tokio::select! {
        _ = copy_bidirectional(&mut downstream, &mut upstream) => {}
        _ = state.wait_for(|state| state.generation != born || state.cut.contains(&number)) => {}
    }
    open.numbers().remove(&number);
}
