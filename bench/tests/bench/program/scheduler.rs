//! `enact-bench scheduler`.

use super::enact_bench;

/// The turns were measured, but what is compared are replays of the same turns.
#[test]
fn programs_that_send_one_message_at_a_time_or_all_to_one_actor_are_as_fast_with_eight_workers() {
    let ended = enact_bench(&[
        "scheduler",
        "thr",
        "phil",
        "--workers",
        "8",
        "--line-ns",
        "100",
        "--millis",
        "4",
        "--rounds",
        "1",
    ]);
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(0), "{stdout}\n{stderr}");
    for found in ["| thr ", "| phil ", "8 workers", "us apart", "real cores"] {
        assert!(stdout.contains(found), "{found} in {stdout}");
    }
    assert!(stdout.contains("0 of 2 replays are slower"), "{stdout}");
}

#[test]
fn a_program_that_does_not_exist_is_refused() {
    let ended = enact_bench(&["scheduler", "nonsense"]);
    assert_eq!(ended.status.code(), Some(2));
}
