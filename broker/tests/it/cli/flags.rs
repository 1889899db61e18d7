//! Flags in both dash forms, and what they print.

use testkit::{Builder, Client};

use super::{program, run, usage_error};
use crate::target;

#[tokio::test]
async fn the_version_is_of_the_compatible_level() {
    for flag in ["-v", "--version", "-version", "version"] {
        let finished = run(&[flag]).await;
        assert_eq!(finished.code, Some(0), "{flag}: {finished:?}");
        assert!(finished.stdout.starts_with(&format!("{}: v2.15.", program())), "{flag}: {finished:?}");
    }
}

#[tokio::test]
async fn help_lists_the_flags() {
    for flag in ["-h", "--help", "help"] {
        let finished = run(&[flag]).await;
        assert_eq!(finished.code, Some(0), "{flag}");
        let text = finished.stdout + &finished.stderr;
        assert!(text.contains("Usage: "), "{flag}: {text}");
        for option in [
            "--addr",
            "--port",
            "--config",
            "--signal",
            "--cluster",
            "--routes",
            "--tlscert",
            "--http_port",
            "--ports_file_dir",
            "--pid",
            "--log",
            "--debug",
            "--trace",
            "--user",
            "--pass",
            "--auth",
        ] {
            assert!(text.contains(option), "{flag}: no {option}");
        }
    }
}

#[tokio::test]
async fn help_for_tls_is_there() {
    let finished = run(&["--help_tls"]).await;
    assert_eq!(finished.code, Some(0));
    let text = finished.stdout + &finished.stderr;
    assert!(text.contains("cert_file"), "{text}");
}

#[tokio::test]
async fn an_unknown_flag_is_refused_with_the_usage() {
    let finished = run(&["--shoe_size", "43"]).await;
    let text = finished.stdout + &finished.stderr;
    assert!(text.contains("flag provided but not defined: -shoe_size"), "{text}");
    assert!(text.contains("Usage: "), "{text}");
    // The reference ends with 0, as if all were well.
    let expected = if target().is_myelin() { Some(2) } else { Some(0) };
    assert_eq!(finished.code, expected);
}

#[tokio::test]
async fn a_flag_without_its_value_or_with_a_bad_one_is_refused() {
    for (args, text) in [
        (vec!["-p"], "flag needs an argument: -p"),
        (vec!["-p", "many"], "invalid value \"many\" for flag -p: parse error"),
    ] {
        let finished = run(&args).await;
        let output = finished.stdout + &finished.stderr;
        assert!(output.contains(text), "{args:?}: {output}");
    }
}

#[tokio::test]
async fn an_unknown_word_is_refused() {
    let finished = run(&["dance"]).await;
    assert_eq!(finished.code, Some(usage_error()));
    assert!(finished.stderr.contains("unrecognized command: \"dance\""), "{finished:?}");
}

#[tokio::test]
async fn flags_may_have_one_dash_or_two_and_an_equals_sign() {
    for args in [
        ["-addr=127.0.0.1", "-port=-1", "--name=alpha", "-m=-1"],
        ["--net=127.0.0.1", "--port=-1", "-server_name=alpha", "--http_port=-1"],
        ["-a=127.0.0.1", "-p=-1", "-n=alpha", "-http_port=-1"],
    ] {
        let server = Builder::new(&target()).own_listen().args(args).start().await;
        let client = Client::open(server.client_addr()).await;
        assert_eq!(client.info()["server_name"], "alpha", "{args:?}");
        assert_eq!(client.info()["host"], "127.0.0.1", "{args:?}");
        assert_eq!(server.get_json("/varz").await["server_name"], "alpha");
    }
}

#[tokio::test]
async fn user_password_and_token_may_be_flags() {
    let with_user = Builder::new(&target()).args(["--user", "ann", "--pass", "a"]).start().await;
    Client::user(&with_user, "ann", "a").await;
    let mut nobody = Client::open(with_user.client_addr()).await;
    nobody.op("CONNECT {}").await;
    nobody.expect_fatal("Authorization Violation").await;
    let with_token = Builder::new(&target()).args(["--auth", "t0k3n"]).start().await;
    Client::ready_with(&with_token, serde_json::json!({"auth_token": "t0k3n"})).await;
}

#[tokio::test]
async fn a_cluster_may_be_set_up_by_flags() {
    let first = Builder::new(&target())
        .args(["--cluster_name", "c1", "--cluster", "nats://127.0.0.1:-1"])
        .monitoring()
        .start()
        .await;
    let second = Builder::new(&target())
        .args(["--cluster_name", "c1", "--cluster_listen", "nats://127.0.0.1:-1"])
        .args(["--routes", &format!("nats://{}", first.cluster_addr())])
        .monitoring()
        .start()
        .await;
    second.await_json("/varz", "routes", |varz| varz["routes"].as_u64() > Some(0)).await;
    assert_eq!(second.get_json("/varz").await["cluster"]["name"], "c1");
}

#[tokio::test]
async fn flags_win_over_the_file() {
    let server = Builder::new(&target())
        .config("server_name: of_file\nport: 1\nhost: \"10.255.255.1\"")
        .args(["--name", "of_flag"])
        .start()
        .await;
    assert_eq!(Client::open(server.client_addr()).await.info()["server_name"], "of_flag");
}
