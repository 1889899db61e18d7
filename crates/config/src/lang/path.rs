//! Paths of included files, as text: this crate touches no file system.

/// `path` as seen from the directory of `from`, without `.` and `..` where that can be told from the text.
pub(super) fn resolve(from: &str, path: &str) -> String {
    let joined = match from.rsplit_once('/') {
        Some((directory, _)) if !path.starts_with('/') => format!("{directory}/{path}"),
        _ => path.to_owned(),
    };
    normalize(&joined)
}

/// Drops `.`, empty parts, and `..` with the part before it.
pub(super) fn normalize(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if path.starts_with('/') => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if path.starts_with('/') { format!("/{joined}") } else { joined }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_included_path_is_relative_to_the_including_file() {
        for (from, path, expected) in [
            ("/etc/nats/nats.conf", "./auth.conf", "/etc/nats/auth.conf"),
            ("/etc/nats/nats.conf", "../auth.conf", "/etc/auth.conf"),
            ("/etc/nats/nats.conf", "/a/b.conf", "/a/b.conf"),
            ("conf/nats.conf", "sub//auth.conf", "conf/sub/auth.conf"),
            ("nats.conf", "auth.conf", "auth.conf"),
            ("nats.conf", "../auth.conf", "../auth.conf"),
            ("", "auth.conf", "auth.conf"),
            ("/nats.conf", "../../auth.conf", "/auth.conf"),
        ] {
            assert_eq!(resolve(from, path), expected, "{path} from {from}");
        }
    }
}
