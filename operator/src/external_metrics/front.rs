//! Who stands in front: the certificate that the API server shows when it passes a request on, and the headers in which it names the caller.

use std::collections::BTreeMap;

use hyper::HeaderMap;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::query::{GROUP, Query, VERSION, decoded};
use crate::error::Error;

/// Groups of a caller at most.
const GROUPS_MAX: usize = 1024;

/// What the API server publishes about itself in the ConfigMap `extension-apiserver-authentication`.
#[derive(Clone, Debug)]
pub struct Front {
    /// Authorities that sign its certificate.
    pub authorities: Vec<CertificateDer<'static>>,
    /// Names that the certificate may have; any when empty.
    names: Vec<String>,
    user_headers: Vec<String>,
    group_headers: Vec<String>,
    extra_prefixes: Vec<String>,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Name of the user.
    pub user: String,
    /// Groups of the user.
    pub groups: Vec<String>,
    /// What else is known of the user.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Front {
    /// Reads the ConfigMap.
    ///
    /// # Errors
    /// When it does not say how to know the API server: then nobody is believed.
    pub fn of(data: &BTreeMap<String, String>) -> Result<Self, Error> {
        let text = |key: &str| {
            data.get(key)
                .ok_or_else(|| Error::Certificate(format!("extension-apiserver-authentication has no {key}")))
        };
        let list = |key: &str| -> Result<Vec<String>, Error> {
            serde_json::from_str(text(key)?).map_err(|error| {
                Error::Certificate(format!("extension-apiserver-authentication, {key}: {error}"))
            })
        };
        let authorities: Vec<_> =
            CertificateDer::pem_slice_iter(text("requestheader-client-ca-file")?.as_bytes())
                .collect::<Result<_, _>>()
                .map_err(|error| Error::Certificate(error.to_string()))?;
        let front = Self {
            authorities,
            names: list("requestheader-allowed-names")?,
            user_headers: list("requestheader-username-headers")?,
            group_headers: list("requestheader-group-headers")?,
            extra_prefixes: list("requestheader-extra-headers-prefix")?,
        };
        if front.authorities.is_empty() || front.user_headers.is_empty() {
            return Err(Error::Certificate("extension-apiserver-authentication names nobody".to_owned()));
        }
        Ok(front)
    }

    /// Whether a certificate, which one of the authorities signed, is that of the API server.
    #[must_use]
    pub fn admits(&self, certificate: &[u8]) -> bool {
        let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
        if self.names.is_empty() {
            return true;
        }
        certificate
            .subject()
            .iter_common_name()
            .filter_map(|name| name.as_str().ok())
            .any(|name| self.names.iter().any(|allowed| allowed == name))
    }

    /// Who asks; `None` when the headers name nobody.
    #[must_use]
    pub fn caller(&self, headers: &HeaderMap) -> Option<Caller> {
        let all = |name: &str| {
            headers.get_all(name).iter().filter_map(|value| Some(value.to_str().ok()?.to_owned()))
        };
        let user = self.user_headers.iter().find_map(|name| all(name).find(|user| !user.is_empty()))?;
        let groups = self.group_headers.iter().flat_map(|name| all(name)).take(GROUPS_MAX).collect();
        let mut extra = BTreeMap::<String, Vec<String>>::new();
        for (name, value) in headers {
            let key = self.extra_prefixes.iter().find_map(|prefix| {
                name.as_str().strip_prefix(&prefix.to_ascii_lowercase()).filter(|key| !key.is_empty())
            });
            if let (Some(key), Ok(value)) = (key, value.to_str()) {
                extra
                    .entry(decoded(key).unwrap_or_else(|| key.to_owned()))
                    .or_default()
                    .push(value.to_owned());
            }
        }
        Some(Caller { user, groups, extra })
    }
}

/// Whether the API server lets a caller read a value.
///
/// # Errors
/// When it does not answer.
pub async fn is_allowed(client: &Client, caller: &Caller, query: &Query) -> Result<bool, Error> {
    let attributes = ResourceAttributes {
        namespace: Some(query.namespace.clone()),
        // A request without a name of an object lists, whatever comes back.
        verb: Some("list".to_owned()),
        group: Some(GROUP.to_owned()),
        version: Some(VERSION.to_owned()),
        resource: Some(query.metric.name().to_owned()),
        ..ResourceAttributes::default()
    };
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(caller.user.clone()),
            groups: Some(caller.groups.clone()),
            extra: Some(caller.extra.clone()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed && status.denied != Some(true)))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::cluster::tls;

    fn data(names: &str) -> (BTreeMap<String, String>, tls::KeyedCertificate) {
        let authority = tls::new_authority("front", Timestamp::now()).unwrap();
        let entries = [
            ("requestheader-client-ca-file", authority.certificate.as_str()),
            ("requestheader-allowed-names", names),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
        ];
        (entries.map(|(key, value)| (key.to_owned(), value.to_owned())).into(), authority)
    }

    #[test]
    fn only_a_certificate_of_an_allowed_name_speaks_for_others() {
        let certificate = |authority| {
            let issued = tls::issue(authority, &["x".to_owned()], Timestamp::now()).unwrap();
            CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap().to_vec()
        };
        // What our authority issues has this common name.
        let (entries, authority) = data(r#"["front-proxy", "nats"]"#);
        assert!(Front::of(&entries).unwrap().admits(&certificate(&authority)));
        let (entries, authority) = data(r#"["front-proxy"]"#);
        assert!(!Front::of(&entries).unwrap().admits(&certificate(&authority)));
        let (entries, authority) = data("[]");
        assert!(Front::of(&entries).unwrap().admits(&certificate(&authority)));
        assert!(!Front::of(&entries).unwrap().admits(b"nonsense"));
    }

    #[test]
    fn headers_name_the_caller() {
        let front = Front::of(&data("[]").0).unwrap();
        let mut headers = HeaderMap::new();
        assert_eq!(front.caller(&headers), None);
        for (name, value) in [
            ("x-remote-user", "hpa"),
            ("x-remote-group", "a"),
            ("x-remote-group", "b"),
            ("x-remote-extra-example.com%2fscopes", "s"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        let caller = front.caller(&headers).unwrap();
        assert_eq!((caller.user.as_str(), caller.groups.len()), ("hpa", 2));
        assert_eq!(caller.extra["example.com/scopes"], ["s"]);
    }

    #[test]
    fn without_an_authority_nobody_is_believed() {
        let (full, _) = data("[]");
        for key in full.keys() {
            let mut entries = full.clone();
            entries.remove(key);
            assert!(Front::of(&entries).is_err(), "without {key}");
        }
        let mut entries = full;
        entries.insert("requestheader-client-ca-file".to_owned(), String::new());
        assert!(Front::of(&entries).is_err());
    }
}
