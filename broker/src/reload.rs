//! Reload: the file is read again and what has changed is put in force, in two passes (architecture, section 7).
//!
//! The first pass parses, validates, compares, refuses what a running server cannot change, and prepares all that can fail:
//! certificates and the log file. It changes nothing. The second pass swaps in one fixed order and cannot fail.

mod clients;
mod routes;
mod source;

use std::sync::Arc;

use config::options::{Credentials, Options};
use config::{Change, Diagnostic, ReloadClass};

pub(crate) use source::Origin;
pub use source::{Files, Loaded};

use crate::auth::Authenticator;
use crate::cluster::registry::RouteTls;
use crate::files::Written;
use crate::info;
use crate::logging::{self, LogError};
use crate::server::Server;
use crate::tls::{Acceptor, TlsError};

/// Why a reload changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The server was started without a file.
    #[error("can only reload config when a file is provided using -c or --config")]
    NoFile,
    /// The file has errors.
    #[error("{}", lines(.0))]
    Invalid(Vec<Diagnostic>),
    /// A running server cannot change this.
    #[error("{}", refusals(.0))]
    NotSupported(Vec<Change>),
    /// Certificates do not load.
    #[error("{section}: {source}")]
    Tls {
        /// The block that names them.
        section: &'static str,
        /// Why not.
        source: TlsError,
    },
    /// The log file does not open.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The thread that reads the files was lost.
    #[error("reading the files: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

