//! Pages from earlier results of `savina` or `psac`, without measuring again.

use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::document::{PageError, Pages};
use crate::{psac, savina};

/// Earlier results, and what to make of them.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Files that `enact-bench savina --json` wrote, of which each is compared only with itself, or one of `enact-bench psac --json`
    #[arg(required = true, value_name = "RESULT.json")]
    pub results: Vec<PathBuf>,
    /// What to write
    #[command(flatten)]
    pub pages: Pages,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// A file has not what a benchmark writes.
    #[error("{} holds no results of `enact-bench {benchmark}`", path.display())]
    Content {
        /// Which one.
        path: PathBuf,
        /// The benchmark that it seems to be of.
        benchmark: &'static str,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// Results of `psac` have a page for each file.
    #[error("results of `enact-bench psac` have a page each; report {} alone", .0.display())]
    Alone(PathBuf),
    /// A page could not be written.
    #[error(transparent)]
    Page(#[from] PageError),
}

/// Results that pages were made of; displays as they did when they were measured.
#[derive(Debug)]
pub enum Reported {
    /// Those of `savina`.
    Savina(Vec<savina::Results>),
    /// Those of `psac`.
    Psac(Box<psac::Report>),
}

impl fmt::Display for Reported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Savina(all) => all.iter().enumerate().try_for_each(|(number, results)| {
                let gap = if number == 0 { "" } else { "\n\n" };
                write!(f, "{gap}{results}")
            }),
            Self::Psac(report) => report.fmt(f),
        }
    }
}

/// Makes the pages that `options` ask for from earlier results; those are also for the terminal.
///
/// # Errors
/// [`ReportError`] when a file cannot be read or written, or results cannot be on one page.
pub fn run(options: &Options) -> Result<Reported, ReportError> {
    let files = options.results.iter().map(|path| File::read(path)).collect::<Result<Vec<_>, _>>()?;
    if let Some(file) = files.iter().find(|file| file.is_of_psac()) {
        let [_] = &files[..] else { return Err(ReportError::Alone(file.path.to_owned())) };
        let report: psac::Report = file.results(psac::NAME)?;
        options.pages.write(|| psac::document(&report))?;
        return Ok(Reported::Psac(Box::new(report)));
    }
    let results = files.iter().map(|file| file.results("savina")).collect::<Result<Vec<_>, _>>()?;
    options.pages.write(|| savina::document(&results))?;
    Ok(Reported::Savina(results))
}

struct File<'a> {
    path: &'a Path,
    text: Vec<u8>,
}

impl<'a> File<'a> {
    fn read(path: &'a Path) -> Result<Self, ReportError> {
        let text = fs::read(path).map_err(|source| ReportError::File { path: path.to_owned(), source })?;
        Ok(Self { path, text })
    }

    /// Results of `savina` do not say so.
    fn is_of_psac(&self) -> bool {
        #[derive(Deserialize)]
        struct Head {
            benchmark: String,
        }
        serde_json::from_slice(&self.text).is_ok_and(|Head { benchmark }| benchmark == psac::NAME)
    }

    fn results<T: DeserializeOwned>(&self, benchmark: &'static str) -> Result<T, ReportError> {
        let wrong = |source| ReportError::Content { path: self.path.to_owned(), benchmark, source };
        serde_json::from_slice(&self.text).map_err(wrong)
    }
}
