//! Decimal text and scaled integers.

/// The greatest magnitude of an amount of money or a percentage, in its smallest unit.
///
/// Far beyond any amount there is, and far enough below the end of 128 bits that sums of many numbers stay exact.
pub(super) const MAGNITUDE_MAX: i128 = 10_i128.pow(36);

/// The number, if it is within the greatest magnitude.
pub(super) fn bounded(number: i128) -> Option<i128> {
    (-MAGNITUDE_MAX..=MAGNITUDE_MAX).contains(&number).then_some(number)
}

/// Why a text is not a decimal of the wanted scale.
pub(super) enum Problem {
    Syntax,
    /// More decimals than the scale has: this many.
    Decimals(u32),
    Range,
}

/// Reads `[-]digits[.digits]` as an integer scaled by `10^decimals`, of at most the greatest magnitude.
pub(super) fn parse(text: &str, decimals: u32) -> Result<i128, Problem> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return Err(Problem::Syntax),
        None => (digits, ""),
    };
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return Err(Problem::Syntax);
    }
    let given = u32::try_from(fraction.len()).map_err(|_| Problem::Range)?;
    let missing = decimals.checked_sub(given).ok_or(Problem::Decimals(given))?;
    let zeros = std::iter::repeat_n(b'0', missing as usize);
    let mut scaled: i128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()).chain(zeros) {
        let digit = i128::from(digit - b'0');
        let signed = if negative { -digit } else { digit };
        scaled = scaled.checked_mul(10).and_then(|scaled| scaled.checked_add(signed)).ok_or(Problem::Range)?;
    }
    bounded(scaled).ok_or(Problem::Range)
}

/// Writes `scaled / 10^decimals` with exactly `decimals` decimals.
pub(super) fn print(scaled: i128, decimals: u32) -> String {
    let sign = if scaled < 0 { "-" } else { "" };
    let (magnitude, unit) = (scaled.unsigned_abs(), 10_u128.pow(decimals));
    match decimals {
        0 => format!("{sign}{magnitude}"),
        _ => format!("{sign}{}.{:0width$}", magnitude / unit, magnitude % unit, width = decimals as usize),
    }
}
