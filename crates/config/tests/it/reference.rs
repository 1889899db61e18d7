//! The option reference under `docs/` is the one made from the table of options.

use crate::support::repository;

#[test]
fn the_option_reference_is_up_to_date() {
    let path = repository("docs/reference/options.md");
    let made = config::schema::reference();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == made,
        "{} differs from the table of options; run the test with UPDATE=1",
        path.display()
    );
}
