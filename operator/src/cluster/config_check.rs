//! The rendered configuration through the server's own reader: what it would refuse never leaves the operator, and
//! what it would only take from a new process is known before anybody asks it.

use config::flags::{self, Overrides};
use config::lang::{self, Source};
use config::{Options, ReloadClass};

use crate::error::Error;

/// Stands for every option when the old configuration cannot be read any more.
const UNREADABLE: &str = "(the earlier configuration cannot be read)";
/// Options named in a status.
const FIELDS_MAX: usize = 64;

/// Rendered text includes no file and asks for no variable.
struct Nothing;

impl Source for Nothing {
    fn read(&self, path: &str) -> Result<String, String> {
        Err(format!("{path}: a rendered configuration includes no file"))
    }

    fn env(&self, _: &str) -> Option<String> {
        None
    }
}

/// Reads a configuration as a server would.
///
/// # Errors
/// Everything that the server would refuse.
pub fn load(text: &str) -> Result<Options, Error> {
    let refuse = |problems: Vec<String>| Error::Config(problems.join("; "));
    let tree = lang::parse(text, &Nothing).map_err(|problem| refuse(vec![problem.message]))?;
    // Each server gets its name on its command line, and JetStream asks for one.
    let overrides = flags::parse_args(&["--name", "server"])
        .map_or_else(|_| Overrides::default(), |command_line| command_line.overrides);
    config::load_tree(&tree, None, &overrides)
        .map(|loaded| loaded.options)
        // Places in a rendered text help nobody; the messages name the options.
        .map_err(|problems| refuse(problems.into_iter().map(|problem| problem.message).collect()))
}

/// Options that changed and that a running server cannot take.
#[must_use]
pub fn restart_fields(old: &str, new: &Options) -> Vec<String> {
    let Ok(old) = load(old) else {
        return vec![UNREADABLE.to_owned()];
    };
    config::diff(&old, new)
        .into_iter()
        .filter(|change| change.class != ReloadClass::Hot)
        .map(|change| change.path)
        .take(FIELDS_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_refuses_is_refused_with_its_words() {
        let text = load("max_payload: 100\nmax_pending: 10\n").unwrap_err().to_string();
        assert!(text.contains("max_payload"), "{text}");
        assert!(load("colour: red\n").is_err());
    }

    #[test]
    fn only_what_needs_a_new_process_counts() {
        let new = load("debug: true\nmax_pending: 2000000\nmax_payload: 1000\n").unwrap();
        assert_eq!(restart_fields("max_pending: 2000000\nmax_payload: 1000\n", &new), Vec::<String>::new());
        assert_eq!(restart_fields("max_pending: 1000000\nmax_payload: 1000\n", &new), ["max_pending"]);
        assert_eq!(restart_fields("}", &new), [UNREADABLE]);
    }
}
