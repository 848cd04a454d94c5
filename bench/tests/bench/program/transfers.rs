//! `enact-bench transfers`, short of a served bank: the gate runs it against one.

use super::enact_bench;

#[test]
fn transfers_refuses_what_it_cannot_run() {
    for (arguments, status, complaint) in [
        (&["--accounts", "1"][..], 2, "1 is not in 2.."),
        (&["--program", "/nowhere/enact"], 1, "starting: /nowhere/enact: No such file"),
        // It ends at once, as a program that cannot serve.
        (&["--program", "true"], 1, "it ended before it listened"),
    ] {
        let ended = enact_bench(&[&["transfers", "--rounds", "1"], arguments].concat());
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(status), "{arguments:?}: {stderr}");
        assert!(stderr.contains(complaint), "{arguments:?}: {stderr}");
    }
}
