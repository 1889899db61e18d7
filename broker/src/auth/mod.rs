//! Who may connect, to which account, with which rights (accounts-auth, section 1).
//!
//! Order of checks: the client certificate's names when they map to users, then user and password, then the token, then the user
//! configured for those who present nothing. Every failure looks the same to the client.

mod password;
mod renew;

use std::sync::Arc;

use config::Secret;
use config::options::{Credentials, Options, User};
use hashbrown::HashMap;
use protocol::info::ConnectOptions;
pub use renew::Renewal;
use routing::permission::{Pattern, Permissions, ResponseLimit, Responses, Rules};

use crate::accounts::Registry;
use crate::net::client::Binding;
use crate::net::sink::Account;
use crate::tls;

/// What a client presents as proof.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Presented {
    user: Option<String>,
    password: Option<Secret>,
    token: Option<Secret>,
}

impl std::fmt::Debug for Presented {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Presented").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Presented {
    /// The credentials in a CONNECT.
    pub fn from_connect(connect: &ConnectOptions) -> Self {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Self {
            user: given(&connect.user),
            password: given(&connect.pass).map(Secret::new),
            token: given(&connect.auth_token).map(Secret::new),
        }
    }

    fn is_empty(&self) -> bool {
        self.user.is_none() && self.password.is_none() && self.token.is_none()
    }

    /// The user name it claims, for logs and events.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }
}

/// Why a client is refused. The client hears only `Authorization Violation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Wrong, unknown or missing credentials.
    #[error("authentication failure")]
    Violation,
    /// The user may not use this kind of connection.
    #[error("connection type not allowed")]
    ConnectionType,
}

/// What authentication grants.
#[derive(Debug)]
pub struct Grant {
    account: Arc<Account>,
    user: Option<String>,
    permissions: Option<Arc<Permissions>>,
}

impl Grant {
    /// The binding of a connection to it.
    pub fn into_binding(self) -> Binding {
        let limit = self.permissions.as_ref().and_then(|permissions| permissions.responses);
        Binding {
            account: self.account,
            user: self.user,
            permissions: self.permissions,
            responses: limit.map(|limit| Arc::new(Responses::new(limit))),
        }
    }
}

#[derive(Debug)]
struct UserEntry {
    password: Secret,
    account: Arc<Account>,
    permissions: Option<Arc<Permissions>>,
    standard_allowed: bool,
}

/// The users of one configuration. Immutable: a reload makes a new one.
#[derive(Debug)]
pub struct Authenticator {
    users: HashMap<String, UserEntry>,
    /// The token and the account of those who know it.
    token: Option<(Secret, Arc<Account>)>,
    /// Account of those who need no credentials at all.
    open: Option<Arc<Account>>,
    no_auth_user: Option<String>,
    map_certificates: bool,
}

impl Authenticator {
    /// Lowers the options; every account they name is in `accounts`.
    pub fn new(options: &Options, accounts: &Registry) -> Self {
        let authorization = &options.authorization;
        let mut users = HashMap::new();
        for (account_name, user) in options.users() {
            let Some(account) = accounts.get(account_name) else { continue };
            let defaults = options
                .account(account_name)
                .map_or(&authorization.default_permissions, |account| &account.default_permissions);
            let permissions = user.permissions.as_ref().or(defaults.as_ref());
            users.insert(user.username.clone(), entry(user, account, permissions));
        }
        let mut token = None;
        match &authorization.credentials {
            Credentials::Open | Credentials::Users(_) => {}
            Credentials::Token(secret) => token = Some((secret.clone(), accounts.global())),
            Credentials::Single { username, password } => {
                let account = accounts.global();
                let entry = UserEntry {
                    password: password.clone(),
                    account,
                    permissions: None,
                    standard_allowed: true,
                };
                users.insert(username.clone(), entry);
            }
        }
        let required = !options.has_open_global_account() && (token.is_some() || !users.is_empty());
        Self {
            users,
            token,
            open: (!required).then(|| accounts.global()),
            no_auth_user: options.no_auth_user.clone(),
            map_certificates: options.tls.as_ref().is_some_and(|tls| tls.map),
        }
    }

    /// Must a client show something?
    pub fn is_required(&self) -> bool {
        self.open.is_none()
    }

    /// Is there a user for those who show nothing?
    pub fn admits_strangers(&self) -> bool {
        self.no_auth_user.is_some()
    }

    /// Checks what a client presents.
    pub async fn authenticate(
        &self,
        presented: &Presented,
        tls: Option<&tls::Session>,
    ) -> Result<Grant, Refusal> {
        if self.map_certificates {
            let users = self.users.keys().map(String::as_str);
            let name = tls.and_then(|session| session.user(|name| self.users.contains_key(name), users));
            return name.ok_or(Refusal::Violation).and_then(|name| self.grant(name));
        }
        if let Some(name) = &presented.user
            && let Some(user) = self.users.get(name)
        {
            let candidate = presented.password.clone().unwrap_or_default();
            if password::matches(&user.password, candidate).await {
                return self.grant(name);
            }
            return Err(Refusal::Violation);
        }
        if let (Some((token, account)), Some(candidate)) = (&self.token, &presented.token)
            && password::matches(token, candidate.clone()).await
        {
            return Ok(Grant { account: Arc::clone(account), user: None, permissions: None });
        }
        if let Some(account) = &self.open {
            return Ok(Grant { account: Arc::clone(account), user: None, permissions: None });
        }
        match &self.no_auth_user {
            Some(name) if presented.is_empty() => self.grant(name),
            _ => Err(Refusal::Violation),
        }
    }

    fn grant(&self, name: &str) -> Result<Grant, Refusal> {
        let user = self.users.get(name).ok_or(Refusal::Violation)?;
        if !user.standard_allowed {
            return Err(Refusal::ConnectionType);
        }
        let permissions = user.permissions.clone();
        Ok(Grant { account: Arc::clone(&user.account), user: Some(name.to_owned()), permissions })
    }
}

fn entry(
    user: &User,
    account: Arc<Account>,
    permissions: Option<&config::options::Permissions>,
) -> UserEntry {
    let allowed = &user.allowed_connection_types;
    UserEntry {
        password: user.password.clone(),
        account,
        permissions: permissions.map(|permissions| Arc::new(lower(permissions))),
        standard_allowed: allowed.is_empty() || allowed.contains(&config::options::ConnectionType::Standard),
    }
}

/// Allow and deny lists of one direction in the routing core's form.
pub fn lower_rules(side: &config::options::SubjectPermission) -> Rules {
    let rules = |rules: &[config::options::SubjectRule]| -> Vec<Pattern> {
        let pattern = |rule: &config::options::SubjectRule| Pattern {
            subject: rule.subject.as_bytes().into(),
            queue: rule.queue.as_deref().map(|queue| queue.as_bytes().into()),
        };
        rules.iter().map(pattern).collect()
    };
    Rules { allow: side.allow.as_deref().map(rules), deny: rules(&side.deny) }
}

/// Configured rights in the routing core's form.
fn lower(permissions: &config::options::Permissions) -> Permissions {
    let responses = permissions.responses.map(|responses| ResponseLimit {
        messages_max: responses.max,
        expires: responses.expires.unwrap_or_default(),
    });
    let mut publish = lower_rules(&permissions.publish);
    if responses.is_some() && publish.allow.is_none() {
        // Whoever may only answer may publish nothing else (accounts-auth, section 8; config, section 3).
        publish.allow = Some(Vec::new());
    }
    Permissions { publish, subscribe: lower_rules(&permissions.subscribe), responses }
}

#[cfg(test)]
mod tests;
