//! From the files that a user names to a checked specification.
//!
//! # Imports
//! Modules that are imported are looked for among the named files. If only one file is named, also in the files that stand beside it
//! and end in `.rebel`, by their `module` lines, and so on with what these import. Links are not followed there, so that
//! nothing outside that folder is read.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use enact_rebel::limits::SOURCE_BYTES_MAX;
use enact_rebel::{Heading, Report, Source, Spec};
#[cfg(feature = "nats")]
use sha2::{Digest, Sha256};

use crate::failure::Failure;
use crate::log;

/// How far into a file beside the named one its `module` line is looked for.
const HEADING_BYTES_MAX: u64 = 64 << 10;

/// The contents of `files`, in their order, and of what lies in a directory in the order of names; behind one file those that
/// it imports.
pub(crate) fn read(files: &[PathBuf]) -> Result<Vec<Source>, Failure> {
    let mut sources: Vec<Source> = list(files)?.iter().map(|path| read_one(path)).collect::<Result<_, _>>()?;
    if let ([file], 1) = (files, sources.len())
        && file.is_file()
    {
        add_imported(file, &mut sources)?;
    }
    Ok(sources)
}

/// Adds the files beside the only one that are modules which it imports, and those that these import.
fn add_imported(file: &Path, sources: &mut Vec<Source>) -> Result<(), Failure> {
    let mut sought = Heading::read(&sources[0].text).imports;
    let mut found: HashSet<_> = Heading::read(&sources[0].text).module.into_iter().collect();
    if sought.is_empty() {
        return Ok(());
    }
    let beside = modules_beside(file)?;
    while let Some(module) = sought.pop() {
        if !found.insert(module.clone()) {
            continue;
        }
        for path in beside.get(&*module).into_iter().flatten() {
            let source = read_one(path)?;
            sought.extend(Heading::read(&source.text).imports);
            sources.push(source);
        }
    }
    // The order in which they are imported means nothing.
    sources[1..].sort_by(|a, b| a.name.cmp(&b.name));
    Ok(())
}

/// The modules in the folder of `file`, that file apart, with the files that say they are it.
fn modules_beside(file: &Path) -> Result<BTreeMap<String, Vec<PathBuf>>, Failure> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unreadable = |source: io::Error| Failure::Unreadable { path: folder.to_owned(), source };
    let mut modules: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let path = if folder == Path::new(".") { entry.file_name().into() } else { entry.path() };
        let is_rebel = path.extension().is_some_and(|extension| extension == "rebel");
        if !is_file || !is_rebel || path.file_name() == file.file_name() {
            continue;
        }
        // A file that cannot be read is none of those that are looked for; if it is, the check says that there is none.
        let mut heading = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(HEADING_BYTES_MAX).read_to_end(&mut heading));
        let module = read.ok().and_then(|_| Heading::read(&String::from_utf8_lossy(&heading)).module);
        if let Some(module) = module {
            modules.entry(module.to_string()).or_default().push(path);
        }
    }
    Ok(modules)
}

/// `files`, with what lies in a directory in its place.
pub(crate) fn list(files: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut listed = Vec::new();
    for path in files {
        if path.is_dir() {
            listed.extend(files_in(path)?);
        } else {
            listed.push(path.clone());
        }
    }
    Ok(listed)
}

/// Whether a name stands for the standard streams.
pub(crate) fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

pub(crate) fn read_one(path: &Path) -> Result<Source, Failure> {
    if is_standard(path) { read_text(path, "standard input", io::stdin()) } else { read_file(path) }
}

/// The files of a specification in a directory, at least one.
fn files_in(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |source: io::Error| Failure::Unreadable { path: directory.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "rebel") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() { Err(Failure::Empty { path: directory.to_owned() }) } else { Ok(files) }
}

fn read_file(path: &Path) -> Result<Source, Failure> {
    let file = File::open(path).map_err(|source| Failure::Unreadable { path: path.to_owned(), source })?;
    read_text(path, &path.display().to_string(), file)
}

fn read_text(path: &Path, name: &str, from: impl Read) -> Result<Source, Failure> {
    let mut text = String::new();
    // One byte more than allowed: enough for the check to refuse it, however much there is.
    from.take(SOURCE_BYTES_MAX as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|source| Failure::Unreadable { path: path.to_owned(), source })?;
    // Some editors begin a file with a mark of its byte order.
    Ok(Source::new(name, text.strip_prefix('\u{feff}').unwrap_or(&text)))
}

/// The specification that `sources` are, its diagnostics printed.
pub(crate) fn check(sources: Vec<Source>) -> Result<Spec, Failure> {
    check_and(sources, print)
}

/// As [`check`], its diagnostics told by `say`.
pub(crate) fn check_and(sources: Vec<Source>, say: impl FnOnce(&Report)) -> Result<Spec, Failure> {
    let file = first(&sources);
    match enact_rebel::check(sources) {
        Ok(spec) => {
            say(spec.warnings());
            with_class(spec, file)
        }
        Err(report) => {
            say(&report);
            Err(Failure::Spec { errors: report.errors().count() })
        }
    }
}

/// The name of the file in which one looks first.
pub(crate) fn first(sources: &[Source]) -> String {
    sources.first().map(|source| source.name.clone()).unwrap_or_default()
}

/// The specification, if it has something that can be served; `file` is where it should be.
pub(crate) fn with_class(spec: Spec, file: String) -> Result<Spec, Failure> {
    if spec.classes().len() == 0 { Err(Failure::NoClass { file }) } else { Ok(spec) }
}

pub(crate) fn print(report: &Report) {
    eprint!("{}", report.render(log::is_coloured()));
}

/// Tells one specification from another; those that say the same have the same.
#[cfg(feature = "nats")]
pub(crate) fn digest(sources: &[Source]) -> String {
    let mut digest = Sha256::new();
    for source in sources {
        let says = enact_rebel::essence(source).unwrap_or_else(|| source.text.clone());
        digest.update((says.len() as u64).to_be_bytes());
        digest.update(says);
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(all(test, feature = "nats"))]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_a_specification_is_the_same_for_every_release_and_for_all_that_say_the_same() {
        let digest_of = |text: &str| digest(&[Source::new("lamp.rebel", text)]);
        let lamp =
            "class Lamp\n  lit: Integer = 0\n  initial off\n    on Light(): lit\n      post: this.lit += 1\n  lit\n";
        let digest = "11d64206256a80227c4292b528ea1971f1c132e645de5f21a657a8c0d5d4a2a2";
        assert_eq!(digest_of(lamp), digest, "nodes of two releases would not work together");
        assert_eq!(digest_of(&format!("// The same.\n{lamp}")), digest);
        assert_ne!(digest_of(&lamp.replace("+= 1", "+= 2")), digest);
    }
}
