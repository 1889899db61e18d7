//! The halves of a connection's socket, plain or TLS.
//!
//! The write half of the socket is shared, because closing a connection from any task means shutting its socket down: the read
//! side then sees the end of the stream, whatever it was waiting for.

use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Mutex;
use tokio_rustls::TlsStream;

/// A TCP connection that TLS can be layered upon while it can still be shut down from outside.
#[derive(Debug)]
pub struct Socket {
    read: OwnedReadHalf,
    write: Arc<OwnedWriteHalf>,
    /// Bytes read ahead of a layer that is not there yet (protocol detection).
    ahead: Vec<u8>,
}

impl Socket {
    /// Takes a connected socket.
    pub fn new(stream: TcpStream) -> Self {
        let (read, write) = stream.into_split();
        Self { read, write: Arc::new(write), ahead: Vec::new() }
    }

    /// Shuts the connection down from outside.
    pub fn closer(&self) -> Closer {
        Closer(Arc::clone(&self.write))
    }

    /// Gives bytes back that were read to find out what the peer speaks.
    pub fn unread(&mut self, bytes: &[u8]) {
        self.ahead.splice(0..0, bytes.iter().copied());
    }

    /// Writes some bytes in clear, before any layer.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = write_some(&self.write, bytes).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// The halves of a plain connection.
    pub fn split(self) -> (ReadHalf, WriteHalf) {
        let write = WriteHalf { tcp: Arc::clone(&self.write), tls: None };
        (ReadHalf::Plain(self), write)
    }
}

/// The halves of a TLS connection whose handshake is done.
pub fn split_tls(stream: TlsStream<Socket>) -> (ReadHalf, WriteHalf) {
    let tcp = Arc::clone(&stream.get_ref().0.write);
    let (read, write) = tokio::io::split(stream);
    (ReadHalf::Tls(Box::new(read)), WriteHalf { tcp, tls: Some(Box::new(Mutex::new(write))) })
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.ahead.is_empty() {
            let count = self.ahead.len().min(buf.remaining());
            buf.put_slice(&self.ahead[..count]);
            self.ahead.drain(..count);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.read).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let stream: &TcpStream = self.write.as_ref().as_ref();
        loop {
            ready!(stream.poll_write_ready(cx))?;
            match stream.try_write(bytes) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        shutdown(&self.write, Shutdown::Write);
        Poll::Ready(Ok(()))
    }
}

/// Shuts a connection down that somebody else reads and writes.
#[derive(Debug, Clone)]
pub struct Closer(Arc<OwnedWriteHalf>);

impl Closer {
    /// Ends both directions.
    pub fn close(&self) {
        shutdown(&self.0, Shutdown::Both);
    }
}

fn shutdown(half: &OwnedWriteHalf, how: Shutdown) {
    let stream: &TcpStream = half.as_ref();
    // The only failure is "not connected any more", which is what is wanted.
    let _ = socket2::SockRef::from(stream).shutdown(how);
}

async fn write_some(half: &OwnedWriteHalf, bytes: &[u8]) -> io::Result<usize> {
    loop {
        half.writable().await?;
        match half.try_write(bytes) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}

/// What the connection's own task reads from.
#[derive(Debug)]
pub enum ReadHalf {
    /// In clear.
    Plain(Socket),
    /// Decrypted.
    Tls(Box<tokio::io::ReadHalf<TlsStream<Socket>>>),
}

impl AsyncRead for ReadHalf {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

/// What `Outbound` writes to.
#[derive(Debug)]
pub struct WriteHalf {
    tcp: Arc<OwnedWriteHalf>,
    tls: Option<Box<Mutex<tokio::io::WriteHalf<TlsStream<Socket>>>>>,
}

impl WriteHalf {
    /// Is there a TLS layer, whose state is shared with the reader?
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Writes what the socket takes without waiting; in clear only.
    pub fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        debug_assert!(!self.is_tls(), "clear text on a TLS connection");
        let mut written = 0;
        while written < bytes.len() {
            match self.tcp.try_write(&bytes[written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(written)
    }

    /// Waits until the socket takes some bytes.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.tls {
            None => write_some(&self.tcp, bytes).await,
            Some(stream) => stream.lock().await.write(bytes).await,
        }
    }

    /// Pushes out what the TLS layer holds back.
    pub async fn flush(&self) -> io::Result<()> {
        match &self.tls {
            None => Ok(()),
            Some(stream) => stream.lock().await.flush().await,
        }
    }

    /// Ends both directions of the socket.
    pub fn shutdown(&self) {
        shutdown(&self.tcp, Shutdown::Both);
    }
}
