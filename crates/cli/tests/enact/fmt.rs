//! `enact fmt`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use crate::served::{enact, program};

const UNTIDY: &str = "class Lamp\n  initial off\n     on Light( ): lit\n  lit\n";
const TIDY: &str = "class Lamp\n  initial off\n    on Light(): lit\n  lit\n";
const FREE: &str = "class Lamp initial off on Light(): lit lit on Dim() pre: 1 < 2";

fn in_files(files: &[(&str, &str)], arguments: &[&str]) -> (i32, String, String, Vec<String>) {
    let directory = tempfile::tempdir().expect("a place for the test");
    let paths: Vec<_> = files.iter().map(|(name, _)| directory.path().join(name)).collect();
    for (path, (_, content)) in paths.iter().zip(files) {
        fs::write(path, content).expect("writable");
    }
    let directory = directory.path().to_str().expect("UTF-8");
    let ended = enact(&[&["fmt", directory], arguments].concat());
    let read = |path: &std::path::PathBuf| fs::read_to_string(path).expect("readable");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8").replace(directory, "DIR");
    let status = ended.status.code().expect("no signal");
    (status, text(ended.stdout), text(ended.stderr), paths.iter().map(read).collect())
}

#[test]
fn files_are_laid_out_in_their_place() {
    let (status, stdout, stderr, files) = in_files(&[("a.rebel", UNTIDY), ("b.rebel", TIDY), ("c.txt", UNTIDY)], &[]);
    assert_eq!((status, &*stdout, &*stderr), (0, "", ""));
    assert_eq!(files, [TIDY, TIDY, UNTIDY]);
}

#[test]
fn a_check_names_what_would_change_and_changes_nothing() {
    let (status, stdout, stderr, files) = in_files(&[("a.rebel", UNTIDY), ("b.rebel", TIDY)], &["--check"]);
    assert_eq!((status, &*stdout), (1, "DIR/a.rebel\n"));
    assert!(stderr.contains("1 file is not laid out"), "{stderr}");
    assert_eq!(files, [UNTIDY, TIDY]);
    assert_eq!(in_files(&[("b.rebel", TIDY)], &["--check"]).0, 0);
}

#[test]
fn a_file_with_errors_is_left_alone_and_the_others_are_not() {
    let wrong = "class Lamp\n   initial";
    let (status, _, stderr, files) = in_files(&[("a.rebel", wrong), ("b.rebel", UNTIDY)], &[]);
    assert_eq!(status, 1);
    assert!(stderr.contains("a.rebel:2") && stderr.contains("1 error"), "{stderr}");
    assert_eq!(files, [wrong, TIDY]);
}

#[test]
fn files_of_the_time_before_layout_get_one() {
    assert_eq!(in_files(&[("a.rebel", FREE)], &[]).0, 1);
    let (status, _, _, files) = in_files(&[("a.rebel", FREE)], &["--from-free"]);
    assert_eq!(status, 0);
    let expected = "class Lamp\n  initial off\n    on Light(): lit\n  lit\n    on Dim()\n      pre: 1 < 2\n";
    assert_eq!(files, [expected]);
}

#[test]
fn standard_input_is_laid_out_to_standard_output() {
    let mut fmt = program();
    fmt.args(["fmt", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut formatting = fmt.spawn().expect("the program starts");
    formatting.stdin.take().expect("piped").write_all(UNTIDY.as_bytes()).expect("it reads");
    let ended = formatting.wait_with_output().expect("it ends");
    assert_eq!((ended.status.code(), ended.stdout), (Some(0), TIDY.as_bytes().to_vec()));
}

#[test]
fn the_examples_are_laid_out() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bank.rebel");
    let ended = enact(&["fmt", "--check", examples.to_str().expect("UTF-8")]);
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stdout));
}
