//! Pi by the series of Bailey, Borwein and Plouffe in fixed-point decimals.
//!
//! A number is a natural one in units of 10^-digits, kept in binary: a quotient by a small number is one pass, a
//! quotient by a power of two is a shift. Each division rounds to the nearest number, ties to the even one.

/// The series, to a number of decimals.
#[derive(Debug, Clone)]
pub struct Series {
    digits: usize,
    /// One: 10^digits.
    unit: Fixed,
}

/// A fixed-point number that is not negative; lowest 32 bits first, without zeros at the top.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fixed(Vec<u32>);

impl Series {
    /// The series to `digits` decimals.
    pub fn new(digits: usize) -> Self {
        let mut unit = Fixed(vec![1]);
        for _ in 0..digits {
            unit.multiply(10);
        }
        Self { digits, unit }
    }

    /// Term number `index`: `(4/(8k+1) - 2/(8k+4) - 1/(8k+5) - 1/(8k+6)) / 16^k`.
    pub fn term(&self, index: u32) -> Fixed {
        let base = 8 * index;
        let mut term = self.quotient(4, base + 1);
        for (numerator, divisor) in [(2, base + 4), (1, base + 5), (1, base + 6)] {
            term.subtract(&self.quotient(numerator, divisor));
        }
        term.shift_right(4 * index as usize);
        term
    }

    fn quotient(&self, numerator: u32, divisor: u32) -> Fixed {
        let mut number = self.unit.clone();
        number.multiply(numerator);
        number.divide(divisor);
        number
    }

    /// Whether nothing comes after `term`: it is at most one unit in the last decimal.
    pub fn is_last(&self, term: &Fixed) -> bool {
        matches!(term.0.as_slice(), [] | [1])
    }

    /// `number` with all decimals.
    pub fn text(&self, number: &Fixed) -> String {
        let digits = format!("{:0>width$}", number.in_decimal(), width = self.digits + 1);
        let (whole, fraction) = digits.split_at(digits.len() - self.digits);
        format!("{whole}.{fraction}")
    }
}

impl Fixed {
    /// Adds `other`.
    pub fn add(&mut self, other: &Self) {
        let length = self.0.len().max(other.0.len());
        self.0.resize(length, 0);
        let mut carry = 0;
        for (at, limb) in self.0.iter_mut().enumerate() {
            let sum = u64::from(*limb) + u64::from(other.0.get(at).copied().unwrap_or(0)) + carry;
            (*limb, carry) = (sum as u32, sum >> 32);
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    /// Takes `other`, which is no larger, away.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = 0;
        for (at, limb) in self.0.iter_mut().enumerate() {
            let difference = i64::from(*limb) - i64::from(other.0.get(at).copied().unwrap_or(0)) - borrow;
            *limb = difference as u32;
            borrow = i64::from(difference < 0);
        }
        assert_eq!(borrow, 0, "a term of the series is not negative");
        self.trim();
    }

    fn multiply(&mut self, factor: u32) {
        let mut carry = 0;
        for limb in &mut self.0 {
            let product = u64::from(*limb) * u64::from(factor) + carry;
            (*limb, carry) = (product as u32, product >> 32);
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    /// Divides and gives the remainder.
    fn divide_down(&mut self, divisor: u32) -> u32 {
        let mut rest = 0;
        for limb in self.0.iter_mut().rev() {
            let dividend = (rest << 32) | u64::from(*limb);
            *limb = (dividend / u64::from(divisor)) as u32;
            rest = dividend % u64::from(divisor);
        }
        self.trim();
        rest as u32
    }

    /// Divides and rounds half to even.
    fn divide(&mut self, divisor: u32) {
        let twice = 2 * u64::from(self.divide_down(divisor));
        let tie = twice == u64::from(divisor);
        if twice > u64::from(divisor) || (tie && self.is_odd()) {
            self.add(&Self(vec![1]));
        }
    }

    /// Divides by 2^bits and rounds half to even.
    fn shift_right(&mut self, bits: usize) {
        if bits == 0 {
            return;
        }
        let bit = |number: &Self, at: usize| number.0.get(at / 32).is_some_and(|limb| limb >> (at % 32) & 1 == 1);
        let half = bit(self, bits - 1);
        let below = (0..self.0.len()).take_while(|at| at * 32 < bits - 1).any(|at| {
            let kept = bits - 1 - at * 32;
            let mask = if kept >= 32 { u32::MAX } else { (1 << kept) - 1 };
            self.0[at] & mask != 0
        });
        let (limbs, rest) = (bits / 32, bits % 32);
        self.0.drain(..limbs.min(self.0.len()));
        for at in 0..self.0.len() {
            let above = u64::from(self.0.get(at + 1).copied().unwrap_or(0));
            self.0[at] = (((above << 32) | u64::from(self.0[at])) >> rest) as u32;
        }
        self.trim();
        if half && (below || self.is_odd()) {
            self.add(&Self(vec![1]));
        }
    }

    fn is_odd(&self) -> bool {
        self.0.first().is_some_and(|limb| limb & 1 == 1)
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn in_decimal(&self) -> String {
        const GROUP: u32 = 1_000_000_000;
        let mut rest = self.clone();
        let mut groups = Vec::new();
        while !rest.0.is_empty() {
            groups.push(rest.divide_down(GROUP));
        }
        let Some(first) = groups.pop() else { return "0".to_owned() };
        groups.iter().rev().fold(first.to_string(), |text, group| format!("{text}{group:09}"))
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    fn pi(digits: usize) -> (String, u32) {
        let series = Series::new(digits);
        let (mut sum, mut count) = (Fixed::default(), 0);
        loop {
            let term = series.term(count);
            sum.add(&term);
            count += 1;
            if series.is_last(&term) {
                return (series.text(&sum), count);
            }
        }
    }

    fn sha256(text: &str) -> String {
        Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn sums_have_the_published_digits() {
        for (digits, terms, end, digest) in [
            (100, 81, "86280348253421170678", "dcdc04ed76457928bb70ac73befffd78d366054338a50ee6fa0ef90d48e8b55b"),
            (1_000, 826, "66111959092164201989", "823a2e34f63c5d5f30a27733976df5a1ab57feaab505f40d95d3dd3fefa425cc"),
        ] {
            let (text, count) = pi(digits);
            assert!(text.starts_with("3.1415926535897932384") && text.ends_with(end), "{text}");
            assert_eq!((text.len(), sha256(&text).as_str(), count), (digits + 2, digest, terms));
        }
    }

    #[test]
    fn divisions_round_half_to_even() {
        let number = |text: u64| {
            let mut fixed = Fixed(vec![text as u32, (text >> 32) as u32]);
            fixed.trim();
            fixed
        };
        for dividend in (0..200).chain([u64::from(u32::MAX) * 3, (1 << 40) + 8, (1 << 40) + 24]) {
            for (divisor, bits) in [(2, 1), (16, 4), (1 << 12, 12)] {
                let (whole, rest) = (dividend / divisor, dividend % divisor);
                let up = rest * 2 > divisor || (rest * 2 == divisor && whole % 2 == 1);
                let expected = number(whole + u64::from(up));
                let mut divided = number(dividend);
                divided.divide(divisor as u32);
                assert_eq!(divided, expected, "{dividend} / {divisor}");
                let mut shifted = number(dividend);
                shifted.shift_right(bits);
                assert_eq!(shifted, expected, "{dividend} >> {bits}");
            }
        }
    }
}
