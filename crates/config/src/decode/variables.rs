//! Keys that only hold values for variables.

use crate::lang::{Kind, Map, Value};
use crate::schema::{self, Section};

/// Takes out the keys that variables referred to and that mean nothing else. A tree that was parsed needs this before
/// it is rendered: its variables are replaced by their values, so nothing would excuse those keys any more.
pub fn strip_variables(tree: &mut Value) {
    strip(tree, Some(Section::Top));
}

fn strip(value: &mut Value, section: Option<Section>) {
    match &mut value.kind {
        Kind::Array(values) => values.iter_mut().for_each(|value| strip(value, section)),
        Kind::Map(map) => strip_map(map, section),
        _ => {}
    }
}

fn strip_map(map: &mut Map, section: Option<Section>) {
    // The keys of other maps are free.
    let Some(section) = section else { return };
    map.retain(|written, entry| schema::find(section, written).is_some() || !entry.is_referenced);
    for (written, entry) in map.iter_mut() {
        let Some(key) = schema::find(section, written) else { continue };
        if (section, key.name) == (Section::Top, "accounts") {
            if let Some(accounts) = entry.value.as_map_mut() {
                accounts.retain(|_, account| account.value.as_map().is_some() || !account.is_referenced);
                accounts
                    .iter_mut()
                    .for_each(|(_, account)| strip(&mut account.value, Some(Section::Account)));
            }
        } else {
            strip(&mut entry.value, below(section, key.name));
        }
    }
}

/// The section of the maps that are values of a key; `None` if there are none, or their keys are free.
fn below(section: Section, name: &str) -> Option<Section> {
    Some(match (section, name) {
        (Section::Top, "authorization") => Section::Authorization,
        (Section::Top, "cluster") => Section::Cluster,
        (Section::Top | Section::Cluster, "tls") => Section::Tls,
        (Section::Tls, "certs") => Section::Certificate,
        (Section::Authorization | Section::Account, "users") => Section::User,
        (Section::Authorization | Section::Account | Section::ClusterAuthorization, _)
            if name.ends_with("permissions") =>
        {
            Section::Permissions
        }
        (Section::User | Section::Cluster, "permissions") => Section::Permissions,
        (Section::Permissions, "allow_responses") => Section::Responses,
        (Section::Permissions, _) => Section::SubjectPermission,
        (Section::Account, "limits") => Section::AccountLimits,
        (Section::Cluster, "authorization") => Section::ClusterAuthorization,
        (Section::Cluster, "compression") => Section::Compression,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::{Source, parse, render};
    use crate::{flags::Overrides, load_tree};

    struct Nothing;

    impl Source for Nothing {
        fn read(&self, path: &str) -> Result<String, String> {
            Err(path.into())
        }

        fn env(&self, _: &str) -> Option<String> {
            None
        }
    }

    #[test]
    fn a_rendered_tree_without_its_variables_means_the_same() {
        let text = "p: 5222, port: $p, http_port: $port\nperm { pub: x }\nserver_metadata { a: b, c: $a }\n\
                    accounts { pw: s, A { users: [{ me: u, user: $me, password: $pw, permissions: $perm }] }, B: $A }\n\
                    cluster { h: h1, host: $h, port: 1, tls { f: c, cert_file: $f, key_file: $f } }";
        // The same user in two accounts would be refused.
        let text = text.replace(", B: $A", "");
        let tree = parse(&text, &Nothing).unwrap();
        let mut stripped = tree.clone();
        strip_variables(&mut stripped);
        let rendered = render(&stripped);
        for name in ["p:", "perm:", "pw:", "me:", "h:", "f:"] {
            assert!(
                !rendered.lines().any(|line| line.trim_start().starts_with(name)),
                "{name} in\n{rendered}"
            );
        }
        let again = parse(&rendered, &Nothing).unwrap();
        let load = |tree: &Value| load_tree(tree, None, &Overrides::default()).unwrap().options;
        assert_eq!(load(&again), load(&tree));
    }

    #[test]
    fn what_means_something_stays() {
        let mut tree =
            parse("port: 1, http_port: $port, accounts { A {}, B: $A }, nope: 1", &Nothing).unwrap();
        let before = tree.clone();
        strip_variables(&mut tree);
        assert_eq!(tree, before);
    }
}
