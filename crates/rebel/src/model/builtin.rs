//! What the language computes beside the operators that admission reasons about.

use std::sync::Arc;

use crate::value::{Currency, Enumeration, Rounding};

/// An operation or a function of the language. Its operands stand in the order of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Builtin {
    /// The sum of two Decimals, Durations or Periods; a day or a time with a span added; two texts or lists joined; two sets as
    /// one.
    Add,
    /// The difference of two Decimals, Durations, Periods or times; a day or a time with a span taken off; a set without the
    /// elements of another.
    Subtract,
    /// The product of Decimals, of a span with an Integer, or of an amount or a Decimal with a Decimal or a Percentage, which
    /// rounds.
    Multiply(Rounding),
    /// The quotient of an amount or a Decimal and a number, rounded to the unit of the left operand.
    Divide(Rounding),
    /// The quotient of two Integers towards minus infinity.
    Quotient,
    /// What is left of it.
    Remainder,
    /// The opposite of a Decimal, a Duration or a Period.
    Negate,
    /// An Integer or a Decimal with so many decimals, which it has not fewer of.
    Widen(u8),
    /// The amount, if it is in this currency; a fault else.
    InCurrency(Currency),
    /// The number of an amount, with four decimals.
    Amount,
    /// An amount of a currency, which is the first operand.
    Money,
    /// No amount of a currency.
    Zero,
    /// A number rounded to so many decimals.
    Round(u8, Rounding),
    /// The quotient of two numbers with so many decimals.
    DivideTo(u8, Rounding),
    /// Which share of the second operand the first is.
    Share(Rounding),
    /// A number without its sign.
    Absolute,
    /// The lesser of two.
    Least,
    /// The greater of two.
    Greatest,
    /// The first, or the end of the range from the second to the third that it lies beyond.
    Clamp,
    /// The place of a variant among those of its enum.
    Rank(Arc<Enumeration>),
    /// Whether a list has an element, or a map a key; the element is the first operand.
    Has,
    /// The element of a list at a position, or of a map under a key.
    Element,
    /// The value of a map under a key, or `none`.
    Get,
    /// The keys of a map, as a set.
    Keys,
    /// The values of a map, in the order of the keys.
    Values,
    /// A list with one element more.
    Append,
    /// A map without a key.
    Without,
    /// How many characters a text has.
    Length,
    /// Whether a text begins with another.
    StartsWith,
    /// Whether a text ends with another.
    EndsWith,
    /// Whether a text has another in it.
    Contains,
    /// A text in capital letters.
    Upper,
    /// A text in small letters.
    Lower,
    /// A text without blanks at its ends.
    Trim,
    /// The characters of a text from one position to before another.
    Slice,
    /// The year of a day.
    Year,
    /// The month of a day, from 1.
    Month,
    /// The day of the month of a day, from 1.
    Day,
    /// The day of the week of a day, 1 for Monday.
    Weekday,
    /// When a day begins, in UTC.
    Start,
    /// The day that a time lies in, in UTC.
    Date,
    /// The time of day of a time, in UTC.
    Time,
    /// The country of an account number.
    Country,
}

impl Builtin {
    /// Whether it may lack a value of operands that have one, for another reason than the range of numbers.
    pub(crate) fn is_partial(&self) -> bool {
        !matches!(
            self,
            Builtin::Negate
                | Builtin::Widen(_)
                | Builtin::Amount
                | Builtin::Zero
                | Builtin::Round(..)
                | Builtin::Absolute
                | Builtin::Rank(_)
                | Builtin::Has
                | Builtin::Get
                | Builtin::Keys
                | Builtin::Values
                | Builtin::Without
                | Builtin::Length
                | Builtin::StartsWith
                | Builtin::EndsWith
                | Builtin::Contains
                | Builtin::Trim
                | Builtin::Year
                | Builtin::Month
                | Builtin::Day
                | Builtin::Weekday
                | Builtin::Start
                | Builtin::Date
                | Builtin::Time
                | Builtin::Country
        )
    }
}
