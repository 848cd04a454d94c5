//! Connections over real sockets of this machine.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use enact_server::{BindError, CONNECTIONS_MAX, Exposure, Limits, Listener};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use crate::bank::Bank;

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn limits() -> Limits {
    Limits::within(2 * CONNECTIONS_MAX)
}

async fn ask(address: SocketAddr, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

async fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn a_port_in_use_is_reported_as_such() {
    let first = Listener::bind(any_port(), Exposure::Loopback).unwrap();
    let second = Listener::bind(first.address(), Exposure::Loopback).unwrap_err();
    assert!(matches!(second, BindError::InUse { address } if address == first.address()), "{second}");
}

#[tokio::test]
async fn an_address_reachable_from_elsewhere_is_refused_unless_asked_for() {
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let refused = Listener::bind(everywhere, Exposure::Loopback).unwrap_err();
    assert!(matches!(refused, BindError::NotLoopback { .. }) && refused.is_of_exposure(), "{refused}");
    for exposure in [Exposure::Protected, Exposure::Insecure] {
        Listener::bind(everywhere, exposure).unwrap();
    }
}

#[tokio::test]
async fn stopping_finishes_running_requests_and_accepts_no_more() {
    let (running, mut started) = mpsc::channel(1);
    let (finish, finished) = oneshot::channel::<()>();
    let finished = std::sync::Arc::new(std::sync::Mutex::new(Some(finished)));
    let slow = get(async move || {
        running.send(()).await.unwrap();
        let finished = finished.lock().unwrap().take().unwrap();
        finished.await.unwrap();
        "finished"
    });
    let listener = Listener::bind(any_port(), Exposure::Loopback).unwrap();
    let address = listener.address();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        let stop = async move { stopped.await.unwrap() };
        listener.serve(Router::new().route("/slow", slow), limits(), stop, Duration::from_secs(60)).await;
    });

    let request = ask(address, "GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    started.recv().await.unwrap();
    stop.send(()).unwrap();
    // The socket is closed by then: a new connection is refused, or reset if it still stood in the backlog.
    while let Ok(mut stream) = TcpStream::connect(address).await {
        if stream.read_u8().await.is_err() {
            break;
        }
    }
    assert!(!serving.is_finished());
    finish.send(()).unwrap();
    let text = answer(request).await;
    assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("finished"), "{text}");
    serving.await.unwrap();
}

/// Clients that neither send nor read are waited for much longer here than a test may take.
#[tokio::test]
async fn stopping_ends_the_streams_of_those_that_follow_the_changes() {
    let bank = Bank::open().await;
    let listener = Listener::bind(any_port(), Exposure::Loopback).unwrap();
    let address = listener.address();
    let limits = Limits { farewell: Duration::from_secs(6_000), ..limits() };
    let (stop, stopped) = oneshot::channel::<()>();
    let router = bank.router();
    let serving = tokio::spawn(async move {
        listener.serve(router, limits, async move { stopped.await.unwrap() }, Duration::from_secs(6_000)).await;
    });
    let head = "GET /-/changes HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n";
    let mut stream = ask(address, head).await;
    let mut text = String::new();
    while !text.contains("\"id\":\"B\"") {
        let mut some = [0; 1_000];
        let read = stream.read(&mut some).await.unwrap();
        assert!(read > 0, "{text}");
        text += std::str::from_utf8(&some[..read]).unwrap();
    }
    stop.send(()).unwrap();
    serving.await.unwrap();
    assert!(answer(stream).await.ends_with("0\r\n\r\n"), "it ends as an answer does");
}

#[tokio::test]
async fn what_is_not_http_is_answered_and_closed() {
    let listener = Listener::bind(any_port(), Exposure::Loopback).unwrap();
    let address = listener.address();
    let serving = tokio::spawn(listener.serve(Router::new(), limits(), std::future::pending::<()>(), Duration::ZERO));
    let garbage = answer(ask(address, "\0\0\0\0 nonsense\r\n\r\n").await).await;
    assert!(garbage.starts_with("HTTP/1.1 400"), "{garbage}");
    let headers = "h: v\r\n".repeat(1_000);
    let oversized = answer(ask(address, &format!("GET / HTTP/1.1\r\n{headers}\r\n")).await).await;
    assert!(oversized.starts_with("HTTP/1.1 431"), "{oversized}");
    serving.abort();
}

#[test]
fn connections_take_half_of_the_descriptors_and_have_a_bound() {
    for (descriptors, expected) in [(0, 1), (64, 32), (1_024, 512), (4_096, 2_048), (1 << 20, 2_048)] {
        assert_eq!(Limits::within(descriptors).connections_max, expected, "{descriptors}");
    }
}
