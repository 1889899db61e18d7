//! Log lines as JSON, and the HTTP pages `/metrics`, `/healthz` and `/readyz`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tracing_subscriber::EnvFilter;

use crate::metrics::Metrics;

/// Connections served at a time; the pages are small and asked for by few.
const CONNECTIONS_MAX: usize = 64;

/// Starts logging.
///
/// # Errors
/// When the level is not one.
pub fn start_logging(level: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(level)?;
    tracing_subscriber::fmt()
        .json()
        .with_env_filter(filter)
        .with_current_span(true)
        .with_span_list(false)
        .flatten_event(true)
        .try_init()
        .map_err(|error| anyhow::anyhow!("logging: {error}"))
}

/// Serves the pages until the process ends. Returns the address in use.
///
/// # Errors
/// When the address cannot be had.
pub async fn serve(
    address: SocketAddr,
    metrics: Metrics,
    ready: Arc<AtomicBool>,
) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    tokio::spawn(async move {
        loop {
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                return;
            };
            let socket = match listener.accept().await {
                Ok((socket, _)) => socket,
                Err(error) => {
                    tracing::warn!(%error, "a connection for metrics could not be accepted");
                    continue;
                }
            };
            let (metrics, ready) = (metrics.clone(), Arc::clone(&ready));
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let answer = answer(&request, &metrics, ready.load(Ordering::Relaxed));
                    async move { Ok::<_, Infallible>(answer) }
                });
                if let Err(error) =
                    http1::Builder::new().serve_connection(TokioIo::new(socket), service).await
                {
                    tracing::debug!(%error, "a connection for metrics ended early");
                }
                drop(permit);
            });
        }
    });
    Ok(bound)
}

fn answer(request: &Request<Incoming>, metrics: &Metrics, ready: bool) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return page(StatusCode::METHOD_NOT_ALLOWED, Bytes::new());
    }
    match request.uri().path() {
        "/healthz" => page(StatusCode::OK, Bytes::from_static(b"ok\n")),
        "/readyz" if ready => page(StatusCode::OK, Bytes::from_static(b"ok\n")),
        "/readyz" => {
            page(StatusCode::SERVICE_UNAVAILABLE, Bytes::from_static(b"not connected to kubernetes yet\n"))
        }
        "/metrics" => match metrics.text() {
            Ok(text) => page(StatusCode::OK, text.into()),
            Err(error) => page(StatusCode::INTERNAL_SERVER_ERROR, error.to_string().into()),
        },
        _ => page(StatusCode::NOT_FOUND, Bytes::new()),
    }
}

fn page(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert("content-type", hyper::header::HeaderValue::from_static("text/plain; version=0.0.4"));
    response
}
