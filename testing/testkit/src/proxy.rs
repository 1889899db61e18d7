//! A TCP proxy that can be told to misbehave: hold bytes back, cut connections, refuse new ones.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What the proxy does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    /// New connections are refused.
    refusing: bool,
    /// Connections of an older generation are cut.
    generation: usize,
}

/// A proxy in front of one address.
pub struct Proxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    accepted: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a random port and passes everything to `upstream`.
    pub async fn to(upstream: SocketAddr) -> Self {
        let listener = match TcpListener::bind("127.0.0.1:0").await {
            Ok(listener) => listener,
            Err(error) => panic!("proxy listener: {error}"),
        };
        let address = match listener.local_addr() {
            Ok(address) => address,
            Err(error) => panic!("proxy address: {error}"),
        };
        let (state, watched) = watch::channel(State { refusing: false, generation: 0 });
        let accepted = Arc::new(AtomicUsize::new(0));
        let open = Arc::new(AtomicUsize::new(0));
        let task = tokio::spawn(accept(listener, upstream, watched, accepted.clone(), open.clone()));
        Self { address, state, accepted, open, task }
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
        self.open.load(Ordering::SeqCst)
    }

    /// Cuts every open connection.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.generation += 1);
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
    upstream: SocketAddr,
    state: watch::Receiver<State>,
    accepted: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
) {
    while let Ok((downstream, _)) = listener.accept().await {
        accepted.fetch_add(1, Ordering::SeqCst);
        if state.borrow().refusing {
            continue;
        }
        tokio::spawn(pass(downstream, upstream, state.clone(), open.clone()));
    }
}

async fn pass(
    mut downstream: TcpStream,
    upstream: SocketAddr,
    mut state: watch::Receiver<State>,
    open: Arc<AtomicUsize>,
) {
    let born = state.borrow().generation;
    let Ok(mut upstream) = TcpStream::connect(upstream).await else { return };
    open.fetch_add(1, Ordering::SeqCst);
    // Either end closing, or the order to cut, ends the pair; there is nothing to report.
    tokio::select! {
        _ = copy_bidirectional(&mut downstream, &mut upstream) => {}
        _ = state.wait_for(|state| state.generation != born) => {}
    }
    open.fetch_sub(1, Ordering::SeqCst);
}
