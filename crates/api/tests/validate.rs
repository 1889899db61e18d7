//! Configurations and what the reference says of them.
//!
//! The files in `testdata/validate` were recorded from it: each case is a request with the error or the resulting
//! configuration. Every difference is listed, not only the first.

#![allow(clippy::unwrap_used, reason = "helpers of tests sit outside test functions")]

use std::collections::BTreeMap;

use api::ApiError;
use api::duration::Nanos;
use api::jetstream::account::Limits;
use api::jetstream::consumer::{self, Admission, ConsumerConfig, CreateSubject, StreamView};
use api::jetstream::decode::{Mode, decode, stream_request};
use api::jetstream::limits::{AccountLimits, AccountView, ServerLimits};
use api::jetstream::metadata;
use api::jetstream::request::{CreateConsumerRequest, StreamRequest};
use api::jetstream::stream::{self, StreamConfig};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Accounts of the recorded servers: without limits, with limits, and on a server with limits.
fn account_limits(account: &str) -> AccountLimits {
    AccountLimits::Flat(match account {
        "B" => Limits {
            max_memory: 1_000_000,
            max_storage: 2_000_000,
            max_streams: 2,
            max_consumers: 2,
            max_ack_pending: 50,
            memory_max_stream_bytes: 500_000,
            storage_max_stream_bytes: 0,
            max_bytes_required: true,
        },
        _ => Limits::UNLIMITED,
    })
}

fn server_limits(account: &str) -> ServerLimits {
    let plain =
        ServerLimits { max_memory: 1_000_000_000, max_storage: 10_000_000_000, ..ServerLimits::default() };
    match account {
        "L" => ServerLimits {
            max_ack_pending: 500,
            max_request_batch: 100,
            duplicate_window: Nanos::from_secs(60),
            ..plain
        },
        // The streams that are there in account B.
        _ => ServerLimits { reserved_memory: 100_000, ..plain },
    }
}

fn stream_of(value: &Value) -> StreamRequest {
    stream_request(value.to_string().as_bytes(), Mode::Strict).unwrap()
}

/// Streams made from requests, in their order.
fn made(account: &str, requests: &[Value]) -> BTreeMap<String, StreamConfig> {
    let limits = account_limits(account);
    let mut streams = BTreeMap::new();
    for request in requests {
        let request = stream_of(request);
        let view = AccountView { streams: &streams, limits: &limits };
        let server = ServerLimits { reserved_memory: 0, ..server_limits(account) };
        let config = stream::create_request(&request.config.name, &request, &server, &view).unwrap();
        streams.insert(config.name.clone(), config);
    }
    streams
}

/// Collects differences and fails at the end.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare<T: PartialEq + std::fmt::Debug>(
        &mut self,
        case: &Value,
        told: Result<T, ApiError>,
        expected: Result<T, ApiError>,
    ) {
        if told != expected {
            self.0.push(format!("{case}\n  told     {told:?}\n  expected {expected:?}"));
        }
    }
}

impl Drop for Differences {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.0.is_empty(), "{} differences\n{}", self.0.len(), self.0.join("\n"));
        }
    }
}

fn expected<T: DeserializeOwned>(case: &Value) -> Result<T, ApiError> {
    match case.get("error") {
        Some(error) => Err(serde_json::from_value(error.clone()).unwrap()),
        None => Ok(serde_json::from_value(case["config"].clone()).unwrap()),
    }
}

