//! `enact-bench actors`.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use super::enact_bench;

const TINY: [&str; 8] = ["--rounds", "1", "--warm-up", "0", "--workers", "1", "--millis", "1"];
const SETTINGS: [&str; 4] = ["--turn-us", "0,10", "--idle-actors", "20000"];

#[test]
fn actors_measures_every_workload_and_writes_all_samples() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let json = directory.path().join("actors.json");
    let json_path = json.to_str().expect("UTF-8");
    let ended = enact_bench(&[&["actors", "--json", json_path][..], &TINY, &SETTINGS].concat());
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(0), "{stdout}\n{stderr}");

    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON");
    let races: Vec<_> = report["races"].as_array().expect("races").iter().collect();
    let workloads = races.iter().map(|race| race["workload"].as_str().expect("a name"));
    assert_eq!(workloads.collect::<Vec<_>>(), ["outside, turns of 0 us", "outside, turns of 10 us", "idle"]);
    for race in &races[..2] {
        let [alone, asked] = [0, 1].map(|place| &race["contenders"][place]);
        assert_eq!([&alone["name"], &asked["name"]], ["alone", "asked"]);
        for fact in ["asks", "ask p50 ms", "ask p99 ms", "ask worst ms"] {
            assert!(asked["samples"][0]["facts"][fact].as_f64() > Some(0.0), "{asked}");
            assert!(stdout.contains(fact), "{stdout}");
        }
    }
    let idle = races[2]["contenders"].as_array().expect("contenders");
    let names: Vec<_> = idle.iter().map(|contender| contender["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["spawned", "asked", "awaited", "tokio task", "tokio task asked"]);
    for contender in idle {
        let sample = &contender["samples"][0];
        assert_eq!(sample["work"], 20_000, "{contender}");
        for fact in ["bytes each", "ns each"] {
            assert!(sample["facts"][fact].as_f64() > Some(0.0), "{contender}");
            assert!(stdout.contains(fact), "{stdout}");
        }
    }
}

#[test]
fn a_run_of_idle_actors_answers_one_line_with_one_line_and_ends() {
    let run = ["actors-idle-run", "asked", "--actors", "10", "--workers", "1"];
    let mut process = Command::new(env!("CARGO_BIN_EXE_enact-bench"))
        .args(run)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    process.stdin.as_mut().expect("a pipe").write_all(b"run\n").expect("it reads");
    let mut answer = String::new();
    // Its input is open still.
    process.stdout.take().expect("a pipe").read_to_string(&mut answer).expect("it answers");
    assert!(process.wait().expect("it ends").success());
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(answer["right"]["work"], 10, "{answer}");
}

#[test]
fn actors_refuses_what_it_cannot_run() {
    for (arguments, status, complaint) in [
        (&["nonsense"][..], 2, "possible values: outside, idle"),
        (&["--flooded", "0"], 2, "number would be zero"),
        (&["--idle-actors", "0"], 2, "number would be zero"),
        (&["idle", "--idle-actors", "10", "--json", "/nowhere/report"], 1, "cannot write /nowhere/report"),
    ] {
        let ended = enact_bench(&[&["actors"], arguments, &TINY].concat());
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(status), "{arguments:?}: {stderr}");
        assert!(stderr.contains(complaint), "{arguments:?}: {stderr}");
    }
}
