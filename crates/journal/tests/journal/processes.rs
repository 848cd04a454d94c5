//! The journal among processes of the operating system: one at a time, and killed ones lose nothing.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use enact_journal::{Embedded, Journal, OpenError, Options};

use crate::workload::{SEGMENT_BYTES, batches, block_on, read_all, whole_batches};

const DIRECTORY: &str = "ENACT_JOURNAL_TEST_DIRECTORY";

fn open(directory: &Path) -> Result<Embedded, OpenError> {
    Embedded::open(directory, Options { segment_bytes: SEGMENT_BYTES, ..Options::default() })
}

/// Runs the test `name` of this program in another process, on `directory`.
fn start(name: &str, directory: &Path) -> Child {
    Command::new(env::current_exe().expect("this program"))
        .args(["--exact", &format!("processes::{name}"), "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .expect("another process")
}

/// The lines that `child` prints behind `prefix`.
fn lines(child: &mut Child, prefix: &'static str) -> impl Iterator<Item = String> + use<> {
    let stdout = BufReader::new(child.stdout.take().expect("its output"));
    stdout.lines().map_while(Result::ok).filter_map(move |line| Some(line.split_once(prefix)?.1.to_owned()))
}

#[test]
fn directory_in_use_by_another_process_is_refused() {
    if let Some(directory) = env::var_os(DIRECTORY) {
        match open(Path::new(&directory)) {
            Ok(_) => println!("answer: open"),
            Err(error) => println!("answer: {error}"),
        }
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("data");
    let ask = || {
        let mut child = start("directory_in_use_by_another_process_is_refused", &path);
        let answer = lines(&mut child, "answer: ").last().expect("an answer");
        child.wait().expect("its end");
        answer
    };
    let journal = open(&path).expect("a new journal");
    let refusal = format!("the data directory is in use by process {}", std::process::id());
    assert_eq!(ask(), refusal);
    assert!(open(&path).is_err(), "not twice in one process either");
    std::fs::remove_file(path.join("lock")).expect("removed");
    assert_eq!(ask(), "the data directory is in use by another process", "a removed file releases nothing");
    block_on(journal.close()).expect("closed");
    assert_eq!(ask(), "open", "a closed journal lets go of the directory although it still exists");
    drop(journal);
}

/// A process appends and says what is durable; it is killed; nothing that it said is lost. Again and again.
#[test]
fn killed_process_loses_nothing_that_was_durable() {
    let batches = batches(2000);
    if let Some(directory) = env::var_os(DIRECTORY) {
        let journal = open(Path::new(&directory)).expect("opens");
        let found = whole_batches(&batches, &read_all(&journal).expect("readable"));
        let mut out = std::io::stdout();
        for (n, batch) in (1..).zip(&batches).skip(found) {
            block_on(journal.append(batch.clone())).expect("durable");
            writeln!(out, "durable: {n}").expect("a reader");
            out.flush().expect("a reader");
        }
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("data");
    let mut durable = 0;
    for round in 0..12 {
        let mut child = start("killed_process_loses_nothing_that_was_durable", &path);
        let mut said = lines(&mut child, "durable: ");
        for _ in 0..10 + round * 3 {
            durable = said.next().expect("it goes on").parse().expect("a number");
        }
        child.kill().expect("killed");
        // What it has said until it died counts as well.
        durable = said.map(|line| line.parse().unwrap_or(durable)).max().unwrap_or(durable).max(durable);
        child.wait().expect("its end");
        assert!(enact_journal::verify(&path).expect("readable").is_sound());
        let journal = open(&path).expect("opens");
        let found = whole_batches(&batches, &read_all(&journal).expect("readable"));
        assert!((durable..=durable + 1).contains(&found), "{durable} were durable, {found} are there");
    }
    assert!(durable >= 12 * 10);
}
