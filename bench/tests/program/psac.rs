//! `enact-bench psac`.

use crate::enact_bench;

#[test]
fn psac_measures_each_strategy_in_one_engine_and_in_two_and_counts_the_money() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let json = directory.path().join("psac.json");
    let what = ["psac", "--experiments", "nosync,sync100", "--strategies", "locking,serializable"];
    let how = ["--engines", "1,2", "--delays-ms", "0.5", "--clients", "1", "--seconds", "1", "--rounds", "1"];
    let to = ["--json", json.to_str().expect("UTF-8")];
    let ended = enact_bench(&[&what[..], &how, &to].concat());
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains("all money is there"), "{stdout}");

    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON");
    let samples = report["samples"].as_array().expect("samples");
    assert_eq!(samples.len(), 2 * 2 * 2, "{report}");
    assert!(samples.iter().all(|sample| sample["rate"].as_f64() > Some(0.0)), "{report}");
    // Messages travel where there are several engines.
    let set_up = |sample: &serde_json::Value| (sample["engines"].as_u64(), sample["delay_ms"].as_f64());
    let is_set_up = |sample: &serde_json::Value| [(Some(1), Some(0.0)), (Some(2), Some(0.5))].contains(&set_up(sample));
    assert!(samples.iter().all(is_set_up), "{report}");
}
