//! `enact-bench admission`.

use super::enact_bench;

#[test]
fn admission_measures_every_crowd_and_says_what_is_aimed_at() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let json = directory.path().join("admission.json");
    let small = ["admission", "--size", "50", "--rounds", "1", "--json", json.to_str().expect("UTF-8")];
    let ended = enact_bench(&small);
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains("< 5"), "{stdout}");

    let report = std::fs::read(&json).expect("written");
    let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
    let crowds = report["samples"].as_array().expect("samples").iter();
    let crowds: Vec<_> = crowds.map(|sample| sample["crowd"].as_str().expect("a name")).collect();
    assert_eq!(crowds, ["constants", "thresholds", "classes", "aborts", "slow-first", "turn"]);
    for sample in report["samples"].as_array().expect("samples") {
        assert!(sample["delayed_max"].as_u64() >= Some(50), "every crowd has that many delayed: {sample}");
    }
}

#[test]
fn admission_refuses_crowds_that_are_too_small_or_too_large_for_the_entity() {
    for size in ["19", "1001"] {
        assert_eq!(enact_bench(&["admission", "--size", size]).status.code(), Some(2), "{size}");
    }
}