#[test]
fn new_streams_are_judged_as_by_the_reference() {
    #[derive(Deserialize)]
    struct Recorded {
        streams: BTreeMap<String, Vec<Value>>,
        cases: Vec<Value>,
    }
    let recorded: Recorded =
        serde_json::from_str(include_str!("testdata/validate/stream_create.json")).unwrap();
    assert!(recorded.cases.len() > 500, "{}", recorded.cases.len());
    let accounts: BTreeMap<_, _> = recorded
        .streams
        .iter()
        .map(|(account, requests)| (account.as_str(), made(account, requests)))
        .collect();
    let mut differences = Differences::default();
    for case in &recorded.cases {
        let account = case["account"].as_str().unwrap();
        let limits = account_limits(account);
        let view = AccountView { streams: &accounts[account], limits: &limits };
        let name = case["stream"].as_str().unwrap();
        let told = stream::create_request(name, &stream_of(&case["request"]), &server_limits(account), &view);
        if let Ok(config) = &told {
            let mut plain = stream_of(&case["request"]).config;
            metadata::remove_all(&mut plain.metadata);
            let mut filled = stream::with_defaults(&plain, &server_limits(account));
            filled.metadata.clone_from(&config.metadata);
            filled.mirror_direct = config.mirror_direct;
            assert_eq!(filled, *config, "{case}");
        }
        differences.compare(case, told, expected(case));
    }
}

/// Consumers made from configurations, in their order, of a stream.
struct Consumers {
    consumers: BTreeMap<String, ConsumerConfig>,
    /// Subjects that someone listens to.
    listened: Vec<&'static str>,
}

impl consumer::Consumers for Consumers {
    fn consumer(&self, name: &str) -> Option<&ConsumerConfig> {
        self.consumers.get(name)
    }

    fn visit(&self, function: &mut dyn FnMut(&str, &ConsumerConfig)) {
        self.consumers.iter().for_each(|(name, config)| function(name, config));
    }

    fn has_interest(&self, subject: &str) -> bool {
        self.listened.contains(&subject)
    }
}

/// Decides about a request as the API does.
fn judge(
    subject: &str,
    mut request: CreateConsumerRequest,
    stream: StreamView<'_>,
) -> Result<Admission, ApiError> {
    let subject = CreateSubject::parse(subject)?.unwrap();
    consumer::create_request(&subject, &mut request, stream.server)?;
    consumer::admit(&request.config, request.action, stream, request.pedantic)
}

fn consumers_of(account: &str, stream: &StreamConfig, configs: &[Value]) -> Consumers {
    let mut consumers = Consumers { consumers: BTreeMap::new(), listened: vec!["busy.x"] };
    let (server, limits) = (server_limits(account), account_limits(account));
    for config in configs {
        let config: ConsumerConfig = decode(config.to_string().as_bytes(), Mode::Strict).unwrap();
        let subject = format!("CREATE.{}.{}", stream.name, config.durable_name);
        let request =
            CreateConsumerRequest { stream_name: stream.name.clone(), config, ..Default::default() };
        let view = StreamView { config: stream, consumers: &consumers, server: &server, limits: &limits };
        let Admission::Create(config) = judge(&subject, request, view).unwrap() else {
            panic!("{subject} is there already")
        };
        consumers.consumers.insert(config.name.clone(), config);
    }
    consumers
}

#[test]
fn changed_streams_are_judged_as_by_the_reference() {
    #[derive(Deserialize)]
    struct Recorded {
        streams: BTreeMap<String, Vec<Value>>,
        consumers: BTreeMap<String, Vec<Value>>,
        cases: Vec<Value>,
    }
    let recorded: Recorded =
        serde_json::from_str(include_str!("testdata/validate/stream_update.json")).unwrap();
    assert!(recorded.cases.len() > 100, "{}", recorded.cases.len());
    let accounts: BTreeMap<_, _> = recorded
        .streams
        .iter()
        .map(|(account, requests)| (account.as_str(), made(account, requests)))
        .collect();
    let mut differences = Differences::default();
    for case in &recorded.cases {
        let account = case["account"].as_str().unwrap();
        let limits = account_limits(account);
        let view = AccountView { streams: &accounts[account], limits: &limits };
        let name = case["stream"].as_str().unwrap();
        let consumers = match (accounts[account].get(name), recorded.consumers.get(name)) {
            (Some(stream), Some(configs)) => consumers_of(account, stream, configs).consumers,
            _ => BTreeMap::new(),
        };
        let request = stream_of(&case["request"]);
        let told = stream::update_request(name, &request, &server_limits(account), &view, consumers.values());
        differences.compare(case, told, expected(case));
    }
}

