//! Who may connect: accounts, users and what each user may do.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::jetstream::AccountJetStream;
use crate::common::{Duration, SecretKeyRef};

/// How clients prove who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AuthMode {
    /// They do not: everybody may do everything.
    None,
    /// By the users listed under `accounts`.
    #[default]
    Config,
}

/// Who may connect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.mode != 'None' || self.allowAnonymous")
        .message("auth.mode None lets everybody in: set auth.allowAnonymous to true if that is meant, or use mode Config with accounts"),
    validation = Rule::new("self.mode != 'None' || !has(self.accounts)")
        .message("auth.accounts has no effect in auth.mode None: remove accounts, or use mode Config"),
    validation = Rule::new("!has(self.accounts) || self.accounts.all(a, a.name != self.systemAccount)")
        .message("the operator fills auth.systemAccount itself: give the account in auth.accounts another name")
)]
pub struct Auth {
    /// How clients prove who they are.
    #[serde(default)]
    pub mode: AuthMode,
    /// Must be true before anything lets clients in without a password.
    #[serde(default)]
    pub allow_anonymous: bool,
    /// Account for events and requests about the servers. Only the operator has a user in it.
    #[serde(default = "default_system_account")]
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_-]+$"))]
    pub system_account: String,
    /// Accounts: each is a subject space of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub accounts: Vec<Account>,
}

impl Default for Auth {
    fn default() -> Self {
        Self {
            mode: AuthMode::Config,
            allow_anonymous: false,
            system_account: default_system_account(),
            accounts: Vec::new(),
        }
    }
}

fn default_system_account() -> String {
    "SYS".to_owned()
}

/// A subject space and the users who see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    /// Name of the account.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_-]+$"))]
    pub name: String,
    /// Users of the account.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub users: Vec<User>,
    /// What the account may use of JetStream, when the cluster has it. Everything when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jetstream: Option<AccountJetStream>,
}

/// Somebody who may connect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// Name the client sends. Names are unique in the whole cluster.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[^\s\x00-\x1f]+$"))]
    pub name: String,
    /// The Secret that holds the password, plain or as bcrypt (`$2a$`...). A change is reloaded without a restart.
    pub password_secret_ref: SecretKeyRef,
    /// What the user may do. Everything in the account when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
}

/// What a user may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Permissions {
    /// Subjects the user may publish to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish: Option<SubjectRules>,
    /// Subjects the user may subscribe to. An entry may name a queue group after a space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscribe: Option<SubjectRules>,
    /// Lets the user answer requests that it receives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_responses: Option<AllowResponses>,
}

/// Subjects that are allowed and denied; a denied subject wins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubjectRules {
    /// Allowed subjects, with wildcards. All when unset.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 512)))]
    pub allow: Vec<String>,
    /// Denied subjects, with wildcards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 512)))]
    pub deny: Vec<String>,
}

/// How a user may answer requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowResponses {
    /// Answers per request. One when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max: Option<i64>,
    /// How long an answer may take. Two minutes when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
}
