//! What oracles say.
use std::fmt::Debug;

/// What is wrong with a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {found} where {expected} was expected")]
pub struct Wrong {
    what: &'static str,
    expected: String,
    found: String,
}

fn unless(right: bool, what: &'static str, found: &dyn Debug, expected: &dyn Debug) -> Result<(), Wrong> {
    let wrong = || Wrong { what, expected: format!("{expected:?}"), found: format!("{found:?}") };
    if right { Ok(()) } else { Err(wrong()) }
}

/// Refuses a value other than `expected`.
#[expect(clippy::needless_pass_by_value, reason = "reads like an assertion")]
pub(super) fn equal<T: PartialEq + Debug>(what: &'static str, found: T, expected: T) -> Result<(), Wrong> {
    unless(found == expected, what, &found, &expected)
}

/// Refuses a number that is further from `expected` than `tolerance` times it: where the order of additions may differ.
pub(super) fn close(what: &'static str, found: f64, expected: f64, tolerance: f64) -> Result<(), Wrong> {
    unless((found - expected).abs() <= tolerance * expected.abs(), what, &found, &expected)
}

/// Refuses what does not have a property.
pub(super) fn holds(what: &'static str, found: bool) -> Result<(), Wrong> {
    equal(what, found, true)
}

/// Refuses a number outside `low..=high`.
pub(super) fn within(what: &'static str, found: u64, low: u64, high: u64) -> Result<(), Wrong> {
    unless((low..=high).contains(&found), what, &found, &(low..=high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_result_says_what_was_found_and_what_was_expected() {
        let wrong = equal("pings", Some(3), Some(4)).expect_err("3 is not 4");
        assert_eq!(wrong.to_string(), "pings: Some(3) where Some(4) was expected");
        assert_eq!(equal("pings", 4, 4), Ok(()));
    }

    #[test]
    fn close_is_relative_and_refuses_what_is_no_number() {
        assert_eq!(close("sum", 1e12 + 1.0, 1e12, 1e-9), Ok(()));
        assert!(close("sum", 1.0 + 1e-8, 1.0, 1e-9).is_err());
        assert!(close("sum", f64::NAN, 1.0, 1e-9).is_err());
    }

    #[test]
    fn within_includes_both_ends() {
        assert_eq!([4, 5, 7, 8].map(|found| within("hops", found, 5, 7).is_ok()), [false, true, true, false]);
    }
}
