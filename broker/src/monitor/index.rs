//! The page at the root: what there is to see, as links.

use std::fmt::Write as _;

use crate::server::{COMPATIBLE_VERSION, Server, VERSION};

/// Pages with a line of explanation.
const LINKS: [(&str, &str); 11] = [
    ("varz", "the server: identity, options in effect, counters"),
    ("connz", "client connections, open and closed"),
    ("routez", "connections to other servers of the cluster"),
    ("subsz", "subscriptions"),
    ("accountz", "accounts"),
    ("accstatz", "counters of accounts"),
    ("healthz", "health, for probes"),
    ("metrics", "the numbers of these pages for Prometheus"),
    ("gatewayz", "gateways (not served by this version)"),
    ("leafz", "leaf nodes (not served by this version)"),
    ("jsz", "JetStream: accounts, streams, consumers"),
];

/// The page. `base` is the path that stands before all pages, without a slash at its end.
pub(super) fn page(server: &Server, base: &str) -> String {
    let name = escape(&server.identity.name);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{name} - Myelin</title></head>\n<body>\n\
         <h1>Myelin {VERSION}</h1>\n<p>Server {name}, compatible with version {COMPATIBLE_VERSION}</p>\n<ul>\n"
    );
    let base = escape(base);
    for (path, about) in LINKS {
        // Writing into a string cannot fail.
        let _ = writeln!(html, "<li><a href=\"{base}/{path}\">{path}</a>: {about}</li>");
    }
    html.push_str("</ul>\n</body>\n</html>\n");
    html
}

/// A configured text must not become markup.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_do_not_become_markup() {
        assert_eq!(escape("<a \"&\">"), "&lt;a &quot;&amp;&quot;&gt;");
    }
}
