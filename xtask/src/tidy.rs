//! The style of the repository as a test over all files that git tracks.
//!
//! rustfmt and clippy judge code; here is what they do not see: the English of comments and documents, traces of one
//! developer's machine, where unsafe code may be, and how items are imported.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fmt, fs};

use crate::{Outcome, root};

/// Phrases that a native engineer does not write, and what to write instead.
const PHRASES: [(&str, &str); 3] = [
    ("whoever", "name who acts: the thread, the sender, the caller"),
    ("has it do", "\"makes it do\" or \"lets it do\""),
    ("; whether", "\"Returns whether ...\" as a sentence of its own"),
];

/// Names that the field knows under another one: where, the old name as a whole word, and the field's.
const NAMES: [(&str, &str, &str); 13] = [
    ("crates/stm/", "worker", "descriptor"),
    ("crates/stm/", "stamp", "versioned lock"),
    ("crates/stm/", "stamps", "versioned locks"),
    ("crates/stm/", "gate", "serial lock"),
    ("crates/actors/", "population", "registry"),
    ("crates/actors/", "lane", "queue of a priority"),
    ("crates/actors/", "lanes", "selective receive"),
    ("crates/", "plant", "planted bug"),
    ("crates/", "plants", "planted bugs"),
    ("crates/server/", "door", "limits"),
    ("bench/src/savina/", "entrant", "contender"),
    ("bench/src/savina/", "player", "contender"),
    ("bench/src/savina/", "heat", "result of a benchmark"),
];

/// The table of cases, which names a test for each.
const CASES: &str = "docs/internals/semantics.md";

/// How paths begin that exist on one machine only.
const MACHINE_PATHS: [&str; 4] = ["/home/", "/root/", "/Users/", "/work/"];

/// Texts that others have written or that programs write, and the one that has to name what it forbids.
const EXEMPT: [&str; 6] =
    ["LICENSE-APACHE", "LICENSE-MIT", "Cargo.lock", "package-lock.json", "vacation.svg", "tidy.rs"];

/// How unsafe code begins.
const UNSAFE: [&str; 4] = ["unsafe {", "unsafe fn ", "unsafe impl ", "unsafe extern "];

/// Something to mend.
struct Finding {
    path: PathBuf,
    /// From 1.
    line: usize,
    what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.what)
    }
}

/// Checks all files, and prints what is to be mended.
pub(crate) fn run() -> Outcome {
    let mut findings = Vec::new();
    let mut count = 0;
    let mut functions = HashSet::new();
    for path in tracked()? {
        let text = match fs::read_to_string(root().join(&path)) {
            Ok(text) => text,
            // Deleted and not yet committed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(format!("{}: {error}", path.display()).into()),
        };
        count += 1;
        findings.extend(check(&path, &text));
        functions.extend(text.lines().filter_map(function).map(str::to_owned));
    }
    let cases = fs::read_to_string(root().join(CASES))?;
    findings.extend(
        tests_of_cases(&cases).filter(|(_, test)| !functions.contains(*test)).map(|(line, test)| Finding {
            path: CASES.into(),
            line,
            what: format!("`{test}` is no test"),
        }),
    );
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() {
        println!("{count} files are tidy");
        return Ok(());
    }
    Err(format!("{} places are not tidy", findings.len()).into())
}

/// Every file that git tracks, by its path from the root; links are listed as what they lead to.
fn tracked() -> Result<Vec<PathBuf>, Box<dyn std::error::Error>> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output()?;
    if !output.status.success() {
        return Err("git does not list the files of this directory".into());
    }
    let names = String::from_utf8(output.stdout)?;
    Ok(names.split_terminator('\0').map(PathBuf::from).collect())
}

fn check(path: &Path, text: &str) -> Vec<Finding> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if EXEMPT.contains(&name) {
        return Vec::new();
    }
    let mut found: Vec<(usize, String)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        found.extend(of_line(line).chain(names_of_others(path, line)).map(|what| (number + 1, what)));
    }
    if !text.is_empty() && !text.ends_with('\n') {
        found.push((text.lines().count(), "the last line has no end".to_owned()));
    }
    if path.extension().is_some_and(|extension| extension == "rs") {
        found.extend(of_source(path, text));
    }
    found.into_iter().map(|(line, what)| Finding { path: path.to_owned(), line, what }).collect()
}

fn of_line(line: &str) -> impl Iterator<Item = String> + use<'_> {
    let lower = line.to_lowercase();
    let phrases = PHRASES.iter().filter(move |(phrase, _)| lower.contains(phrase));
    let machines = MACHINE_PATHS.iter().filter(move |start| line.contains(**start));
    let blank = line.ends_with([' ', '\t']).then(|| "blanks at the end of the line".to_owned());
    let phrases = phrases.map(|(phrase, instead)| format!("`{phrase}`: {instead}"));
    phrases.chain(machines.map(|start| format!("`{start}`: a path of one machine"))).chain(blank)
}

fn names_of_others<'a>(path: &'a Path, line: &'a str) -> impl Iterator<Item = String> + 'a {
    let is_found = move |(place, old, _): &&(&str, &str, &str)| {
        path.starts_with(place) && words(line).any(|word| word.eq_ignore_ascii_case(old))
    };
    NAMES.iter().filter(is_found).map(|(_, old, name)| format!("`{old}`: the field says {name}"))
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
}

/// The function that begins on `line`.
fn function(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_item = words(before).all(|word| matches!(word, "" | "pub" | "crate" | "async"));
    is_item.then(|| words(after).next())?
}

