//! Peers whose certificate has to name a configured route (`verify_cert_and_check_known_urls`).

use testkit::certs::{Authority, Identity, Names};
use testkit::{Builder, Proxy, Server, eventually_ok};

use super::{FILES, with_files};
use crate::target;

/// A server whose only configured route is to `localhost`, where nobody answers.
async fn accepting(authority: &Authority, nobody: &Proxy) -> Server {
    with_files(authority)
        .config(format!(
            "server_name: accepting\ncluster {{ name: c1, listen: \"127.0.0.1:-1\", routes: [\"nats-route://localhost:{}\"]\ntls {{ {FILES}\nverify_cert_and_check_known_urls: true }} }}",
            nobody.address().port()
        ))
        .monitoring()
        .start()
        .await
}

/// A server that dials the other with this certificate.
async fn dialing(to: &Server, authority: &Authority, identity: &Identity) -> Server {
    Builder::new(&target())
        .config(format!(
            "server_name: dialing\ncluster {{ name: c1, listen: \"127.0.0.1:-1\", routes: [\"nats-route://{}\"]\ntls {{ {FILES} }} }}",
            to.cluster_addr()
        ))
        .file("ca.pem", authority.pem())
        .identity("server", identity)
        .monitoring()
        .start()
        .await
}

#[tokio::test]
async fn only_peers_that_are_named_by_a_configured_route_may_connect() {
    let authority = Authority::new("ca");
    let nobody = Proxy::waiting().await;
    nobody.refuse(true);
    let accepting = accepting(&authority, &nobody).await;

    let other =
        authority.issue(&Names { common: "localhost", dns: &["other.example.net"], ..Names::default() });
    let unwelcome = dialing(&accepting, &authority, &other).await;
    eventually_ok("the refusal is logged", async || {
        let log = unwelcome.log();
        // The one names the refusal, the other the place.
        let refused =
            log.contains("Authorization Violation") || log.contains("Error trying to connect to route");
        if refused { Ok(()) } else { Err(log) }
    })
    .await;
    assert_eq!(accepting.get_json("/routez").await["num_routes"], 0);

    let named = authority.issue(&Names { common: "x", dns: &["localhost"], ..Names::default() });
    let _welcome = dialing(&accepting, &authority, &named).await;
    let routez =
        accepting.await_json("/routez", "routes", |routez| routez["num_routes"].as_u64() >= Some(4)).await;
    assert_eq!(routez["num_routes"], 4, "{routez:#}");
    assert_eq!(unwelcome.get_json("/routez").await["num_routes"], 0);
}
