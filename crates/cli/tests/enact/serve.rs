//! `enact serve`: starting, refusing to start, and stopping.

use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::served::{BANK, FREE_PORT, Served, enact, http, serve};

/// A directory with a specification and a place for data.
struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { directory: tempfile::tempdir().expect("a place for the test") };
        fs::write(place.spec(), BANK).expect("writable");
        place
    }

    fn spec(&self) -> PathBuf {
        self.directory.path().join("bank.rebel")
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn serve(&self) -> Served {
        Served::start(serve(&self.spec(), &self.data(), FREE_PORT))
    }
}

/// Fails unless `enact serve` with `arguments` ends with `status` and a message that contains all `parts`.
#[track_caller]
fn refuses(arguments: &[&str], status: i32, parts: &[&str]) {
    let ended = enact(&[&["serve"], arguments].concat());
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(status), "{arguments:?}\n{stderr}");
    assert!(ended.stdout.is_empty(), "it never listens");
    let message = stderr.lines().last().expect("a message");
    assert!(message.starts_with("error: "), "{stderr}");
    assert!(parts.iter().all(|part| message.contains(part)), "{parts:?} in\n{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_every_way_to_stop() {
    let place = Place::new();
    let open = json!({ "initialDeposit": "EUR 10.00" });
    for (number, stop) in [Some(Signal::TERM), Some(Signal::INT), None].into_iter().enumerate() {
        let server = place.serve();
        let (status, body) = server.post(&format!("/Account/A{number}/Open"), open.clone()).await;
        assert_eq!((status, &body["state"]), (StatusCode::OK, &json!("opened")));
        match stop {
            Some(signal) => {
                server.signal(signal);
                let (status, log) = server.ended();
                assert!(status.success(), "{status}\n{log}");
                assert!(log.contains("stopping") && log.contains("stopped"), "{log}");
            }
            None => server.kill(),
        }
        let server = place.serve();
        for earlier in 0..=number {
            let (status, body) = server.get(&format!("/Account/A{earlier}")).await;
            assert_eq!((status, &body["fields"]["balance"]), (StatusCode::OK, &json!("EUR 10.00")));
        }
    }
}

#[tokio::test]
async fn every_admission_strategy_serves() {
    for admission in [
        &["locking"][..],
        &["locking-early-release"],
        &["psac"],
        &["serializable"],
        &["Account=psac"],
        &["Account=locking-early-release", "locking"],
    ] {
        let place = Place::new();
        let mut command = serve(&place.spec(), &place.data(), FREE_PORT);
        for admission in admission {
            command.args(["--admission", admission]);
        }
        let server = Served::start(command);
        let (status, _) = server.post("/Account/A/Open", json!({ "initialDeposit": "EUR 10.00" })).await;
        assert_eq!(status, StatusCode::OK);
        let (_, interface) = server.get("/openapi.json").await;
        let is_weak = interface["info"]["description"].as_str().is_some_and(|text| text.contains("(`psac`)"));
        assert_eq!(is_weak, admission.iter().any(|admission| admission.ends_with("psac")), "{admission:?}");
    }
}

/// A server whose disk takes a while for each record.
fn slow(place: &Place, flags: &[&str]) -> Served {
    let mut command = serve(&place.spec(), &place.data(), FREE_PORT);
    command.args(["--sync-min", "300ms"]).args(flags);
    Served::start(command)
}

/// The status and the body of the answer to `event` within `deadline`. Payments go to account B.
async fn answer(
    server: &Served,
    account: &str,
    event: &str,
    amount: &str,
    deadline: &str,
) -> (StatusCode, serde_json::Value) {
    let request = http().post(server.url(&format!("/Account/{account}/{event}")));
    let body = match event {
        "Open" => json!({ "initialDeposit": amount }),
        "Pay" => json!({ "amount": amount, "to": "B" }),
        _ => json!({ "amount": amount }),
    };
    let answer = request.header("enact-deadline-ms", deadline).json(&body).send().await.expect("serving");
    (answer.status(), answer.json().await.expect("every answer is JSON"))
}

