//! `enact-bench stm`.

use super::enact_bench;

const TINY: [&str; 6] = ["--rounds", "1", "--warm-up", "0", "--millis", "20"];

#[test]
fn stm_measures_every_workload_and_writes_all_samples() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let json = directory.path().join("stm.json");
    let json_path = json.to_str().expect("UTF-8");
    let ended = enact_bench(&[&["stm", "--threads", "2", "--json", json_path][..], &TINY].concat());
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(0), "{stdout}\n{stderr}");

    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON");
    let contenders = |workload: &str| {
        let races = report["races"].as_array().expect("races");
        let race =
            races.iter().find(|race| race["workload"] == workload).unwrap_or_else(|| panic!("{workload}: {report}"));
        let samples = race["contenders"].as_array().expect("contenders").iter();
        let names = samples.map(|contender| {
            assert!(contender["samples"][0]["work"].as_u64() > Some(0), "{workload}: {contender}");
            contender["name"].as_str().expect("a name").to_owned()
        });
        names.collect::<Vec<_>>().join(", ")
    };
    let locks = "std mutex, parking_lot";
    for (workload, expected) in [
        ("counter t2", format!("enact, enact quiescing, atomic, {locks}")),
        ("counter_own t2", format!("enact, enact quiescing, atomic, {locks}")),
        ("transfer t2", format!("enact, enact quiescing, {locks}")),
        ("sum1000.w0", format!("enact, enact snapshot, enact quiescing, {locks}")),
        ("sum1000.w1", format!("enact, enact snapshot, enact quiescing, {locks}")),
        ("read10k t2", format!("enact, enact quiescing, {locks}")),
        ("read10k_only t2", format!("enact, enact snapshot, enact quiescing, {locks}")),
        ("hash20 t2", format!("enact, enact quiescing, {locks}")),
        ("bst20 t2", format!("enact, {locks}")),
        ("pingpong", format!("enact, {locks}")),
        ("pingpong_tasks", "enact".to_owned()),
        ("beside_snapshot", "short snapshots, one that lasts".to_owned()),
        ("after_crowd", "before, after".to_owned()),
    ] {
        assert_eq!(contenders(workload), expected, "{workload}");
        assert!(stdout.contains(workload), "{workload} in\n{stdout}");
    }
}

#[test]
fn stm_refuses_what_it_cannot_run() {
    for (arguments, status, complaint) in [
        (&["nonsense"][..], 2, "possible values: counter, counter_own"),
        (&["--threads", "0"], 2, "at least one"),
        (&["counter", "--peers=/nowhere"], 1, "cannot build the peers in /nowhere"),
    ] {
        let ended = enact_bench(&[&["stm"], arguments, &TINY].concat());
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(status), "{arguments:?}: {stderr}");
        assert!(stderr.contains(complaint), "{arguments:?}: {stderr}");
    }
}
