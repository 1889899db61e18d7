//! `exports`, `imports` and `mappings`.

use std::time::Duration;

use super::{errors, options};
use crate::options::*;

#[test]
fn exports_are_decoded() {
    let options = options(
        "accounts { A { exports: [\n\
           {stream: 'pub.>'}, {stream: 'priv.*', accounts: [B]}, {service: req}\n\
           {service: 'multi.*', response_type: chunk, threshold: 5s, accounts: B}\n\
           {service: 'own.*', response: Stream, account_token_position: 2}\n\
         ] }, B {} }",
    );
    let service =
        |response, seconds| ExportKind::Service { response, threshold: Duration::from_secs(seconds) };
    let export = |kind, subject: &str, accounts: Option<&str>, account_token_position| Export {
        kind,
        subject: subject.into(),
        accounts: accounts.map(|name| vec![name.into()]),
        account_token_position,
    };
    assert_eq!(
        options.accounts[0].exports,
        [
            export(ExportKind::Stream, "pub.>", None, None),
            export(ExportKind::Stream, "priv.*", Some("B"), None),
            export(service(ResponseType::Singleton, 120), "req", None, None),
            export(service(ResponseType::Chunked, 5), "multi.*", Some("B"), None),
            export(service(ResponseType::Stream, 120), "own.*", None, Some(2)),
        ]
    );
}

#[test]
fn imports_are_decoded() {
    let options = options(
        "accounts { A { exports: [{stream: 'pub.*.*'}, {stream: lit}, {service: 'req.*'}] }, B { imports: [\n\
           {stream: {account: A, subject: 'pub.*.*'}, to: 'in.$2.$1'}, {stream: {account: A, subject: lit}, prefix: p}\n\
           {service: {account: A, subject: 'req.*'}, to: 'ask.{{wildcard(1)}}', share: true}\n\
           {service: {account: A, subject: 'req.x'}}\n\
         ] } }",
    );
    let import = |kind, subject: &str, local: &str| Import {
        kind,
        account: "A".into(),
        subject: subject.into(),
        local: local.into(),
    };
    assert_eq!(
        options.accounts[1].imports,
        [
            import(ImportKind::Stream, "pub.*.*", "in.$2.$1"),
            import(ImportKind::Stream, "lit", "p.lit"),
            import(ImportKind::Service { share: true }, "req.*", "ask.{{wildcard(1)}}"),
            import(ImportKind::Service { share: false }, "req.x", "req.x"),
        ]
    );
}

#[test]
fn texts_of_single_entries_are_those_of_the_reference() {
    for (inner, expected) in [
        ("exports: 3", "Exports should be an array, got integer"),
        ("exports: [x]", "Export Items should be a map with type entry, got string"),
        ("exports: [{}]", "Expected a stream or a service"),
        ("exports: [{stream: 3}]", "Expected stream name to be string, got integer"),
        ("exports: [{service: a, stream: b}]", "Detected service \"a\" but already saw a stream"),
        ("exports: [{stream: a, response: single}]", "Detected response directive on non-service"),
        ("exports: [{stream: a, threshold: 1s}]", "Detected response directive on non-service"),
        ("exports: [{service: a, response: x}]", "Unknown response type: \"x\""),
        (
            "exports: [{service: a, threshold: x}]",
            "Expected response threshold to be a parseable time duration, got \"x\"",
        ),
        ("exports: [{service: a, latency: l}]", "\"latency\" is not supported in this version"),
        ("exports: [{service: a, foo: l}]", "unknown field \"foo\""),
        ("imports: 3", "Imports should be an array, got integer"),
        ("imports: [x]", "Import Items should be a map with type entry, got string"),
        ("imports: [{stream: x}]", "Stream entry should be an account map, got string"),
        ("imports: [{service: x}]", "Service entry should be an account map, got string"),
        ("imports: [{stream: {account: A}}]", "Expect an account name and a subject"),
        (
            "imports: [{stream: {account: A, subject: a}, service: {account: A, subject: a}}]",
            "Detected service but already saw a stream",
        ),
        (
            "imports: [{stream: {account: A, subject: a}, prefix: p, to: t}]",
            "Stream import can not have a 'prefix' and a 'to' property",
        ),
        (
            "imports: [{stream: {account: A, subject: a}, prefix: 'p.*'}]",
            "Error adding stream import \"a\": stream import prefix can not contain wildcard tokens",
        ),
        (
            "imports: [{service: {account: A, subject: a}, to: x}, {service: {account: A, subject: b}, to: x}]",
            "Duplicate service import subject \"x\", previously used in import for account \"A\", subject \"a\"",
        ),
        ("mappings: { 'a..b': c }", "Subject \"a..b\" is not a valid subject"),
        (
            "mappings: { a: '$1' }",
            "Error adding mapping for \"a\" to \"$1\" : invalid mapping destination: wildcard index out of range in $1",
        ),
        ("mappings: { a: [x] }", "Expected an entry for the mapping destination"),
        ("mappings: { a: [{dest: x}] }", "Missing weight for mapping destination \"x\""),
        ("mappings: { a: [{dest: x, weight: 101}] }", "Invalid weight 101 for mapping destination"),
        ("mappings: { a: [{dest: x, weight: 'x%'}] }", "Invalid weight \"x\" for mapping destination"),
        ("mappings: { a: [{dest: x, weight: 1, y: 2}] }", "Unknown field \"y\" for mapping destination"),
        (
            "mappings: { a: [{dest: x, weight: 50}, {dest: x, weight: 5}] }",
            "Error adding mapping for \"a\" : duplicate entry for \"x\"",
        ),
        (
            "mappings: { a: [{dest: x, weight: 50}, {dest: y, weight: 51}] }",
            "Error adding mapping for \"a\" : total weight needs to be <= 100",
        ),
    ] {
        let found = errors(&format!("accounts {{ A {{ {inner} }} }}"));
        assert!(found[0].ends_with(&format!(": {expected}")), "{inner}: {found:?}");
    }
}

