//! `enact bench savina`.

use crate::served::enact;

const TINY: [&str; 4] = ["--iterations", "1", "--warm-up", "0"];

#[test]
fn savina_measures_what_is_named_in_all_variants_and_writes_all_samples() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let json = directory.path().join("savina.json");
    let json_path = json.to_str().expect("UTF-8");
    let arguments =
        ["pp", "phil", "--variant", "port,strict", "--workers", "2", "--set", "pings=20", "--set", "meals=5"];
    let ended = enact(&[&["bench", "savina", "--json", json_path][..], &arguments, &TINY].concat());
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains("pp: Ping Pong, pings=20"), "{stdout}");

    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON");
    let races = report["races"].as_array().expect("races").iter().map(|race| {
        let contenders = race["contenders"].as_array().expect("contenders").iter();
        let names: Vec<_> = contenders.map(|one| one["name"].as_str().expect("a name")).collect();
        (race["workload"].as_str().expect("a name"), names)
    });
    assert_eq!(races.collect::<Vec<_>>(), [("pp", vec!["port"]), ("phil", vec!["port", "strict"])]);
    assert_eq!(report["races"][0]["contenders"][0]["samples"][0]["work"], 61, "three messages a ping, and one more");
}

#[test]
fn savina_refuses_what_it_cannot_run() {
    for (arguments, status, complaint) in [
        (&["nonsense"][..], 2, "possible values: pp, count"),
        (&["pp", "--set", "pings"], 2, "KEY=VALUE"),
        (&["pp", "--set", "pongs=1"], 7, "no parameter `pongs`; known are pings"),
        (&["pp", "--set", "pings=many"], 7, "`many` is no value for `pings`"),
        (&["pp", "--variant", "stash"], 7, "no such variant"),
        (&["pp", "--set", "pings=0"], 7, "there is at least one ping"),
    ] {
        let ended = enact(&[&["bench", "savina"], arguments, &TINY].concat());
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(status), "{arguments:?}: {stderr}");
        assert!(stderr.contains(complaint), "{arguments:?}: {stderr}");
    }
}