const PATIENT: &str = "30000";

/// Does `round` with a new account, EUR 100.00 on it, until it shows something: one in which the disk was too fast shows nothing.
async fn shown<T>(server: &Served, mut round: impl AsyncFnMut(&str) -> Option<T>) -> T {
    assert_eq!(answer(server, "B", "Open", "EUR 0.00", PATIENT).await.0, 200);
    for number in 0..100 {
        let account = format!("A{number}");
        assert_eq!(answer(server, &account, "Open", "EUR 100.00", PATIENT).await.0, 200);
        if let Some(shown) = round(&account).await {
            return shown;
        }
    }
    panic!("it has no effect");
}

#[tokio::test]
async fn open_max_is_how_many_events_of_one_object_are_undecided_at_once() {
    for (flags, may_be_two) in [(&["--open-max", "1"][..], false), (&[], true)] {
        let place = Place::new();
        let server = slow(&place, flags);
        shown(&server, async |account| {
            // Deposits commute, so nothing but the limit keeps one of them out, whichever comes first.
            let answers = tokio::join!(
                answer(&server, account, "Deposit", "EUR 1.00", "100"),
                answer(&server, account, "Deposit", "EUR 2.00", "100")
            );
            let answers = [answers.0, answers.1];
            let is_bound = answers.iter().any(|(_, answer)| {
                answer["detail"].as_str().is_some_and(|text| text.contains("1 are open, as many as may be"))
            });
            assert!(!(may_be_two && is_bound), "{answers:#?}");
            let are_both_open = answers.iter().all(|(_, answer)| answer["phase"] == "record");
            let is_shown = if may_be_two { are_both_open } else { is_bound };
            is_shown.then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn delayed_max_is_how_many_events_wait_at_one_object_before_the_next_is_turned_away() {
    for (flags, is_turned_away) in [(&["--delayed-max", "0"][..], true), (&[], false)] {
        let place = Place::new();
        let server = slow(&place, flags);
        let status = shown(&server, async |account| {
            // The second one depends on the first.
            let (_, (status, second)) = tokio::join!(
                answer(&server, account, "Pay", "EUR 60.00", PATIENT),
                answer(&server, account, "Pay", "EUR 60.00", "100")
            );
            (status == 503 || second["waits_for"].is_array()).then_some(status)
        })
        .await;
        assert_eq!(status == 503, is_turned_away, "{status}");
    }
}

/// How many payments have waited for another one.
async fn payments_delayed(server: &Served) -> u64 {
    let series = "enact_delayed_total{class=\"Account\",event=\"Pay\",waits_for=\"Pay\",cause=\"verdict\"} ";
    let metrics = http().get(server.url("/metrics")).send().await.expect("serving").text().await.expect("text");
    let count = metrics.lines().find_map(|line| line.strip_prefix(series));
    count.map_or(0, |count| count.parse().expect("a count"))
}

#[tokio::test]
async fn overtakes_max_is_how_many_events_pass_one_that_waits() {
    for (flags, has_turn) in [(&["--overtakes-max", "0"][..], true), (&[], false)] {
        let place = Place::new();
        let server = slow(&place, flags);
        shown(&server, async |account| {
            let before = payments_delayed(&server).await;
            let payments = async {
                tokio::join!(
                    answer(&server, account, "Pay", "EUR 60.00", PATIENT),
                    answer(&server, account, "Pay", "EUR 60.00", PATIENT)
                )
            };
            let deposit = async {
                // It could change whether the payment that waits is possible.
                while payments_delayed(&server).await == before {}
                answer(&server, account, "Deposit", "EUR 50.00", "100").await.1
            };
            let mut deposit = std::pin::pin!(deposit);
            let mut payments = std::pin::pin!(payments);
            let third = tokio::select! {
                third = &mut deposit => third,
                // Neither waited for the other.
                _ = &mut payments => return None,
            };
            payments.await;
            let is_behind = third["detail"].as_str().is_some_and(|text| {
                text.contains("Pay of ") && text.contains(" came earlier; Deposit takes its turn after it")
            });
            assert!(has_turn || !is_behind, "{third:#}");
            // With a turn to keep, a deposit is recorded only where it came after the payments.
            let is_shown = if has_turn { is_behind } else { third["phase"] == "record" };
            is_shown.then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn answers_are_kept_as_long_as_it_is_told_also_over_a_restart() {
    for (keep, is_replayed) in [("1h", true), ("0s", false)] {
        let place = Place::new();
        for start in 0..2_u32 {
            let mut command = serve(&place.spec(), &place.data(), FREE_PORT);
            command.args(["--keep-answers", keep]);
            let server = Served::start(command);
            if start == 0 {
                assert_eq!(server.post("/Account/A/Open", json!({ "initialDeposit": "EUR 1.00" })).await.0, 200);
            }
            for repeat in 0..2_u32 {
                let deposit = http().post(server.url("/Account/A/Deposit"));
                let deposit = deposit.header("idempotency-key", "gift").json(&json!({ "amount": "EUR 1.00" }));
                let answer = deposit.send().await.expect("serving");
                assert_eq!(answer.status(), 200);
                let is_first = start + repeat == 0;
                assert_eq!(answer.headers().contains_key("idempotency-replayed"), is_replayed && !is_first, "{keep}");
            }
            server.signal(Signal::TERM);
            assert!(server.ended().0.success());
        }
    }
}

/// Sends the head of a command and returns when the server waits for its body.
async fn half_a_command(server: &Served, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).await.expect("listening");
    let head = format!(
        "POST /Account/A/Open HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("open");
    let expected = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut answer = vec![0; expected.len()];
    stream.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(answer, expected);
    stream
}

#[tokio::test]
async fn a_signal_lets_what_was_admitted_finish() {
    let place = Place::new();
    let server = place.serve();
    let body = r#"{"initialDeposit":"EUR 10.00"}"#;
    let mut stream = half_a_command(&server, body).await;
    server.signal(Signal::TERM);
    // From the signal on, connections are refused, or reset if they still stood in the backlog.
    while let Ok(mut probe) = TcpStream::connect(server.address()).await {
        if probe.read_u8().await.is_err() {
            break;
        }
    }
    stream.write_all(body.as_bytes()).await.expect("open");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    let (status, log) = server.ended();
    assert!(status.success(), "{status}\n{log}");
    let (status, _) = place.serve().get("/Account/A").await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn connections_never_use_up_the_descriptors() {
    let place = Place::new();
    let mut command = Command::new("sh");
    let (spec, data) = (text(&place.spec()), text(&place.data()));
    command.args(["-c", "ulimit -n 64 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_enact"), "serve", &spec]);
    command.args(["--data", &data, "--listen", FREE_PORT]);
    let server = Served::start(command);
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(server.address()).await.expect("listening"));
    }
    for account in 0..20 {
        let open = json!({ "initialDeposit": "EUR 10.00" });
        let (status, body) = server.post(&format!("/Account/A{account}/Open"), open).await;
        assert_eq!(status, StatusCode::OK, "{body}");
    }
    server.signal(Signal::TERM);
    let (status, log) = server.ended();
    assert!(status.success(), "{status}\n{log}");
    assert!(log.contains("connections_max=32") && !log.contains("cannot accept"), "{log}");
}

#[tokio::test]
async fn a_log_that_nobody_reads_stops_neither_answers_nor_a_stop() {
    for is_read_later in [true, false] {
        let place = Place::new();
        let mut command = serve(&place.spec(), &place.data(), FREE_PORT);
        command.args(["--log", "debug"]);
        let mut server = Served::start_unread(command);
        let client = reqwest::Client::new();
        // More than the pipe and the queue take.
        let path = format!("/{}", "a".repeat(4_000));
        for _ in 0..600 {
            let answer = client.get(server.url(&path)).timeout(Duration::from_secs(60)).send().await;
            assert_eq!(answer.expect("an answer in time").status(), StatusCode::NOT_FOUND);
        }
        if is_read_later {
            server.read_log();
        }
        server.signal(Signal::TERM);
        let (status, log) = server.ended();
        assert!(status.success(), "{status}");
        assert_eq!(log.contains("log lines were dropped"), is_read_later);
    }
}

#[tokio::test]
async fn a_file_that_must_not_grow_does_not_kill_the_server() {
    let place = Place::new();
    let mut command = Command::new("sh");
    let (spec, data) = (text(&place.spec()), text(&place.data()));
    command.args(["-c", "ulimit -f 16 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_enact"), "serve", &spec]);
    command.args(["--data", &data, "--listen", FREE_PORT]);
    let server = Served::start(command);
    let mut opened = 0;
    let refused = loop {
        let open = json!({ "initialDeposit": "EUR 10.00" });
        let (status, body) = server.post(&format!("/Account/A{opened}/Open"), open).await;
        if status != StatusCode::OK {
            break (status, body);
        }
        opened += 1;
    };
    assert_eq!(refused.0, StatusCode::INSUFFICIENT_STORAGE, "{refused:?}");
    let (again, _) = server.post(&format!("/Account/A{opened}/Open"), json!({ "initialDeposit": "EUR 10.00" })).await;
    assert_eq!(again, StatusCode::INSUFFICIENT_STORAGE);
    let (status, body) = server.get("/Account/A0").await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let (status, body) = server.get("/health/ready").await;
    assert_eq!((status, &body["disk"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("full")));
    server.signal(Signal::TERM);
    let (status, log) = server.ended();
    assert_eq!(status.signal(), None, "{status}\n{log}");
    assert_eq!(log.matches("the disk is full").count(), 1, "one line, not one for each command: {log}");
    let server = place.serve();
    for account in 0..opened {
        let (status, _) = server.get(&format!("/Account/A{account}")).await;
        assert_eq!(status, StatusCode::OK);
    }
}

/// Nobody has to send anything.
#[tokio::test]
async fn files_that_vanish_end_the_server() {
    type Mishap = fn(&Path) -> io::Result<()>;
    let mishaps: [(&str, Mishap); 2] = [
        ("segment-0000000001.log is gone", |data| fs::remove_file(data.join("segment-0000000001.log"))),
        ("the data directory is gone", |data| fs::remove_dir_all(data)),
    ];
    for (what, mishap) in mishaps {
        let place = Place::new();
        let server = place.serve();
        let (status, body) = server.post("/Account/A0/Open", json!({ "initialDeposit": "EUR 10.00" })).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        mishap(&place.data()).expect("removed");
        let (status, log) = server.ended();
        assert_eq!(status.code(), Some(6), "{log}");
        assert_eq!(log.matches(what).count(), 1, "it is said once: {log}");
        assert!(log.ends_with("\nerror: stopped serving; the log says why\n"), "{log}");
    }
}

/// Sends `request` from a client that has hardly any room for the answer.
async fn sent(server: &Served, request: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4_096).expect("a small buffer");
    let mut stream = socket.connect(server.address()).await.expect("listening");
    stream.write_all(request.as_bytes()).await.expect("open");
    stream
}

/// Sends `request`, and returns when some of the answer is there.
async fn answered(server: &Served, request: &str) -> TcpStream {
    let mut stream = sent(server, request).await;
    stream.read_u8().await.expect("an answer");
    stream
}

#[tokio::test]
async fn a_stop_ends_in_its_time_whatever_clients_do() {
    const BODY: &str = "POST /Account/A/Open HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                        content-length: 9999\r\n\r\n";
    const FOLLOW: &str = "GET /-/changes HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n";
    const LARGE: &str = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let kinds = ["silent", "idle", "half a head", "half a body", "a slow body", "follows", "does not read"];
    let mut stopping = Vec::new();
    for kind in kinds {
        let place = Place::new();
        let mut command = serve(&place.spec(), &place.data(), FREE_PORT);
        command.args(["--drain", "2s"]);
        let server = Served::start(command);
        let stream = match kind {
            "silent" => sent(&server, "").await,
            "idle" => answered(&server, "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await,
            "half a head" => sent(&server, "GET /health HTTP/1.1\r\nhost: loc").await,
            "half a body" | "a slow body" => half_a_command(&server, BODY).await,
            "follows" => answered(&server, FOLLOW).await,
            _ => answered(&server, &LARGE.repeat(20)).await,
        };
        server.signal(Signal::TERM);
        let client = tokio::spawn(async move {
            let mut stream = stream;
            while kind == "a slow body" && stream.write_all(b" ").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            std::future::pending::<()>().await;
        });
        stopping.push((kind, place, server, client));
    }
    for (kind, _place, server, client) in stopping {
        let (status, log) = tokio::task::spawn_blocking(|| server.ended()).await.expect("it ends");
        assert!(status.success(), "{kind}: {status}\n{log}");
        assert!(!log.contains("requests still run"), "{kind}: {log}");
        client.abort();
    }
}

#[tokio::test]
async fn commands_hold_up_a_stop_for_no_longer_than_it_may_take() {
    let place = Place::new();
    // One commits after the other, for as long as a batch may take.
    let server = slow(&place, &["--admission", "locking", "--drain", "1s"]);
    assert_eq!(server.post("/Account/A/Open", json!({ "initialDeposit": "EUR 1000.00" })).await.0, 200);
    let deposit = json!({ "class": "Account", "id": "A", "event": "Deposit", "arguments": { "amount": "EUR 1.00" } });
    let batch = http().post(server.url("/-/batch")).header("enact-deadline-ms", PATIENT);
    let batch = tokio::spawn(batch.json(&json!({ "commands": vec![deposit; 500] })).send());
    let is_under_way = async || {
        let metrics = http().get(server.url("/metrics")).send().await.expect("serving").text().await.expect("text");
        metrics.lines().any(|line| line.strip_prefix("enact_commands ").is_some_and(|count| count != "0"))
    };
    while !is_under_way().await {
        assert!(!batch.is_finished(), "{:?}", batch.await);
    }
    server.signal(Signal::TERM);
    let (status, log) = tokio::task::spawn_blocking(|| server.ended()).await.expect("it ends");
    assert!(status.code().is_some_and(|code| code == 0 || code == 6), "{status}\n{log}");
    assert!(log.contains("requests still run after 1000 ms of grace"), "{log}");
    // What has not begun is refused, if there is time to say so; nothing is half done.
    drop(batch.await.expect("sent"));
    assert_eq!(place.serve().get("/Account/A").await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_second_signal_stops_at_once() {
    let place = Place::new();
    let server = place.serve();
    let _stream = half_a_command(&server, "{}").await;
    server.signal(Signal::INT);
    while let Ok(mut probe) = TcpStream::connect(server.address()).await {
        if probe.read_u8().await.is_err() {
            break;
        }
    }
    server.signal(Signal::TERM);
    let (status, log) = server.ended();
    assert_eq!((status.code(), status.signal()), (Some(128 + 15), None), "{log}");
    place.serve();
}

#[tokio::test]
async fn a_hangup_does_not_end_a_server_that_has_no_file_to_read_again() {
    let place = Place::new();
    let server = place.serve();
    server.signal(Signal::HUP);
    server.signal(Signal::HUP);
    assert_eq!(server.get("/health").await.0, 200);
    server.signal(Signal::TERM);
    let (status, log) = server.ended();
    assert!(status.success(), "{log}");
}

#[test]
fn wrong_usage_is_refused_before_anything_is_touched() {
    let place = Place::new();
    let (spec, data) = (text(&place.spec()), text(&place.data()));
    let wrong = place.directory.path().join("wrong.rebel");
    fs::write(&wrong, "class").expect("writable");
    refuses(&[&text(&wrong), "--data", &data], 1, &["the specification has 1 error"]);
    let external = place.directory.path().join("external.rebel");
    fs::write(&external, "external class Payer\n  initial none\n    on Join(): joined\n  final joined\n")
        .expect("writable");
    refuses(&[&text(&external), "--data", &data], 1, &["`Payer` is an external class", "no participant is connected"]);
    let (empty, functions) =
        (place.directory.path().join("empty.rebel"), place.directory.path().join("functions.rebel"));
    fs::write(&empty, "").expect("writable");
    fs::write(&functions, "module functions\n\nfn twice(n: Integer): Integer = 2 * n\n").expect("writable");
    for file in [text(&empty), text(&functions)] {
        let said = format!("error: {file}:1:1: the specification declares no class, so there is nothing to serve: ");
        refuses(&[&file, "--data", &data], 2, &[&said]);
    }
    refuses(&["missing.rebel", "--data", &data], 2, &["cannot read missing.rebel"]);
    refuses(&[&spec, "--data", &data, "--log", "enact=loud"], 2, &["`enact=loud` is not a filter of log lines"]);
    for (admission, words) in [
        (&["Acount=psac"][..], &["--admission Acount=psac: there is no class `Acount`; there are `", "`Account`"][..]),
        (&["=psac"], &["there is no class ``"]),
        (&["psac", "locking"], &["--admission locking: there is a mode for all classes already"]),
        (&["Account=psac", "Account=psac"], &["--admission Account=psac: `Account` has a mode already"]),
    ] {
        let admission: Vec<&str> = admission.iter().flat_map(|admission| ["--admission", admission]).collect();
        refuses(&[&[&*spec, "--data", &data], &*admission].concat(), 2, words);
    }
    for usage in [
        &["--listen", "localhost"][..],
        &["--listen", "127.0.0.1"],
        &["--listen", "127.0.0:80"],
        &["--admission", "optimistic"],
        &["--admission", "Account=optimistic"],
        &["--host", "http://bank"],
        &["--tls-cert", "cert.pem"],
        &["--tls-key", "key.pem"],
        &["--tls-client-ca", "ca.pem"],
    ] {
        let ended = enact(&[&["serve", &spec, "--data", &data], usage].concat());
        assert_eq!(ended.status.code(), Some(2), "{usage:?}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains(usage[0]), "{usage:?}");
    }
    assert!(!place.data().exists());
}

#[tokio::test]
async fn an_address_that_cannot_be_had_is_refused_before_the_data_is_touched() {
    let place = Place::new();
    let (spec, data) = (text(&place.spec()), text(&place.data()));
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    refuses(&[&spec, "--data", &data, "--listen", &address], 3, &[&address, "in use by another process"]);
    refuses(&[&spec, "--data", &data, "--listen", "0.0.0.0:0"], 3, &["0.0.0.0:0", "other machines", "--insecure"]);
    refuses(
        &[&spec, "--data", &data, "--listen", "192.0.2.1:80", "--insecure"],
        3,
        &["cannot listen on 192.0.2.1:80: "],
    );
    refuses(&[&spec, "--data", &data, "--listen", "nobody.invalid:0"], 3, &["`nobody.invalid` cannot be resolved"]);
    assert!(!place.data().exists());
}

#[tokio::test]
async fn a_name_is_listened_on_and_answered_to() {
    let place = Place::new();
    let server = Served::start(serve(&place.spec(), &place.data(), "localhost:0"));
    for (host, expected) in [("localhost", 200), ("127.0.0.1", 200), ("evil.example", 421)] {
        let request = http().get(server.url("/health")).header("host", host);
        assert_eq!(request.send().await.expect("serving").status(), expected, "{host}");
    }
}

#[tokio::test]
async fn insecure_is_said_aloud_where_it_is() {
    for (listen, is_said) in [("127.0.0.1:0", false), ("0.0.0.0:0", true)] {
        let place = Place::new();
        let mut command = serve(&place.spec(), &place.data(), listen);
        command.arg("--insecure");
        let server = Served::start(command);
        if !is_said {
            let (status, health) = server.get("/health").await;
            assert_eq!((status, health), (StatusCode::OK, json!({ "status": "serving", "insecure": true })));
        }
        server.signal(Signal::TERM);
        let (_, log) = server.ended();
        assert_eq!(log.contains("INSECURE"), is_said, "{listen}: {log}");
    }
}

#[tokio::test]
async fn a_server_answers_to_the_names_that_it_is_given() {
    let place = Place::new();
    let mut command = serve(&place.spec(), &place.data(), FREE_PORT);
    command.args(["--host", "bank.example.com", "--host", "bank"]);
    let server = Served::start(command);
    for (host, expected) in [("bank.example.com", 200), ("BANK:80", 200), ("localhost", 200), ("evil.example", 421)] {
        let request = http().get(server.url("/health")).header("host", host);
        let answer = request.send().await.expect("serving");
        assert_eq!(answer.status(), expected, "{host}");
    }
}

#[test]
fn a_data_directory_that_cannot_be_used_is_refused() {
    let place = Place::new();
    let (spec, data) = (text(&place.spec()), text(&place.data()));
    let server = place.serve();
    let free = ["--listen", FREE_PORT];
    refuses(&[&[spec.as_str(), "--data", &data], &free[..]].concat(), 4, &["cannot serve from", &data, "in use"]);
    server.kill();

    let file = text(&place.spec());
    refuses(&[&[spec.as_str(), "--data", &file], &free[..]].concat(), 4, &[&file, "not a directory"]);
    let link = place.directory.path().join("link");
    symlink(place.data(), &link).expect("a link");
    refuses(&[&[spec.as_str(), "--data", &text(&link)], &free[..]].concat(), 4, &["link"]);
    fs::set_permissions(place.data(), fs::Permissions::from_mode(0o755)).expect("ours");
    refuses(&[&[spec.as_str(), "--data", &data], &free[..]].concat(), 4, &[&data, "755"]);
    fs::set_permissions(place.data(), fs::Permissions::from_mode(0o700)).expect("ours");
    place.serve();
}

#[tokio::test]
async fn a_damaged_journal_is_refused_with_its_place_and_left_as_it_is() {
    let place = Place::new();
    let server = place.serve();
    for account in 0..20 {
        let open = json!({ "initialDeposit": "EUR 10.00" });
        let (status, _) = server.post(&format!("/Account/A{account}/Open"), open).await;
        assert_eq!(status, StatusCode::OK);
    }
    server.kill();
    let segment = fs::read_dir(place.data())
        .expect("readable")
        .map(|entry| entry.expect("readable").path())
        .find(|path| path.extension().is_some_and(|extension| extension == "log"))
        .expect("a segment");
    let whole = fs::read(&segment).expect("readable");
    let at = whole.windows(10).position(|window| window == b"Account/A1").expect("a record");
    let file = fs::OpenOptions::new().write(true).open(&segment).expect("ours");
    file.write_all_at(b"B", at as u64).expect("writable");

    let damaged = fs::read(&segment).expect("readable");
    let name = segment.file_name().and_then(|name| name.to_str()).expect("UTF-8");
    let (spec, data) = (text(&place.spec()), text(&place.data()));
    refuses(&[&spec, "--data", &data, "--listen", FREE_PORT], 4, &[name, "damaged at byte"]);
    assert_eq!(fs::read(&segment).expect("readable"), damaged);

    file.write_all_at(b"A", at as u64).expect("writable");
    let (status, _) = place.serve().get("/Account/A1").await;
    assert_eq!(status, StatusCode::OK);
}
