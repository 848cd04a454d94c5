//! `enact-bench scheduler`.

use super::enact_bench;

#[test]
fn scheduler_replays_what_it_records_and_runs_it_here() {
    let settings = ["--workers", "2,8", "--line-ns", "0,100", "--millis", "1", "--rounds", "1"];
    let ended = enact_bench(&[&["scheduler", "cig", "logm"][..], &settings].concat());
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(0), "{stdout}\n{stderr}");
    for found in ["a line costs 0 ns", "a line costs 100 ns", "8 workers", "us apart", "real cores", "of 8 replays"] {
        assert!(stdout.contains(found), "{found} in {stdout}");
    }
    // Once for each cost of a line, and once for what they come to here.
    for program in ["| cig ", "| logm "] {
        assert_eq!(stdout.matches(program).count(), 3, "{program} in {stdout}");
    }
}
