//! Currencies and exact amounts of money.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use super::{Decimal, Fault, Percentage, Rounding, ValueError, decimal};

/// The codes of ISO 4217 by the number of their decimals. `ANG` and `BGN` are withdrawn but still met in journals;
/// codes without a minor unit (metals, funds, tests) are not money here.
const CODES: [(u32, &str); 4] = [
    (0, "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"),
    (
        2,
        "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE \
         CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL \
         HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR \
         MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK \
         SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XAD \
         XCD XCG YER ZAR ZMW ZWG",
    ),
    (3, "BHD IQD JOD KWD LYD OMR TND"),
    (4, "CLF UYW"),
];

/// Every known currency, in the order of the codes.
static KNOWN: LazyLock<Vec<Currency>> = LazyLock::new(|| {
    let known = CODES.iter().flat_map(|(decimals, codes)| codes.split(' ').map(move |code| (*decimals, code)));
    let mut known: Vec<Currency> = known
        .filter_map(|(decimals, code)| {
            Some(Currency { code: code.as_bytes().try_into().ok()?, decimals: decimals.try_into().ok()? })
        })
        .collect();
    known.sort_unstable();
    known
});

/// Decimals of the finest currency.
const AMOUNT_DECIMALS: u8 = 4;

/// A currency of ISO 4217, by its three-letter code.
///
/// The order is that of the codes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Currency {
    code: [u8; 3],
    decimals: u8,
}

impl Currency {
    /// The three-letter code.
    #[must_use]
    pub fn code(&self) -> &str {
        std::str::from_utf8(&self.code).unwrap_or_default()
    }

    /// How many decimals an amount has: EUR 2, JPY 0, BHD 3.
    #[must_use]
    pub fn decimals(self) -> u32 {
        u32::from(self.decimals)
    }

    /// The letters of the code.
    pub(super) fn letters(self) -> [u8; 3] {
        self.code
    }

    /// The currency with this code, if there is one.
    pub(super) fn of_letters(code: [u8; 3]) -> Option<Self> {
        let place = KNOWN.binary_search_by(|known| known.code.cmp(&code)).ok()?;
        Some(KNOWN[place])
    }

    /// Every known code.
    pub(crate) fn codes() -> impl Iterator<Item = &'static str> {
        CODES.iter().flat_map(|(_, codes)| codes.split(' '))
    }
}

impl FromStr for Currency {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let unknown = || ValueError::UnknownCurrency { code: text.chars().take(32).collect() };
        let code: [u8; 3] = text.as_bytes().try_into().map_err(|_| unknown())?;
        Self::of_letters(code).ok_or_else(unknown)
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.code())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// An exact amount of one currency, in minor units (cents, for EUR), of which there are at most 10^36.
///
/// The derived order (currency, then amount) only serves as the canonical order of sets; in the language
/// amounts of different currencies are unequal, and to ask which is less is a fault.
///
/// ```
/// use enact_rebel::Money;
/// let price: Money = "EUR 12.50".parse()?;
/// assert_eq!((price.minor(), price.currency().code()), (1250, "EUR"));
/// assert!("JPY 12.50".parse::<Money>().is_err());
/// # Ok::<(), enact_rebel::ValueError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Money {
    currency: Currency,
    minor: i128,
}

impl Money {
    /// The greatest number of minor units, 10^36; its opposite is the least.
    pub const MINOR_MAX: i128 = decimal::MAGNITUDE_MAX;

    /// `minor` minor units of `currency`, or `None` outside the range.
    #[must_use]
    pub fn new(currency: Currency, minor: i128) -> Option<Self> {
        decimal::bounded(minor).map(|minor| Self { currency, minor })
    }

    /// The currency.
    #[must_use]
    pub fn currency(self) -> Currency {
        self.currency
    }

    /// The amount in minor units of the currency.
    #[must_use]
    pub fn minor(self) -> i128 {
        self.minor
    }

    /// The amount, if it is in this currency.
    pub(super) fn in_currency(self, wanted: Currency) -> Result<Self, ValueError> {
        let found = self.currency;
        if found == wanted { Ok(self) } else { Err(ValueError::OtherCurrency { wanted, found }) }
    }

    pub(crate) fn add(self, other: Self) -> Result<Self, Fault> {
        self.with_same_currency(other)?;
        self.of(Some(self.minor + other.minor))
    }

    pub(crate) fn subtract(self, other: Self) -> Result<Self, Fault> {
        self.with_same_currency(other)?;
        self.of(Some(self.minor - other.minor))
    }

    pub(crate) fn negate(self) -> Result<Self, Fault> {
        self.of(Some(-self.minor))
    }

    pub(crate) fn times(self, factor: i64) -> Result<Self, Fault> {
        self.of(self.minor.checked_mul(i128::from(factor)))
    }

    pub(crate) fn share(self, rate: Percentage, rounding: Rounding) -> Result<Self, Fault> {
        self.of(rounding.share(self.minor, rate.units()))
    }

    pub(crate) fn times_decimal(self, factor: Decimal, rounding: Rounding) -> Result<Self, Fault> {
        self.of(rounding.quotient(self.minor, factor.units(), 10_i128.pow(factor.decimals().into())))
    }

    pub(crate) fn divide(self, by: Decimal, rounding: Rounding) -> Result<Self, Fault> {
        if by.units() == 0 {
            return Err(Fault::DivisionByZero);
        }
        self.of(rounding.quotient(self.minor, 10_i128.pow(by.decimals().into()), by.units()))
    }

    pub(crate) fn divide_integer(self, by: i64, rounding: Rounding) -> Result<Self, Fault> {
        self.divide(Decimal::of_integer(by, 0)?, rounding)
    }

