//! `enact check`.

use std::fs;

use crate::served::enact;

const FINE: &str = "class Lamp\n  initial off\n    on Light(): lit\n  lit\n    on Dim(): lit\n";
const UNUSED: &str = "const spare: Integer = 1\n";
const WRONG: &str = "class Lamp\n  lumen: Integre\n  initial off\n    on Light(): lit\n";

#[test]
fn the_exit_status_says_whether_the_specification_is_sound() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let file = |name: &str, content: &[u8]| {
        let path = directory.path().join(name);
        fs::write(&path, content).expect("writable");
        path.to_str().expect("UTF-8").to_owned()
    };
    let (fine, unused) = (file("fine.rebel", FINE.as_bytes()), file("unused.rebel", UNUSED.as_bytes()));
    let (wrong, binary) = (file("wrong.rebel", WRONG.as_bytes()), file("binary.rebel", b"class \xff\xfe"));
    let long = file("long.rebel", &[b' '; (1 << 20) + 1]);
    let missing = directory.path().join("missing.rebel").to_str().expect("UTF-8").to_owned();
    let here = directory.path().to_str().expect("UTF-8").to_owned();

    #[rustfmt::skip]
    let rows: &[(&[&str], i32, &[&str], &[&str])] = &[
        // arguments             status  on standard output                    on standard error
        (&[&fine],                  0,  &["no errors: 1 class, 2 events"],    &[]),
        (&[&fine, &unused],         0,  &["no errors: 1 class", "1 warning"], &["W002", "unused.rebel:1:7"]),
        (&[&wrong],                 1,  &[],    &["E102", "wrong.rebel:2:10", "did you mean `Integer`?", "E104", "error: the specification has 2 errors"]),
        (&[&fine, &fine],           1,  &[],    &["E101", "error: the specification has 1 error\n"]),
        (&[&long],                  1,  &[],    &["E003"]),
        (&[&missing],               2,  &[],    &["error: cannot read", "missing.rebel", "No such file"]),
        (&[&fine, &missing],        2,  &[],    &["missing.rebel"]),
        (&[&binary],                2,  &[],    &["error: cannot read", "binary.rebel", "UTF-8"]),
        (&[&here],                  2,  &[],    &["error: cannot read", "directory"]),
        (&[],                       2,  &[],    &["FILE"]),
        (&[&fine, "--colour"],      2,  &[],    &["--colour"]),
    ];
    for (arguments, status, out, err) in rows {
        let ended = enact(&[&["check"], *arguments].concat());
        let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        assert_eq!(ended.status.code(), Some(*status), "{arguments:?}\n{stdout}\n{stderr}");
        assert!(out.iter().all(|part| stdout.contains(part)), "{arguments:?}: {out:?} in\n{stdout}");
        assert!(err.iter().all(|part| stderr.contains(part)), "{arguments:?}: {err:?} in\n{stderr}");
        assert!(!stderr.contains('\x1b'), "no colours where nobody looks");
        if *status != 0 {
            assert!(stdout.is_empty(), "{arguments:?}: {stdout}");
        }
    }
}

#[test]
fn help_tells_the_exit_statuses() {
    for arguments in [&["--help"][..], &["help"]] {
        let ended = enact(arguments);
        let text = String::from_utf8_lossy(&ended.stdout);
        assert_eq!(ended.status.code(), Some(0));
        for status in 0..=6 {
            assert!(text.contains(&format!("\n  {status}  ")), "{text}");
        }
    }
}
