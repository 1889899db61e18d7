//! The listener: TLS, with a certificate of whoever stands in front, and one task for each connection.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::answer::{self, State};
use super::front::Front;
use super::keys::{self, Keys};
use crate::context::Context;
use crate::error::Error;

/// Connections at a time. The API server shares a few among all callers.
const CONNECTIONS_MAX: usize = 64;
/// Longest time to agree on encryption.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often certificates and the way to know the API server are read again.
const REFRESH_INTERVAL: Duration = Duration::from_secs(300);
/// The same while that fails.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// What connections are answered by: encryption, and who is believed.
type Door = Arc<(Arc<ServerConfig>, Front)>;

/// Serves until the process ends. Returns the address in use. Before the keys are there nobody is let in.
///
/// # Errors
/// When the address cannot be had.
pub async fn start(context: Arc<Context>, address: SocketAddr) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    let door = Arc::new(Mutex::new(None));
    let state = Arc::new(State::new(context));
    tokio::spawn(refresh(Arc::clone(&state), Arc::clone(&door)));
    tokio::spawn(accept(listener, state, door));
    Ok(bound)
}

/// Keeps the door as the Secret and the API server say.
async fn refresh(state: Arc<State>, door: Arc<Mutex<Option<Door>>>) {
    loop {
        state.prune();
        let pause = match Box::pin(open(&state.context)).await {
            Ok(opened) => {
                *door.lock() = Some(Arc::new(opened));
                REFRESH_INTERVAL
            }
            Err(error) => {
                tracing::warn!(%error, "external metrics: what is needed could not be read or written");
                RETRY_INTERVAL
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn open(context: &Context) -> Result<(Arc<ServerConfig>, Front), Error> {
    let keys = keys::ensure(context, Timestamp::now()).await?;
    let front = keys::front(context).await?;
    let opened = (encryption(&keys, &front)?, front);
    if !keys::announce(context, &keys.authority.certificate).await? {
        tracing::warn!(name = crd::rbac::EXTERNAL_METRICS_SERVICE, "the APIService leads to somebody else");
    }
    Ok(opened)
}

fn encryption(keys: &Keys, front: &Front) -> Result<Arc<ServerConfig>, Error> {
    let failed = |error: String| Error::Certificate(error);
    let mut roots = RootCertStore::empty();
    for authority in &front.authorities {
        roots.add(authority.clone()).map_err(|error| failed(error.to_string()))?;
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .map_err(|error| failed(error.to_string()))?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(keys.shown.certificate.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| failed(error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(keys.shown.key.as_bytes())
        .map_err(|error| failed(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|error| failed(error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

async fn accept(listener: TcpListener, state: Arc<State>, door: Arc<Mutex<Option<Door>>>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket,
            Err(error) => {
                tracing::warn!(%error, "a connection for external metrics could not be accepted");
                continue;
            }
        };
        let Some(door) = door.lock().clone() else { continue };
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            serve(socket, state, door).await;
            drop(permit);
        });
    }
}

async fn serve(socket: TcpStream, state: Arc<State>, door: Door) {
    let acceptor = TlsAcceptor::from(Arc::clone(&door.0));
    let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(socket)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a connection for external metrics was refused");
            return;
        }
        Err(_) => return,
    };
    // Other certificates of the same authority are those of its users, who must not speak for others.
    let admitted = stream
        .get_ref()
        .1
        .peer_certificates()
        .and_then(|chain| chain.first())
        .is_some_and(|certificate| door.1.admits(certificate));
    if !admitted {
        tracing::warn!("external metrics: somebody came past the API server and was refused");
        return;
    }
    let service = service_fn(move |request: Request<Incoming>| {
        let (state, door) = (Arc::clone(&state), Arc::clone(&door));
        async move { Ok::<_, Infallible>(respond(&request, &state, &door.1).await) }
    });
    if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection for external metrics ended early");
    }
}

async fn respond(request: &Request<Incoming>, state: &State, front: &Front) -> Response<Full<Bytes>> {
    let uri = request.uri();
    let what = (request.method(), uri.path(), uri.query());
    let (code, document) = answer::answer(state, front, what, request.headers()).await;
    let mut response = Response::new(Full::new(Bytes::from(document.to_string())));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
