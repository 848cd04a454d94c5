//! Settings of `enact serve` from flags, the environment and a file.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::{fs, iter};

use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use crate::served::{BANK, FREE_PORT, Served, enact, http, program};

const PAGE: &str = include_str!("../../../../docs/operations/serve.md");

/// A folder with a specification and a file of settings.
struct Place(TempDir);

impl Place {
    fn new(settings: &str) -> Self {
        let place = Self(tempfile::tempdir().expect("a place for the test"));
        fs::write(place.path("bank.rebel"), BANK).expect("writable");
        fs::write(place.path("enact.toml"), settings).expect("writable");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// `enact serve --config FILE` in another folder.
    fn serve(&self) -> Command {
        let mut command = program();
        command.current_dir("/").arg("serve").arg("--config").arg(self.path("enact.toml"));
        command
    }
}

/// The log of a server that was started and stopped.
fn log(command: Command) -> String {
    let server = Served::start(command);
    server.signal(Signal::TERM);
    server.ended().1
}

#[test]
fn a_flag_precedes_the_environment_and_that_the_file_and_that_the_default() {
    let rows = [
        (None, None, None, "serializable"),
        (Some("psac"), None, None, "psac"),
        (Some("psac"), Some("locking"), None, "locking"),
        (Some("psac"), Some("locking"), Some("locking-early-release"), "locking-early-release"),
        (Some("psac"), None, Some("locking"), "locking"),
        (None, Some("psac"), Some("locking"), "locking"),
    ];
    for (file, variable, flag, expected) in rows {
        let line = file.map_or_else(String::new, |mode| format!("admission = \"{mode}\"\n"));
        let place = Place::new(&format!("spec = \"bank.rebel\"\ndata = \"data\"\nlisten = \"{FREE_PORT}\"\n{line}"));
        let mut command = place.serve();
        command.envs(variable.map(|mode| ("ENACT_ADMISSION", mode)));
        command.args(flag.map(|mode| format!("--admission={mode}")));
        let log = log(command);
        assert!(log.contains(&format!("strategies={expected}\n")), "{file:?} {variable:?} {flag:?}\n{log}");
    }
}

#[tokio::test]
async fn paths_in_a_file_are_relative_to_its_folder_and_lists_have_all_their_values() {
    let settings = format!(
        "spec = [\"bank.rebel\", \"more.rebel\"] # both\ndata = \"data\"\nlisten = \"{FREE_PORT}\"\nhost = [\"bank.example\", \"b\"]\n\
         open-max = 7\ninsecure = true\nbarrier-reads = false\nmemory = \"64MiB\"\n"
    );
    let place = Place::new(&settings);
    fs::write(place.path("more.rebel"), "class Lamp\n  initial off\n    on Light(): lit\n  lit\n").expect("writable");
    let server = Served::start(place.serve());
    for (host, expected) in [("bank.example", 200), ("b", 200), ("c", 421)] {
        let request = http().get(server.url("/health")).header("host", host);
        assert_eq!(request.send().await.expect("serving").status(), expected, "{host}");
    }
    assert_eq!(server.get("/health").await.1["insecure"], json!(true));
    assert_eq!(server.post("/Lamp/l/Light", json!({})).await.0, 200);
    assert!(place.path("data").is_dir());
}

#[test]
fn a_file_that_is_not_understood_is_refused_by_file_line_and_name() {
    let good = "spec = \"bank.rebel\"\ndata = \"data\"\n";
    for (settings, line, parts) in [
        ("lissten = \"localhost:1\"\n", 3, &["there is no setting `lissten`; there are `spec`, `listen`, "][..]),
        ("\n\n[server]\nlisten = \"localhost:1\"\n", 5, &["there is no setting `server`"]),
        ("config = \"other.toml\"\n", 3, &["there is no setting `config`"]),
        ("sync-mn = \"1s\"\n", 3, &["there is no setting `sync-mn`"]),
        ("listen = 8080\n", 3, &["--listen <HOST:PORT>", "`8080` is no address with a port"]),
        ("listen = true\n", 3, &["`listen` must be a text or a number, and is of type boolean"]),
        ("listen = [\"localhost:1\"]\n", 3, &["`listen` must be a text or a number, and is of type array"]),
        ("host = [1.5]\n", 3, &["`host` must be a text, or a list of them, and is of type array"]),
        ("insecure = \"yes\"\n", 3, &["`insecure` must be `true` or `false`, and is of type string"]),
        ("log-format = \"xml\"\n", 3, &["--log-format", "possible values: text, json"]),
        ("drain = \"soon\"\n", 3, &["--drain <TIME>", "soon"]),
        ("data = \"twice\"\n", 3, &["duplicate key"]),
        ("listen = \n", 3, &[]),
    ] {
        let place = Place::new(&format!("{good}{settings}"));
        let ended = place.serve().output().expect("the program starts");
        let stderr = String::from_utf8(ended.stderr).expect("UTF-8");
        assert_eq!(ended.status.code(), Some(2), "{settings}\n{stderr}");
        let begin = format!("error: {}:{line}: ", place.path("enact.toml").display());
        assert!(stderr.starts_with(&begin) && stderr.lines().count() == 1, "{settings}: {begin} in\n{stderr}");
        assert!(parts.iter().all(|part| stderr.contains(part)), "{settings}: {parts:?} in\n{stderr}");
        assert!(!place.path("data").exists(), "nothing was touched");
    }
    let ended = enact(&["serve", "--config", "nowhere/enact.toml"]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ended.stderr).starts_with("error: cannot read nowhere/enact.toml: "));
}

#[test]
fn what_goes_together_may_stand_in_different_places() {
    let place = Place::new("spec = \"bank.rebel\"\ncluster = \"ws://127.0.0.1:1\"\n");
    let ended = place.serve().args(["--node", "n1", "--listen", FREE_PORT]).output().expect("the program starts");
    let stderr = String::from_utf8(ended.stderr).expect("UTF-8");
    // That is no server of NATS, or it was built without NATS.
    assert!(stderr.contains("is no address of a NATS server") || stderr.contains("built without NATS"), "{stderr}");
    let ended = place.serve().args(["--data", "data"]).env("ENACT_NODE", "n1").output().expect("the program starts");
    let stderr = String::from_utf8(ended.stderr).expect("UTF-8");
    assert!(ended.status.code() == Some(2) && stderr.contains("cannot be used with"), "{stderr}");
}

#[test]
fn help_names_the_variables_and_not_what_is_in_them() {
    let ended = program().args(["serve", "--help"]).env("ENACT_JOURNAL", "postgres://u:hunter2@h/b").output();
    let help = String::from_utf8(ended.expect("the program starts").stdout).expect("UTF-8");
    assert!(help.contains("[env: ENACT_JOURNAL]") && !help.contains("hunter2"), "{help}");
}

#[test]
fn the_page_has_a_line_for_each_setting() {
    let help = String::from_utf8(enact(&["serve", "--help"]).stdout).expect("UTF-8");
    let flag = |line: &str| Some(line.trim_start().strip_prefix("--")?.split([' ', '=']).next()?.to_owned());
    let flags =
        help.lines().filter(|line| line.starts_with("      --")).filter_map(flag).filter(|flag| flag != "config");
    let settings: BTreeSet<String> = flags.chain(iter::once("spec".to_owned())).collect();
    let table = PAGE.split("## Settings").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("a table");
    let row = |line: &str| Some(line.strip_prefix("| `")?.split('`').next()?.to_owned());
    assert_eq!(table.lines().filter_map(row).collect::<BTreeSet<_>>(), settings);
}