    /// The number of its major units, with the decimals of the finest currency.
    pub(crate) fn amount(self) -> Result<Decimal, Fault> {
        let finer = AMOUNT_DECIMALS - self.currency.decimals;
        let units = self.minor.checked_mul(10_i128.pow(finer.into()));
        units.and_then(|units| Decimal::new(units, AMOUNT_DECIMALS)).ok_or(Fault::Overflow)
    }

    /// So many major units, exactly: [`Fault::Inexact`] where the currency has no such amount.
    pub(crate) fn of_decimal(currency: Currency, amount: Decimal) -> Result<Self, Fault> {
        let down = Self::of_rounded(currency, amount, Rounding::Down)?;
        let up = Self::of_rounded(currency, amount, Rounding::Up);
        if up == Ok(down) { Ok(down) } else { Err(Fault::Inexact) }
    }

    /// So many major units, rounded to minor ones.
    pub(crate) fn of_rounded(currency: Currency, amount: Decimal, rounding: Rounding) -> Result<Self, Fault> {
        let amount = amount.round(currency.decimals, rounding)?;
        Self::new(currency, amount.units()).ok_or(Fault::Overflow)
    }

    fn of(self, minor: Option<i128>) -> Result<Self, Fault> {
        minor.and_then(|minor| Self::new(self.currency, minor)).ok_or(Fault::Overflow)
    }

    pub(crate) fn with_same_currency(self, other: Self) -> Result<(), Fault> {
        if self.currency == other.currency {
            Ok(())
        } else {
            Err(Fault::CurrencyMismatch { left: self.currency, right: other.currency })
        }
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.currency, decimal::print(self.minor, self.currency.decimals()))
    }
}

impl fmt::Debug for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for Money {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let syntax = || ValueError::syntax("Money", "EUR 12.50", text);
        let (code, amount) = text.split_once([' ', '\t']).ok_or_else(syntax)?;
        let currency: Currency = code.parse()?;
        match decimal::parse(amount.trim_start_matches([' ', '\t']), currency.decimals()) {
            Ok(minor) => Ok(Self { currency, minor }),
            Err(decimal::Problem::Syntax) => Err(syntax()),
            Err(decimal::Problem::Decimals(found)) => {
                Err(ValueError::Decimals { of: currency.to_string(), allowed: currency.decimals(), found })
            }
            Err(decimal::Problem::Range) => Err(ValueError::Range { ty: "Money" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn money(text: &str) -> Money {
        text.parse().unwrap()
    }

    fn decimal(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    #[test]
    fn no_currency_is_finer_than_an_amount() {
        for code in Currency::codes() {
            let currency: Currency = code.parse().unwrap();
            let least = Money::new(currency, 1).unwrap();
            assert_eq!(Money::of_decimal(currency, least.amount().unwrap()), Ok(least), "{code}");
        }
    }

    #[test]
    fn products_and_quotients_are_rounded_to_minor_units() {
        let price = money("EUR 10.00");
        assert_eq!(price.times_decimal(decimal("0.3335"), Rounding::HalfEven), Ok(money("EUR 3.34")));
        assert_eq!(price.times_decimal(decimal("-0.3335"), Rounding::Ceiling), Ok(money("EUR -3.33")));
        assert_eq!(price.divide_integer(3, Rounding::HalfEven), Ok(money("EUR 3.33")));
        assert_eq!(price.divide_integer(-3, Rounding::Up), Ok(money("EUR -3.34")));
        assert_eq!(price.divide(decimal("0.16"), Rounding::Down), Ok(money("EUR 62.50")));
        assert_eq!(price.divide(decimal("0.00"), Rounding::Down), Err(Fault::DivisionByZero));
        assert_eq!(price.divide_integer(0, Rounding::Down), Err(Fault::DivisionByZero));
        let most = Money::new(price.currency, Money::MINOR_MAX).unwrap();
        assert_eq!(most.times_decimal(decimal("1.000000000000000000"), Rounding::Up), Ok(most));
        assert_eq!(most.divide(decimal("0.999999999999999999"), Rounding::Up), Err(Fault::Overflow));
        assert_eq!(most.amount(), Err(Fault::Overflow));
    }

    #[test]
    fn amounts_are_made_of_decimals() {
        let euro = money("EUR 0").currency;
        assert_eq!(money("EUR -12.50").amount(), Ok(decimal("-12.5000")));
        assert_eq!(Money::of_decimal(euro, decimal("12.5000")), Ok(money("EUR 12.50")));
        assert_eq!(Money::of_decimal(euro, decimal("12")), Ok(money("EUR 12.00")));
        assert_eq!(Money::of_decimal(euro, decimal("12.505")), Err(Fault::Inexact));
        assert_eq!(Money::of_rounded(euro, decimal("12.505"), Rounding::HalfEven), Ok(money("EUR 12.50")));
        assert_eq!(Money::of_rounded(euro, decimal("12.505"), Rounding::HalfUp), Ok(money("EUR 12.51")));
        assert_eq!(Money::of_decimal(euro, Decimal::new(Decimal::UNITS_MAX, 0).unwrap()), Err(Fault::Overflow));
    }

    proptest! {
        #[test]
        fn a_quotient_is_within_one_unit(minor in -10_i128.pow(12)..10_i128.pow(12), units: i32, decimals in 0_u8..=9) {
            let amount = Money::new("EUR".parse().unwrap(), minor).unwrap();
            let by = Decimal::new(units.into(), decimals).unwrap();
            for rule in Rounding::ALL {
                let Ok(quotient) = amount.divide(by, rule) else {
                    prop_assert_eq!(units, 0);
                    continue;
                };
                let error = quotient.minor * i128::from(units) - minor * 10_i128.pow(decimals.into());
                prop_assert!(error.abs() < i128::from(units).abs(), "{}", rule);
            }
        }
    }
}
