//! From the files that a user names to a checked specification.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use enact_rebel::limits::SOURCE_BYTES_MAX;
use enact_rebel::{Report, Source, Spec};

use crate::failure::Failure;

/// The contents of `files`, in their order, and of what lies in a directory in the order of names.
pub(crate) fn read(files: &[PathBuf]) -> Result<Vec<Source>, Failure> {
    list(files)?.iter().map(|path| read_one(path)).collect()
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
    match enact_rebel::check(sources) {
        Ok(spec) => {
            print(spec.warnings());
            Ok(spec)
        }
        Err(report) => {
            print(&report);
            Err(Failure::Spec { errors: report.errors().count() })
        }
    }
}

pub(crate) fn print(report: &Report) {
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    eprint!("{}", report.render(colour));
}
