//! The page on erasure, line by line, with the real program; and what holds over kills and over keys that are put back.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::json;

use crate::backup::{Place, Step, shape, steps};
use crate::served::{FREE_PORT, Served, http, program};

const PAGE: &str = include_str!("../../../../docs/operations/erase.md");
const SPEC: &str = include_str!("../../../../examples/customers.rebel");
const SERVE: &str = "enact serve customers.rebel --data shop --subject-keys keys";
const STOP: &str = "pkill -TERM -f 'enact serve customers.rebel'";
const HOST: &str = "http://127.0.0.1:8080";

fn place() -> Place {
    let place = Place::new();
    fs::write(place.path("customers.rebel"), SPEC).expect("writable");
    place
}

fn serve(place: &Place) -> Served {
    let mut command = program();
    command.args(["serve", "customers.rebel", "--data", "shop", "--subject-keys", "keys", "--listen", FREE_PORT]);
    command.current_dir(place.path("")).stdin(Stdio::null());
    Served::start(command)
}

/// Whether a file in `directory` has `text` in it.
pub(crate) fn has(directory: &Path, text: &str) -> bool {
    fs::read_dir(directory).expect("a directory").any(|entry| {
        let path = entry.expect("an entry").path();
        let bytes = if path.is_dir() { return has(&path, text) } else { fs::read(path).expect("readable") };
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

/// Each command does what the page says that it does, in this order.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_who_follows_the_page_on_erasure_is_told_at_each_step_what_happened() {
    let place = place();
    let mut server: Option<Served> = None;
    let steps = steps(PAGE);
    assert!(steps.len() > 15, "the page has its commands");
    for Step { command, printed } in steps {
        match (&*command, &server) {
            (SERVE, _) => server = Some(serve(&place)),
            (STOP, Some(_)) => {
                let stopped = server.take().expect("it runs");
                stopped.signal(Signal::TERM);
                assert!(stopped.ended().0.success());
            }
            (command, server) => {
                let asked = match server {
                    Some(server) if command.starts_with("enact ") => {
                        let url = server.url("");
                        let (first, rest) = command
                            .split_once(" | ")
                            .map_or((command, String::new()), |(first, rest)| (first, format!(" | {rest}")));
                        format!("{first} --url {url}{rest}")
                    }
                    Some(server) => command.replace(HOST, &server.url("")),
                    None => command.to_owned(),
                };
                let said = place.done(&asked);
                assert_eq!(shape(&said), shape(&printed), "{command}: {said}");
                for part in [
                    r#""name":null"#,
                    r#""label":null"#,
                    r#""name":"Ada Lovelace""#,
                    r#""called":null"#,
                    r#""erased":["#,
                ] {
                    assert_eq!(said.contains(part), printed.contains(part), "{command}: {part} in {said}");
                }
            }
        }
    }
    assert!(server.is_none(), "in the end it is stopped");
}

/// Registers customers and erases them one by one, while the server is killed again and again.
#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_that_was_answered_holds_over_kills_and_over_keys_that_are_put_back() {
    const CUSTOMERS: usize = 12;
    let place = place();
    let server = serve(&place);
    for number in 0..CUSTOMERS {
        let path = format!("/Customer/c{number}/Register");
        let (status, _) = server.post(&path, json!({ "called": format!("Secret-{number}"), "isAdult": true })).await;
        assert_eq!(status, StatusCode::OK);
    }
    server.kill();
    let before = place.path("keys-before");
    fs::create_dir(&before).expect("a directory");
    for entry in fs::read_dir(place.path("keys")).expect("a directory") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), before.join(entry.file_name())).expect("copied");
    }
    let mut server = serve(&place);
    let mut answered = Vec::new();
    for number in 0..CUSTOMERS / 2 {
        let url = server.url(&format!("/Customer/c{number}/-/erase"));
        let asking =
            tokio::spawn(async move { http().post(url).json(&json!({})).send().await.map(|answer| answer.status()) });
        if number % 2 == 0 {
            assert_eq!(asking.await.expect("no panic").expect("an answer"), StatusCode::OK);
            answered.push(number);
            server.kill();
        } else {
            // Wherever the erasure is by now.
            server.kill();
            if asking.await.expect("no panic").is_ok_and(|status| status == StatusCode::OK) {
                answered.push(number);
            }
        }
        server = serve(&place);
        for &erased in &answered {
            let (status, read) = server.get(&format!("/Customer/c{erased}")).await;
            assert_eq!((status, &read["fields"]["name"]), (StatusCode::OK, &json!(null)), "{read}");
            assert_eq!(read["erased"], json!(["name"]), "{read}");
        }
    }
    for number in CUSTOMERS / 2..CUSTOMERS {
        let (_, read) = server.get(&format!("/Customer/c{number}")).await;
        assert_eq!(read["fields"]["name"], json!(format!("Secret-{number}")), "nobody else is erased: {read}");
    }
    server.signal(Signal::TERM);
    assert!(server.ended().0.success());
    assert!(!has(&place.path("shop"), "Secret-") && !has(&place.path("keys"), "Secret-"));

    // The journal knows what was erased, whatever the keys are.
    fs::remove_dir_all(place.path("keys")).expect("removed");
    fs::rename(&before, place.path("keys")).expect("renamed");
    fs::set_permissions(place.path("keys"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("set");
    let server = serve(&place);
    for erased in answered {
        let (_, read) = server.get(&format!("/Customer/c{erased}")).await;
        assert_eq!((&read["fields"]["name"], &read["erased"]), (&json!(null), &json!(["name"])), "{read}");
    }
    let (_, read) = server.get(&format!("/Customer/c{}", CUSTOMERS - 1)).await;
    assert_eq!(read["fields"]["name"], json!(format!("Secret-{}", CUSTOMERS - 1)));
}

/// Without the keys, nothing is refused but what needs them, and nothing is shown in the clear.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_other_keys_says_what_it_cannot_read_and_goes_on() {
    let place = place();
    let refused = place.refused("enact serve customers.rebel --data shop --listen 127.0.0.1:0", 2);
    assert!(refused.contains("`Customer.name` is personal") && refused.contains("--subject-keys"), "{refused}");
    let server = serve(&place);
    let register = json!({ "called": "Ada", "isAdult": true });
    let (status, _) = server.post("/Customer/c1/Register", register).await;
    assert_eq!(status, StatusCode::OK);
    server.signal(Signal::TERM);
    assert!(server.ended().0.success());
    fs::remove_dir_all(place.path("keys")).expect("removed");

    let server = serve(&place);
    let (status, read) = server.get("/Customer/c1").await;
    assert_eq!(
        (status, &read["fields"]["name"], &read["unreadable"]),
        (StatusCode::OK, &json!(null), &json!(["name"]))
    );
    let (status, found) = server.get("/Customer?name=Ada").await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(found["parameters"][0]["problem"].as_str().is_some_and(|told| told.contains("is personal")), "{found}");
    let (status, none) = server.post("/Customer/nobody/-/erase", json!({})).await;
    assert_eq!((status, &none["type"]), (StatusCode::NOT_FOUND, &json!("urn:enact:problem:nothing-personal")));
}

