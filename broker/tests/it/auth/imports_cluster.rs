//! Services and streams across servers.

use testkit::{Client, Cluster, Member, eventually};

use crate::cluster::settle;
use crate::target;

const TOP: &str = "accounts {
    SVC { users: [{user: s, password: s}], exports: [{service: req}, {service: many, response: stream}, {stream: 'pub.*'}] }
    APP { users: [{user: a, password: a}], imports: [
      {service: {account: SVC, subject: req}, to: ask}, {service: {account: SVC, subject: many}}
      {stream: {account: SVC, subject: 'pub.*'}, to: 'in.$1'}
    ] }
    $SYS { users: [{user: sys, password: sys}] } }";

async fn cluster(count: usize) -> Cluster {
    Cluster::start((0..count).map(|_| Member::new(&target()).top(TOP)).collect()).await
}

/// O81: the service is on one server, the request comes in on the second, the inbox is on the third.
#[tokio::test]
async fn an_answer_finds_an_inbox_on_a_third_server() {
    let cluster = cluster(3).await;
    let mut service = Client::user(&cluster[0], "s", "s").await;
    let mut service_here = Client::user(&cluster[1], "s", "s").await;
    let mut app = Client::user(&cluster[1], "a", "a").await;
    let mut inbox = Client::user(&cluster[2], "a", "a").await;
    service.subscribe("req", "1").await;
    settle(&mut service_here, &mut service).await;
    inbox.subscribe("_INBOX.far", "1").await;
    settle(&mut app, &mut inbox).await;
    for round in 0..20 {
        app.request("ask", "_INBOX.far", &format!("q{round}")).await;
        let request = service.message().await;
        assert_eq!(
            (request.subject.as_str(), request.payload.as_str()),
            ("req", format!("q{round}").as_str())
        );
        service.publish(&request.reply.unwrap(), &format!("a{round}")).await;
        let answer = inbox.message().await;
        assert_eq!((answer.subject.as_str(), answer.payload), ("_INBOX.far", format!("a{round}")));
    }
    inbox.expect_silence().await;
    app.expect_silence().await;
}

#[tokio::test]
async fn a_request_that_no_server_takes_is_answered_at_once() {
    let cluster = cluster(2).await;
    let mut app = Client::user(&cluster[0], "a", "a").await;
    app.subscribe("_INBOX.1", "1").await;
    app.request("ask", "_INBOX.1", "").await;
    app.expect("HMSG _INBOX.1 1 35 35\r\nNATS/1.0 503\r\nNats-Subject: ask\r\n\r\n\r\n").await;
}

#[tokio::test]
async fn a_request_goes_to_a_service_once_wherever_it_is() {
    let cluster = cluster(2).await;
    let mut far = Client::user(&cluster[1], "s", "s").await;
    let mut near = Client::user(&cluster[0], "s", "s").await;
    let mut app_far = Client::user(&cluster[1], "a", "a").await;
    let mut app = Client::user(&cluster[0], "a", "a").await;
    far.subscribe("req", "1").await;
    settle(&mut near, &mut far).await;
    // Interest of the asking account on the other server must not make the request come in there again.
    app_far.subscribe("ask", "1").await;
    settle(&mut app, &mut app_far).await;
    for _ in 0..10 {
        app.publish("ask", "x").await;
    }
    app.flush().await;
    assert_eq!(far.take(10).await.len(), 10);
    far.expect_silence().await;
    assert_eq!(app_far.take(10).await.len(), 10);
}

#[tokio::test]
async fn many_answers_come_back_over_a_route() {
    let cluster = cluster(2).await;
    let mut service = Client::user(&cluster[1], "s", "s").await;
    let mut probe = Client::user(&cluster[0], "s", "s").await;
    let mut app = Client::user(&cluster[0], "a", "a").await;
    service.subscribe("many", "1").await;
    settle(&mut probe, &mut service).await;
    app.subscribe("_INBOX.1", "1").await;
    app.request("many", "_INBOX.1", "").await;
    let reply = service.message().await.reply.unwrap();
    for part in 0..50 {
        service.publish(&reply, &part.to_string()).await;
    }
    for part in 0..50 {
        assert_eq!(app.message().await.payload, part.to_string());
    }
}

#[tokio::test]
async fn a_stream_is_followed_from_every_server() {
    let cluster = cluster(2).await;
    let mut out = Client::user(&cluster[0], "s", "s").await;
    let mut near = Client::user(&cluster[0], "a", "a").await;
    let mut far = Client::user(&cluster[1], "a", "a").await;
    near.subscribe("in.*", "1").await;
    near.flush().await;
    far.subscribe("in.x", "1").await;
    far.flush().await;
    eventually("interest in the stream has spread", async || {
        out.publish("pub.x", "probe").await;
        near.next().await;
        far.next_within(std::time::Duration::from_millis(20)).await
    })
    .await;
    far.drain().await;
    out.publish("pub.x", "m").await;
    far.expect("MSG in.x 1 1\r\nm\r\n").await;
    near.expect("MSG in.x 1 1\r\nm\r\n").await;
    out.publish("pub.y", "m").await;
    near.expect("MSG in.y 1 1\r\nm\r\n").await;
    far.expect_silence().await;
    // Published in the account that follows, it is an ordinary message.
    far.op("UNSUB 1").await;
    far.flush().await;
    near.op("UNSUB 1").await;
    near.flush().await;
    out.subscribe("_INBOX.*", "9").await;
    eventually("nobody follows any more", async || {
        out.request("pub.x", "_INBOX.1", "").await;
        out.drain().await.iter().any(|frame| frame.line().starts_with("HMSG _INBOX.1")).then_some(())
    })
    .await;
}
