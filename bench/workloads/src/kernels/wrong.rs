//! What oracles say.

/// What is wrong with a kernel's result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WrongKernel {
    /// The number is another one.
    #[error("{found} where {expected} was expected")]
    Number {
        /// What was computed.
        found: u64,
        /// What is right.
        expected: u64,
    },
    /// The product has another shape.
    #[error("the product is not a square of {rows} rows")]
    Shape {
        /// How many it should have.
        rows: usize,
    },
    /// An element of the product differs, if only in its last bit.
    #[error("{found:?} in row {row}, column {column} of the product where {expected:?} was expected")]
    Element {
        /// Its row, from 0.
        row: usize,
        /// Its column, from 0.
        column: usize,
        /// What was computed.
        found: f64,
        /// What is right.
        expected: f64,
    },
}

/// Refuses a number other than `expected`.
///
/// # Errors
/// [`WrongKernel::Number`].
pub fn verify_number(found: u64, expected: u64) -> Result<(), WrongKernel> {
    if found == expected { Ok(()) } else { Err(WrongKernel::Number { found, expected }) }
}
