//! TLS between servers.

use testkit::certs::Authority;
use testkit::{Builder, Client, Cluster, Member, Target};

use super::FILES;
use crate::cluster::settle;
use crate::{reference, target};

fn member(target: &Target, authority: &Authority, options: &str) -> Member {
    let identity = authority.server("node");
    Member::new(target)
        .cluster(&format!("tls {{ {FILES}\n{options} }}"))
        .file("ca.pem", authority.pem())
        .file("server-cert.pem", identity.pem())
        .file("server-key.pem", &identity.key_pem())
}

async fn assert_passes(cluster: &Cluster) {
    for (from, to) in [(0, 1), (1, 0)] {
        let mut publisher = Client::ready(&cluster[from]).await;
        let mut subscriber = Client::ready(&cluster[to]).await;
        subscriber.subscribe("foo", "1").await;
        settle(&mut publisher, &mut subscriber).await;
        publisher.request("foo", "re.ply", "hello").await;
        subscriber.expect("MSG foo 1 re.ply 5\r\nhello\r\n").await;
    }
}

#[tokio::test]
async fn servers_of_one_authority_connect() {
    let authority = Authority::new("ca");
    for options in ["", "verify: true"] {
        let members = vec![member(&target(), &authority, options), member(&target(), &authority, options)];
        let cluster = Cluster::start(members).await;
        assert_passes(&cluster).await;
        let varz = cluster[0].get_json("/varz").await;
        assert_eq!(varz["cluster"]["tls_required"], true, "{varz}");
    }
}

#[tokio::test]
async fn ours_and_the_reference_connect_over_tls() {
    let Some(reference) = reference() else { return };
    let authority = Authority::new("ca");
    for targets in [[target(), reference.clone()], [reference, target()]] {
        let members = targets.iter().map(|target| member(target, &authority, "verify: true")).collect();
        assert_passes(&Cluster::start(members).await).await;
    }
}

#[tokio::test]
async fn servers_of_different_authorities_do_not_connect() {
    let (authority, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    let cluster = Cluster::start_unmeshed(vec![
        member(&target(), &authority, "verify: true"),
        member(&target(), &stranger, "verify: true"),
    ])
    .await;
    cluster[1].await_log("TLS route handshake error").await;
    assert_eq!(cluster[0].get_json("/routez").await["num_routes"], 0);
    assert_eq!(cluster[1].get_json("/routez").await["num_routes"], 0);
}

#[tokio::test]
async fn a_route_without_tls_is_refused() {
    let authority = Authority::new("ca");
    let first = Cluster::start_unmeshed(vec![member(&target(), &authority, "timeout: 0.5")]).await;
    let mut peer = Client::dial(first[0].cluster_addr()).await;
    peer.send("CONNECT {\"verbose\":false}\r\n").await;
    let said = peer.read_until_lost().await;
    assert!(!said.contains("INFO"), "{said:?}");
    assert_eq!(first[0].get_json("/routez").await["num_routes"], 0);
}

#[tokio::test]
async fn a_dialing_server_may_be_told_not_to_verify() {
    let (authority, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    // The accepting side knows both authorities, the dialing side only its own.
    let both = format!("{}{}", authority.pem(), stranger.pem());
    let mut accepting = member(&target(), &authority, "");
    accepting.files.retain(|(name, _)| name != "ca.pem");
    let cluster = Cluster::start_unmeshed(vec![
        accepting.file("ca.pem", &both),
        member(&target(), &stranger, "insecure: true"),
    ])
    .await;
    cluster[1].await_json("/routez", "routes", |routez| routez["num_routes"].as_u64() >= Some(3)).await;
}

#[tokio::test]
async fn only_pinned_servers_may_connect() {
    let authority = Authority::new("ca");
    let (good, bad) = (authority.server("good"), authority.server("bad"));
    let accepting =
        |pin: &str| member(&target(), &authority, &format!("verify: true, pinned_certs: [\"{pin}\"]"));
    let dialing = |first: &Cluster| {
        Builder::new(&target())
            .config(format!(
                "server_name: dialing\ncluster {{ name: c1, listen: \"127.0.0.1:-1\", routes: [\"nats-route://{}\"], tls {{ {FILES}\nverify: true }} }}",
                first[0].cluster_addr()
            ))
            .file("ca.pem", authority.pem())
            .monitoring()
    };
    let pinned = Cluster::start_unmeshed(vec![accepting(&good.pin())]).await;
    let welcome = dialing(&pinned).identity("server", &good).start().await;
    welcome.await_json("/routez", "routes", |routez| routez["num_routes"].as_u64() >= Some(3)).await;
    let unwelcome = dialing(&pinned).identity("server", &bad).start().await;
    testkit::eventually_ok("the refusal is logged", async || {
        let log = pinned[0].log();
        if log.contains("pinned") || log.contains("handshake error") { Ok(()) } else { Err(log) }
    })
    .await;
    assert_eq!(unwelcome.get_json("/routez").await["num_routes"], 0);
}
