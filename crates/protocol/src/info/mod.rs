//! The documents at the start of a connection: INFO and CONNECT.

mod connect;

use serde::{Deserialize, Serialize};

pub use connect::ConnectOptions;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_false(value: &bool) -> bool {
    !*value
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What a server says about itself. Fields are in the order of the reference server, and those that have no value
/// are left out where it leaves them out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a field of the document")]
pub struct Info {
    /// Public key of the server, 56 characters.
    pub server_id: String,
    /// Name of the server.
    pub server_name: String,
    /// Version that clients compare.
    pub version: String,
    /// Protocol level.
    pub proto: i32,
    /// Revision of the source, 7 characters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub git_commit: String,
    /// Version of the compiler or runtime; always there.
    pub go: String,
    /// Listen or advertised host.
    pub host: String,
    /// Listen or advertised port.
    pub port: u16,
    /// Whether headers are supported; always there.
    pub headers: bool,
    /// CONNECT needs credentials.
    #[serde(skip_serializing_if = "is_false")]
    pub auth_required: bool,
    /// TLS must follow.
    #[serde(skip_serializing_if = "is_false")]
    pub tls_required: bool,
    /// The peer must show a certificate.
    #[serde(skip_serializing_if = "is_false")]
    pub tls_verify: bool,
    /// TLS may follow.
    #[serde(skip_serializing_if = "is_false")]
    pub tls_available: bool,
    /// Largest payload; -1 is unlimited.
    pub max_payload: i64,
    /// JetStream is on.
    #[serde(skip_serializing_if = "is_false")]
    pub jetstream: bool,
    /// URL under which a route peer was seen.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip: String,
    /// Number of the connection.
    #[serde(skip_serializing_if = "is_default")]
    pub client_id: u64,
    /// Address of the client.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_ip: String,
    /// What a client with a key signs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub nonce: String,
    /// Name of the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// The name of the cluster was made up.
    #[serde(skip_serializing_if = "is_false")]
    pub cluster_dynamic: bool,
    /// JetStream domain.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// `host:port` of the servers of the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connect_urls: Vec<String>,
    /// The same for websocket.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ws_connect_urls: Vec<String>,
    /// Lame duck mode.
    #[serde(skip_serializing_if = "is_false")]
    pub ldm: bool,
    /// Compression of routes and leafnodes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub compression: String,
    /// Sent after CONNECT.
    #[serde(skip_serializing_if = "is_false")]
    pub connect_info: bool,
    /// Account that CONNECT led to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remote_account: String,
    /// That account is the system account.
    #[serde(skip_serializing_if = "is_false")]
    pub acc_is_sys: bool,
    /// JetStream API level.
    #[serde(skip_serializing_if = "is_default")]
    pub api_lvl: i32,
    /// What a route may publish here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import: Option<SubjectPermission>,
    /// What a route may subscribe to here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export: Option<SubjectPermission>,
    /// Understands the origin cluster of leafnodes.
    #[serde(skip_serializing_if = "is_false")]
    pub lnoc: bool,
    /// Understands it in unsubscribe too.
    #[serde(skip_serializing_if = "is_false")]
    pub lnocu: bool,
    /// Sends another INFO after CONNECT.
    #[serde(skip_serializing_if = "is_false")]
    pub info_on_connect: bool,
    /// Route connections between two servers.
    #[serde(skip_serializing_if = "is_default")]
    pub route_pool_size: i32,
    /// Which of them this is.
    #[serde(skip_serializing_if = "is_default")]
    pub route_pool_idx: i32,
    /// Account that this route is dedicated to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub route_account: String,
    /// Number of the request to dedicate a route.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub route_acc_add_reqid: String,
    /// How far this server may be passed on.
    #[serde(skip_serializing_if = "is_default")]
    pub gossip_mode: u8,
    /// Name of the gateway, that is, of its cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gateway: String,
    /// `host:port` of the gateways of that cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gateway_urls: Vec<String>,
    /// `host:port` of the gateway of this server.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gateway_url: String,
    /// What a gateway wants.
    #[serde(skip_serializing_if = "is_default")]
    pub gateway_cmd: u8,
    /// Argument of that.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gateway_cmd_payload: String,
    /// Uses the new prefix of replies.
    #[serde(skip_serializing_if = "is_false")]
    pub gateway_nrp: bool,
    /// Sends interest only from the start.
    #[serde(skip_serializing_if = "is_false")]
    pub gateway_iom: bool,
    /// `host:port` of the leafnode port of this server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leafnode_urls: Vec<String>,
    /// Curve public key for auth callout.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub xkey: String,
}

/// Subjects that are allowed and denied.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SubjectPermission {
    /// Allowed; none means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Denied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_info_has_only_the_fields_that_are_always_there() {
        assert_eq!(
            serde_json::to_string(&Info::default()).unwrap(),
            r#"{"server_id":"","server_name":"","version":"","proto":0,"go":"","host":"","port":0,"headers":false,"max_payload":0}"#
        );
    }

    /// Lines as the reference server (2.15.1) sent them: reading and writing gives the same bytes.
    #[test]
    fn reference_info_is_read_and_written_unchanged() {
        for line in [
            r#"{"server_id":"NDOV","server_name":"A","version":"2.15.1","proto":1,"git_commit":"b2fd3ef","go":"go1.27.2","host":"127.0.0.1","port":14987,"headers":true,"max_payload":1048576,"client_id":8,"client_ip":"127.0.0.1","cluster":"c1","api_lvl":5,"xkey":"XDST"}"#,
            r#"{"server_id":"NDOV","server_name":"A","version":"2.15.1","proto":3,"go":"go1.27.2","host":"0.0.0.0","port":14986,"headers":true,"max_payload":1048576,"nonce":"3qUUFNbQWKzybfw","cluster":"c1","connect_urls":["127.0.0.1:14987"],"compression":"accept","lnoc":true,"lnocu":true,"route_pool_size":3}"#,
        ] {
            let info: Info = serde_json::from_str(line).unwrap();
            assert_eq!(serde_json::to_string(&info).unwrap(), line);
        }
    }

    #[test]
    fn unknown_fields_are_ignored_and_permissions_kept() {
        let info: Info = serde_json::from_str(
            r#"{"ln":true,"new":{"a":[1]},"import":{"allow":["a.>"]},"export":{"deny":["b"]}}"#,
        )
        .unwrap();
        assert_eq!(info.import.unwrap().allow, ["a.>"]);
        assert_eq!(info.export.unwrap().deny, ["b"]);
    }
}
