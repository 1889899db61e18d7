//! What transforms make of subjects, and which are refused. Every row agrees with the reference server.

use super::*;

fn apply(source: &str, destination: &str, literal: &str) -> Option<String> {
    let transform = Transform::new(source.as_bytes(), destination.as_bytes())
        .unwrap_or_else(|error| panic!("{source} -> {destination}: {error}"));
    transform.apply(literal.as_bytes()).map(|subject| String::from_utf8(subject).unwrap())
}

#[test]
fn subjects_become_what_the_table_says() {
    let table = [
        ("foo", "bar", "foo", "bar"),
        ("foo.*.bar.*", "baz.$2.$1", "foo.a.bar.b", "baz.b.a"),
        ("foo.*.*", "{{wildcard(2)}}.{{ Wildcard( 1 ) }}.x", "foo.a.b", "b.a.x"),
        ("foo.*", "bar.$1x", "foo.a", "bar.$1x"),
        ("foo.*", "$JS.$1", "foo.a", "$JS.a"),
        ("foo.*", "bar", "foo.a", "bar"),
        ("foo.*", "$0.$1", "foo.a", "foo.a"),
        ("foo.*.>", "x.>", "foo.a.b.c", "x.b.c"),
        ("foo.>", "bar.>", "foo.a.b", "bar.a.b"),
        (">", "bar.>", "a", "bar.a"),
        ("", "bar.>", "a.b", "bar.a.b"),
        (">", ">", "a.b", "a.b"),
        ("*", "foo.bar.$1.{{partition(10,1)}}", "foo", "foo.bar.foo.3"),
        ("*", "foo.bar.$1.{{partition(10,1)}}", "baz", "foo.bar.baz.0"),
        ("*", "foo.bar.$1.{{partition(10,1)}}", "qux", "foo.bar.qux.9"),
        ("*", "p.{{partition(0,1)}}.{{random(0)}}.{{random(1)}}", "a", "p.0.0.0"),
        ("a", "p.{{partition(1)}}", "a", "p.0"),
        ("foo.*", "{{splitFromLeft(1,1)}}", "foo.abcd", "a.bcd"),
        ("foo.*", "{{SplitFromRight(1,1)}}", "foo.abcd", "abc.d"),
        ("foo.*", "{{splitfromleft(1,4)}}.{{splitfromright(1,0)}}", "foo.abcd", "abcd.abcd"),
        ("foo.*", "{{SliceFromLeft(1,3)}}", "foo.1234567890", "123.456.789.0"),
        ("foo.*", "{{SliceFromRight(1,3)}}", "foo.1234567890", "1.234.567.890"),
        ("foo.*", "{{SliceFromRight(1,2)}}.{{SliceFromLeft(1,2)}}", "foo.1234", "12.34.12.34"),
        ("foo.*", "{{SliceFromLeft(1,-3)}}", "foo.1234", "1234"),
        ("foo.*", "{{left(1,2)}}.{{right(1, 2)}}.{{Left(1,9)}}", "foo.1234", "12.34.1234"),
        ("foo.*", "{{split(1,-)}}.fin", "foo.a-b--c-", "a.b.c.fin"),
        ("foo.*", "{{split(1,-)}}", "foo.-abc-def--ghi-", "abc.def.ghi"),
        ("foo.*", "{{split(1,)}}", "foo.ab\u{e9}", "a.b.\u{e9}"),
        ("foo.*", "{{}}.$1", "foo.a", "{{}}.a"),
    ];
    for (source, destination, literal, expected) in table {
        let found = apply(source, destination, literal);
        assert_eq!(found.as_deref(), Some(expected), "{source} -> {destination}");
    }
}

#[test]
fn a_subject_that_the_source_does_not_match_stays_out() {
    for (source, literal) in [
        ("foo.*", "foo"),
        ("foo.*", "bar.a"),
        ("foo.>", "foo"),
        ("foo", "foo.a"),
        (">", "a..b"),
        (">", "a.*"),
    ] {
        let destination = if source.ends_with('>') { "x.>" } else { "x" };
        assert_eq!(apply(source, destination, literal), None, "{source} {literal}");
    }
}

#[test]
fn partition_and_random_stay_below_their_number() {
    let partition = Transform::new(b"*", b"{{partition(4,1)}}").unwrap();
    let random = Transform::new(b"*", b"{{random(4)}}").unwrap();
    let (mut partitions, mut randoms) = ([0_u32; 4], [0_u32; 4]);
    for number in 0..400 {
        let subject = format!("subject-{number}");
        for (transform, counts) in [(&partition, &mut partitions), (&random, &mut randoms)] {
            let found = String::from_utf8(transform.apply(subject.as_bytes()).unwrap()).unwrap();
            counts[found.parse::<usize>().unwrap()] += 1;
        }
    }
    assert!(partitions.iter().chain(&randoms).all(|count| *count > 40), "{partitions:?} {randoms:?}");
}

