//! Tables of the command line.

use super::*;
use crate::lang::{self, Source};
use crate::load::{load, load_tree};
use crate::options::{Address, Certificate, Credentials, Options, Port};

struct Nothing;

impl Source for Nothing {
    fn read(&self, path: &str) -> Result<String, String> {
        Err(format!("open {path}: no such file or directory"))
    }

    fn env(&self, _: &str) -> Option<String> {
        None
    }
}

fn line(text: &str) -> Result<CommandLine, String> {
    let arguments: Vec<&str> = text.split_whitespace().collect();
    parse_args(&arguments).map_err(|error| error.to_string())
}

fn options(text: &str) -> Options {
    let line = line(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    load(&Nothing, None, &line.overrides).unwrap_or_else(|errors| panic!("{text}: {errors:?}")).options
}

fn over(file: &str, text: &str) -> Result<Options, String> {
    let tree = lang::parse(file, &Nothing).unwrap();
    let overrides = line(text).unwrap().overrides;
    load_tree(&tree, None, &overrides).map(|loaded| loaded.options).map_err(|errors| errors[0].to_string())
}

#[test]
fn both_dash_forms_and_both_value_forms_are_the_same() {
    for text in ["-p 5222", "--p 5222", "-port=5222", "--port=5222", "--port 5222"] {
        assert_eq!(options(text).listen.address.port, Port::Fixed(5222), "{text}");
    }
    for text in ["-D", "--debug", "-D=true", "--debug=1", "-DV", "-DVV"] {
        assert!(options(text).logging.debug, "{text}");
    }
    assert!(!options("-T=false").logging.logtime);
    assert!(options("-p 0 -T").logging.logtime);
    assert_eq!(options("-p 0").listen.address.port, Port::Fixed(4222));
    assert_eq!(options("-p -1").listen.address.port, Port::Random);
}

#[test]
fn actions_are_told_apart() {
    let signal = |command, target: Option<&str>| Action::Signal { command, target: target.map(Into::into) };
    for (text, expected) in [
        ("", Action::Run),
        ("-v", Action::Version),
        ("--version=true", Action::Version),
        ("-p 1 version", Action::Version),
        ("help", Action::Help),
        ("-h", Action::Help),
        ("--help_tls", Action::HelpTls),
        ("-t -c x.conf", Action::Test),
        ("-v=false", Action::Run),
        ("--signal reload", signal(SignalCommand::Reload, None)),
        ("-sl ldm=12*", signal(SignalCommand::LameDuck, Some("12*"))),
        ("-sl=stop=/run/x.pid", signal(SignalCommand::Stop, Some("/run/x.pid"))),
        ("-js=false", Action::Run),
        ("--jetstream", Action::Run),
    ] {
        assert_eq!(line(text).map(|line| line.action), Ok(expected), "{text}");
    }
    assert_eq!(line("-c a -config b").unwrap().config_file.as_deref(), Some("b"));
}

#[test]
fn mistakes_have_the_texts_of_the_flag_package() {
    for (text, expected) in [
        ("-x", "flag provided but not defined: -x"),
        ("--port", "flag needs an argument: -port"),
        ("-p x", "invalid value \"x\" for flag -p: parse error"),
        ("-p 65536", "invalid value \"65536\" for flag -p: out of range"),
        ("-D=x", "invalid boolean value \"x\" for -D: parse error"),
        ("---v", "bad flag syntax: ---v"),
        ("-=v", "bad flag syntax: -=v"),
        ("foo", "unrecognized command: \"foo\""),
        ("-- -v", "unrecognized command: \"-v\""),
        ("-t", "must specify [-c, --config] option to check configuration file syntax"),
        ("-sl foo", "unknown signal \"foo\""),
        ("--syslog", "flag -syslog: syslog is not supported in this version"),
        ("-r udp://x", "flag -r: syslog is not supported in this version"),
        ("--profile 1", "flag -profile: profiling over HTTP is not supported in this version"),
        ("--routes x", "invalid value \"x\" for flag -routes: expected URLs such as nats-route://host:port"),
    ] {
        assert_eq!(line(text), Err(expected.into()), "{text}");
    }
}

#[test]
fn flags_win_over_the_file() {
    let file = "port: 1, http_port: 8222, debug: true, log_file: /a, tls { cert_file: c, key_file: k }\n\
                cluster { name: x, port: 5, routes: [\"nats://a:1\"], authorization { user: u, password: p } }";
    let options = over(
        file,
        "-p 2 -a h -m 0 -D=false -l= --tlsverify --cluster nats://v:q@h2:6 --cluster_name y --routes nats://b:2,nats://c:3",
    )
    .unwrap();
    assert_eq!(options.listen.address, Address { host: "h".into(), port: Port::Fixed(2) });
    assert_eq!((options.monitoring.http, options.logging.debug, options.logging.file), (None, false, None));
    let tls = options.tls.unwrap();
    assert!(tls.verify);
    assert_eq!(tls.certificates, [Certificate { cert_file: "c".into(), key_file: "k".into() }]);
    let cluster = options.cluster.unwrap();
    assert_eq!(cluster.name.as_deref(), Some("y"));
    assert_eq!(cluster.listen, Some(Address { host: "h2".into(), port: Port::Fixed(6) }));
    assert_eq!(cluster.authorization.username, "v");
    assert!(cluster.authorization.password.matches(b"q"));
    assert_eq!(cluster.routes.iter().map(|url| url.host.as_str()).collect::<Vec<_>>(), ["b", "c"]);
}

#[test]
fn the_flag_switches_jetstream_on_and_keeps_the_block() {
    let options = over("jetstream { enabled: false, domain: d }", "-js -sd /d").unwrap();
    assert!(options.jetstream.enabled);
    assert_eq!(options.jetstream.domain.as_deref(), Some("d"));
    assert_eq!(options.store_dir.as_deref(), Some("/d"));
    assert!(over("jetstream: true", "-js=false").unwrap().jetstream.enabled);
    assert!(!over("port: 1", "-js=false").unwrap().jetstream.enabled);
}

#[test]
fn credentials_of_flags_replace_a_single_user_but_not_users() {
    let single = over("authorization { user: a, password: b }", "--auth t").unwrap();
    assert!(matches!(single.authorization.credentials, Credentials::Token(token) if token.matches(b"t")));
    for (file, text, expected) in [
        ("authorization { users: [{user: a}] }", "--user x", "flags -user and -auth can not be combined"),
        ("port: 1", "--user x --auth t", "Cannot have a user/pass and token"),
        ("port: 1", "--tls", "TLS Server certificate must be present and valid"),
        ("port: 1", "--tlscert x", "TLS Server private key must be present and valid"),
        ("port: 1", "--routes nats://a:1", "solicited routes require cluster capabilities, e.g. --cluster"),
    ] {
        let error = over(file, text).unwrap_err();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

#[test]
fn usage_names_every_flag() {
    let text = usage("server");
    for name in ["-a, --addr, --net <host>", "-DVV", "--cluster, --cluster_listen <url>", "-js, --jetstream"]
    {
        assert!(text.contains(name), "{name} is missing in\n{text}");
    }
    assert!(help_tls("server").contains("server --tls --tlscert"));
}
