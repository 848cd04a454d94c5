//! Functions that consist of little but calls.

/// Ackermann's function.
pub fn ackermann(m: u64, n: u64) -> u64 {
    match (m, n) {
        (0, n) => n + 1,
        (m, 0) => ackermann(m - 1, 1),
        (m, n) => ackermann(m - 1, ackermann(m, n - 1)),
    }
}

/// What follows `n` in its Syracuse sequence.
pub fn collatz(n: u64) -> u64 {
    if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 }
}

/// The last number of the Syracuse sequence that begins with `n`: 1, as far as anybody knows.
pub fn syracuse(n: u64) -> u64 {
    if n == 1 { 1 } else { syracuse(collatz(n)) }
}

/// Where a message is that begins at `at` and hops `hops` times, each time from a place to what `next` has for it.
///
/// # Panics
/// When `next` leads out of itself.
pub fn hop(next: &[usize], at: usize, hops: u64) -> usize {
    (0..hops).fold(at, |at, _| next[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ackermann_has_the_known_closed_forms() {
        for n in 0..6 {
            assert_eq!([1, 2, 3].map(|m| ackermann(m, n)), [n + 2, 2 * n + 3, (8 << n) - 3], "n = {n}");
        }
    }

    #[test]
    fn syracuse_has_the_published_length_and_height() {
        let sequence: Vec<_> =
            std::iter::successors(Some(989_345_275_647), |&n| (n != 1).then(|| collatz(n))).collect();
        assert_eq!(sequence.len(), 1_349);
        assert_eq!(sequence.iter().max(), Some(&1_219_624_271_099_764));
        assert_eq!(syracuse(989_345_275_647), 1);
    }

    #[test]
    fn hops_go_round() {
        assert_eq!([0, 1, 2, 3, 7].map(|hops| hop(&[1, 2, 0], 0, hops)), [0, 1, 2, 0, 1]);
    }
}
