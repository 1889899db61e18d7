//! Rules that span sections, with the texts of the reference server.

mod imports;

use crate::decode::{Places, Report, check_advertise};
use crate::diagnostic::Diagnostic;
use crate::duration::format_duration;
use crate::options::{Cluster, Credentials, DEFAULT_SYSTEM_ACCOUNT, GLOBAL_ACCOUNT, Options, RoutePool};

/// `max_payload` above which the server warns.
const MAX_PAYLOAD_USUAL_MAX: u32 = 8 * 1024 * 1024;

/// Checks options; the errors and then the warnings.
pub fn validate(options: &Options) -> (Vec<Diagnostic>, Vec<Diagnostic>) {
    let mut report = Report::default();
    check(options, &Places::new(), &mut report);
    (report.errors, report.warnings)
}

/// Checks options, naming the places of the keys at fault.
pub(crate) fn check(options: &Options, places: &Places, report: &mut Report) {
    let mut checker = Checker { options, places, report };
    checker.limits();
    checker.credentials();
    checker.system_account();
    checker.monitoring();
    checker.tls();
    if let Some(cluster) = &options.cluster {
        checker.cluster(cluster);
    }
    checker.jetstream();
    for message in imports::check(&options.accounts) {
        checker.error("accounts", message);
    }
}

struct Checker<'a> {
    options: &'a Options,
    places: &'a Places,
    report: &'a mut Report,
}

