//! `enact-bench engine`.

use super::enact_bench;

#[test]
fn engine_measures_every_command_on_one_thread_and_on_two_and_counts_the_money() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let json = directory.path().join("engine.json");
    let arguments =
        ["engine", "--clients", "3", "--workers", "1,2", "--accounts", "4", "--seconds", "1", "--rounds", "1"];
    let ended = enact_bench(&[&arguments[..], &["--json", json.to_str().expect("UTF-8")]].concat());
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains("all money is there"), "{stdout}");

    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON");
    let samples = report["samples"].as_array().expect("samples");
    let taken: Vec<_> = samples.iter().map(|sample| (sample["request"].as_str(), sample["workers"].as_u64())).collect();
    let all =
        [1, 2].map(|workers| ["deposit", "transfer", "transfer-hot", "open"].map(|kind| (Some(kind), Some(workers))));
    assert_eq!(taken, all.concat());
    assert!(samples.iter().all(|sample| sample["rate"].as_f64() > Some(0.0)), "{report}");
}
