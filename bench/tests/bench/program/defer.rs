//! `enact-bench defer`.

use std::fs;

use serde_json::Value;

use super::enact_bench;

#[test]
fn defer_reports_every_version_of_every_workload() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let (place, json) = (directory.path().to_str().expect("UTF-8"), directory.path().join("report.json"));
    let small = ["--threads", "1,2", "--operations", "40", "--mib", "1", "--rounds", "1", "--warm-up", "0"];
    let files = ["--directory", place, "--json", json.to_str().expect("UTF-8")];
    let output = enact_bench(&[["defer"].as_slice(), &small, &files].concat());
    let (table, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{errors}");

    let report: Value = serde_json::from_slice(&fs::read(&json).expect("the report was written")).expect("JSON");
    let races = report["races"].as_array().expect("races");
    let names = |race: &Value| {
        let contenders = race["contenders"].as_array().expect("contenders").iter();
        contenders.map(|contender| contender["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    // Five workloads and the pipeline, with one and with two threads.
    assert_eq!(races.len(), 12);
    assert_eq!(names(&races[0]), ["coarse lock", "irrevocable", "deferred"]);
    assert_eq!(names(&races[9]), ["coarse lock", "fine locks", "irrevocable", "deferred"]);
    let versions = ["locks", "sequential", "transactions", "+ deferred output", "+ deferred compression"];
    assert_eq!(names(&races[11]), versions);
    for race in races {
        for contender in race["contenders"].as_array().expect("contenders") {
            let row = |line: &&str| {
                let mut cells = line.split('|').map(str::trim);
                cells.any(|cell| race["workload"] == cell) && cells.any(|cell| contender["name"] == cell)
            };
            assert!(table.lines().any(|line| row(&line)), "{contender} of {} is not in\n{table}", race["workload"]);
            assert!(contender["median_rate"].as_f64().is_some_and(|rate| rate > 0.0), "{contender}");
        }
    }
    let left = fs::read_dir(directory.path()).expect("readable").count();
    assert_eq!(left, 1, "only the report is left of the files");
}

#[test]
fn defer_fails_where_it_cannot_work() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let missing = directory.path().join("missing").to_str().expect("UTF-8").to_owned();
    let no_directory = enact_bench(&["defer", "io", "--directory", &missing]);
    let message = String::from_utf8_lossy(&no_directory.stderr);
    assert_eq!(no_directory.status.code(), Some(1), "{message}");
    assert!(message.contains("making a directory") && message.contains("No such file"), "{message}");
    for wrong in [["--threads", "0"], ["--rounds", "0"], ["--operations", "0"], ["--mib", "0"]] {
        let usage = enact_bench(&[["defer"].as_slice(), &wrong].concat());
        assert_eq!(usage.status.code(), Some(2), "{wrong:?}");
    }
}
