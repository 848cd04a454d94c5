//! `enact-bench psac-simulation`.

use super::enact_bench;

fn figures(arguments: &[&str]) -> serde_json::Value {
    let directory = tempfile::tempdir().expect("a place for the test");
    let json = directory.path().join("simulation.json");
    let to = ["--rounds", "1", "--transfers", "100", "--users-max", "16", "--json", json.to_str().expect("UTF-8")];
    let ended = enact_bench(&[&["psac-simulation"], arguments, &to].concat());
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains("each transfer that began ended once"), "{stdout}");
    serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON")
}

#[test]
fn psac_simulation_has_a_point_for_each_delay_strategy_and_number_of_nodes_and_a_law_for_each_line() {
    let what = ["--costs", "measured", "--nodes", "1,2,4", "--delays-ms", "0,5", "--strategies", "locking,psac"];
    let report = figures(&what);
    let points = report["measured"].as_array().expect("points");
    let taken: Vec<_> = points
        .iter()
        .map(|point| (point["delay_ms"].as_f64(), point["strategy"].as_str(), point["nodes"].as_u64()))
        .collect();
    let expected: Vec<_> = [0.0, 5.0]
        .iter()
        .flat_map(|delay| ["locking", "psac"].map(|strategy| (delay, strategy)))
        .flat_map(|(delay, strategy)| [1, 2, 4].map(|nodes| (Some(*delay), Some(strategy), Some(nodes))))
        .collect();
    assert_eq!(taken, expected);
    assert!(points.iter().all(|point| point["rate"].as_f64() > Some(0.0)), "{points:?}");
    assert_eq!(report["laws"].as_array().map(Vec::len), Some(4), "{report}");
    assert_eq!(report["measured"], figures(&what)["measured"], "the seed is the same");
    assert_ne!(report["measured"], figures(&[&what[..], &["--seed", "2"]].concat())["measured"]);
}

#[test]
fn psac_simulation_refuses_no_nodes_and_delays_that_are_none() {
    for wrong in [["--nodes", "0"], ["--delays-ms", "NaN"], ["--delays-ms", "1001"], ["--transfers", "99"]] {
        assert_eq!(enact_bench(&[&["psac-simulation"], &wrong[..]].concat()).status.code(), Some(2), "{wrong:?}");
    }
}
