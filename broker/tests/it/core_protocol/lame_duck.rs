//! Lame duck: the server tells its clients to go, then closes them.

use testkit::{Client, Signal};
use tokio::net::TcpStream;

use crate::server;

const QUICK: &str = "lame_duck_grace_period: \"200ms\"\nlame_duck_duration: \"30s\"";

#[tokio::test]
async fn clients_are_told_closed_and_the_server_exits() {
    let mut server = server(QUICK).await;
    let mut client = Client::ready(&server).await;
    client.next_info().await;
    server.signal(Signal::USR2);
    let info = client.next_info().await;
    assert_eq!(info["ldm"], true);
    assert!(info.get("connect_urls").is_none(), "{info}");
    client.expect_closed().await;
    assert_eq!(server.await_exit().await.code(), Some(0));
    assert!(server.log().contains("Entering lame duck mode, stop accepting new clients"), "{}", server.log());
}

#[tokio::test]
async fn no_new_client_gets_in_while_the_old_ones_work_on() {
    let server = server("lame_duck_grace_period: \"29s\"\nlame_duck_duration: \"30s\"").await;
    let mut client = Client::ready(&server).await;
    client.subscribe("foo", "1").await;
    server.signal(Signal::USR2);
    while client.info().get("ldm").is_none() {
        client.next_info().await;
    }
    client.publish("foo", "still here").await;
    client.expect("MSG foo 1 10\r\nstill here\r\n").await;
    assert!(TcpStream::connect(server.client_addr()).await.is_err(), "a new client got in");
}

#[tokio::test]
async fn without_clients_the_server_exits_at_once() {
    let mut server = server("").await;
    server.signal(Signal::USR2);
    assert_eq!(server.await_exit().await.code(), Some(0));
}

#[tokio::test]
async fn termination_is_ignored_in_lame_duck_mode_but_interruption_is_not() {
    let mut server = server("lame_duck_grace_period: \"29s\"\nlame_duck_duration: \"30s\"").await;
    let mut client = Client::ready(&server).await;
    server.signal(Signal::USR2);
    while client.info().get("ldm").is_none() {
        client.next_info().await;
    }
    server.signal(Signal::TERM);
    server.await_log("Trapped \"terminated\" signal").await;
    client.expect_silence().await;
    server.signal(Signal::INT);
    assert_eq!(server.await_exit().await.code(), Some(0));
}
