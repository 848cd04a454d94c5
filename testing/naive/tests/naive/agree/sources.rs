//! Where specifications are found.

use std::fs;
use std::path::{Path, PathBuf};

use enact_rebel::{Rounding, Source, check};

/// The line that says how to round.
const ROUNDING: &str = "rounding half-even\n";

/// A specification, and where it stands.
type Named = (String, Vec<Source>);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The entries of a folder, in order.
fn entries(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// The sources that stand in one text behind lines of the form `// ---- name ----`, or the text itself.
fn split(name: &str, text: &str) -> Vec<Source> {
    let mut sources: Vec<Source> = Vec::new();
    for line in text.split_inclusive('\n') {
        let heading = line.strip_prefix("// ---- ").and_then(|line| line.trim_end().strip_suffix(" ----"));
        match (heading, sources.last_mut()) {
            (Some(name), _) => sources.push(Source::new(name, "")),
            (None, Some(source)) => source.text.push_str(line),
            (None, None) => sources.push(Source::new(name, line)),
        }
    }
    sources
}

fn folder(folder: &str) -> Vec<Named> {
    let source = |path: &PathBuf| Source::new(path.display().to_string(), text(path));
    let named = |path: PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let sources = match path.is_dir() {
            true => entries(&format!("{folder}/{name}")).iter().map(source).collect(),
            false => split(&name, &text(&path)),
        };
        (name, sources)
    };
    entries(folder).into_iter().map(named).collect()
}

pub(crate) fn examples() -> Vec<Named> {
    folder("examples")
}

/// What has everything, numbers under each rule of rounding.
pub(crate) fn constructs() -> Vec<Named> {
    let mut found = Vec::new();
    for (name, sources) in folder("testing/naive/tests/naive/specs") {
        let [Source { text, .. }] = &sources[..] else { panic!("{name} is one source") };
        if text.contains(ROUNDING) {
            for rule in Rounding::ALL {
                let text = text.replace(ROUNDING, &format!("rounding {rule}\n"));
                found.push((format!("{name}, {rule}"), vec![Source::new(&name, text)]));
            }
        } else {
            found.push((name, sources));
        }
    }
    found
}

/// The blocks of the documentation that are whole specifications with instances, and the specifications of the tests.
pub(crate) fn documented() -> Vec<Named> {
    let mut found = folder("crates/rebel/tests/rebel/specs");
    for page in ["docs/rebel.md", "docs/guide/patterns.md", "docs/guide/tutorial.md"] {
        let page_text = text(&root().join(page));
        let blocks = page_text.split("\n```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("rebel\n"));
        for (number, block) in blocks.enumerate() {
            let sources = split(page, &format!("{block}\n"));
            let is_whole = check(sources.clone()).is_ok_and(|spec| spec.classes().len() > 0);
            if is_whole {
                found.push((format!("{page}, block {number}"), sources));
            }
        }
    }
    found
}
