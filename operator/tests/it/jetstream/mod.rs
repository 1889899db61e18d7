//! Streams, consumers and buckets: a real API server, a real broker, and the operator between them with its own rights.

mod faults;
mod killed;
mod lifecycle;
mod nack;
mod policies;
mod restart;
mod scale;
mod security;

use ::crd::conditions;
use ::crd::jetstream::Account;
use kube::api::{Patch, PatchParams};
use operator::apply::Object;
use operator::jetstream::asset::{Asset, Status};
use serde_json::{Value, json};

use crate::support::broker::Broker;
use crate::support::world::World;
use crate::support::{LOOK, PATIENCE, until};

/// Applies an object of one of the kinds as a person would.
pub(crate) async fn apply<K: Object>(world: &World, name: &str, spec: Value) -> kube::Result<K> {
    apply_with(world, name, spec, json!({})).await
}

pub(crate) async fn apply_with<K: Object>(
    world: &World,
    name: &str,
    spec: Value,
    annotations: Value,
) -> kube::Result<K> {
    let object = json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()),
        "metadata": { "name": name, "annotations": annotations }, "spec": spec,
    });
    let parameters = PatchParams {
        field_validation: Some(kube::api::ValidationDirective::Strict),
        ..PatchParams::apply("person")
    };
    world.api::<K>().patch(name, &parameters, &Patch::Apply(&object)).await
}

/// An Account with its Secret, for account A of a broker.
pub(crate) async fn account(world: &World, name: &str, broker: &Broker) {
    world.secret("login", &[("user", "a"), ("password", "secret-a")]).await;
    let user = json!({ "secret": { "name": "login" }, "user": "user", "password": "password" });
    let spec = json!({ "name": name, "servers": [broker.url()], "user": user });
    apply::<Account>(world, name, spec).await.unwrap();
}

/// A stream on account `main`, with changes.
pub(crate) fn stream(name: &str, changes: Value) -> Value {
    merged(
        json!({ "name": name, "subjects": [format!("{name}.>")], "storage": "file", "account": "main" }),
        changes,
    )
}

/// A consumer on account `main`, with changes.
pub(crate) fn consumer(stream: &str, name: &str, changes: Value) -> Value {
    merged(
        json!({ "streamName": stream, "durableName": name, "ackPolicy": "explicit", "account": "main" }),
        changes,
    )
}

fn merged(mut base: Value, changes: Value) -> Value {
    let Value::Object(changes) = changes else { panic!("an object") };
    for (key, value) in changes {
        base[key] = value;
    }
    base
}

/// Whether a condition of the current generation says this.
fn says<K: Asset>(object: &K, type_: &str, status: &str, reason: &str) -> bool {
    let Some(report) = object.status().map(Status::report) else { return false };
    conditions::find(&report.conditions, type_).is_some_and(|found| {
        found.status == status
            && (reason.is_empty() || found.reason == reason)
            && found.observed_generation == object.meta().generation
    })
}

/// Waits until a condition of the current generation says this.
pub(crate) async fn until_says<K: Asset>(
    world: &World,
    name: &str,
    (type_, status, reason): (&str, &str, &str),
) -> K {
    let mut last = None;
    let mut looks = tokio::time::interval(LOOK);
    let found = tokio::time::timeout(PATIENCE, async {
        loop {
            looks.tick().await;
            let object = world.api::<K>().get(name).await.unwrap();
            if says(&object, type_, status, reason) {
                return object;
            }
            last = Some(object);
        }
    });
    found.await.unwrap_or_else(|_| {
        let told = last.and_then(|object| serde_json::to_string_pretty(object.status()?).ok());
        panic!("{name}: no {type_}={status} {reason}: {}", told.unwrap_or_default())
    })
}

pub(crate) async fn until_ready<K: Asset>(world: &World, name: &str) -> K {
    until_says(world, name, ("Ready", "True", "Ready")).await
}

/// Waits until an Account was logged in to.
pub(crate) async fn until_account(world: &World, name: &str) {
    until("the Account to be ready", async || {
        let account = world.api::<Account>().get(name).await.unwrap();
        let conditions = account.status?.report.conditions;
        conditions::find(&conditions, "Ready").filter(|ready| ready.status == "True").map(|_| ())
    })
    .await;
}

/// The message of a condition.
pub(crate) fn message<K: Asset>(object: &K, type_: &str) -> String {
    let report = object.status().unwrap().report();
    conditions::find(&report.conditions, type_).unwrap().message.clone()
}

/// Deletes an object and waits until it is gone.
pub(crate) async fn delete<K: Object>(world: &World, name: &str) {
    world.api::<K>().delete(name, &kube::api::DeleteParams::default()).await.unwrap();
    until_gone::<K>(world, name).await;
}

pub(crate) async fn until_gone<K: Object>(world: &World, name: &str) {
    until("the object to be gone", async || {
        world.api::<K>().get_opt(name).await.unwrap().is_none().then_some(())
    })
    .await;
}

/// A namespace with an operator, a broker and an Account `main` for it.
pub(crate) async fn world() -> (World, Broker) {
    let broker = Broker::start().await;
    let mut world = World::empty().await;
    account(&world, "main", &broker).await;
    world.start_operator().await;
    (world, broker)
}
