//! `enact-bench rebel`.

use super::enact_bench;

#[test]
fn rebel_measures_events_and_steps_and_says_what_each_takes() {
    let ended = enact_bench(&["rebel", "--events", "100", "--rounds", "1", "--warm-up", "0"]);
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(0), "{stdout}\n{stderr}");
    for part in ["one effect", "two guards", "step of a transfer", "ns each"] {
        assert!(stdout.contains(part), "{stdout}");
    }
}
