//! `docs/security.md` claims nothing that no test shows.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The names of all functions in the Rust files below `directory`.
fn functions(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("UTF-8");
            let names = text.lines().filter_map(|line| line.trim_start().split_once("fn ")?.1.split('(').next());
            found.extend(names.map(str::to_owned));
        }
    }
}

#[test]
fn every_line_of_the_threat_model_is_shown_by_tests_that_exist() {
    let page = fs::read_to_string(root().join("docs/security.md")).expect("the page");
    let mut known = BTreeSet::new();
    functions(&root().join("crates"), &mut known);
    let rows = page.lines().skip_while(|line| *line != "| what | how | test |").filter(|line| line.starts_with("| "));
    let rows: Vec<&str> = rows.filter(|line| *line != "| what | how | test |").collect();
    assert!(rows.len() >= 20, "{} rows", rows.len());
    for row in rows {
        let tests = row.trim_end_matches(" |").rsplit("| ").next().expect("a cell");
        let names: Vec<&str> = tests.split_whitespace().map(|name| name.trim_matches('`')).collect();
        assert!(!names.is_empty(), "{row}");
        for name in names {
            assert!(known.contains(name), "no test `{name}`: {row}");
        }
    }
}
