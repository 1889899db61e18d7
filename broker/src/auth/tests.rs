//! Who gets in, and with which rights.

use std::collections::BTreeMap;

use config::Source;

use super::*;

struct NoFiles;

impl Source for NoFiles {
    fn read(&self, path: &str) -> Result<String, String> {
        Err(format!("{path}: no files here"))
    }

    fn env(&self, _: &str) -> Option<String> {
        None
    }
}

fn authenticator(text: &str) -> Authenticator {
    let files: BTreeMap<&str, &str> = BTreeMap::from([("test.conf", text)]);
    struct One<'a>(BTreeMap<&'a str, &'a str>);
    impl Source for One<'_> {
        fn read(&self, path: &str) -> Result<String, String> {
            self.0.get(path).map(|text| (*text).to_owned()).ok_or_else(|| NoFiles.read(path).unwrap_err())
        }
        fn env(&self, _: &str) -> Option<String> {
            None
        }
    }
    let loaded = config::load(&One(files), Some("test.conf"), &config::flags::Overrides::default()).unwrap();
    let accounts = Registry::new(&loaded.options);
    Authenticator::new(&loaded.options, &accounts)
}

fn password(user: &str, password: &str) -> Presented {
    Presented { user: Some(user.into()), password: Some(Secret::new(password)), token: None }
}

#[tokio::test]
async fn without_credentials_configured_everybody_is_in_the_global_account() {
    let auth = authenticator("port: 4222");
    assert!(!auth.is_required());
    let grant = auth.authenticate(&password("any", "thing"), None).await.unwrap();
    assert_eq!(grant.account.name(), "$G");
}

#[tokio::test]
async fn a_user_needs_its_password_plain_or_hashed() {
    let hash = bcrypt::hash("s3cret", 4).unwrap();
    let auth = authenticator(&format!(
        "authorization {{ users = [ {{user: a, password: pw}}, {{user: b, password: \"{hash}\"}} ] }}"
    ));
    assert!(auth.is_required());
    assert!(auth.authenticate(&password("a", "pw"), None).await.is_ok());
    assert!(auth.authenticate(&password("b", "s3cret"), None).await.is_ok());
    for (user, wrong) in [("a", "pW"), ("a", ""), ("b", "s3creT"), ("b", &hash), ("c", "pw")] {
        assert_eq!(auth.authenticate(&password(user, wrong), None).await.unwrap_err(), Refusal::Violation);
    }
    assert!(auth.authenticate(&Presented::default(), None).await.is_err());
}

#[tokio::test]
async fn a_system_account_alone_makes_no_open_door() {
    let auth = authenticator(
        "authorization { users = [ {user: a, password: pw} ] }, accounts { SYS { users = [ {user: s, password: pw} ] } }, system_account: SYS",
    );
    assert!(auth.authenticate(&Presented::default(), None).await.is_err());
    assert_eq!(auth.authenticate(&password("s", "pw"), None).await.unwrap().account.name(), "SYS");
}

#[tokio::test]
async fn strangers_are_the_user_configured_for_them() {
    let auth = authenticator("accounts { A { users = [ {user: a, password: pw} ] } }, no_auth_user: a");
    assert!(auth.admits_strangers());
    assert_eq!(auth.authenticate(&Presented::default(), None).await.unwrap().account.name(), "A");
    assert!(auth.authenticate(&password("a", "no"), None).await.is_err());
}

#[tokio::test]
async fn whoever_may_only_answer_may_publish_nothing_else() {
    let auth = authenticator(
        "authorization { users = [ {user: a, password: pw, permissions: {subscribe: foo, allow_responses: true}} ] }",
    );
    let binding = auth.authenticate(&password("a", "pw"), None).await.unwrap().into_binding();
    assert!(binding.responses.is_some());
    assert!(!binding.permissions.unwrap().can_publish(b"foo"));
}