#[test]
fn consumers_are_judged_as_by_the_reference() {
    #[derive(Deserialize)]
    struct Recorded {
        streams: BTreeMap<String, Vec<Value>>,
        consumers: BTreeMap<String, BTreeMap<String, Vec<Value>>>,
        cases: Vec<Value>,
    }
    let recorded: Recorded =
        serde_json::from_str(include_str!("testdata/validate/consumer_create.json")).unwrap();
    assert!(recorded.cases.len() > 800, "{}", recorded.cases.len());
    let accounts: BTreeMap<_, _> = recorded
        .streams
        .iter()
        .map(|(account, requests)| (account.as_str(), made(account, requests)))
        .collect();
    let mut differences = Differences::default();
    for case in &recorded.cases {
        let account = case["account"].as_str().unwrap();
        let (server, limits) = (server_limits(account), account_limits(account));
        let subject = case["subject"].as_str().unwrap();
        let request: CreateConsumerRequest =
            decode(case["request"].to_string().as_bytes(), Mode::Strict).unwrap();
        let name = subject.trim_start_matches("DURABLE.").split('.').nth(1).unwrap();
        let stream = &accounts[account][name];
        let none = Vec::new();
        let configs = recorded.consumers[account].get(name).unwrap_or(&none);
        let consumers = consumers_of(account, stream, configs);
        let view = StreamView { config: stream, consumers: &consumers, server: &server, limits: &limits };
        let told = judge(subject, request.clone(), view).map(|admission| match admission {
            Admission::Create(config) | Admission::Update(config) => config,
        });
        if let (Ok(config), false) = (&told, consumers.consumers.contains_key(&request.config.durable_name)) {
            let AccountLimits::Flat(flat) = &limits else { panic!("{account} has tiers") };
            let mut filled = consumer::with_defaults(&request.config, stream, &server, flat);
            filled.name.clone_from(&config.name);
            filled.metadata.clone_from(&config.metadata);
            assert_eq!(filled, *config, "{case}");
        }
        differences.compare(case, told, expected(case));
    }
}

fn refused<T: std::fmt::Debug>(result: Result<T, ApiError>) -> (u16, String) {
    let error = result.unwrap_err();
    (error.err_code, error.description)
}

fn metadata_of(bytes: usize) -> BTreeMap<String, String> {
    BTreeMap::from([("k".to_owned(), "v".repeat(bytes - 1))])
}

#[test]
fn metadata_has_a_bound() {
    let (server, limits) = (ServerLimits::default(), AccountLimits::Flat(Limits::UNLIMITED));
    let streams = BTreeMap::new();
    let view = AccountView { streams: &streams, limits: &limits };
    let config = |bytes| StreamConfig {
        name: "S".to_owned(),
        metadata: metadata_of(bytes),
        ..StreamConfig::default()
    };
    let stream = stream::validate_create(&config(131_072), &server, &view, false).unwrap();
    let told = refused(stream::validate_create(&config(131_073), &server, &view, false));
    assert_eq!(told, (10_052, "stream metadata exceeds maximum size of 131072 bytes".to_owned()));

    let consumer = |bytes| {
        let config = ConsumerConfig { metadata: metadata_of(bytes), ..ConsumerConfig::default() };
        consumer::validate_create(&config, &stream, &server, &Limits::UNLIMITED, false)
    };
    consumer(131_072).unwrap();
    assert_eq!(
        refused(consumer(131_073)),
        (10_135, "consumer metadata exceeds maximum size of 128KB".to_owned())
    );
}

