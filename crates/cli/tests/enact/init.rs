//! The first minutes of an operator: `enact init`, completions and the manual, and the files to deploy one server with.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::served::{FREE_PORT, Served, enact, http, program};

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[tokio::test]
async fn what_init_has_made_is_served_to_those_who_have_the_token() {
    let place = tempfile::tempdir().expect("a place for the test");
    let folder = place.path().join("new").join("bank");
    let made = enact(&["init", text(&folder)]);
    assert!(made.status.success(), "{made:?}");
    let (token, said) =
        (String::from_utf8(made.stdout).expect("UTF-8"), String::from_utf8(made.stderr).expect("UTF-8"));
    let token = token.strip_suffix('\n').expect("a line");
    assert!(token.len() == 64 && !said.contains(token), "the token is shown once: {said}");
    for (name, mode) in [("bank.rebel", 0o644), ("enact.toml", 0o600), ("tokens", 0o600)] {
        let path = folder.join(name);
        assert_eq!(fs::metadata(&path).expect("made").permissions().mode() & 0o777, mode, "{name}");
        assert!(!fs::read_to_string(&path).expect("text").contains(token), "{name}");
    }
    let spec = folder.join("bank.rebel");
    for check in [&["check", "--deny-warnings", text(&spec)][..], &["fmt", "--check", text(&spec)]] {
        assert!(enact(check).status.success(), "{check:?}");
    }

    let settings = folder.join("enact.toml");
    let command = format!("enact serve --config {}", settings.display());
    assert!(said.contains(&command), "{command} in {said}");
    let mut serve = program();
    serve.args(["serve", "--config", text(&settings), "--listen", FREE_PORT]);
    let server = Served::start(serve);
    let open = |path: &str| http().post(server.url(path)).json(&json!({ "name": "Ada", "deposit": "EUR 100.00" }));
    assert!(
        said.contains(r#"{"name": "Ada", "deposit": "EUR 100.00"}"#) && said.contains("/Account/A1/Open"),
        "{said}"
    );
    assert_eq!(open("/Account/A1/Open").send().await.expect("serving").status(), 403);
    assert_eq!(open("/Account/A1/Open").bearer_auth(token).send().await.expect("serving").status(), 200);
}

#[test]
fn init_overwrites_nothing() {
    for name in ["bank.rebel", "enact.toml", "tokens"] {
        let place = tempfile::tempdir().expect("a place for the test");
        let file = place.path().join(name);
        fs::write(&file, "mine").expect("writable");
        let ended = enact(&["init", text(place.path())]);
        assert!(ended.status.code() == Some(2) && ended.stdout.is_empty(), "{name}: {ended:?}");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(
            said,
            format!("error: {} exists already, and is left as it is: name another folder\n", file.display())
        );
        assert_eq!(fs::read_to_string(&file).expect("text"), "mine");
        assert_eq!(fs::read_dir(place.path()).expect("a folder").count(), 1, "{name}: nothing else is written");
    }
}

#[test]
fn shells_and_the_manual_know_each_command() {
    let help = String::from_utf8(enact(&["--help"]).stdout).expect("UTF-8");
    let list = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a list");
    let commands: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"serve") && commands.contains(&"completions"), "{commands:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = String::from_utf8(enact(&["completions", shell]).stdout).expect("UTF-8");
        assert!(commands.iter().all(|command| script.contains(command)) && script.contains("log-format"), "{shell}");
    }
    let place = tempfile::tempdir().expect("a place for the test");
    assert!(enact(&["man", text(place.path())]).status.success());
    for command in commands.into_iter().filter(|command| *command != "help") {
        let page = fs::read_to_string(place.path().join(format!("enact-{command}.1"))).expect("a page");
        assert!(page.contains(".SH SYNOPSIS"), "{command}");
    }
    assert!(place.path().join("enact.1").exists() && place.path().join("enact-journal-restore.1").exists());
}

/// The unit of systemd, with paths of this test.
#[tokio::test]
async fn the_unit_of_systemd_starts_a_server() {
    let unit = include_str!("../../../../docs/operations/deploy/enact.service");
    let place = tempfile::tempdir().expect("a place for the test");
    assert!(enact(&["init", text(place.path())]).status.success());
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/enact ")).expect("a command");
    let start = start.replace("/etc/enact", text(place.path())).replace("127.0.0.1:8080", FREE_PORT);
    assert!(unit.contains("\n# ENACT_DATA=/var/lib/enact/data\n") && unit.contains("\nStateDirectory=enact\n"));
    let mut command: Command = program();
    let socket = place.path().join("notify");
    let told = UnixDatagram::bind(&socket).expect("a socket of this test");
    told.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
    assert!(unit.contains("\n# ENACT_SUBJECT_KEYS=/var/lib/enact/keys\n"));
    command.args(start.split(' ')).env("ENACT_DATA", place.path().join("data")).env("NOTIFY_SOCKET", &socket);
    command.env("ENACT_SUBJECT_KEYS", place.path().join("keys"));
    let served = Served::start(command);
    assert!(unit.contains("\nType=notify\n"));
    assert_eq!(hear(&told), format!("READY=1\nSTATUS=listening on {}\n", served.url("")));
    assert_eq!(served.get("/health/ready").await.0, 200);
    served.signal(Signal::TERM);
    assert_eq!(hear(&told), "STOPPING=1\nSTATUS=finishing what is admitted\n");
    assert!(served.ended().0.success());
    let stop: u64 = unit.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")?.parse().ok()).expect("a time");
    assert!(stop > 10 + 2, "longer than a drain");
}

/// The next word to a supervisor.
fn hear(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 1024];
    let read = socket.recv(&mut bytes).expect("readable");
    String::from_utf8(bytes[..read].to_vec()).expect("UTF-8")
}
