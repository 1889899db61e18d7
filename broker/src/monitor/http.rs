//! The HTTP side of monitoring: connections with bounds on number, time and size.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::pages::{self, HEALTHZ, Page};
use crate::net::stream::Socket;
use crate::server::Server;

/// Connections at one time; more are closed at once.
const CONNECTIONS_MAX: usize = 1000;
/// Pages that are made at one time; requests for more wait.
const PAGES_MAX: usize = 4;
/// Time for the head of a request, and between two requests.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// Bytes of a request's head, and of what is read ahead.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Life of a connection, so that a client that does not read its answers does not stay forever.
const CONNECTION_LIFE: Duration = Duration::from_secs(600);
/// Time for the answer that is under way when that life ends.
const FAREWELL: Duration = Duration::from_secs(10);
/// Pause after a failed accept, which mostly means that the process is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until the task is aborted.
pub(super) async fn accept(server: Arc<Server>, listener: TcpListener, with_tls: bool) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let makers = Arc::new(Semaphore::new(PAGES_MAX));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Ok(permit) = Arc::clone(&connections).try_acquire_owned() else { continue };
                let (server, makers) = (Arc::clone(&server), Arc::clone(&makers));
                tokio::spawn(async move {
                    serve(server, stream, makers, with_tls).await;
                    drop(permit);
                });
            }
            Err(e) => {
                tracing::error!(
                    "Temporary Monitoring Accept Error ({e}), sleeping {}ms",
                    ACCEPT_PAUSE.as_millis()
                );
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(server: Arc<Server>, stream: TcpStream, makers: Arc<Semaphore>, with_tls: bool) {
    if !with_tls {
        return connection(server, TokioIo::new(stream), makers).await;
    }
    let acceptor = server.monitoring.tls.load_full();
    let Some(acceptor) = acceptor.as_ref().as_ref().filter(|acceptor| acceptor.admit()) else { return };
    match acceptor.accept(Socket::new(stream)).await {
        Ok((stream, _)) => connection(server, TokioIo::new(stream), makers).await,
        Err(e) => tracing::debug!("monitoring TLS handshake error: {e}"),
    }
}

async fn connection<I>(server: Arc<Server>, io: I, makers: Arc<Semaphore>)
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
{
    let service = service_fn(move |request| {
        let (server, makers) = (Arc::clone(&server), Arc::clone(&makers));
        async move { Ok::<_, Infallible>(answer(server, makers, &request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(io, service);
    tokio::pin!(connection);
    // Errors of a connection are its peer's matter; there is nobody else to tell.
    if timeout(CONNECTION_LIFE, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(FAREWELL, connection).await;
    }
}

async fn answer(
    server: Arc<Server>,
    makers: Arc<Semaphore>,
    request: &Request<Incoming>,
) -> Response<Full<Bytes>> {
    let options = server.options();
    let Some(name) = pages::find(&options.monitoring.http_base_path, request.uri().path()) else {
        return respond(Page::text(404, "404 page not found\n"));
    };
    let query = request.uri().query().unwrap_or_default().to_owned();
    if name == HEALTHZ {
        return respond(pages::make(&server, name, &query));
    }
    // A page may list many connections: it is made where it holds up no message.
    let _permit = makers.acquire().await;
    let page = tokio::task::spawn_blocking(move || pages::make(&server, name, &query)).await;
    respond(page.unwrap_or_else(|_| Page::text(500, "the page could not be made\n")))
}

fn respond(page: Page) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(page.body)));
    *response.status_mut() = StatusCode::from_u16(page.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(page.content_type));
    if page.content_type == pages::JSON {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    }
    response
}
