//! `enact-bench postgres`, short of a served bank: the gate runs it against one.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::enact_bench;

#[test]
fn postgres_refuses_what_it_cannot_run() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let path = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    fs::write(path("none"), "#!/bin/sh\nread -r _; echo none for this test\n").expect("written");
    fs::set_permissions(path("none"), fs::Permissions::from_mode(0o755)).expect("ours");
    let none = path("none");
    for (arguments, status, complaint) in [
        (&["--experiments", "tax"][..], 2, "one of nosync, sync, sync1000, sync100 and hot"),
        (&["--program", "true", "--postgres", "/nowhere/run"], 1, "the system refuses /nowhere/run"),
        // It ends at once, without a word.
        (&["--program", "true", "--postgres", "true"], 1, "the system refuses true"),
        (&["--program", "true", "--postgres", &none, "--data", "/nowhere"], 1, "the system refuses /nowhere"),
        // Enact is measured where there is no PostgreSQL.
        (&["--program", "true", "--postgres", &none], 1, "it ended before it listened"),
    ] {
        let ended = enact_bench(&[&["postgres", "--rounds", "1"], arguments].concat());
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(status), "{arguments:?}: {stderr}");
        assert!(stderr.contains(complaint), "{arguments:?}: {stderr}");
    }
}
