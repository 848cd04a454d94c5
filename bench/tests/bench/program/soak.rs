//! `enact-bench soak`, for seconds, of the program that was built beside it, and of one that opens files and keeps them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

use tempfile::TempDir;

use super::enact_bench;

/// The program that the tests of the workspace are built with; nothing if it is not there.
fn enact() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_BIN_EXE_enact-bench")).with_file_name("enact");
    let program = env::var_os("ENACT_PROGRAM").map_or_else(beside, PathBuf::from);
    if !program.exists() {
        eprintln!("passed over: there is no {}; build it with `cargo build -p enact-cli`", program.display());
        return None;
    }
    Some(program)
}

/// What a soak of `program` for so long prints, and how it ends.
fn soaked(program: &Path, time: &str, place: &TempDir) -> (Option<i32>, String) {
    let [program, data] = [program, place.path()].map(|path| path.to_str().expect("UTF-8"));
    let ended =
        enact_bench(&["soak", "--for", time, "--clients", "4", "--idle", "2", "--program", program, "--data", data]);
    let printed = [ended.stdout, ended.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (ended.status.code(), printed)
}

#[test]
fn a_soak_of_a_sound_server_ends_well_and_a_leak_is_found() {
    let Some(enact) = enact() else { return };
    let place = tempfile::tempdir().expect("a place for the test");
    let (status, printed) = soaked(&enact, "2s", &place);
    assert_eq!(status, Some(0), "{printed}");
    assert!(printed.contains("money is what was paid in, and the audit is clean"), "{printed}");

    let leaking = place.path().join("leaking");
    // It serves, and keeps a further file open every hundredth of a second.
    let script = format!(
        "#!/bin/bash\n[ \"$1\" = serve ] || exec '{0}' \"$@\"\n'{0}' \"$@\" & served=$!\ntrap 'kill -TERM $served' TERM\n\
         while sleep 0.01 && kill -0 $served 2>/dev/null; do exec {{kept}}</dev/null; done\n",
        enact.display()
    );
    fs::write(&leaking, script).expect("written");
    fs::set_permissions(&leaking, fs::Permissions::from_mode(0o755)).expect("ours");
    let (status, printed) = soaked(&leaking, "2s", &place);
    assert_eq!(status, Some(1), "{printed}");
    assert!(printed.contains("grown beyond what was stored: descriptors\n"), "{printed}");
}

#[test]
fn soak_refuses_what_it_cannot_run() {
    for (arguments, status, complaint) in [
        (&["--for", "soon"][..], 2, "invalid value 'soon'"),
        (&["--clients", "0"], 2, "0 is not in 1.."),
        // It ends at once, as a program that cannot serve.
        (&["--program", "true"], 1, "it ended before it listened"),
    ] {
        let ended = enact_bench(&[&["soak"], arguments].concat());
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(status), "{arguments:?}: {stderr}");
        assert!(stderr.contains(complaint), "{arguments:?}: {stderr}");
    }
}
