//! Work that the actors of the suite do between messages.
use std::cell::RefCell;
use std::hint::black_box;

use super::{Java48, Lcg16};

/// The sine of a constant, squared: what a message costs in the two fork-join benchmarks.
pub fn sine() -> f64 {
    let sine = black_box(37.2_f64).sin();
    black_box(sine * sine)
}

thread_local! {
    static DRAWS: RefCell<Java48> = RefCell::new(Java48::new(0));
}

/// Draws `draws` random numbers and forgets them.
///
/// The published programs draw from a generator that all threads of their process share; here each thread has its own.
pub fn spin(draws: u64) {
    DRAWS.with_borrow_mut(|generator| {
        for _ in 0..draws {
            black_box(generator.f64());
        }
    });
}

/// Counts to `steps` in a way that no compiler takes out.
pub fn count_up(steps: u64) {
    for step in 0..steps {
        black_box(step);
    }
}

/// A block of a square matrix.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// The whole matrix, row by row.
    pub matrix: &'a [f64],
    /// How many rows the matrix has.
    pub width: usize,
    /// Where the block begins: row and column.
    pub origin: (usize, usize),
}

/// Adds to `sum`, a square of `size` rows, the product of two blocks of that size, element by element.
pub fn add_product(sum: &mut [f64], size: usize, left: Block<'_>, right: Block<'_>) {
    for i in 0..size {
        let row = &left.matrix[(left.origin.0 + i) * left.width + left.origin.1..][..size];
        for j in 0..size {
            let column = right.matrix[right.origin.0 * right.width + right.origin.1 + j..].iter().step_by(right.width);
            sum[i * size + j] += row.iter().zip(column).map(|(a, b)| a * b).sum::<f64>();
        }
    }
}

/// `value` plus 100 × `cost` logarithms of fractions from the suite's generator: producing or consuming an item.
pub fn ln_walk(value: f64, cost: u64) -> f64 {
    let mut draws = Lcg16::new(cost);
    if cost == 0 {
        return value + (draws.harmonic() + 0.01).ln();
    }
    (0..cost * 100).fold(value, |sum, _| sum + (draws.harmonic() + 0.01).ln())
}

fn curve(x: f64) -> f64 {
    ((x.powi(3) - 1.0).sin() / (x + 1.0)) * (1.0 + (2.0 * x).sqrt().exp()).sqrt()
}

/// The area under the suite's curve from `left` on, by `count` trapezoids of width `width`.
pub fn trapezoid(left: f64, width: f64, count: u64) -> f64 {
    let area = |at: u64| {
        let low = at as f64 * width + left;
        0.5 * (curve(low) + curve(low + width)) * width
    };
    (0..count).map(area).sum()
}

/// The polynomial of `values` in 31, by Horner's rule in wrapping arithmetic: a digest of a sequence.
pub fn poly31(values: impl IntoIterator<Item = i64>) -> i64 {
    values.into_iter().fold(0, |hash: i64, value| hash.wrapping_mul(31).wrapping_add(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn producing_at_cost_25_adds_the_published_constant() {
        assert!((ln_walk(0.0, 25) + 11_482.378_824_363_4).abs() < 1e-8);
    }

    #[test]
    fn hundred_thousand_trapezoids_come_close_to_the_published_integral() {
        let area = trapezoid(1.0, 4.0 / 1e5, 100_000);
        assert!((area - 0.271_080_751_953_081_8).abs() < 1e-7, "{area}");
    }

    #[test]
    fn blocks_are_multiplied_where_they_begin() {
        let numbers: Vec<f64> = (0..16).map(f64::from).collect();
        let block = |origin| Block { matrix: &numbers, width: 4, origin };
        let mut sum = [100.0, 0.0, 0.0, 0.0];
        // 5 6 | 9 10 times 2 3 | 6 7.
        add_product(&mut sum, 2, block((1, 1)), block((0, 2)));
        assert_eq!(sum, [146.0, 57.0, 78.0, 97.0]);
    }

    #[test]
    fn poly31_is_the_value_of_the_polynomial() {
        assert_eq!(poly31([1, 2, 3]), 31 * 31 + 2 * 31 + 3);
        assert_eq!(poly31([i64::MAX, 31]), i64::MAX.wrapping_mul(31).wrapping_add(31));
    }
}
