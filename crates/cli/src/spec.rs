//! From the files that a user names to a checked specification.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use enact_rebel::limits::SOURCE_BYTES_MAX;
use enact_rebel::{Report, Source, Spec};

use crate::failure::Failure;

/// The contents of `files`, in their order.
pub(crate) fn read(files: &[PathBuf]) -> Result<Vec<Source>, Failure> {
    files.iter().map(|path| read_file(path)).collect()
}

fn read_file(path: &Path) -> Result<Source, Failure> {
    let unreadable = |source: io::Error| Failure::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    // One byte more than allowed: enough for the check to refuse it, however large the file is.
    file.take(SOURCE_BYTES_MAX as u64 + 1).read_to_string(&mut text).map_err(unreadable)?;
    Ok(Source::new(path.display().to_string(), text))
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

fn print(report: &Report) {
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    eprint!("{}", report.render(colour));
}
