//! CONNECT: what a client or another server wants and who it claims to be.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::{is_default, is_false};

/// The options of CONNECT, in the order in which the reference server writes those of a route.
///
/// Reading is as lenient as the reference server: names in any case, `null` keeps the default, bytes outside
/// UTF-8 are replaced, unknown names are ignored, the last of two equal names counts.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is a field of the document")]
pub struct ConnectOptions {
    /// Deliver its own messages to it; true if absent.
    pub echo: bool,
    /// `+OK` for every operation; true if absent.
    pub verbose: bool,
    /// Check publish subjects; true if absent.
    pub pedantic: bool,
    /// User name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass: Option<String>,
    /// The connection is to be TLS.
    pub tls_required: bool,
    /// Understands headers.
    pub headers: bool,
    /// Name of the client, or id of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Cluster of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The name of the cluster was made up.
    #[serde(skip_serializing_if = "is_false")]
    pub cluster_dynamic: bool,
    /// Understands the origin cluster of leafnodes.
    #[serde(skip_serializing_if = "is_false")]
    pub lnoc: bool,
    /// Understands it in unsubscribe too.
    #[serde(skip_serializing_if = "is_false")]
    pub lnocu: bool,
    /// Name of the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_token: Option<String>,
    /// Public key of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nkey: Option<String>,
    /// Claims of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<String>,
    /// Signature of the nonce.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sig: Option<String>,
    /// Signature of the nonce by a trusted proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_sig: Option<String>,
    /// Language of the client library; servers have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lang: Option<String>,
    /// Version of the client library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Protocol level.
    #[serde(skip_serializing_if = "is_default")]
    pub protocol: i64,
    /// Wants to hear that nobody listens.
    #[serde(skip_serializing_if = "is_false")]
    pub no_responders: bool,
    /// Account that it names itself; clients may not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Asks for a new account; clients may not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_account: Option<bool>,
    /// Account on the other side of a leafnode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_account: Option<String>,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            echo: true,
            verbose: true,
            pedantic: true,
            user: None,
            pass: None,
            tls_required: false,
            headers: false,
            name: None,
            cluster: None,
            cluster_dynamic: false,
            lnoc: false,
            lnocu: false,
            gateway: None,
            auth_token: None,
            nkey: None,
            jwt: None,
            sig: None,
            proxy_sig: None,
            lang: None,
            version: None,
            protocol: 0,
            no_responders: false,
            account: None,
            new_account: None,
            remote_account: None,
        }
    }
}

impl fmt::Debug for ConnectOptions {
    /// Prints nothing that a reader of a log could use to connect.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("name", &self.name)
            .field("user", &self.user)
            .field("nkey", &self.nkey)
            .field("lang", &self.lang)
            .field("version", &self.version)
            .field("protocol", &self.protocol)
            .field("cluster", &self.cluster)
            .field("gateway", &self.gateway)
            .field("account", &self.account)
            .field("headers", &self.headers)
            .field("no_responders", &self.no_responders)
            .finish_non_exhaustive()
    }
}

impl<'de> Deserialize<'de> for ConnectOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Document(Self::default()))
    }
}

impl ConnectOptions {
    /// Reads another CONNECT of the same connection: what it does not mention stays as it was.
    ///
    /// # Errors
    /// The text is no JSON object of the right types; then nothing has changed.
    pub fn update(&mut self, json: &[u8]) -> Result<(), serde_json::Error> {
        if has_raw_control(json) {
            return Err(de::Error::custom("control character in a string"));
        }
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let updated = deserializer.deserialize_any(Document(self.clone()))?;
        deserializer.end()?;
        *self = updated;
        Ok(())
    }
}

/// Is there a control character within a string that is not escaped? Texts are read as bytes here, since clients send some that
/// are not UTF-8, and the reader of bytes lets these pass.
fn has_raw_control(json: &[u8]) -> bool {
    let (mut in_string, mut escaped) = (false, false);
    json.iter().any(|byte| {
        let ends_escape = std::mem::take(&mut escaped);
        match byte {
            b'"' if !ends_escape => in_string = !in_string,
            b'\\' if in_string && !ends_escape => escaped = true,
            0..0x20 if in_string => return true,
            _ => {}
        }
        false
    })
}

/// Reads a document over the options that were there before.
struct Document(ConnectOptions);

impl<'de> Visitor<'de> for Document {
    type Value = ConnectOptions;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of options")
    }

    fn visit_unit<E: de::Error>(self) -> Result<ConnectOptions, E> {
        Ok(self.0)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ConnectOptions, A::Error> {
        let mut options = self.0;
        while let Some(key) = map.next_key_seed(Text)? {
            set(&mut options, &key.unwrap_or_default().to_ascii_lowercase(), &mut map)?;
        }
        Ok(options)
    }
}

/// Reads the value that follows `key`.
fn set<'de, A: MapAccess<'de>>(options: &mut ConnectOptions, key: &str, map: &mut A) -> Result<(), A::Error> {
    let flag = match key {
        "echo" => &mut options.echo,
        "verbose" => &mut options.verbose,
        "pedantic" => &mut options.pedantic,
        "tls_required" => &mut options.tls_required,
        "headers" => &mut options.headers,
        "cluster_dynamic" => &mut options.cluster_dynamic,
        "lnoc" => &mut options.lnoc,
        "lnocu" => &mut options.lnocu,
        "no_responders" => &mut options.no_responders,
        _ => return set_other(options, key, map),
    };
    if let Some(value) = map.next_value()? {
        *flag = value;
    }
    Ok(())
}

