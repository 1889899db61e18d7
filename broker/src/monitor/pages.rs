//! From a path and its query to a page.

use api::json::{to_vec, to_vec_pretty};
use api::monitor::{
    AccountzOptions, AccstatzOptions, ConnzOptions, HealthzOptions, JszOptions, RoutezOptions, SubszOptions,
};
use api::query::{Query, QueryError};
use serde::Serialize;

use super::{PageError, accounts, connz, health, index, jsz, links, metrics, routez, subsz, varz};
use crate::server::Server;

/// Type of documents.
pub(super) const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// An answer.
#[derive(Debug)]
pub(super) struct Page {
    /// HTTP status.
    pub(super) status: u16,
    /// What the body is.
    pub(super) content_type: &'static str,
    /// The body.
    pub(super) body: Vec<u8>,
}

type Handler = fn(&Server, &Query<'_>) -> Result<Page, PageError>;

/// Every page by its path.
const PAGES: [(&str, Handler); 13] = [
    ("/", |server, _| {
        Ok(Page::ok(
            HTML,
            index::page(server, base_path(&server.options().monitoring.http_base_path)).into_bytes(),
        ))
    }),
    ("/varz", |server, _| document(&varz::varz(server))),
    ("/connz", |server, query| document(&connz::connz(server, &ConnzOptions::from_query(query)?)?)),
    ("/routez", |server, query| document(&routez::routez(server, &RoutezOptions::from_query(query)?))),
    ("/subsz", |server, query| document(&subsz::subsz(server, &SubszOptions::from_query(query)?)?)),
    ("/subscriptionsz", |server, query| document(&subsz::subsz(server, &SubszOptions::from_query(query)?)?)),
    ("/accountz", |server, query| {
        document(&accounts::accountz(server, &AccountzOptions::from_query(query))?)
    }),
    ("/accstatz", |server, query| {
        document(&accounts::accstatz(server, &AccstatzOptions::from_query(query)?))
    }),
    (HEALTHZ, healthz),
    ("/gatewayz", |server, query| {
        check(query, "accs")?;
        query.subscriptions()?;
        document(&links::gatewayz(server))
    }),
    ("/leafz", |server, query| {
        check(query, "subs")?;
        document(&links::leafz(server))
    }),
    ("/jsz", |server, query| document(&jsz::jsz(server, &JszOptions::from_query(query)?)?)),
    ("/metrics", |server, query| {
        let detail = metrics::Detail::from_query(query)?;
        Ok(Page::ok(metrics::CONTENT_TYPE, metrics::page(server, detail).into_bytes()))
    }),
];

/// The page that must answer when all others are busy.
pub(super) const HEALTHZ: &str = "/healthz";

impl Page {
    fn ok(content_type: &'static str, body: Vec<u8>) -> Self {
        Self { status: 200, content_type, body }
    }

    /// A refusal in words.
    pub(super) fn text(status: u16, text: &str) -> Self {
        Self { status, content_type: TEXT, body: text.as_bytes().to_vec() }
    }
}

/// The page's own name for `path`, if there is such a page below `base`.
pub(super) fn find(base: &str, path: &str) -> Option<&'static str> {
    let rest = path.strip_prefix(base_path(base))?;
    let rest = if rest.is_empty() { "/" } else { rest };
    PAGES.iter().map(|(name, _)| *name).find(|name| *name == rest)
}

/// Makes the page that `find` has named.
pub(super) fn make(server: &Server, name: &'static str, query: &str) -> Page {
    let Some((_, handler)) = PAGES.iter().find(|(candidate, _)| *candidate == name) else {
        unreachable!("a page that was found");
    };
    server.monitoring.count(name);
    match handler(server, &Query::parse(query)) {
        Ok(page) => page,
        Err(error @ PageError::Encode(_)) => Page::text(500, &error.to_string()),
        Err(error @ PageError::Busy) => Page::text(503, &error.to_string()),
        Err(error) => Page::text(400, &error.to_string()),
    }
}

/// What stands before the pages: nothing, or a path without a slash at its end.
fn base_path(configured: &str) -> &str {
    configured.trim_end_matches('/')
}

fn document<T: Serialize>(document: &T) -> Result<Page, PageError> {
    Ok(Page::ok(JSON, to_vec_pretty(document)?))
}

/// The value of an option that has no effect must still be good.
fn check(query: &Query<'_>, boolean: &'static str) -> Result<(), QueryError> {
    query.boolean(boolean).map(drop)
}

fn healthz(server: &Server, query: &Query<'_>) -> Result<Page, PageError> {
    let health = health::healthz(server, &HealthzOptions::from_query(query)?);
    let status = health.status_code;
    Ok(Page { status, content_type: JSON, body: to_vec(&health.without_status_code())? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_below_the_base_path_only() {
        assert_eq!(find("/", "/varz"), Some("/varz"));
        assert_eq!(find("/", "/"), Some("/"));
        assert_eq!(find("/", "/varz/"), None);
        assert_eq!(find("/nats", "/nats/varz"), Some("/varz"));
        assert_eq!(find("/nats/", "/nats"), Some("/"));
        assert_eq!(find("/nats", "/nats/"), Some("/"));
        assert_eq!(find("/nats", "/varz"), None);
        assert_eq!(find("/nats", "/natsvarz"), None);
    }
}
