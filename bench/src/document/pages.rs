//! Where documents are written to.
use std::path::PathBuf;
use std::{fs, io};

use super::Document;

/// Reports in files.
#[derive(Debug, Clone, clap::Args)]
pub struct Pages {
    /// Writes a page with pictures and tables, complete in itself
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Writes its text and tables as Markdown
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

/// A page could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub struct PageError {
    /// Where to.
    pub path: PathBuf,
    /// What went wrong.
    pub source: io::Error,
}

impl Pages {
    /// Writes the pages that are asked for.
    pub(crate) fn write(&self, document: impl FnOnce() -> Document) -> Result<(), PageError> {
        if self.html.is_none() && self.markdown.is_none() {
            return Ok(());
        }
        let document = document();
        let to = |path: &Option<PathBuf>, text: fn(&Document) -> String| match path {
            Some(path) => fs::write(path, text(&document)).map_err(|source| PageError { path: path.clone(), source }),
            None => Ok(()),
        };
        to(&self.html, Document::html)?;
        to(&self.markdown, Document::markdown)
    }
}
