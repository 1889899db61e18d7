//! Files that the program writes.

use serde_json::Value;
use testkit::{Builder, Server, Signal};

use crate::target;

fn ports_file(server: &Server) -> std::path::PathBuf {
    let program = server.target().binary.file_name().unwrap().to_str().unwrap().to_owned();
    server.dir().join(format!("{program}_{}.ports", server.pid()))
}

#[tokio::test]
async fn the_pid_file_holds_the_process_id() {
    for args in [["-P", "%DIR%/pid"], ["--pid", "%DIR%/pid"]] {
        let server = Builder::new(&target()).args(args).start().await;
        let text = std::fs::read_to_string(server.dir().join("pid")).unwrap();
        assert_eq!(text.trim(), server.pid().to_string());
    }
    let server = Builder::new(&target()).config("pid_file: \"%DIR%/pid\"").start().await;
    assert_eq!(std::fs::read_to_string(server.dir().join("pid")).unwrap().trim(), server.pid().to_string());
}

#[tokio::test]
async fn the_ports_file_lists_every_listener_and_goes_with_the_server() {
    let mut server = Builder::new(&target())
        .config("cluster { name: c1, listen: \"127.0.0.1:-1\" }\nhttp: \"127.0.0.1:-1\"")
        .start()
        .await;
    let path = ports_file(&server);
    let document: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(document["nats"][0], format!("nats://{}", server.client_addr()));
    assert_eq!(document["monitoring"][0], format!("http://{}", server.monitoring_addr()));
    assert_eq!(document["cluster"][0], format!("nats://{}", server.cluster_addr()));
    server.stop().await;
    assert!(!path.exists(), "the ports file is left");
}

#[tokio::test]
async fn the_log_goes_to_a_file_and_is_reopened_on_request() {
    let server = Builder::new(&target()).args(["-l", "%DIR%/the.log"]).start().await;
    let log = server.dir().join("the.log");
    assert!(std::fs::read_to_string(&log).unwrap().contains("Server is ready"));
    std::fs::rename(&log, server.dir().join("the.log.1")).unwrap();
    server.signal(Signal::USR1);
    testkit::eventually("the new file", async || {
        std::fs::read_to_string(&log).ok().filter(|text| text.contains("File log re-opened"))
    })
    .await;
}
