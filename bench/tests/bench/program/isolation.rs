//! `enact-bench isolation`.

use super::enact_bench;

#[test]
fn isolation_prints_a_history_under_psac_and_says_that_there_is_none_under_serializable() {
    let ended = enact_bench(&["isolation"]);
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains("psac") && stdout.contains("serializable"), "{stdout}");
}