#[test]
fn tiers_are_chosen_by_replicas_and_count_for_themselves() {
    let server = ServerLimits { clustered: true, ..ServerLimits::default() };
    let tier = |max_streams, max_storage| Limits { max_streams, max_storage, ..Limits::UNLIMITED };
    let tiers = BTreeMap::from([("R1".to_owned(), tier(1, 100)), ("R3".to_owned(), tier(2, 100))]);
    let limits = AccountLimits::Tiered(tiers);
    let config = |name: &str, num_replicas, max_bytes| StreamConfig {
        name: name.to_owned(),
        num_replicas,
        max_bytes,
        ..StreamConfig::default()
    };
    let mut streams = BTreeMap::new();
    let mut add = |config: StreamConfig| {
        let view = AccountView { streams: &streams, limits: &limits };
        let made = stream::validate_create(&config, &server, &view, false)?;
        streams.insert(made.name.clone(), made.clone());
        Ok::<_, ApiError>(made)
    };
    add(config("A", 1, 100)).unwrap();
    assert_eq!(refused(add(config("B", 1, 0))).0, 10_027);
    assert_eq!(refused(add(config("B", 5, 0))).0, 10_120);
    // A stream of a tier counts once, whatever its replicas.
    add(config("C", 3, 60)).unwrap();
    assert_eq!(refused(add(config("D", 3, 41))).0, 10_047);
    add(config("D", 3, 40)).unwrap();
    assert_eq!(refused(add(config("E", 3, 0))).0, 10_027);

    let view = AccountView { streams: &streams, limits: &limits };
    let grown =
        |max_bytes| stream::validate_update(&streams["C"], &config("C", 3, max_bytes), &server, &view, false);
    assert_eq!(refused(grown(61)).0, 10_047);
    grown(59).unwrap();
}

#[test]
fn replicas_count_for_an_account_without_tiers() {
    let server = ServerLimits { clustered: true, max_storage: 100, ..ServerLimits::default() };
    let limits = AccountLimits::Flat(Limits { max_storage: 200, ..Limits::UNLIMITED });
    let streams = BTreeMap::new();
    let view = AccountView { streams: &streams, limits: &limits };
    let judge = |server: &ServerLimits, num_replicas, max_bytes| {
        let config =
            StreamConfig { name: "A".to_owned(), num_replicas, max_bytes, ..StreamConfig::default() };
        stream::validate_create(&config, server, &view, false)
    };
    judge(&server, 3, 66).unwrap();
    assert_eq!(refused(judge(&server, 3, 67)).0, 10_047);
    judge(&server, 1, 100).unwrap();
    assert_eq!(refused(judge(&server, 1, 101)).0, 10_047);
    assert_eq!(refused(judge(&ServerLimits { reserved_storage: 1, ..server }, 1, 100)).0, 10_047);
    assert_eq!(refused(judge(&ServerLimits { clustered: false, ..server }, 3, 66)).0, 10_074);
}

#[test]
fn a_server_bounds_consumers_when_nobody_else_does() {
    let server = ServerLimits { default_max_consumers: 1, ..ServerLimits::default() };
    let limits = AccountLimits::Flat(Limits::UNLIMITED);
    let stream = StreamConfig { name: "S".to_owned(), max_consumers: -1, ..StreamConfig::default() };
    let consumers = BTreeMap::from([("a".to_owned(), ConsumerConfig::default())]);
    let view = StreamView { config: &stream, consumers: &consumers, server: &server, limits: &limits };
    let config = ConsumerConfig { name: "b".to_owned(), ..ConsumerConfig::default() };
    assert_eq!(refused(consumer::admit(&config, Default::default(), view, false)).0, 10_026);
    let more = StreamConfig { max_consumers: 2, ..stream.clone() };
    consumer::admit(&config, Default::default(), StreamView { config: &more, ..view }, false).unwrap();
}

