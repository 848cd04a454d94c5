//! Timers of a served specification: they fire by themselves, also when the server is killed and started again.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use enact_rebel::Timestamp;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::StatusCode;
use serde_json::json;

use crate::served::{FREE_PORT, Served, enact, serve};

const HOTEL: &str = "
class Room
  taken: Integer = 0
  initial unbuilt
    on Build(): built
  built
    internal on Take()
      post: this.taken += 1
    internal on GiveBack()
      post: this.taken -= 1
class Ticket
  room: Room
  until: Timestamp
  initial wished
    on Hold(of: Room, end: Timestamp): held
      post: this.room = of, this.until = end
      sync: of.Take()
  held
    on Buy(): sold
    on Release(): released
      sync: room.GiveBack()
    after until: Release
  final sold, released
";

/// The time so many milliseconds from now.
fn from_now(millis: i64) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Timestamp::from_millis(i64::try_from(since.as_millis()).expect("before the end of time") + millis).to_string()
}

async fn hold(server: &Served, ticket: &str, until: String) {
    let (status, body) = server.post(&format!("/Ticket/{ticket}/Hold"), json!({ "of": "r", "end": until })).await;
    assert_eq!(status, StatusCode::OK, "{body}");
}

/// Waits until no ticket holds the room, which nobody looks at but the server.
async fn is_free(server: &Served) {
    while server.get("/Room/r").await.1["fields"]["taken"] != json!(0) {}
}

#[tokio::test]
async fn a_state_that_has_come_to_its_end_is_never_shown() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let (spec, data) = (directory.path().join("hotel.rebel"), directory.path().join("data"));
    fs::write(&spec, HOTEL).expect("writable");
    let server = Served::start(serve(&spec, &data, FREE_PORT));
    assert_eq!(server.post("/Room/r/Build", json!({})).await.0, StatusCode::OK);
    for mode in ["", "?mode=applied", "?mode=range"] {
        let ticket = format!("t{}", mode.len());
        hold(&server, &ticket, from_now(-1_000)).await;
        let (_, body) = server.get(&format!("/Ticket/{ticket}{mode}")).await;
        assert!(body["state"] == "released" || body["states"] == json!(["released"]), "{mode}: {body}");
    }
    hold(&server, "later", from_now(3_600_000)).await;
    assert_eq!(server.get("/Ticket/later").await.1["state"], "held");
    assert_eq!(server.get("/Room/r").await.1["fields"]["taken"], 1);
}

#[tokio::test]
async fn what_was_due_while_a_server_was_killed_happens_once_when_it_is_back() {
    let seed = std::env::var("ENACT_CRASH_SEED").map_or(20_150_523, |seed| seed.parse().expect("a number"));
    println!("repeat with: ENACT_CRASH_SEED={seed} cargo test -p enact-cli --test enact timers");
    let mut random = StdRng::seed_from_u64(seed);
    let directory = tempfile::tempdir().expect("a place for the test");
    let (spec, data) = (directory.path().join("hotel.rebel"), directory.path().join("data"));
    fs::write(&spec, HOTEL).expect("writable");
    let mut server = Served::start(serve(&spec, &data, FREE_PORT));
    assert_eq!(server.post("/Room/r/Build", json!({})).await.0, StatusCode::OK);
    let (kills, tickets) = (15, 20);
    for kill in 0..kills {
        for ticket in 0..tickets {
            hold(&server, &format!("t{kill}-{ticket}"), from_now(random.random_range(0..60))).await;
        }
        for _ in 0..random.random_range(0..30) {
            server.get("/Room/r").await;
        }
        server.kill();
        server = Served::start(serve(&spec, &data, FREE_PORT));
    }
    is_free(&server).await;
    for number in 0..kills * tickets {
        let (_, body) = server.get(&format!("/Ticket/t{}-{}", number / tickets, number % tickets)).await;
        assert_eq!(body["state"], "released");
    }
    assert_eq!(server.get("/Room/r").await.1["fields"]["taken"], 0, "each gave its place back once");
}

#[tokio::test]
async fn timers_that_another_specification_adds_fire_for_what_there_is() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let (spec, data) = (directory.path().join("hotel.rebel"), directory.path().join("data"));
    fs::write(&spec, HOTEL.replace("    after until: Release\n", "")).expect("writable");
    let server = Served::start(serve(&spec, &data, FREE_PORT));
    assert_eq!(server.post("/Room/r/Build", json!({})).await.0, StatusCode::OK);
    for (ticket, until) in [("past", -1_000), ("soon", 100), ("later", 3_600_000)] {
        hold(&server, ticket, from_now(until)).await;
    }
    server.kill();
    fs::write(&spec, HOTEL).expect("writable");
    let server = Served::start(serve(&spec, &data, FREE_PORT));
    while server.get("/Room/r").await.1["fields"]["taken"] != json!(1) {}
    assert_eq!(server.get("/Ticket/later").await.1["state"], "held");
}

/// What an engine knows of timers is no part of a backup: it comes back from the records.
#[tokio::test]
async fn a_timer_of_a_restored_directory_fires() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let [spec, data, backup, restored] =
        ["hotel.rebel", "data", "hotel.backup", "restored"].map(|name| directory.path().join(name));
    fs::write(&spec, HOTEL).expect("writable");
    let server = Served::start(serve(&spec, &data, FREE_PORT));
    assert_eq!(server.post("/Room/r/Build", json!({})).await.0, StatusCode::OK);
    hold(&server, "t", from_now(1_500)).await;
    // A crash leaves the last group behind the high-water mark; it is durable and belongs to the backup.
    server.kill();
    let [data, backup, place] = [&data, &backup, &restored].map(|path| path.to_str().expect("text"));
    for command in [["backup", backup, "--data", data], ["restore", backup, "--data", place]] {
        let done = enact(&[&["journal"], &command[..]].concat());
        assert!(done.status.success(), "{done:?}");
    }
    let server = Served::start(serve(&spec, &restored, FREE_PORT));
    is_free(&server).await;
    assert_eq!(server.get("/Ticket/t").await.1["state"], "released");
}