/// The tests that a table of cases names, with their lines from 1.
fn tests_of_cases(table: &str) -> impl Iterator<Item = (usize, &str)> {
    table.lines().enumerate().filter(|(_, line)| line.starts_with('|')).flat_map(|(number, line)| {
        let last = line.trim_end_matches(['|', ' ']).rsplit(" | ").next().unwrap_or_default();
        last.split('`').skip(1).step_by(2).map(move |test| (number + 1, test))
    })
}

fn of_source(path: &Path, text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let is_root = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    let declares = |lint: &str| text.contains(&format!("#![{lint}(unsafe_code)]"));
    if is_root && !declares("forbid") && !declares("deny") {
        found.push((1, "the crate neither forbids nor denies `unsafe_code`".to_owned()));
    }
    let is_source = path.components().any(|part| part.as_os_str() == "src");
    let unsafe_line = text.lines().position(|line| {
        let code = line.trim_start();
        !code.starts_with("//") && UNSAFE.iter().any(|item| code.contains(item))
    });
    if let Some(place) = unsafe_line
        && is_source
        && !text.contains("#![expect(unsafe_code, reason = ")
    {
        found.push((place + 1, "the file does not declare at its head why it has unsafe code".to_owned()));
    }
    if is_source && !text.starts_with("//!") {
        found.push((1, "the file does not say at its head what it holds".to_owned()));
    }
    found
        .extend(nested_imports(text).map(|line| (line, "one `use` for each module, without nested braces".to_owned())));
    found
}

/// The lines, from 1, on which imports with braces in braces begin.
fn nested_imports(text: &str) -> impl Iterator<Item = usize> {
    let begins = |line: &str| {
        let item = line.trim_start();
        let item = item.strip_prefix("pub ").or_else(|| item.strip_prefix("pub(crate) ")).unwrap_or(item);
        item.starts_with("use ")
    };
    let lines: Vec<&str> = text.lines().collect();
    let starts: Vec<usize> = (0..lines.len()).filter(|&place| begins(lines[place])).collect();
    starts.into_iter().filter_map(move |place| {
        let item: String = lines[place..].iter().flat_map(|line| line.chars()).take_while(|&c| c != ';').collect();
        (item.matches('{').count() > 1).then_some(place + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_findings(path: &str, text: &str, expected: &[&str]) {
        let found: Vec<_> = check(Path::new(path), text).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found} does not contain {expected}");
        }
    }

    #[test]
    fn phrases_are_found_in_any_file_and_case() {
        check_findings("README.md", "One.\nWhoever reads this.\n", &["README.md:2: `whoever`"]);
        check_findings("a/b.toml", "# Takes it; whether it was there.\n", &["`; whether`"]);
        check_findings("src/a.rs", "//! It has it done.\n", &["`has it do`"]);
        check_findings("README.md", "Returns whether it was there.\n", &[]);
    }

    #[test]
    fn paths_of_a_machine_and_loose_ends_are_found() {
        let home = ["/home", "/ada/enact"].concat();
        check_findings("run.sh", &format!("cd {home}\n"), &["a path of one machine"]);
        check_findings("a.md", "blank \nno end", &["blanks", "a.md:2: the last line"]);
    }

    #[test]
    fn a_crate_says_whether_it_has_unsafe_code_and_a_file_what_it_holds() {
        check_findings("a/src/lib.rs", "//! A.\n", &["neither forbids nor denies"]);
        check_findings("a/src/lib.rs", "//! A.\n#![forbid(unsafe_code)]\n", &[]);
        check_findings("a/src/b.rs", "use std::io;\n", &["at its head"]);
        check_findings("a/tests/b.rs", "use std::io;\n", &[]);
        let block = "fn f() {\n    unsafe { g() }\n}\n";
        check_findings("a/src/b.rs", &format!("//! B.\n{block}"), &["a/src/b.rs:3: the file does not declare"]);
        check_findings("a/src/b.rs", &format!("//! B.\n#![expect(unsafe_code, reason = \"g\")]\n{block}"), &[]);
    }

    #[test]
    fn names_that_the_field_knows_under_another_one_are_found_as_whole_words() {
        let text = "//! A.\nlet gate = 1; // the Worker\nlet worker_threads = navigate;\n";
        check_findings("crates/stm/tests/a.rs", text, &["a.rs:2: `worker`", "a.rs:2: `gate`"]);
        check_findings("crates/actors/tests/a.rs", text, &[]);
    }

    #[test]
    fn a_table_of_cases_names_tests() {
        let table = "`no_row`\n| case | tests |\n|---|---|\n| `x` \\| y | `first`<br>`second` |\n";
        assert_eq!(tests_of_cases(table).collect::<Vec<_>>(), [(4, "first"), (4, "second")]);
        let lines =
            ["    pub(crate) async fn one<A>() {", "fn two()", "// as a fn three() does", "const X: fn four();"];
        assert_eq!(lines.map(function), [Some("one"), Some("two"), None, None]);
    }

    #[test]
    fn nested_imports_are_found_where_they_begin() {
        let nested = "fn f() {\n    use std::{\n        fmt::{Debug, Display},\n    };\n}\n";
        check_findings("a/tests/b.rs", nested, &["b.rs:2: one `use`"]);
        check_findings("a/tests/b.rs", "pub use std::fmt::{Debug, Display};\nuse std::io;\n", &[]);
    }

    #[test]
    fn this_repository_is_tidy() {
        run().unwrap_or_else(|untidy| panic!("{untidy}"));
    }
}
