//! What must hold for any text given to the configuration language.

use config::lang::{Source, parse, render};

/// Files and variables that an input can refer to.
struct World<'a>(&'a str);

impl Source for World<'_> {
    fn read(&self, path: &str) -> Result<String, String> {
        match path {
            "self.conf" => Ok(self.0.to_owned()),
            "other.conf" => Ok("x: 1\n".to_owned()),
            _ => Err(format!("{path} does not exist")),
        }
    }

    fn env(&self, name: &str) -> Option<String> {
        match name {
            "NUMBER" => Some("42".to_owned()),
            "ITSELF" => Some("[$ITSELF]".to_owned()),
            _ => None,
        }
    }
}

/// Parses `data`; what it means must survive being written and read again.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(tree) = parse(text, &World(text)) else { return };
    let written = render(&tree);
    match parse(&written, &World("")) {
        Ok(again) => assert_eq!(again, tree, "{written}"),
        Err(error) => panic!("{error:?} in {written}"),
    }
}
