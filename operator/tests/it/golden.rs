//! Configuration and objects of sample clusters, held as files. `UPDATE=1` writes them again; a change of what
//! clusters are made of is then reviewed as a text diff.
//!
//! The pod template in them is what running clusters have: a change there restarts every server at the next upgrade
//! of the operator.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ::crd::NatsCluster;
use ::crd::nats_cluster::sizes::sizes;
use operator::cluster::credentials::manager_user;
use operator::cluster::render::{self, Inputs, Login, RouteLogin};
use operator::cluster::{config_check, files, jetstream};
use operator::objects::identity::Identity;
use operator::objects::{policies, services, stateful_set};
use serde::Serialize;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/testdata")
}

fn compare(name: &str, text: &str) {
    let path = folder().join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{} differs; UPDATE=1 writes it again", path.display());
}

fn sample(name: &str) -> (Identity, NatsCluster) {
    let text = std::fs::read_to_string(folder().join(format!("{name}.yaml"))).unwrap();
    let mut cluster: NatsCluster = serde_yaml::from_str(&text).unwrap();
    cluster.metadata.namespace = Some("prod".to_owned());
    cluster.metadata.uid = Some("uid-1".to_owned());
    (Identity::of(&cluster).unwrap(), cluster)
}

fn check(name: &str) {
    let (identity, cluster) = sample(name);
    let users = cluster.spec.auth.accounts.iter().flat_map(|account| &account.users);
    let managers = cluster.spec.auth.accounts.iter().map(|account| manager_user(&account.name));
    let passwords: BTreeMap<String, String> = users
        .map(|user| user.name.clone())
        .chain(managers)
        .map(|user| (user.clone(), format!("bcrypt of {user}")))
        .collect();
    let jetstream = cluster.jetstream().map(|settings| jetstream::Inputs {
        sizes: sizes(&cluster.spec, settings, None).unwrap(),
        key: Some("the \"key\"".to_owned()),
        previous_key: Some("the key before".to_owned()),
    });
    let tls = files::tls(&identity, &cluster);
    let routes = cluster
        .spec
        .routes
        .auth_secret_ref
        .as_ref()
        .map(|_| RouteLogin { user: "routes".to_owned(), password: "p@ss".to_owned() });
    let rendered = render::render(
        &identity,
        &cluster,
        &Inputs {
            servers: cluster.spec.replicas,
            cluster_domain: "cluster.local",
            operator: &Login {
                user: "myelin-operator".to_owned(),
                hash: "bcrypt of the operator".to_owned(),
            },
            passwords: &passwords,
            routes: routes.as_ref(),
            tls: &tls,
            certificates_hash: "c",
            jetstream: jetstream.as_ref(),
        },
    )
    .unwrap();
    config_check::load(&rendered.text).unwrap();
    compare(&format!("{name}.conf"), &rendered.text);

    let image = cluster.spec.image.as_ref().and_then(|image| image.reference());
    let inputs = stateful_set::Inputs {
        replicas: cluster.spec.replicas,
        image: image.as_deref().unwrap_or("myelin/broker:test"),
        restart_hash: "r",
        tls: &tls,
        claim_size: None,
    };
    let mut text = String::new();
    document(&mut text, &stateful_set::build(&identity, &cluster, &inputs));
    document(&mut text, &services::headless(&identity, &cluster));
    document(&mut text, &services::client(&identity, &cluster));
    document(&mut text, &services::service_account(&identity, &cluster));
    document(&mut text, &policies::disruption_budget(&identity, &cluster, true));
    compare(&format!("{name}.objects.yaml"), &text);
}

fn document(text: &mut String, object: &impl Serialize) {
    text.push_str("---\n");
    text.push_str(&serde_yaml::to_string(object).unwrap());
}

#[test]
fn a_small_cluster() {
    check("small");
}

#[test]
fn a_cluster_that_sets_everything() {
    check("everything");
}

#[test]
fn an_open_cluster() {
    check("open");
}

#[test]
fn a_server_with_streams() {
    check("streams");
}

#[test]
fn a_server_with_streams_and_all_their_settings() {
    check("streams-everything");
}
