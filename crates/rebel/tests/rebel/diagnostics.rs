//! Bad specifications: what is found, where, and what the help says.
//!
//! Each file of `diagnostics/` is a bad specification, of several sources behind lines `// ---- name ----` perhaps, named after its mistake, with what is said of it beside it. After a
//! change of messages, `ENACT_UPDATE=1 cargo test -p enact-rebel --test rebel diagnostics` writes the files anew.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use enact_rebel::{Code, Report, Source, check};

use crate::support;

fn report(name: &str, text: &str) -> Report {
    report_of(support::sources(name, text))
}

fn report_of(sources: Vec<Source>) -> Report {
    match check(sources) {
        Ok(spec) => spec.warnings().clone(),
        Err(report) => report,
    }
}

/// The bad specifications, by name.
fn bad_specifications() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rebel/diagnostics");
    let entries = fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("readable").path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "rebel")).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).expect("UTF-8"))).collect()
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("UTF-8")
}

#[test]
fn every_bad_specification_is_explained_as_the_file_beside_it_says() {
    let is_update = std::env::var_os("ENACT_UPDATE").is_some();
    let mut different = String::new();
    for (path, text) in bad_specifications() {
        // The drawing ends some lines with blanks.
        let said = report(name(&path), &text).render(false);
        let said: String = said.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        let beside = path.with_extension("txt");
        if is_update {
            fs::write(&beside, &said).expect("writable");
        }
        let expected = fs::read_to_string(&beside).unwrap_or_default();
        if said != expected {
            different += &format!("{}\nexpected\n{expected}\nsaid\n{said}\n", name(&path));
        }
    }
    assert!(different.is_empty(), "{different}");
}

#[test]
fn each_file_is_named_after_a_code_that_it_shows_and_every_code_is_shown() {
    let files = bad_specifications();
    assert!(files.len() > 80, "{}", files.len());
    let mut shown = HashSet::new();
    for (path, text) in &files {
        let found = report(name(path), text);
        let codes: Vec<Code> = found.diagnostics().iter().map(|diagnostic| diagnostic.code).collect();
        let named = name(path).split('_').next().expect("a name").to_uppercase();
        assert!(codes.iter().any(|code| code.number() == named), "{}: {codes:?}", name(path));
        shown.extend(codes);
    }
    for code in Code::ALL {
        // The limits have tests of their own, and what two versions are needed for.
        assert!(
            shown.contains(code) || matches!(code, Code::Limit | Code::AnalysisLimit | Code::NotMigrated),
            "{code}"
        );
    }
    let numbers: HashSet<&str> = Code::ALL.iter().map(|code| code.number()).collect();
    assert_eq!(numbers.len(), Code::ALL.len(), "every code has a number of its own");
}

#[test]
fn an_edit_mends_what_it_is_said_of() {
    let mut tried = 0;
    for (path, text) in bad_specifications() {
        for diagnostic in report(name(&path), &text).diagnostics() {
            let Some(edit) = &diagnostic.edit else { continue };
            let mut sources = support::sources(name(&path), &text);
            sources[edit.span.source].text.replace_range(edit.span.start..edit.span.end, &edit.text);
            let left = report_of(sources);
            let is_left = |other: &enact_rebel::Diagnostic| {
                other.message == diagnostic.message && other.labels[0].span.start == diagnostic.labels[0].span.start
            };
            assert!(!left.diagnostics().iter().any(is_left), "{}: {}\n{left}", name(&path), diagnostic.message);
            tried += 1;
        }
    }
    assert!(tried >= 15, "{tried}");
}

#[test]
fn errors_come_before_warnings_and_both_in_the_order_of_the_source() {
    let report = report("a.rebel", "class A initial i on E(): s\ns\nt class B x: Mony initial i on E(y: Integer): z");
    let codes: Vec<&str> = report.diagnostics().iter().map(|diagnostic| diagnostic.code.number()).collect();
    assert_eq!(codes, ["E102", "E104", "W001", "W002"]);
    assert_eq!((report.errors().count(), report.has_errors()), (2, true));
}

#[test]
fn findings_in_several_sources_name_theirs() {
    let sources = vec![
        Source::new("one.rebel", "class A b: B initial i on Make(x: B): s post: this.b == x\ns on E() sync: b.F(1)"),
        Source::new("two.rebel", "class B initial i on Make(): s\ns on F()"),
    ];
    let drawn = check(sources).unwrap_err().render(false);
    assert!(drawn.contains("one.rebel:2:") && drawn.contains("`F` takes 0 arguments, not 1"), "{drawn}");
}
