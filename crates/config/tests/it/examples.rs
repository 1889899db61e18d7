//! Every example configuration is accepted.

use config::flags::Overrides;
use config::load;

use crate::support::{Files, examples};

#[test]
fn every_example_is_accepted_without_a_warning() {
    for (path, _) in examples() {
        let path = path.to_str().unwrap();
        let loaded =
            load(&Files, Some(path), &Overrides::default()).unwrap_or_else(|errors| panic!("{errors:#?}"));
        assert!(loaded.warnings.is_empty(), "{path}: {:#?}", loaded.warnings);
        assert!(loaded.digest.unwrap().starts_with("sha256:"));
    }
}

#[test]
fn a_missing_file_is_an_error_with_its_name() {
    let errors = load(&Files, Some("/nonexistent/x.conf"), &Overrides::default()).unwrap_err();
    assert!(errors[0].to_string().starts_with("open /nonexistent/x.conf: "), "{errors:?}");
}
