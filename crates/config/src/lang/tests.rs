//! Tables of the language.

use std::collections::HashMap;

use super::*;

#[derive(Default)]
struct Fixed {
    files: HashMap<&'static str, &'static str>,
    env: HashMap<&'static str, &'static str>,
}

impl Source for Fixed {
    fn read(&self, path: &str) -> Result<String, String> {
        self.files
            .get(path)
            .map(ToString::to_string)
            .ok_or_else(|| format!("open {path}: no such file or directory"))
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).map(ToString::to_string)
    }
}

fn read(text: &str) -> Value {
    parse(text, &Fixed::default()).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn error(text: &str) -> String {
    match parse(text, &Fixed::default()) {
        Ok(value) => panic!("{text:?} was read as {value:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn entries_have_several_forms() {
    let expected = Value::from([("a", Value::from(1)), ("b", "x".into())]);
    for text in [
        "a: 1\nb: x",
        "a = 1; b = 'x'",
        "a 1, b \"x\"",
        "{\"a\": 1, \"b\": \"x\"}",
        "{ a: 1\n b: x",
        "'a':1\r\n\"b\"x # end",
        "# first\n a\n 1 // one\n\n b\n\t x\n",
        "a: 2, a: 1, b: x,",
        "\u{feff}a: 1\nb: x",
    ] {
        assert_eq!(read(text), expected, "{text:?}");
    }
}

#[test]
fn strings_have_several_forms() {
    for (text, expected) in [
        (r#"a: "x\x41\t\"\\""#, "xA\t\"\\"),
        (r#"a: "\xc3\xa9""#, "é"),
        (r"a: 'x\t'", r"x\t"),
        ("a: \"x\ny\"", "x\ny"),
        ("a: x#y//z=1:2", "x#y//z=1:2"),
        ("a: x\"y{z[", "x\"y{z["),
        (r"a: x\x41y", "xAy"),
        ("a: (x\n )\n)", "x\n )\n"),
        ("a: (\n)x\n)  \n", "\n)x\n"),
        ("a: //x", "//x"),
        ("a: $2a$11$abc", "$2a$11$abc"),
        ("a: '$b'", "$b"),
        ("a: x$b", "x$b"),
        ("a: ''", ""),
        ("a: 10.0.0.1:4222", "10.0.0.1:4222"),
        ("a: nats-route://u:p@h:1", "nats-route://u:p@h:1"),
    ] {
        assert_eq!(read(text), Value::from([("a", expected)]), "{text:?}");
    }
}

#[test]
fn arrays_take_commas_or_lines() {
    let expected = Value::from([("a", vec!["x", "y"])]);
    for text in ["a: [x, y]", "a [x,y,]", "a = [\n x\n y\n]", "a: [ # c\n x, # d\n // e\n 'y'\n]"] {
        assert_eq!(read(text), expected, "{text:?}");
    }
    assert_eq!(read("a: [1, [2], {b: 3}]"), {
        let inner = vec![Value::from(1), vec![2].into(), [("b", 3)].into()];
        Value::from([("a", inner)])
    });
}

#[test]
fn errors_name_their_place() {
    for (text, expected) in [
        ("a:\n1", ":1:3: Expected value but found new line"),
        ("a", ":1:2: expected a value but found the end of the file"),
        ("a: 1 b: 2", ":1:6: expected a new line, ',' or ';' after the value but found 'b'"),
        ("a: 1,, b: 2", ":1:6: expected a key but found ','"),
        ("a = = 1", ":1:7: expected a new line, ',' or ';' after the value but found '1'"),
        ("x\n: 1", ":2:3: expected a new line, ',' or ';' after the value but found '1'"),
        ("}", ":1:1: expected a key but found '}'"),
        ("\n a {b: 1", ":2:4: the map that begins here is not closed"),
        ("a: [1", ":1:4: the array that begins here is not closed"),
        ("a: [1 2]", ":1:7: expected a new line, ',' or ']' but found '2'"),
        ("a: [1,,2]", ":1:7: expected a value but found ','"),
        ("a: \"x", ":1:4: the string that begins here has no end"),
        ("a: 'x", ":1:4: the string that begins here has no end"),
        ("a: (x)", ":1:4: the block that begins here has no line with only ')'"),
        (r#"é: "\q""#, r#":1:5: invalid escape character 'q'; allowed are \xXX, \t, \n, \r, \", \\"#),
        (r#"a: "\x4""#, r":1:5: expected two hexadecimal digits after \x"),
        (r#"a: "\x+1""#, r":1:5: expected two hexadecimal digits after \x"),
        (r#"a: "\xff""#, ":1:10: the escapes of this string do not form UTF-8 text"),
        ("a: -x", ":1:4: expected a digit after '-' but got 'x'"),
        ("a: 8ei", ":1:4: integer '8ei' is out of the range"),
        ("\n\n b: $x", ":3:5: variable reference for 'x' on line 3 can not be found"),
        ("a: # none", ":1:4: expected a value but found a comment"),
        ("{a: 1} b: 2", ":1:8: expected the end of the file but found 'b'"),
        ("include", ":1:8: expected a file name after include"),
        ("include x", ":1:1: error parsing include file 'x', open x: no such file or directory"),
    ] {
        assert_eq!(error(text), expected, "{text:?}");
    }
}

#[test]
fn variables_are_looked_up_from_the_inside() {
    let value = read("x: 1\nm { y: $x, x: 2, z: $x, n { w: $x } }\nv: $m");
    let inner = read("y: 1, x: 2, z: 2, n { w: 2 }");
    assert_eq!(value.get("m"), Some(&inner));
    assert_eq!(value.get("v"), Some(&inner));
    assert!(value.as_map().unwrap().entry("x").unwrap().is_referenced);
    assert!(!value.as_map().unwrap().entry("v").unwrap().is_referenced);
}

#[test]
fn the_environment_is_read_as_a_value() {
    let source = Fixed {
        env: HashMap::from([
            ("N", "5"),
            ("S", "'5'"),
            ("L", "[a, b]"),
            ("R", "$N"),
            ("C", "$D"),
            ("D", "$C"),
            ("BAD", "a b"),
        ]),
        ..Fixed::default()
    };
    let value = parse("n: $N, s: $S, l: $L, r: $R", &source).unwrap();
    assert_eq!(
        value,
        Value::from([
            ("n", Value::from(5)),
            ("s", "5".into()),
            ("l", vec!["a", "b"].into()),
            ("r", 5.into())
        ])
    );
    let cycle = parse("a: $C", &source).unwrap_err().to_string();
    assert!(cycle.contains("variable reference cycle for 'C'"), "{cycle}");
    let bad = parse("a: $BAD", &source).unwrap_err().to_string();
    assert!(bad.starts_with(":1:4: variable reference for 'BAD' on line 1 could not be parsed"), "{bad}");
}

#[test]
fn included_entries_join_the_map_around_them() {
    let source = Fixed {
        files: HashMap::from([
            ("/etc/nats.conf", "a: 1\nm { include ./sub/m.conf }\nb: $c\n"),
            ("/etc/sub/m.conf", "x: 1\ninclude '../n.conf'"),
            ("/etc/n.conf", "y: 2"),
        ]),
        ..Fixed::default()
    };
    let error = parse_file("/etc/nats.conf", &source).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/etc/nats.conf:3:4: variable reference for 'c' on line 3 can not be found"
    );
    let source = Fixed {
        files: HashMap::from([
            ("nats.conf", "a: 1; include v.conf; m { include m.conf }; b: $c"),
            ("v.conf", "c: 3, a: 2"),
            ("m.conf", "x: 1"),
        ]),
        ..Fixed::default()
    };
    let value = parse_file("nats.conf", &source).unwrap();
    assert_eq!(value, read("a: 2, c: 3, b: 3, m { x: 1 }"));
    let position = &value.get("m").unwrap().as_map().unwrap().entry("x").unwrap().key_position;
    assert_eq!(position.to_string(), "m.conf:1:1");
}

#[test]
fn an_included_file_does_not_see_our_variables() {
    let source = Fixed { files: HashMap::from([("i.conf", "b: $a")]), ..Fixed::default() };
    let error = parse("a: 1\ninclude i.conf", &source).unwrap_err();
    assert_eq!(error.to_string(), "i.conf:1:4: variable reference for 'a' on line 1 can not be found");
}

#[test]
fn includes_end() {
    let source = Fixed {
        files: HashMap::from([("a.conf", "include ./b.conf"), ("b.conf", "include x/../a.conf")]),
        ..Fixed::default()
    };
    let error = parse_file("a.conf", &source).unwrap_err().to_string();
    assert_eq!(error, "b.conf:1:1: include file 'x/../a.conf' includes itself");
}

/// Every file includes the next one: no cycle, and no end.
struct Endless {
    fan_out: usize,
}

impl Source for Endless {
    fn read(&self, path: &str) -> Result<String, String> {
        Ok((0..self.fan_out).map(|index| format!("include {path}{index}\n")).collect())
    }

    fn env(&self, _: &str) -> Option<String> {
        None
    }
}

#[test]
fn includes_are_bounded_in_depth_and_number() {
    let deep = parse("include a", &Endless { fan_out: 1 }).unwrap_err();
    assert_eq!(deep.message, "more than 16 files inside each other");
    let wide: String = (0..257).map(|index| format!("include a{index}\n")).collect();
    let error = parse(&wide, &Endless { fan_out: 0 }).unwrap_err();
    assert_eq!(error.to_string(), ":257:1: more than 256 included files");
}

#[test]
fn depth_is_bounded() {
    let nested = |levels: usize| format!("a: {}1{}", "[".repeat(levels), "]".repeat(levels));
    read(&nested(63));
    read(&nested(64));
    assert!(error(&nested(65)).contains("more than 64 maps and arrays"));
    let grown: String = (1..80).map(|level| format!("x{level} {{ y: $x{} }}\n", level - 1)).collect();
    assert!(error(&format!("x0: 1\n{grown}")).contains("brings more than 64 maps and arrays"));
}

#[test]
fn repeated_variables_are_bounded() {
    let doubled: String = (1..40).map(|level| format!("x{level}: [$x{0}, $x{0}]\n", level - 1)).collect();
    assert!(error(&format!("x0: 1\n{doubled}")).contains("more than 1000000 values"));
}

#[test]
fn rendering_is_sorted_and_stable() {
    let mut value = Value::map();
    value.insert("port", 4222).insert("a b", "x\n\"y\"").insert("include", true).insert("it's", 1.0);
    let mut cluster = Value::map();
    cluster
        .insert("routes", vec!["nats-route://a:1"])
        .insert("tls", Value::map())
        .insert("accounts", Vec::<String>::new());
    value.insert("cluster", cluster);
    let expected = "'a b': \"x\\n\\\"y\\\"\"\ncluster: {\n  accounts: []\n  routes: [\n    \"nats-route://a:1\"\n  ]\n  tls: {}\n}\n'include': true\n\"it's\": 1.0\nport: 4222\n";
    assert_eq!(render(&value), expected);
    assert_eq!(read(expected), value);
}

#[test]
fn merging_goes_into_maps() {
    let mut base = read("a { b: 1, c: 2 }, d: [1]");
    let over = read("a { c: 3, e: 4 }, d: [2], f: x");
    let Kind::Map(over) = over.kind else { panic!("not a map") };
    base.as_map_mut().unwrap().merge(over);
    assert_eq!(base, read("a { b: 1, c: 3, e: 4 }, d: [2], f: x"));
}

/// Digests printed by the reference server for these texts.
#[test]
fn digests_agree_with_the_reference() {
    for (text, expected) in [
        ("max_payload: 10MB\n", "565178d78553bdd38764510f86651e24a5c72ef51dae5b50c328c6d2b6281307"),
        (
            "port: 4222 # c\nserver_name: \"a\\x41\\tb<é\"\n",
            "dac74eb890f9be45cfd904f1b637679d326bd72263c4f671c38172b4116df4d8",
        ),
        ("server_name: abc//d\n", "43d061856de84aa89416f3b7e0c73b274403419e1266c312019103bd8e1be4c9"),
        ("x = 1h\nserver_name: $x\n", "e1e9846d779b3bfdfe0febe015c64ae9172c6119307df66811a00749e637a005"),
        ("server_name: (\na\n)\n", "525a2427759bdc37d19bb358c709cf48a23768e1a936b828b43b1f9797529db2"),
        ("server_tags: [a\nb\nc]\n", "6a740f563c270b0e0256b4efb83fe8f46ca5bc319a2213f41a4e5bbfad8c8541"),
        ("server_name: 1e5\n", "5938959ed0baf17a5996bffa07aea5b0ce3a5f5c8c0cf66392975d72ca74045c"),
        ("server_name: $2a$11$abc\n", "ff7ca204a028ce83bc8bf34d8c03eba144703d826799600449f38983a46e8208"),
        ("port: -5k\n", "96f1d0be6cccd0094da7efb7de74111331267c97591a50c59e8aca75bc29a3c4"),
        ("port = 3kIb\n", "5eacb1c1b8bed19de9e6e6739da2cee9c9e00f361e6e7f35b2efb2eaceedd21c"),
        ("port = 1ei\n", "f8c081d572f74808fcb493d425f043c0814c443f917fd4529de6a0e025cf54b9"),
        ("server_name = 3kk\n", "9a85049bf2847fab638dafdcac8b3fbf61fd68cfe89ed59f39e208c8a48a54ef"),
        (
            "accounts { A { limits { max_conn: 1k} } }\n",
            "b40b5c41a43846a8468e84c19b9b08f292a078a7fff941bad8ef594d1a109e5c",
        ),
        (
            "authorization: { \"user\": \"a\",\"password\":\"b\"},\"port\":3\n",
            "6ca2a2214bef75005b331b147ceae38f9b21e220d89c29a4dd7d80ecad0de1a4",
        ),
        ("http_base_path = //b\n", "fef28bcde62d5d934bfbd7fc187cc46fd11e81d53c2f7e811432bd3528c3f863"),
        ("PORT: 4222\nPort: 4223\n", "1c16ca58ce5c1a223be858bc9eeb26f12c8bcbd971e5ca892e2da4494c40c820"),
    ] {
        assert_eq!(digest(&read(text)), format!("sha256:{expected}"), "{text:?}");
    }
}
