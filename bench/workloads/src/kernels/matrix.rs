//! The product of two square matrices, row by row.
use super::WrongKernel;
use crate::SplitMix64;

const SEED: u64 = 42;

/// Two square matrices to be multiplied.
#[derive(Debug, Clone, PartialEq)]
pub struct Factors {
    rows: usize,
    left: Vec<f64>,
    right: Vec<f64>,
}

/// The right product, to the last bit.
#[derive(Debug, Clone, PartialEq)]
pub struct Product {
    rows: usize,
    elements: Vec<f64>,
}

impl Factors {
    /// Matrices of `rows` rows, drawn uniformly from -1 to 1, the left one first.
    pub fn drawn(rows: usize) -> Self {
        let mut draws = SplitMix64::new(SEED);
        let mut matrix = || (0..rows * rows).map(|_| element(draws.next_u64())).collect();
        Self { rows, left: matrix(), right: matrix() }
    }

    /// How many rows each has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// One row of the product: parallel and sequential contenders call this one function.
    ///
    /// # Panics
    /// When there is no such row.
    #[inline(never)]
    pub fn row(&self, row: usize) -> Vec<f64> {
        let left = &self.left[row * self.rows..][..self.rows];
        let element = |column: usize| {
            let right = self.right[column..].iter().step_by(self.rows);
            left.iter().zip(right).fold(0.0, |sum, (a, b)| sum + a * b)
        };
        (0..self.rows).map(element).collect()
    }

    /// The product by another order of loops, in which each element adds up the same terms in the same order.
    pub fn product(&self) -> Product {
        let rows = self.rows;
        let mut elements = vec![0.0; rows * rows];
        for (sums, left) in elements.chunks_exact_mut(rows).zip(self.left.chunks_exact(rows)) {
            for (a, right) in left.iter().zip(self.right.chunks_exact(rows)) {
                sums.iter_mut().zip(right).for_each(|(sum, b)| *sum += a * b);
            }
        }
        Product { rows, elements }
    }
}

/// One of 2^53 numbers above -1 and up to 1.
#[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
fn element(draw: u64) -> f64 {
    1.0 - 2.0 * ((draw >> 11) as f64 / (1_u64 << 53) as f64)
}

impl Product {
    /// Refuses rows that are not these, bit for bit.
    ///
    /// # Errors
    /// [`WrongKernel::Shape`] or [`WrongKernel::Element`].
    pub fn verify(&self, found: &[Vec<f64>]) -> Result<(), WrongKernel> {
        let rows = self.rows;
        if found.len() != rows || found.iter().any(|row| row.len() != rows) {
            return Err(WrongKernel::Shape { rows });
        }
        let pairs = found.iter().flatten().zip(&self.elements);
        let wrong = pairs.enumerate().find(|(_, (found, expected))| found.to_bits() != expected.to_bits());
        wrong.map_or(Ok(()), |(at, (&found, &expected))| {
            Err(WrongKernel::Element { row: at / rows, column: at % rows, found, expected })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::savina::poly31;

    fn rows(factors: &Factors) -> Vec<Vec<f64>> {
        (0..factors.rows()).map(|row| factors.row(row)).collect()
    }

    #[test]
    fn small_product_is_the_one_by_hand() {
        let factors = Factors { rows: 2, left: vec![1.0, 2.0, 3.0, 4.0], right: vec![5.0, 6.0, 7.0, 8.0] };
        assert_eq!(rows(&factors), [[19.0, 22.0], [43.0, 50.0]]);
        assert_eq!(factors.product().elements, [19.0, 22.0, 43.0, 50.0]);
    }

    #[test]
    #[expect(clippy::cast_possible_wrap, reason = "the digest is of patterns of bits")]
    fn product_of_512_rows_has_the_published_elements_and_digest() {
        let factors = Factors::drawn(512);
        let found = rows(&factors);
        assert_eq!(found[0][0], 4.634_112_507_263_648);
        assert_eq!(found[511][511], -16.052_713_511_383_896);
        assert_eq!(found.iter().flatten().sum::<f64>(), -810.525_479_156_020_5);
        assert_eq!((0..512).map(|at| found[at][at]).sum::<f64>(), 27.689_520_792_493_92);
        assert_eq!(poly31(found.iter().flatten().map(|element| element.to_bits() as i64)), -8_476_602_583_951_244_162);
        assert_eq!(factors.product().verify(&found), Ok(()));
    }

    #[test]
    fn one_bit_too_many_and_a_row_too_few_are_refused() {
        let factors = Factors::drawn(5);
        let (product, mut found) = (factors.product(), rows(&factors));
        assert_eq!(product.verify(&found), Ok(()));
        let right = found[3][1];
        found[3][1] = right.next_up();
        let wrong = WrongKernel::Element { row: 3, column: 1, found: right.next_up(), expected: right };
        assert_eq!(product.verify(&found), Err(wrong));
        found[3][1] = right;
        let last = found.pop().expect("five rows");
        assert_eq!(product.verify(&found), Err(WrongKernel::Shape { rows: 5 }));
        found.push(last[..4].to_vec());
        assert_eq!(product.verify(&found), Err(WrongKernel::Shape { rows: 5 }));
    }
}
