//! Who gets in, and with which rights.

use std::collections::BTreeMap;

use config::lang::Source;

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

fn options(text: &str) -> Options {
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
    config::load(&One(files), Some("test.conf"), &config::flags::Overrides::default()).unwrap().options
}

fn authenticator(text: &str) -> Authenticator {
    let options = options(text);
    Authenticator::new(&options, &Registry::new(&options))
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

/// What becomes of a connection of user `a` (or with a token) when the first configuration is replaced by the second.
async fn renewed(presented: &Presented, before: &str, after: &str) -> Renewal {
    let (before, after) = (options(before), options(after));
    let accounts = Registry::new(&before);
    let old = Authenticator::new(&before, &accounts);
    let binding = old.authenticate(presented, None).await.unwrap().into_binding();
    accounts.update(&after);
    Authenticator::new(&after, &accounts).renew(&old, presented, None, &binding).await
}

#[tokio::test]
async fn a_reload_leaves_alone_whom_it_does_not_concern() {
    let hash = bcrypt::hash("pw", 4).unwrap();
    let users = format!("accounts {{ A {{ users = [ {{user: a, password: \"{hash}\"}} ] }} }}");
    let more = users.replace("users = [", "users = [ {user: b, password: pw}, ");
    assert!(matches!(renewed(&password("a", "pw"), &users, &more).await, Renewal::Unchanged));
    let token = Presented { token: Some(Secret::new("t")), ..Presented::default() };
    let text = "authorization { token: t }";
    assert!(matches!(renewed(&token, text, text).await, Renewal::Unchanged));
}

#[tokio::test]
async fn a_reload_refuses_what_is_no_longer_good() {
    let users =
        "accounts { A { users = [ {user: a, password: pw} ] }, B { users = [ {user: b, password: pw} ] } }";
    let refused =
        renewed(&password("a", "pw"), users, &users.replace("a, password: pw", "a, password: other")).await;
    assert!(matches!(refused, Renewal::Refused(Refusal::Violation)));
    let typed = users.replace("a, password: pw", "a, password: pw, allowed_connection_types: [MQTT]");
    assert!(matches!(
        renewed(&password("a", "pw"), users, &typed).await,
        Renewal::Refused(Refusal::ConnectionType)
    ));
    let token = Presented { token: Some(Secret::new("t")), ..Presented::default() };
    let refused = renewed(&token, "authorization { token: t }", "authorization { token: u }").await;
    assert!(matches!(refused, Renewal::Refused(Refusal::Violation)));
    let refused = renewed(&Presented::default(), "port: 4222", "authorization { token: u }").await;
    assert!(matches!(refused, Renewal::Refused(Refusal::Violation)));
}

#[tokio::test]
async fn users_that_are_gone_or_moved_are_told_apart_from_refused_ones() {
    let users =
        "accounts { A { users = [ {user: a, password: pw} ] }, B { users = [ {user: b, password: pw} ] } }";
    for after in [
        users.replace("user: a", "user: c"),
        users.replace("user: a", "user: c").replace("user: b", "user: a"),
        "accounts { B { users = [ {user: b, password: pw} ] } }".to_owned(),
    ] {
        assert!(matches!(renewed(&password("a", "pw"), users, &after).await, Renewal::Gone), "{after}");
    }
}

#[tokio::test]
async fn changed_rights_keep_open_rights_to_answer() {
    let text = |rights: &str| {
        format!("authorization {{ users = [ {{user: a, password: pw, permissions: {{ {rights} }} }} ] }}")
    };
    let before = text("subscribe: foo, allow_responses: true");
    assert!(matches!(renewed(&password("a", "pw"), &before, &before).await, Renewal::Unchanged));
    let after = renewed(&password("a", "pw"), &before, &text("subscribe: bar, allow_responses: true")).await;
    let Renewal::Changed(binding) = after else { panic!("{after:?}") };
    assert!(!binding.permissions.unwrap().can_subscribe(b"foo", None) && binding.responses.is_some());
    let after = renewed(&password("a", "pw"), &before, &text("subscribe: foo")).await;
    let Renewal::Changed(binding) = after else { panic!("{after:?}") };
    assert!(binding.responses.is_none());
}
