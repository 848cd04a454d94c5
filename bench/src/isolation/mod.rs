//! The smallest history that no serial order explains, by strategy: figure 9 of the paper under `psac`, and none under `serializable`.
//!
//! Nothing is measured but the search itself: see [`enact_models::isolation`].

use std::fmt;

use enact_entities::Strategy;
use enact_models::isolation::{Search, search};

/// What to search.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Transactions of one history, at most
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=4))]
    pub transactions: u8,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IsolationError {
    /// A promise that holds under each strategy is broken, or that of a serial order where it was given.
    #[error("{strategy} breaks a promise: {what}")]
    Broken {
        /// The strategy.
        strategy: Strategy,
        /// The promise.
        what: String,
    },
}

/// What was found, by strategy.
#[derive(Debug)]
pub struct Report(Vec<Search>);

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|search| search.fmt(f))
    }
}

/// Searches under `psac`, and then as far under `serializable`.
///
/// # Errors
/// [`IsolationError`] when a serial order is missing where it was promised.
pub fn run(options: &Options) -> Result<Report, IsolationError> {
    let search = |strategy| {
        search(strategy, options.transactions.into()).map_err(|what| IsolationError::Broken { strategy, what })
    };
    Ok(Report([Strategy::Psac, Strategy::Serializable].into_iter().map(search).collect::<Result<_, _>>()?))
}