/// A command that is sent again with its key gets its one answer, and another one is told from it.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_command_is_known_by_its_personal_values_too() {
    let place = place();
    let server = serve(&place);
    let register = async |called: &str| {
        let client = reqwest::Client::new();
        let request = client.post(server.url("/Customer/c1/Register")).header("idempotency-key", "k1");
        let answer = request.json(&json!({ "called": called, "isAdult": true })).send().await.expect("serving");
        (answer.status(), answer.headers().contains_key("idempotency-replayed"))
    };
    assert_eq!(register("Ada").await, (StatusCode::OK, false));
    assert_eq!(register("Ada").await, (StatusCode::OK, true));
    assert_eq!(register("Bob").await, (StatusCode::UNPROCESSABLE_ENTITY, false));
    for batch in [json!(false), json!(true)] {
        let command = json!({ "class": "Customer", "id": "c1", "event": "Move", "arguments": { "to": "a street" } });
        let (status, done) = server.post("/-/batch", json!({ "commands": [command], "atomic": batch })).await;
        assert_eq!(status, StatusCode::OK, "{done}");
    }
    let (_, read) = server.get("/Customer/c1").await;
    assert_eq!(read["fields"]["address"], json!("a street"));
    server.signal(Signal::TERM);
    assert!(server.ended().0.success());
    assert!(!has(&place.path("shop"), "a street"));
}

/// A browser sends a form, or nothing, for a page of somebody else, and no JSON.
#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_is_asked_for_in_json_that_says_nothing_else() {
    let place = place();
    let server = serve(&place);
    let register = json!({ "called": "Ada", "isAdult": true });
    assert_eq!(server.post("/Customer/c1/Register", register).await.0, StatusCode::OK);
    let request = || http().post(server.url("/Customer/c1/-/erase"));
    let form = request().header("content-type", "application/x-www-form-urlencoded").body("");
    for (refused, status) in [
        (request(), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (form, StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (request().json(&json!({ "id": "c2" })), StatusCode::UNPROCESSABLE_ENTITY),
    ] {
        assert_eq!(refused.send().await.expect("serving").status(), status);
    }
    let (_, read) = server.get("/Customer/c1").await;
    assert_eq!(read["fields"]["name"], json!("Ada"));
}

/// Keys take space for ever, so those who may do nothing make none.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_lacks_a_role_makes_no_key() {
    let place = place();
    let spec = "roles clerk\n".to_owned() + &SPEC.replace("isAdult: Boolean)", "isAdult: Boolean) by clerk");
    fs::write(place.path("customers.rebel"), spec).expect("writable");
    let server = serve(&place);
    let size = || fs::metadata(place.path("keys/subject-keys")).expect("there").len();
    let before = size();
    let register = json!({ "called": "Ada", "isAdult": true });
    let (status, refused) = server.post("/Customer/c1/Register", register).await;
    assert_eq!((status, &refused["reasons"][0]["event"]), (StatusCode::FORBIDDEN, &json!("Register")), "{refused}");
    assert_eq!(size(), before);
    let (status, _) = server.post("/Customer/c1/Move", json!({ "to": "a street" })).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "anybody may try to move");
    assert!(size() > before);
}