fn lines(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn refusals(changes: &[Change]) -> String {
    changes.iter().map(Change::refusal).collect::<Vec<_>>().join("; ")
}

/// All that the second pass swaps in.
struct Prepared {
    options: Options,
    digest: Option<String>,
    changes: Vec<Change>,
    /// `None` if nothing changes: an open file that has been moved away stays the one that is written.
    log: Option<logging::Prepared>,
    client_tls: Option<Acceptor>,
    monitoring_tls: Option<Acceptor>,
    route_tls: Option<RouteTls>,
}

/// Reloads the configuration. The outcome is also in the log.
pub async fn reload(server: &Arc<Server>) -> Result<(), ReloadError> {
    let _one_at_a_time = server.reloading().lock().await;
    match prepare(server).await {
        Ok(prepared) => {
            commit(server, prepared).await;
            Ok(())
        }
        Err(error) => {
            tracing::error!("Failed to reload server configuration: {error}");
            Err(error)
        }
    }
}

/// The first pass.
async fn prepare(server: &Arc<Server>) -> Result<Prepared, ReloadError> {
    let (source, old) = (Arc::clone(server), server.options());
    // Files may be on a slow disk, and connections share this thread.
    tokio::task::spawn_blocking(move || {
        let source = source.source();
        let Some(path) = &source.path else { return Err(ReloadError::NoFile) };
        let loaded = config::load(&Files, Some(path), &source.overrides).map_err(ReloadError::Invalid)?;
        for warning in &loaded.warnings {
            tracing::warn!("{warning}");
        }
        check(&old, loaded)
    })
    .await?
}

fn check(old: &Options, loaded: config::Loaded) -> Result<Prepared, ReloadError> {
    let config::Loaded { options, digest, .. } = loaded;
    let (changes, refused): (Vec<_>, Vec<_>) =
        config::diff(old, &options).into_iter().partition(|change| change.class == ReloadClass::Hot);
    if !refused.is_empty() {
        return Err(ReloadError::NotSupported(refused));
    }
    let log = (old.logging != options.logging).then(|| logging::prepare(&options.logging)).transpose()?;
    // Files may hold new certificates under the old names, so they are read again in any case.
    let client_tls = options.tls.as_ref().map(Acceptor::new).transpose();
    let client_tls = client_tls.map_err(|source| ReloadError::Tls { section: "tls", source })?;
    let monitoring_tls = crate::monitor::load_tls(&options);
    let monitoring_tls = monitoring_tls.map_err(|source| ReloadError::Tls { section: "tls", source })?;
    let route_tls =
        options.cluster.as_ref().and_then(|cluster| cluster.tls.as_ref()).map(RouteTls::new).transpose();
    let route_tls = route_tls.map_err(|source| ReloadError::Tls { section: "cluster tls", source })?;
    Ok(Prepared { options, digest, changes, log, client_tls, monitoring_tls, route_tls })
}

/// The second pass.
async fn commit(server: &Arc<Server>, prepared: Prepared) {
    let Prepared { options, digest, changes, log, client_tls, monitoring_tls, route_tls } = prepared;
    let (old, old_auth) = (server.options(), server.auth());
    if let Some(log) = log {
        log.commit();
    }
    report(&old, &options, &changes);
    server.accounts.update(&options);
    crate::system::flush_interest(server);
    let auth = Arc::new(Authenticator::new(&options, &server.accounts));
    let options = Arc::new(options);
    server.replace(Arc::clone(&options), auth, Arc::new(client_tls));
    server.monitoring.set_tls(monitoring_tls);
    clients::sweep(server, &old_auth).await;
    announce(server, &old, &options);
    routes::apply(server, &old, &options, route_tls).await;
    if let Some(jetstream) = server.jetstream.get() {
        jetstream.reload(&options);
    }
    rewrite_files(server, &old, &options);
    let digest_text = digest.clone().unwrap_or_default();
    server.set_config_loaded(digest);
    tracing::info!("Reloaded server configuration ({digest_text})");
}

/// Tells clients if INFO says something else now.
fn announce(server: &Arc<Server>, old: &Options, new: &Options) {
    let before = server.info();
    let mut now = before.clone();
    info::apply(&mut now, new);
    let is_address_new = old.listen.client_advertise != new.listen.client_advertise;
    if now != before || is_address_new {
        let port = server.client_address().map_or(before.port, |address| address.port());
        server.update_info(|info| {
            info::apply(info, new);
            info::set_address(info, new, port);
        });
    }
}

fn rewrite_files(server: &Arc<Server>, old: &Options, new: &Options) {
    if old.pid_file == new.pid_file && old.ports_file_dir == new.ports_file_dir {
        return;
    }
    let mut files = server.files.lock();
    // The old ones go first: some may be written again under the same name.
    drop(std::mem::take(&mut *files));
    match Written::write(server) {
        Ok(written) => *files = written,
        Err(error) => tracing::error!("{error}"),
    }
}

/// One line for each thing that changes, as the reference writes them.
fn report(old: &Options, new: &Options, changes: &[Change]) {
    for Change { path, new: value, .. } in changes {
        match path.as_str() {
            // Reported below, whether they seem to change or not.
            "tls" | "authorization" | "accounts" => {}
            "client_advertise" => tracing::info!("Reload: client_advertise = {value}"),
            "server_tags" => tracing::info!("Reloaded: tags"),
            "server_metadata" => tracing::info!("Reloaded: metadata"),
            "jetstream.limits" => tracing::info!("Reloaded: JetStream limits"),
            "jetstream.max_memory_store" => tracing::info!("Reloaded: JetStream max_mem_store = {value}"),
            "jetstream.max_file_store" => tracing::info!("Reloaded: JetStream max_file_store = {value}"),
            // Blocks, and addresses with passwords, are not written out.
            path if path.starts_with("cluster.") => tracing::info!("Reloaded: {}", path.replace('.', " ")),
            path => tracing::info!("Reloaded: {path} = {value}"),
        }
    }
    if old.users().next().is_some() || new.users().next().is_some() {
        tracing::info!("Reloaded: authorization users");
    }
    let (before, now) = (&old.authorization.credentials, &new.authorization.credentials);
    if before != now {
        for way in [before, now] {
            match way {
                Credentials::Token(_) => tracing::info!("Reloaded: authorization token"),
                Credentials::Single { .. } => tracing::info!("Reloaded: authorization username"),
                Credentials::Open | Credentials::Users(_) => {}
            }
        }
    }
    if !old.accounts.is_empty() || !new.accounts.is_empty() {
        tracing::info!("Reloaded: accounts");
    }
    match (&old.tls, &new.tls) {
        (_, Some(_)) => tracing::info!("Reloaded: tls = enabled"),
        (Some(_), None) => tracing::info!("Reloaded: tls = disabled"),
        (None, None) => {}
    }
}
