//! For each of the five kinds: the operator is killed before its first write, its second, and so on, in a life of creation, change
//! and deletion. The one that follows finishes every time.

use std::sync::Arc;

use ::crd::jetstream::{Account, Consumer, KeyValue, ObjectStore, Stream};
use kube::api::DeleteParams;
use operator::apply::{Failpoint, Object};
use serde_json::{Value, json};

use super::{account, apply, consumer, stream};
use crate::support::broker::{Broker, Person};
use crate::support::until;
use crate::support::world::{World, context};

/// Writes of the longest life; a bound for the loop, checked at its end.
const WRITES_MAX: u64 = 30;
/// Name of the object.
const NAME: &str = "x";

/// The life of an object.
struct Life {
    created: Value,
    changed: Value,
    /// The description of what it manages, as it is on the server; `None` when there is nothing there.
    description: Description,
    /// Writes that it takes at least, so that a walk over fewer is noticed.
    writes: u64,
    /// What it manages stays when it goes.
    stays: bool,
}

/// Where a description is on the server.
enum Description {
    Stream(&'static str),
    Consumer,
    None,
}

impl Description {
    async fn read(&self, person: &Person) -> Option<String> {
        match self {
            Self::Stream(name) => person.js().stream(name).await.unwrap().map(|info| info.config.description),
            Self::Consumer => {
                let info = person.js().consumer("base", NAME).await.unwrap();
                info.map(|info| info.config.unwrap().description)
            }
            Self::None => None,
        }
    }
}

/// Whether the last pass saw the current spec and was content.
fn is_ready<K: Object>(object: &K) -> bool {
    let object = serde_json::to_value(object).unwrap();
    let generation = &object["metadata"]["generation"];
    object["status"]["conditions"].as_array().is_some_and(|conditions| {
        conditions.iter().any(|condition| {
            condition["type"] == "Ready"
                && condition["status"] == "True"
                && condition["observedGeneration"] == *generation
        })
    })
}

/// Whether a step of the life has come to its end: what there should be is there.
async fn has_ended<K: Object>(world: &World, person: &Person, life: &Life, expected: Option<&str>) -> bool {
    let object = world.api::<K>().get_opt(NAME).await.unwrap();
    let Some(expected) = expected else { return object.is_none() };
    let described = matches!(life.description, Description::None)
        || life.description.read(person).await.as_deref() == Some(expected);
    described && object.as_ref().is_some_and(is_ready)
}

/// Lives through creation, change and deletion with an operator that is killed before one of its writes. Returns how many it was asked for
/// when that one never came.
async fn live<K: Object>(broker: &Broker, life: &Life, stop_before: u64) -> Option<u64> {
    let person = broker.person("a");
    let mut world = World::empty().await;
    account(&world, "main", broker).await;
    let failpoint = Failpoint::new(stop_before);
    // The Account of the others has passes and writes of its own: those are made beforehand.
    if !matches!(life.description, Description::None) {
        world.start_operator().await;
        super::until_account(&world, "main").await;
        world.kill_operator();
    }
    world.run_operator(context(&world.namespace, Some(Arc::clone(&failpoint))).await);
    let mut alive = true;
    for (spec, expected) in
        [(Some(&life.created), Some("one")), (Some(&life.changed), Some("two")), (None, None)]
    {
        match spec {
            Some(spec) => drop(apply::<K>(&world, NAME, spec.clone()).await.unwrap()),
            None => drop(world.api::<K>().delete(NAME, &DeleteParams::default()).await.unwrap()),
        }
        if alive {
            alive = until("the end of the step, or of the operator", async || {
                if failpoint.writes() >= stop_before {
                    return Some(false);
                }
                has_ended::<K>(&world, &person, life, expected).await.then_some(true)
            })
            .await;
            if !alive {
                world.kill_operator();
                world.start_operator().await;
            }
        }
        until("the end of the step", async || {
            has_ended::<K>(&world, &person, life, expected).await.then_some(())
        })
        .await;
    }
    let left = life.description.read(&person).await;
    assert_eq!(left.is_some(), life.stays, "killed before write {stop_before}: {left:?}");
    if let (Description::Stream(name), true) = (&life.description, life.stays) {
        let config = person.js().stream(name).await.unwrap().unwrap().config;
        assert!(!config.metadata.contains_key("myelin.dev/owner"), "killed before write {stop_before}");
        person.js().delete_stream(name).await.unwrap();
    }
    alive.then(|| failpoint.writes())
}

/// Walks over all writes of a life.
async fn walk<K: Object>(broker: &Broker, life: Life) {
    for stop_before in 1..WRITES_MAX {
        if let Some(writes) = live::<K>(broker, &life, stop_before).await {
            assert!(writes >= life.writes, "a life of only {writes} writes");
            return;
        }
    }
    panic!("a life of more than {WRITES_MAX} writes");
}

fn with(mut spec: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

#[tokio::test]
async fn a_stream_survives_every_death_of_its_operator() {
    let broker = Broker::start().await;
    let spec = |text: &str| stream("s", json!({ "description": text }));
    let life = Life {
        created: spec("one"),
        changed: spec("two"),
        description: Description::Stream("s"),
        // Finalizer, stream, status; stream, status; stream, finalizer.
        writes: 7,
        stays: false,
    };
    walk::<Stream>(&broker, life).await;
}

#[tokio::test]
async fn a_stream_that_is_retained_survives_every_death_of_its_operator() {
    let broker = Broker::start().await;
    let spec = |text: &str| stream("s", json!({ "description": text, "deletionPolicy": "Retain" }));
    let life = Life {
        created: spec("one"),
        changed: spec("two"),
        description: Description::Stream("s"),
        writes: 7,
        stays: true,
    };
    walk::<Stream>(&broker, life).await;
}

#[tokio::test]
async fn a_consumer_that_is_made_anew_survives_every_death_of_its_operator() {
    let broker = Broker::start().await;
    let base = json!({ "name": "base", "subjects": ["base.>"] });
    broker.person("a").js().put_stream("CREATE", "base", &base).await.unwrap();
    let spec = |text: &str, waiting: u32| {
        let more = json!({ "description": text, "maxWaiting": waiting, "updateStrategy": "Recreate" });
        consumer("base", NAME, more)
    };
    let life = Life {
        created: spec("one", 5),
        // No server changes this in place.
        changed: spec("two", 6),
        description: Description::Consumer,
        // Finalizer, consumer, status; deletion, status, consumer, status; consumer, finalizer.
        writes: 8,
        stays: false,
    };
    walk::<Consumer>(&broker, life).await;
}

#[tokio::test]
async fn buckets_survive_every_death_of_their_operator() {
    let broker = Broker::start().await;
    let spec = |text: &str| json!({ "bucket": "b", "description": text, "account": "main" });
    let life = |name| Life {
        created: spec("one"),
        changed: spec("two"),
        description: Description::Stream(name),
        writes: 7,
        stays: false,
    };
    walk::<KeyValue>(&broker, life("KV_b")).await;
    walk::<ObjectStore>(&broker, life("OBJ_b")).await;
}

#[tokio::test]
async fn an_account_survives_every_death_of_its_operator() {
    let broker = Broker::start().await;
    let user = json!({ "secret": { "name": "login" }, "user": "user", "password": "password" });
    let spec = json!({ "name": "one", "servers": [broker.url()], "user": user });
    let life = Life {
        changed: with(spec.clone(), &json!({ "name": "two" })),
        created: spec,
        description: Description::None,
        // Finalizer, status; status; finalizer.
        writes: 4,
        stays: false,
    };
    walk::<Account>(&broker, life).await;
}