#[test]
fn consumers_of_mirrors_last_where_their_acknowledgements_matter() {
    let config = ConsumerConfig {
        name: "JS_SRC_x".to_owned(),
        direct: true,
        sourcing: true,
        max_deliver: 1,
        ..ConsumerConfig::default()
    };
    let upgrade = |retention| {
        let stream = StreamConfig { retention, ..StreamConfig::default() };
        let mut config = config.clone();
        (consumer::upgrade_sourcing(&mut config, &stream), config)
    };
    assert_eq!(upgrade(stream::Retention::Limits), (false, config.clone()));
    let (done, changed) = upgrade(stream::Retention::Interest);
    assert!(done && !changed.direct && changed.durable_name == "JS_SRC_x" && changed.max_deliver == 0);
    assert_eq!(changed.ack_policy, consumer::AckPolicy::FlowControl);
}

#[test]
fn what_was_never_recorded_of_streams_is_refused_too() {
    let (server, limits) = (ServerLimits::default(), AccountLimits::Flat(Limits::UNLIMITED));
    let streams = BTreeMap::new();
    let view = AccountView { streams: &streams, limits: &limits };
    let config = StreamConfig { name: "S".to_owned(), ..StreamConfig::default() };
    let update =
        |old: &StreamConfig, new: &StreamConfig| stream::validate_update(old, new, &server, &view, false);
    let open = stream::validate_create(&config, &server, &view, false).unwrap();
    let sealed = update(&open, &StreamConfig { sealed: true, ..config.clone() }).unwrap();
    assert!(sealed.deny_delete && sealed.deny_purge && sealed.discard == stream::Discard::New);
    assert_eq!(update(&sealed, &sealed).unwrap(), sealed);
    let told = refused(update(&sealed, &config)).1;
    assert_eq!(told, "stream configuration update can not unseal a sealed stream");
    let told = refused(update(&open, &StreamConfig { name: "T".to_owned(), ..config.clone() })).1;
    assert_eq!(told, "stream configuration name must match original");
    let told = refused(update(&open, &StreamConfig { num_replicas: 3, ..config })).1;
    assert_eq!(told, "replicas > 1 not supported in non-clustered mode");
}

#[test]
fn what_was_never_recorded_of_consumers_is_refused_too() {
    let server = ServerLimits { clustered: true, ..ServerLimits::default() };
    let judge = |retention, change: fn(&mut ConsumerConfig)| {
        let stream = StreamConfig { num_replicas: 3, retention, ..StreamConfig::default() };
        let mut config = ConsumerConfig::default();
        change(&mut config);
        refused(consumer::validate_create(&config, &stream, &server, &Limits::UNLIMITED, false))
    };
    let limits = stream::Retention::Limits;
    assert_eq!(judge(limits, |c| c.num_replicas = 5).0, 10_126);
    assert_eq!(judge(stream::Retention::Interest, |c| c.num_replicas = 1).0, 10_134);
    assert_eq!(judge(limits, |c| (c.name, c.durable_name) = ("a".into(), "b".into())).0, 10_132);
    let told = judge(limits, |c| c.durable_name = "a.b".into()).1;
    assert_eq!(told, r"consumer durable name can not contain '.', '*', '>', '\', '/'");

    let old = ConsumerConfig::default();
    let fixed = |new: ConsumerConfig| refused(consumer::validate_update(&old, &new, |_| false)).1;
    assert_eq!(fixed(ConsumerConfig { direct: true, ..old.clone() }), "direct can not be updated");
    assert_eq!(fixed(ConsumerConfig { sourcing: true, ..old.clone() }), "sourcing can not be updated");

    for subject in ["DURABLE.CREATE.S", "DURABLE.CREATE.S.a.b"] {
        assert_eq!(refused(CreateSubject::parse(subject)).0, 10_016, "{subject}");
    }
    assert_eq!(CreateSubject::parse("INFO.S"), Ok(None));
}
