//! Signals, sent directly and by the program itself.

use testkit::{Builder, Client, Signal};

use super::run;
use crate::{server, target};

#[tokio::test]
async fn interrupt_and_terminate_end_the_server_well() {
    for (signal, name) in [(Signal::INT, "interrupt"), (Signal::TERM, "terminated")] {
        let mut server = server("").await;
        let mut client = Client::ready(&server).await;
        server.signal(signal);
        client.expect_closed().await;
        assert_eq!(server.await_exit().await.code(), Some(0), "{name}");
        assert!(server.log().contains(&format!("Trapped \"{name}\" signal")), "{}", server.log());
    }
}

#[tokio::test]
async fn the_program_sends_signals_by_process_id() {
    let mut server = server("max_payload: 1000").await;
    server.write_config("max_payload: 1001");
    let reload = run(&["--signal", &format!("reload={}", server.pid())]).await;
    assert_eq!(reload.code, Some(0), "{reload:?}");
    server.await_log("Reloaded server configuration").await;
    let reopen = run(&["-sl", &format!("reopen={}", server.pid())]).await;
    assert_eq!(reopen.code, Some(0), "{reopen:?}");
    server.await_log("Trapped \"user defined signal 1\" signal").await;
    let quit = run(&["--signal", &format!("quit={}", server.pid())]).await;
    assert_eq!(quit.code, Some(0), "{quit:?}");
    assert_eq!(server.await_exit().await.code(), Some(0));
}

#[tokio::test]
async fn the_program_sends_signals_by_pid_file() {
    let mut server = Builder::new(&target()).args(["-P", "%DIR%/pid"]).start().await;
    let pid_file = server.dir().join("pid");
    let finished = run(&["--signal", &format!("term={}", pid_file.display())]).await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(server.await_exit().await.code(), Some(0));
}

#[tokio::test]
async fn stop_kills_and_ldm_drains() {
    let mut killed = server("").await;
    run(&["--signal", &format!("stop={}", killed.pid())]).await;
    assert_eq!(killed.await_exit().await.code(), None);
    let mut drained = server("").await;
    run(&["--signal", &format!("ldm={}", drained.pid())]).await;
    assert_eq!(drained.await_exit().await.code(), Some(0));
    assert!(drained.log().contains("lame duck"), "{}", drained.log());
}

#[tokio::test]
async fn a_signal_to_nobody_is_an_error() {
    for (command, text) in [("stop=/nonexistent/pid", "/nonexistent/pid"), ("reload=999999999", "999999999")]
    {
        let finished = run(&["--signal", command]).await;
        assert_eq!(finished.code, Some(1), "{command}: {finished:?}");
        assert!(finished.stderr.contains(text), "{command}: {finished:?}");
    }
}