fn set_other<'de, A: MapAccess<'de>>(
    options: &mut ConnectOptions,
    key: &str,
    map: &mut A,
) -> Result<(), A::Error> {
    let text = match key {
        "user" => &mut options.user,
        "pass" => &mut options.pass,
        "name" => &mut options.name,
        "cluster" => &mut options.cluster,
        "gateway" => &mut options.gateway,
        "auth_token" => &mut options.auth_token,
        "nkey" => &mut options.nkey,
        "jwt" => &mut options.jwt,
        "sig" => &mut options.sig,
        "proxy_sig" => &mut options.proxy_sig,
        "lang" => &mut options.lang,
        "version" => &mut options.version,
        "account" => &mut options.account,
        "remote_account" => &mut options.remote_account,
        "protocol" => {
            options.protocol = map.next_value::<Option<i64>>()?.unwrap_or(options.protocol);
            return Ok(());
        }
        "new_account" => {
            options.new_account = map.next_value::<Option<bool>>()?.or(options.new_account);
            return Ok(());
        }
        _ => {
            map.next_value::<IgnoredAny>()?;
            return Ok(());
        }
    };
    if let Some(value) = map.next_value_seed(Text)? {
        *text = Some(value);
    }
    Ok(())
}

/// A string or `null`; bytes outside UTF-8 are replaced.
struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<String>, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_none<E: de::Error>(self) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<String>, D::Error> {
        deserializer.deserialize_bytes(self)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Option<String>, E> {
        Ok(Some(text.to_owned()))
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Option<String>, E> {
        Ok(Some(String::from_utf8_lossy(bytes).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &[u8]) -> Result<ConnectOptions, serde_json::Error> {
        serde_json::from_slice(json)
    }

    #[test]
    fn absent_and_null_fields_keep_their_defaults() {
        for json in ["null", "{}", r#"{"verbose":null,"name":null,"protocol":null,"new_account":null}"#] {
            assert_eq!(read(json.as_bytes()).unwrap(), ConnectOptions::default(), "{json}");
        }
        let options = ConnectOptions::default();
        assert!(options.verbose && options.pedantic && options.echo && !options.headers);
    }

    #[test]
    fn another_connect_keeps_what_it_does_not_mention() {
        let mut options = read(br#"{"verbose":false,"user":"a"}"#).unwrap();
        options.update(br#"{"user":"b"}"#).unwrap();
        assert_eq!((options.verbose, options.user.as_deref()), (false, Some("b")));
        let before = options.clone();
        assert!(options.update(b"{\"user\":\"c\"} x").is_err());
        assert_eq!(options, before);
    }

    #[test]
    fn control_characters_in_strings_are_refused_unless_escaped() {
        let mut options = ConnectOptions::default();
        assert!(options.update(b"{\"name\":\"a\tb\"}").is_err());
        assert!(options.update(b"{\"na\nme\":1}").is_err());
        options.update(b"{\t\"name\":\n\"a\\t\\\"b\"}").unwrap();
        assert_eq!(options.name.as_deref(), Some("a\t\"b"));
    }

    /// Each was tried on the reference server.
    #[test]
    fn reading_is_as_lenient_as_the_reference_server() {
        assert!(!read(br#"{"VERBOSE":false}"#).unwrap().verbose);
        assert!(!read(br#"{"verbose":true,"verbose":false}"#).unwrap().verbose);
        assert_eq!(read(b"{\"name\":\"a\xff\"}").unwrap().name.as_deref(), Some("a\u{fffd}"));
        assert_eq!(read(b"{\"n\xff\":\"\xff\",\"name\":\"a\\u0041\"}").unwrap().name.as_deref(), Some("aA"));
        assert_eq!(
            read(br#"{"x":{"verbose":false},"y":[1,{}],"lang":"go"}"#).unwrap().lang.as_deref(),
            Some("go")
        );
    }

    /// Each was tried on the reference server, which closes the connection.
    #[test]
    fn wrong_types_are_refused() {
        for json in [
            "",
            "[]",
            "{bad",
            r#"{"lang":5}"#,
            r#"{"protocol":"1"}"#,
            r#"{"protocol":1.0}"#,
            r#"{"echo":1}"#,
            r#"{"verbose":false} x"#,
            r#"{"name":[97]}"#,
        ] {
            assert!(read(json.as_bytes()).is_err(), "{json}");
        }
    }

    #[test]
    fn debug_prints_no_secret() {
        let json = br#"{"user":"u","pass":"hush1","auth_token":"hush2","jwt":"hush3","sig":"hush4","proxy_sig":"hush5"}"#;
        let options = read(json).unwrap();
        let text = format!("{options:?} {options:#?}");
        assert!(text.contains("\"u\"") && !text.contains("hush"), "{text}");
        assert_eq!(options.pass.as_deref(), Some("hush1"));
    }

    #[test]
    fn route_connect_is_written_in_the_order_of_the_reference_server() {
        let line = r#"{"echo":true,"verbose":false,"pedantic":false,"user":"u","pass":"p","tls_required":false,"headers":true,"name":"NDOV","cluster":"c1","lnoc":true}"#;
        let options = read(line.as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&options).unwrap(), line);
    }
}