impl Checker<'_> {
    fn error(&mut self, path: &str, message: impl Into<String>) {
        let diagnostic = self.place(path, message.into());
        self.report.errors.push(diagnostic);
    }

    fn warn(&mut self, path: &str, message: impl Into<String>) {
        let diagnostic = self.place(path, message.into());
        self.report.warnings.push(diagnostic);
    }

    fn place(&self, path: &str, message: String) -> Diagnostic {
        match self.places.get(path) {
            Some(position) => Diagnostic::at(position, message),
            None => Diagnostic::general(message),
        }
    }

    fn limits(&mut self) {
        let (limits, lame_duck) = (&self.options.limits, &self.options.lame_duck);
        let (payload, pending) = (limits.max_payload, limits.max_pending);
        if u64::from(payload) > pending {
            let message = format!("max_payload ({payload}) cannot be higher than max_pending ({pending})");
            self.error("max_payload", message);
        } else if payload > MAX_PAYLOAD_USUAL_MAX {
            let message =
                "Maximum payloads over 8.00 MB are generally discouraged and could lead to poor performance";
            self.warn("max_payload", message);
        }
        if lame_duck.grace_period >= lame_duck.duration {
            let (grace, duration) =
                (format_duration(lame_duck.grace_period), format_duration(lame_duck.duration));
            let message = format!(
                "lame duck grace period ({grace}) should be strictly lower than lame duck duration ({duration})"
            );
            self.error("lame_duck_grace_period", message);
        }
        if let Some(name) = &self.options.listen.client_advertise
            && let Err(message) = check_advertise("client_advertise", name)
        {
            self.error("client_advertise", message);
        }
    }

    fn credentials(&mut self) {
        let options = self.options;
        let has_account_users = options.accounts.iter().any(|account| !account.users.is_empty());
        match &options.authorization.credentials {
            Credentials::Single { .. } if has_account_users => {
                self.error("accounts", "Can not have a single user/pass and accounts");
            }
            Credentials::Token(_) if has_account_users => {
                self.error("accounts", "Can not have a token and accounts");
            }
            _ => {}
        }
        let Some(name) = &options.no_auth_user else { return };
        if options.users().next().is_none() {
            let message = format!("no_auth_user: \"{name}\" present, but users/nkeys are not defined");
            self.error("no_auth_user", message);
        } else if !options.users().any(|(_, user)| user.username == *name) {
            let message = format!(
                "no_auth_user: \"{name}\" not present as user or nkey in authorization block or account configuration"
            );
            self.error("no_auth_user", message);
        }
    }

    fn system_account(&mut self) {
        let options = self.options;
        match options.system_account.as_deref() {
            Some(GLOBAL_ACCOUNT) => {
                self.error("system_account", format!("\"{GLOBAL_ACCOUNT}\" can not be the system account"));
            }
            Some(DEFAULT_SYSTEM_ACCOUNT) | None => {}
            Some(name) if options.account(name).is_none() => {
                self.error("system_account", "error resolving system account: account missing");
            }
            Some(_) => {}
        }
    }

    fn monitoring(&mut self) {
        let monitoring = &self.options.monitoring;
        if let (Some(http), Some(https)) = (&monitoring.http, &monitoring.https) {
            let message = format!("can't specify both HTTP ({}) and HTTPs ({}) ports", http.port, https.port);
            self.error(if self.places.contains_key("https") { "https" } else { "https_port" }, message);
        } else if monitoring.https.is_some() && self.options.tls.is_none() {
            let path = if self.places.contains_key("https") { "https" } else { "https_port" };
            self.error(path, "TLS cert and key required for HTTPS");
        }
    }

    /// A listener with TLS cannot greet anyone without a certificate.
    fn tls(&mut self) {
        let cluster = self.options.cluster.as_ref().filter(|cluster| cluster.listen.is_some());
        for (path, tls) in [
            ("tls", self.options.tls.as_ref()),
            ("cluster.tls", cluster.and_then(|cluster| cluster.tls.as_ref())),
        ] {
            if tls.is_some_and(|tls| tls.certificates.is_empty()) {
                self.error(path, "missing 'cert_file' and 'key_file' in TLS configuration");
            }
        }
    }

    fn cluster(&mut self, cluster: &Cluster) {
        if !cluster.pinned_accounts.is_empty() && cluster.pool == RoutePool::Disabled {
            self.error("cluster.pool_size", "pool_size cannot be negative if pinned accounts are specified");
        }
        let mut pinned: Vec<&str> = cluster.pinned_accounts.iter().map(String::as_str).collect();
        // The system account is pinned without being named.
        pinned.extend(self.options.system_account_name());
        if let Some(name) = first_repeated(&pinned[..cluster.pinned_accounts.len()]) {
            let message = format!(
                "found duplicate account name \"{name}\" in pinned accounts list {}",
                quoted(&pinned)
            );
            self.error("cluster.accounts", message);
        }
        if let Some(name) = &cluster.advertise
            && let Err(message) = check_advertise("cluster advertise", name)
        {
            self.error("cluster.advertise", message);
        }
        if cluster.listen.is_none() && !cluster.routes.is_empty() {
            self.warn(
                "cluster.routes",
                "routes have no effect without a port or listen address in the cluster",
            );
        }
    }

    fn jetstream(&mut self) {
        let options = self.options;
        if let Some(domain) = &options.jetstream.domain {
            let derived = format!("$JS.{domain}.API.>");
            if !subject::is_valid(derived.as_bytes()) {
                let message = format!("invalid domain name: derived {derived:?} is not a valid subject");
                self.error("jetstream.domain", message);
            } else if domain.contains(['.', '*', '>']) {
                self.error("jetstream.domain", "invalid domain name: may not contain ., * or >");
            }
        }
        let cluster = options.cluster.as_ref().filter(|cluster| cluster.listen.is_some());
        let (true, Some(cluster)) = (options.jetstream.enabled, cluster) else { return };
        if options.server_name.is_none() {
            self.error("jetstream", "jetstream cluster requires `server_name` to be set");
        } else if cluster.name.is_none() {
            self.error("jetstream", "jetstream cluster requires `cluster.name` to be set");
        }
    }
}

fn first_repeated<'a>(names: &[&'a str]) -> Option<&'a str> {
    names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)).map(|(_, name)| *name)
}

fn quoted(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    format!("[{}]", quoted.join(" "))
}
