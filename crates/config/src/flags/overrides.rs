//! Options given on the command line, laid over those of the file.

use std::num::NonZeroU16;

use crate::Secret;
use crate::decode::{parse_host_port, parse_route_url};
use crate::diagnostic::Diagnostic;
use crate::options::{
    Address, Certificate, Cluster, Credentials, HOST_DEFAULT, Options, Port, RouteUrl, Tls,
};

/// Options of the command line. A field that is `None` leaves the file alone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    pub(super) host: Option<String>,
    pub(super) port: Option<Port>,
    pub(super) server_name: Option<String>,
    pub(super) pid_file: Option<String>,
    pub(super) ports_file_dir: Option<String>,
    pub(super) store_dir: Option<String>,
    pub(super) jetstream: Option<bool>,
    pub(super) client_advertise: Option<String>,
    /// `Some(None)` switches monitoring off.
    pub(super) http_port: Option<Option<Port>>,
    pub(super) https_port: Option<Option<Port>>,
    pub(super) log_file: Option<String>,
    pub(super) log_size_limit: Option<u64>,
    pub(super) logtime: Option<bool>,
    pub(super) logtime_utc: Option<bool>,
    pub(super) debug: Option<bool>,
    pub(super) trace: Option<bool>,
    pub(super) trace_verbose: Option<bool>,
    pub(super) max_traced_msg_len: Option<i64>,
    pub(super) username: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) token: Option<Secret>,
    pub(super) tls: Option<bool>,
    pub(super) tls_verify: Option<bool>,
    pub(super) tls_cert_file: Option<String>,
    pub(super) tls_key_file: Option<String>,
    pub(super) tls_ca_file: Option<String>,
    pub(super) routes: Option<Vec<RouteUrl>>,
    pub(super) cluster: Option<ClusterListen>,
    pub(super) cluster_name: Option<String>,
    pub(super) no_advertise: Option<bool>,
    pub(super) cluster_advertise: Option<String>,
    pub(super) connect_retries: Option<i64>,
}

/// Value of `--cluster`; no address switches the listener off.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ClusterListen {
    address: Option<Address>,
    username: Option<String>,
    password: Option<Secret>,
}

impl Overrides {
    pub(super) fn set_port(&mut self, text: &str) -> Result<(), String> {
        // 0 is the default port.
        self.port = port(text)?.or(self.port);
        Ok(())
    }

    pub(super) fn set_http_port(&mut self, text: &str) -> Result<(), String> {
        self.http_port = Some(port(text)?);
        Ok(())
    }

    pub(super) fn set_https_port(&mut self, text: &str) -> Result<(), String> {
        self.https_port = Some(port(text)?);
        Ok(())
    }

    pub(super) fn set_log_size_limit(&mut self, text: &str) -> Result<(), String> {
        self.log_size_limit = Some(text.parse().map_err(|_| "parse error".to_owned())?);
        Ok(())
    }

    pub(super) fn set_verbose(&mut self, value: bool) {
        self.trace_verbose = Some(value);
        self.trace = Some(value);
    }

    pub(super) fn set_routes(&mut self, text: &str) -> Result<(), String> {
        let mut routes: Vec<RouteUrl> = Vec::new();
        for url in text.split(',').map(str::trim).filter(|url| !url.is_empty()) {
            let url = parse_route_url(url)
                .ok_or_else(|| "expected URLs such as nats-route://host:port".to_owned())?;
            if !routes.contains(&url) {
                routes.push(url);
            }
        }
        self.routes = Some(routes);
        Ok(())
    }

    pub(super) fn set_cluster(&mut self, text: &str) -> Result<(), String> {
        if text.is_empty() {
            self.cluster = Some(ClusterListen::default());
            return Ok(());
        }
        let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
        let (user_info, address) = match rest.rsplit_once('@') {
            Some((user_info, address)) => (Some(user_info), address),
            None => (None, rest),
        };
        let (host, port) = parse_host_port(address.trim_end_matches('/'))?;
        let host = if host.is_empty() { HOST_DEFAULT.into() } else { host };
        let (username, password) = match user_info.map(|info| info.split_once(':').unwrap_or((info, ""))) {
            Some((username, password)) => (Some(username.to_owned()), Some(Secret::new(password))),
            None => (None, None),
        };
        self.cluster =
            Some(ClusterListen { address: port.map(|port| Address { host, port }), username, password });
        Ok(())
    }

    /// Lays these options over those of a file.
    pub(crate) fn apply(&self, options: &mut Options, errors: &mut Vec<Diagnostic>) {
        self.apply_server(options);
        self.apply_logging(options);
        self.apply_authorization(options, errors);
        self.apply_tls(options, errors);
        self.apply_cluster(options, errors);
    }

    fn apply_server(&self, options: &mut Options) {
        replace(&mut options.listen.address.host, &self.host);
        replace(&mut options.listen.address.port, &self.port);
        replace_optional(&mut options.server_name, &self.server_name);
        replace_optional(&mut options.pid_file, &self.pid_file);
        replace_optional(&mut options.store_dir, &self.store_dir);
        // The flag switches on; only the file switches off.
        options.jetstream.enabled |= self.jetstream == Some(true);
        replace_optional(&mut options.ports_file_dir, &self.ports_file_dir);
        replace_optional(&mut options.listen.client_advertise, &self.client_advertise);
        let host = options.listen.address.host.clone();
        for (slot, port) in
            [(&mut options.monitoring.http, self.http_port), (&mut options.monitoring.https, self.https_port)]
        {
            let Some(port) = port else { continue };
            let host = slot.take().map_or_else(|| host.clone(), |address| address.host);
            *slot = port.map(|port| Address { host, port });
        }
    }

