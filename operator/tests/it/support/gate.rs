//! A gate between a client and the API server, for a server that goes away and comes back: while it is shut, connections break and
//! no new one lasts.

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A gate, open at first.
pub(crate) struct Gate {
    /// Where clients connect, on loopback.
    pub(crate) port: u16,
    open: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Gate {
    /// A gate in front of a port on loopback.
    pub(crate) async fn before(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (open, is_open) = watch::channel(true);
        let task = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                tokio::spawn(pass(socket, target, is_open.clone()));
            }
        });
        Self { port, open, task }
    }

    /// Breaks all connections and lets nobody through.
    pub(crate) fn shut(&self) {
        self.open.send_replace(false);
    }

    /// Lets everybody through again.
    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }
}

async fn pass(mut near: TcpStream, target: u16, mut is_open: watch::Receiver<bool>) {
    if !*is_open.borrow() {
        return;
    }
    let Ok(mut far) = TcpStream::connect(("127.0.0.1", target)).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut near, &mut far) => {}
        _ = is_open.wait_for(|open| !open) => {}
    }
}
