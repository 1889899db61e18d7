//! What a configuration with exports and imports is refused for.

use testkit::Builder;

use crate::target;

/// Accounts, and the text that they are refused with.
const CASES: &[(&str, &str)] = &[
    ("A { exports: [{stream: a, accounts: [X]}] }", "\"X\" account not defined for stream export"),
    ("A { imports: [{service: {account: X, subject: a}}] }", "\"X\" account not defined for service import"),
    (
        "A {}, B { imports: [{stream: {account: A, subject: a}}] }",
        "Error adding stream import \"a\": stream import not authorized",
    ),
    (
        "A { exports: [{service: a, accounts: [C]}] }, B { imports: [{service: {account: A, subject: a}}] }, C {}",
        "Error adding service import \"a\": service import not authorized",
    ),
    (
        "A { exports: [{service: q}], imports: [{service: {account: B, subject: q}}] }
             B { exports: [{service: q}], imports: [{service: {account: A, subject: q}}] }",
        "Error adding service import \"q\": import forms a cycle",
    ),
    (
        "A { exports: [{stream: '>'}], imports: [{stream: {account: B, subject: '>'}}] }
             B { exports: [{stream: '>'}], imports: [{stream: {account: A, subject: '>'}}] }",
        "Error adding stream import \">\": import forms a cycle",
    ),
    (
        "A { exports: [{stream: 'a.*'}] }, B { imports: [{stream: {account: A, subject: 'a.*'}, to: 'x.$2'}] }",
        "invalid mapping destination: wildcard index out of range in $2: [2]",
    ),
    (
        "A { exports: [{stream: 'a.*.*'}] }, B { imports: [{stream: {account: A, subject: 'a.*.*'}, to: 'x.$2'}] }",
        "invalid mapping destination: not using all of the token wildcard(s) in x.$2",
    ),
    (
        "A { exports: [{stream: 'a.*'}] }
             B { imports: [{stream: {account: A, subject: 'a.*'}, to: 'x.{{partition(2,1)}}'}] }",
        "the only mapping function allowed for import transforms is {{Wildcard()}} in {{partition(2,1)}}",
    ),
    (
        "A { exports: [{stream: a}] }, B { imports: [{stream: {account: A, subject: a}, prefix: 'p.*'}] }",
        "stream import prefix can not contain wildcard tokens",
    ),
    ("A { exports: [{service: a, response: x}] }", "Unknown response type: \"x\""),
    (
        "A { mappings: { 'a.*': 'b.{{split(1)}}' } }",
        "Error adding mapping for \"a.*\" to \"b.{{split(1)}}\" : invalid mapping destination: \
             not enough arguments passed to the function in {{split(1)}}",
    ),
    (
        "A { mappings: { 'a.*': 'b.{{wildcard(2)}}' } }",
        "invalid mapping destination: wildcard index out of range in {{wildcard(2)}}: [2]",
    ),
    (
        "A { mappings: { 'a.*': 'b.{{left(1,2,3)}}' } }",
        "too many arguments passed to the function in {{left(1,2,3)}}",
    ),
    ("A { mappings: { 'a.*': 'b.{{unknown(1)}}' } }", "unknown function in {{unknown(1)}}"),
    (
        "A { mappings: { 'a.*': 'b.{{split(1,a b)}}' } }",
        "function argument is invalid or in the wrong format",
    ),
    (
        "A { mappings: { a: [{dest: x, weight: 50}, {dest: y, weight: 51}] } }",
        "Error adding mapping for \"a\" : total weight needs to be <= 100",
    ),
    ("A { mappings: { a: [{dest: x}] } }", "Missing weight for mapping destination \"x\""),
];

#[tokio::test]
async fn imports_that_do_not_hold_are_refused_with_the_text_of_the_reference() {
    for (accounts, expected) in CASES {
        let text = format!("accounts {{ {accounts} }}");
        let finished = Builder::new(&target()).own_listen().config(&text).args(["-t"]).run().await;
        assert_eq!(finished.code, Some(1), "{text}: {finished:?}");
        assert!(finished.stderr.contains(expected), "{text}: {finished:?}");
    }
}