    fn apply_logging(&self, options: &mut Options) {
        let logging = &mut options.logging;
        replace_optional(&mut logging.file, &self.log_file);
        replace(&mut logging.size_limit, &self.log_size_limit);
        replace(&mut logging.logtime, &self.logtime);
        replace(&mut logging.logtime_utc, &self.logtime_utc);
        replace(&mut logging.debug, &self.debug);
        replace(&mut logging.trace, &self.trace);
        replace(&mut logging.trace_verbose, &self.trace_verbose);
        if let Some(length) = self.max_traced_msg_len {
            options.limits.max_traced_msg_len = u32::try_from(length).ok().filter(|length| *length > 0);
        }
    }

    fn apply_authorization(&self, options: &mut Options, errors: &mut Vec<Diagnostic>) {
        let token = self.token.clone().filter(|token| !token.is_empty());
        let username = self.username.clone().filter(|name| !name.is_empty());
        if token.is_none() && username.is_none() {
            return;
        }
        if matches!(options.authorization.credentials, Credentials::Users(_)) {
            let message = "flags -user and -auth can not be combined with users of the configuration file";
            errors.push(Diagnostic::general(message));
            return;
        }
        options.authorization.is_configured = true;
        options.authorization.credentials = match (username, token) {
            (Some(_), Some(_)) => {
                errors.push(Diagnostic::general("Cannot have a user/pass and token"));
                return;
            }
            (Some(username), None) => {
                Credentials::Single { username, password: self.password.clone().unwrap_or_default() }
            }
            (None, token) => Credentials::Token(token.unwrap_or_default()),
        };
    }

    fn apply_tls(&self, options: &mut Options, errors: &mut Vec<Diagnostic>) {
        if self.tls == Some(false) {
            options.tls = None;
            return;
        }
        let files = [&self.tls_cert_file, &self.tls_key_file, &self.tls_ca_file];
        let is_wanted = self.tls == Some(true)
            || self.tls_verify == Some(true)
            || files.iter().any(|file| file.is_some());
        if !is_wanted {
            return;
        }
        let tls = options.tls.get_or_insert_with(Tls::default);
        match (&self.tls_cert_file, &self.tls_key_file) {
            (Some(cert_file), Some(key_file)) => {
                tls.certificates =
                    vec![Certificate { cert_file: cert_file.clone(), key_file: key_file.clone() }];
            }
            (Some(_), None) => {
                errors.push(Diagnostic::general("TLS Server private key must be present and valid"));
            }
            (None, Some(_)) => {
                errors.push(Diagnostic::general("TLS Server certificate must be present and valid"));
            }
            (None, None) if tls.certificates.is_empty() => {
                errors.push(Diagnostic::general("TLS Server certificate must be present and valid"));
            }
            (None, None) => {}
        }
        replace_optional(&mut tls.ca_file, &self.tls_ca_file);
        replace(&mut tls.verify, &self.tls_verify);
    }

    fn apply_cluster(&self, options: &mut Options, errors: &mut Vec<Diagnostic>) {
        let is_touched = self.routes.is_some()
            || self.cluster.is_some()
            || self.cluster_name.is_some()
            || self.no_advertise.is_some()
            || self.cluster_advertise.is_some()
            || self.connect_retries.is_some();
        if !is_touched {
            return;
        }
        let cluster = options.cluster.get_or_insert_with(Cluster::default);
        if let Some(listen) = &self.cluster {
            cluster.listen = listen.address.clone();
            replace(&mut cluster.authorization.username, &listen.username);
            replace(&mut cluster.authorization.password, &listen.password);
        }
        replace(&mut cluster.routes, &self.routes);
        replace_optional(&mut cluster.name, &self.cluster_name);
        replace(&mut cluster.no_advertise, &self.no_advertise);
        replace_optional(&mut cluster.advertise, &self.cluster_advertise);
        if let Some(count) = self.connect_retries {
            cluster.connect_retries = u32::try_from(count).unwrap_or(0);
        }
        let has_routes = self.routes.as_ref().is_some_and(|routes| !routes.is_empty());
        if has_routes && cluster.listen.is_none() {
            errors.push(Diagnostic::general("solicited routes require cluster capabilities, e.g. --cluster"));
        }
    }
}

fn replace<T: Clone>(slot: &mut T, value: &Option<T>) {
    if let Some(value) = value {
        slot.clone_from(value);
    }
}

/// An empty text takes the option away.
fn replace_optional(slot: &mut Option<String>, value: &Option<String>) {
    if let Some(value) = value {
        *slot = (!value.is_empty()).then(|| value.clone());
    }
}

fn port(text: &str) -> Result<Option<Port>, String> {
    match text.parse::<i32>() {
        Ok(-1) => Ok(Some(Port::Random)),
        Ok(number) => u16::try_from(number)
            .map(|port| NonZeroU16::new(port).map(|port| Port::Fixed(port.get())))
            .map_err(|_| "out of range".into()),
        Err(_) => Err("parse error".into()),
    }
}