#[test]
fn wrong_transforms_are_refused_with_the_text_that_clients_know() {
    const DESTINATION: &str = "invalid mapping destination: ";
    let table = [
        ("foo..a", "bar", "invalid subject"),
        ("foo.>.a", "bar", "invalid subject"),
        ("foo", "", "invalid subject"),
        ("foo.*", "bar.*", "invalid subject"),
        ("foo.>", "bar", "invalid subject"),
        ("foo.*", "bar.>", "invalid subject"),
        ("foo", "b ar", "invalid subject"),
        ("foo", "bar.$1", "wildcard index out of range in $1"),
        ("foo.>", "$1.>", "wildcard index out of range in $1: [1]"),
        ("foo.*", "bar.$2", "wildcard index out of range in $2: [2]"),
        ("foo.*", "{{wildcard(2)}}", "wildcard index out of range in {{wildcard(2)}}: [2]"),
        ("foo.*", "{{partition(3,1,2)}}", "wildcard index out of range in {{partition(3,1,2)}}: [2]"),
        ("foo.*", "{{wildcard()}}", "not enough arguments passed to the function in {{wildcard()}}"),
        ("foo.*", "{{wildcard(1,2)}}", "too many arguments passed to the function in {{wildcard(1,2)}}"),
        (
            "foo.*",
            "{{wildcard(x)}}",
            "function argument is invalid or in the wrong format in {{wildcard(x)}}",
        ),
        ("foo.*", "{{split(1)}}", "not enough arguments passed to the function in {{split(1)}}"),
        ("foo.*", "{{left(1,2,3)}}", "too many arguments passed to the function in {{left(1,2,3)}}"),
        (
            "foo.*",
            "{{split(1,a b)}}",
            "function argument is invalid or in the wrong format in {{split(1,a b)}}",
        ),
        (
            "foo.*",
            "{{partition()}}",
            "function argument is invalid or in the wrong format in {{partition()}}",
        ),
        ("foo.*", "{{random(1,2)}}", "not enough arguments passed to the function in {{random(1,2)}}"),
        ("foo.*", "{{unknown(1)}}", "unknown function in {{unknown(1)}}"),
        ("foo.*", "{{WILDCARD(1)}}", "unknown function in {{WILDCARD(1)}}"),
        ("foo.*", "{{wildcard}}", "unknown function in {{wildcard}}"),
    ];
    for (source, destination, expected) in table {
        let error = Transform::new(source.as_bytes(), destination.as_bytes()).unwrap_err().to_string();
        let found = error.strip_prefix(DESTINATION).unwrap_or(&error);
        assert_eq!(found, expected, "{source} -> {destination}");
    }
}

#[test]
fn a_reversible_transform_carries_patterns_over() {
    let transform = Transform::reversible(b"in.*.*.>", b"pub.$2.$1.>").unwrap();
    let apply = |subset: &str| {
        transform.apply_pattern(subset.as_bytes()).map(|subject| String::from_utf8(subject).unwrap())
    };
    assert_eq!(apply("in.a.*.>").as_deref(), Some("pub.*.a.>"));
    assert_eq!(apply("in.*.b.c.*").as_deref(), Some("pub.b.*.c.*"));
    assert_eq!(apply("in.>"), None);
    assert_eq!(apply("in.a.b"), None);
}

#[test]
fn patterns_and_destinations_become_each_other() {
    for (from, destination) in [("a.*.b.*", "a.$1.b.$2"), ("a.>", "a.>"), ("*", "$1"), ("a", "a")] {
        assert_eq!(numbered(from.as_bytes()), destination.as_bytes());
        assert_eq!(pattern(destination.as_bytes()), from.as_bytes());
    }
    assert_eq!(pattern(b"a.{{wildcard(2)}}.$x.$1"), b"a.*.$x.*");
}

#[test]
fn a_reversible_transform_names_every_wildcard_and_comes_back() {
    let refused = |source: &str, destination: &str| {
        Transform::reversible(source.as_bytes(), destination.as_bytes()).unwrap_err().to_string()
    };
    assert_eq!(
        refused("a.*", "b.{{partition(2,1)}}"),
        "invalid mapping destination: the only mapping function allowed for import transforms is \
         {{Wildcard()}} in {{partition(2,1)}}"
    );
    assert_eq!(
        refused("a.*.*", "b.$1"),
        "invalid mapping destination: not using all of the token wildcard(s) in b.$1"
    );
    for (source, destination, literal) in [
        ("a.*.*", "b.$2.x.$1", "a.1.2"),
        ("a.*.*.*", "$3.$1.$2", "a.1.2.3"),
        ("a", "b.c", "a"),
        ("a.*.>", "b.$1.>", "a.1.2.3"),
    ] {
        let forward = Transform::reversible(source.as_bytes(), destination.as_bytes()).unwrap();
        let there = forward.apply(literal.as_bytes()).unwrap();
        let back = forward.reverse().unwrap().apply(&there).unwrap();
        assert_eq!(back, literal.as_bytes(), "{source} -> {destination}");
    }
}
