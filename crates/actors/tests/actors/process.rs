//! Tests that need a process for themselves.

use std::env;
use std::process::Command;

/// Runs `body` of `test`, named with its module, in a process of its own, which must live to its end.
pub(crate) fn in_a_process_of_its_own(test: &str, body: impl FnOnce()) {
    const INSIDE: &str = "ENACT_TEST_PROCESS";
    if env::var_os(INSIDE).is_some() {
        return body();
    }
    let program = env::current_exe().unwrap();
    let ended = Command::new(program).args([test, "--exact"]).env(INSIDE, "").output().unwrap();
    let (said, complained) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{}\n{said}\n{complained}", ended.status);
    assert!(said.contains("1 passed"), "{said}");
}
