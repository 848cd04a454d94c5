//! Why a projection does not answer.
use enact_entities::ReadError;

/// Why a projection does not answer. The next question tries again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProjectionError {
    /// The deadline passed before all changes were taken up, which goes on: ask again.
    #[error("the deadline passed while the changes of the entities were taken up; ask again")]
    Late,
    /// The mark is not one of this query.
    #[error("the mark is of another query")]
    Mark,
    /// The changes cannot be read.
    #[error(transparent)]
    Unread(#[from] ReadError),
    /// The tables cannot be written or read, and are built again by the next question.
    #[error("the tables of the projection cannot be used: {why}")]
    Tables {
        /// What happened.
        why: String,
    },
}

macro_rules! from_errors_of_tables {
    ($($error:ty),*) => {
        $(impl From<$error> for ProjectionError {
            fn from(error: $error) -> Self {
                Self::tables(error)
            }
        })*
    };
}

from_errors_of_tables!(
    redb::CommitError,
    redb::DatabaseError,
    redb::StorageError,
    redb::TableError,
    redb::TransactionError,
    rmp_serde::decode::Error,
    rmp_serde::encode::Error
);

impl ProjectionError {
    #[expect(clippy::needless_pass_by_value, reason = "it is a function for `map_err`")]
    pub(crate) fn tables(error: impl ToString) -> Self {
        Self::Tables { why: error.to_string() }
    }
}
