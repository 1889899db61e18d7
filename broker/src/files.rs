//! Files by which others find a running server: its process id and its ports.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::server::Server;

/// Files written at the start and removed at the end.
#[derive(Debug, Default)]
pub struct Written(Vec<PathBuf>);

/// A file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("error writing {path:?}: {source}")]
pub struct FileError {
    path: PathBuf,
    source: std::io::Error,
}

impl Written {
    /// Writes what the options ask for. Call it when all listeners are open.
    pub fn write(server: &Arc<Server>) -> Result<Self, FileError> {
        let options = server.options();
        let mut written = Self::default();
        if let Some(path) = &options.pid_file {
            written.put(Path::new(path), std::process::id().to_string())?;
        }
        if let Some(folder) = &options.ports_file_dir {
            let name = format!("{}_{}.ports", program(), std::process::id());
            written.put(&Path::new(folder).join(name), ports(server))?;
        }
        Ok(written)
    }

    fn put(&mut self, path: &Path, text: String) -> Result<(), FileError> {
        fs::write(path, text).map_err(|source| FileError { path: path.to_owned(), source })?;
        self.0.push(path.to_owned());
        Ok(())
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        for path in &self.0 {
            // It may be gone already; either way it is not there any more.
            let _ = fs::remove_file(path);
        }
    }
}

/// Name that this program was started under; it may be installed as `nats-server`.
pub fn program() -> String {
    let path = std::env::args_os().next().map(PathBuf::from);
    let name = path.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "myelin".to_owned())
}

/// The ports document: for each protocol the addresses that it is served on.
fn ports(server: &Server) -> String {
    let tls = server.options().tls.is_some();
    let mut document = serde_json::Map::new();
    let mut add = |name: &str, scheme: &str, address: Option<SocketAddr>| {
        let Some(address) = address else { return };
        let urls: Vec<String> = reachable(address).iter().map(|a| format!("{scheme}://{a}")).collect();
        document.insert(name.to_owned(), urls.into());
    };
    add("nats", if tls { "tls" } else { "nats" }, server.client_address());
    let monitoring = server.monitoring.address();
    add("monitoring", if server.options().monitoring.https.is_some() { "https" } else { "http" }, monitoring);
    add("cluster", "nats", server.routes().address());
    serde_json::Value::Object(document).to_string()
}

/// An address that stands for all of the machine's, written out.
fn reachable(address: SocketAddr) -> Vec<SocketAddr> {
    if !address.ip().is_unspecified() {
        return vec![address];
    }
    let local = IpAddr::from(Ipv4Addr::LOCALHOST);
    let others = crate::cluster::info::interface_addresses(address.is_ipv4());
    std::iter::once(local).chain(others).map(|ip| SocketAddr::new(ip, address.port())).collect()
}