#[test]
fn rules_between_accounts_have_the_texts_of_the_reference() {
    for (text, expected) in [
        ("A { exports: [{stream: a, accounts: [X]}] }", "\"X\" account not defined for stream export"),
        ("A { exports: [{service: a, accounts: [X]}] }", "\"X\" account not defined for service export"),
        (
            "A { exports: [{service: 'a.b', account_token_position: 2}] }",
            "Error adding service export \"a.b\": invalid subject",
        ),
        (
            "A { imports: [{stream: {account: X, subject: a}}] }",
            "\"X\" account not defined for stream import",
        ),
        (
            "A { imports: [{service: {account: X, subject: a}}] }",
            "\"X\" account not defined for service import",
        ),
        (
            "A {}, B { imports: [{stream: {account: A, subject: a}}] }",
            "Error adding stream import \"a\": stream import not authorized",
        ),
        (
            "A { exports: [{service: a, accounts: [C]}] }, B { imports: [{service: {account: A, subject: a}}] }, C {}",
            "Error adding service import \"a\": service import not authorized",
        ),
        (
            "A { exports: [{service: 'a.*'}] }, B { imports: [{service: {account: A, subject: 'a.>'}}] }",
            "Error adding service import \"a.>\": service import not authorized",
        ),
        (
            "A { exports: [{service: 'a.*', account_token_position: 2}] }, \
             B { imports: [{service: {account: A, subject: 'a.C'}}] }",
            "Error adding service import \"a.C\": service import not authorized",
        ),
        (
            "A { exports: [{stream: a}] }, B { imports: [\
             {stream: {account: A, subject: a}, to: x}, {stream: {account: A, subject: a}, to: y}] }",
            "Error adding stream import \"a\": stream import already exists",
        ),
        (
            "A { exports: [{stream: 'a.*'}] }, B { imports: [{stream: {account: A, subject: 'a.*'}, to: 'x.$2'}] }",
            "Error adding stream import \"a.*\": failed to create mapping transform for stream import subject from \
             \"a.*\" to \"x.$2\": invalid mapping destination: wildcard index out of range in $2: [2]",
        ),
        (
            "A { exports: [{service: q}], imports: [{service: {account: B, subject: q}}] }, \
             B { exports: [{service: q}], imports: [{service: {account: A, subject: q}}] }",
            "Error adding service import \"q\": import forms a cycle",
        ),
        (
            "A { exports: [{service: a}], imports: [{service: {account: B, subject: b}, to: a}] }, \
             B { exports: [{service: b}], imports: [{service: {account: A, subject: a}, to: b}] }",
            "Error adding service import \"a\": import forms a cycle",
        ),
        (
            "A { exports: [{stream: '>'}], imports: [{stream: {account: B, subject: '>'}}] }, \
             B { exports: [{stream: '>'}], imports: [{stream: {account: A, subject: '>'}}] }",
            "Error adding stream import \">\": import forms a cycle",
        ),
        (
            "A { exports: [{service: 'a.>'}], imports: [{service: {account: C, subject: 'a.>'}}] }, \
             B { exports: [{service: 'a.>'}], imports: [{service: {account: A, subject: 'a.>'}}] }, \
             C { exports: [{service: 'a.>'}], imports: [{service: {account: B, subject: 'a.x'}}] }",
            "Error adding service import \"a.x\": import forms a cycle",
        ),
    ] {
        assert_eq!(errors(&format!("accounts {{ {text} }}")), [format!(":1:1: {expected}")], "{text}");
    }
}

#[test]
fn what_is_no_cycle_is_accepted() {
    for text in [
        // There and back again under other names.
        "A { exports: [{service: y}], imports: [{service: {account: B, subject: x}}] }, \
         B { exports: [{service: x}], imports: [{service: {account: A, subject: y}, to: z}] }",
        // One account in the middle of two.
        "A { exports: [{stream: a}] }, B { exports: [{stream: b}], imports: [{stream: {account: A, subject: a}}] }, \
         C { imports: [{stream: {account: B, subject: b}}] }",
        "A { exports: [{service: 'a.*', account_token_position: 2}] }, \
         B { imports: [{service: {account: A, subject: 'a.B'}, to: mine}] }",
        "A { exports: [{stream: 'a.>', accounts: [B]}] }, B { imports: [{stream: {account: A, subject: 'a.b.*'}}] }",
    ] {
        options(&format!("accounts {{ {text} }}"));
    }
}

#[test]
fn mappings_have_one_destination_or_several_with_weights() {
    let options = options(
        "mappings: { 'a.*': 'b.{{wildcard(1)}}', c: [{dest: d, weight: '60%'}, {destination: e, weight: 40}]\n\
         f: {dest: g, weight: 10, cluster: east} }\naccounts { A { maps: { x: y } } }",
    );
    let destination = |subject: &str, weight, cluster: Option<&str>| Destination {
        subject: subject.into(),
        weight,
        cluster: cluster.map(Into::into),
    };
    let mapping =
        |source: &str, destinations: Vec<Destination>| Mapping { source: source.into(), destinations };
    assert_eq!(
        options.mappings,
        [
            mapping("a.*", vec![destination("b.{{wildcard(1)}}", 100, None)]),
            mapping("c", vec![destination("d", 60, None), destination("e", 40, None)]),
            mapping("f", vec![destination("g", 10, Some("east"))]),
        ]
    );
    assert_eq!(options.accounts[0].mappings, [mapping("x", vec![destination("y", 100, None)])]);
}
