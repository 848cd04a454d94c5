//! Random values: few of each type, so that they meet, and some at the ends of the range.

use std::sync::Arc;

use enact_rebel::{
    Currency, Date, Decimal, Duration, Id, Key, KeyType, Money, Percentage, Period, RecordValue, Reference, Sealed,
    Time, Timestamp, Type, Value, Variant,
};

use super::chance::Chance;

/// Texts, which are identities too.
pub(crate) const TEXTS: [&str; 5] = ["a", "b", "A1", "standard", "\u{e9} x"];
const MORE_TEXTS: [&str; 4] = ["", " b ", "a:b", "\u{df}\u{1d11e}"];
const CURRENCIES: [&str; 3] = ["EUR", "USD", "JPY"];
const IBANS: [&str; 3] = ["NL91ABNA0417164300", "DE89370400440532013000", "GB82WEST12345698765432"];
const DAY: i64 = 86_400_000;

/// Where values come from: the present time, and the values that there are already.
pub(crate) struct Values<'a> {
    pub(crate) chance: &'a mut Chance,
    pub(crate) now: Timestamp,
    pub(crate) known: &'a [Value],
}

impl Values<'_> {
    /// A value of the type, often one that there is.
    pub(crate) fn value(&mut self, ty: &Type) -> Value {
        if self.chance.is(if matches!(ty, Type::Reference { .. }) { 75 } else { 35 }) {
            let known: Vec<&Value> = self.known.iter().filter(|value| value.has_type(ty)).collect();
            if !known.is_empty() {
                return self.chance.pick(&known).clone();
            }
        }
        self.new_value(ty)
    }

    fn new_value(&mut self, ty: &Type) -> Value {
        match ty {
            Type::Boolean => Value::Boolean(self.chance.is(50)),
            Type::Integer => Value::Integer(i64::try_from(self.number(i64::MAX.into())).expect("in range")),
            Type::Decimal(decimals) => {
                let units = if self.chance.is(50) { self.number(Decimal::UNITS_MAX) } else { self.fine(*decimals) };
                Value::Decimal(Decimal::new(units, *decimals).expect("in range"))
            }
            Type::Money => {
                let currency = if self.chance.is(80) { self.currency("EUR") } else { self.any_currency() };
                self.money(currency)
            }
            Type::MoneyOf(currency) => self.money(*currency),
            Type::Percentage => {
                let units = if self.chance.is(90) {
                    self.chance.pick(&[0, 1, 25, 50, 333, 1000, -50]) * 10_i128.pow(15)
                } else {
                    self.number(Percentage::UNITS_MAX)
                };
                Value::Percentage(Percentage::from_units(units).expect("in range"))
            }
            Type::Currency => Value::Currency(self.any_currency()),
            Type::String => {
                let texts = if self.chance.is(85) { &TEXTS[..] } else { &MORE_TEXTS };
                Value::String(self.chance.pick(texts).into())
            }
            Type::Iban => Value::Iban(self.chance.pick(&IBANS).parse().expect("an account")),
            Type::Date => Value::Date(self.date()),
            Type::Timestamp => Value::Timestamp(self.time()),
            Type::Time => Value::Time(Time::from_millis(self.within(DAY)).expect("within a day")),
            Type::Duration => Value::Duration(Duration::from_millis(self.within(4_000_000) - 1_000_000)),
            Type::Period => {
                let mut part = |most: usize| i32::try_from(self.chance.below(most)).expect("small") - 2;
                Value::Period(Period::new(part(16), part(40)))
            }
            Type::Id => Value::Id(Id::from_u128(self.chance.below(4) as u128)),
            Type::Enum(of) => Value::Variant(Variant { of: of.name.clone(), name: self.chance.pick(&of.variants) }),
            Type::Reference { class, key } => Value::Reference(Reference { class: class.clone(), key: self.key(key) }),
            Type::Optional(_) if self.chance.is(30) => Value::None,
            Type::Optional(ty) => self.value(ty),
            Type::Set(ty) => Value::Set(Arc::new(self.several(ty).into_iter().collect())),
            Type::List(ty) => Value::List(self.several(ty).into()),
            Type::Map(types) => {
                let keys = self.several(&types.0);
                Value::Map(Arc::new(keys.into_iter().map(|key| (key, self.value(&types.1))).collect()))
            }
            Type::Record(record) => {
                let fields = record.fields.iter().map(|(name, ty)| (name.clone(), self.value(ty))).collect();
                Value::Record(Arc::new(RecordValue { of: record.name.clone(), fields }))
            }
            Type::Personal(ty) if matches!(**ty, Type::Optional(_)) && self.chance.is(30) => Value::None,
            Type::Personal(_) => {
                let subject = Reference { class: "Somebody".into(), key: self.key(&KeyType::String) };
                let bytes = vec![u8::try_from(self.chance.below(3)).expect("small")];
                Value::Sealed(Arc::new(Sealed { subject, generation: 1, bytes }))
            }
            other => panic!("a type that is not known: {other}"),
        }
    }

    pub(crate) fn key(&mut self, ty: &KeyType) -> Key {
        match ty {
            KeyType::String => Key::String(self.chance.pick(&TEXTS).into()),
            KeyType::Integer => Key::Integer(self.within(3)),
            KeyType::Iban => Key::Iban(self.chance.pick(&IBANS).parse().expect("an account")),
            KeyType::Date => Key::Date(self.date()),
            KeyType::Currency => Key::Currency(self.any_currency()),
            KeyType::Id => Key::Id(Id::from_u128(self.chance.below(4) as u128)),
            KeyType::Enum(of) => {
                Key::Variant(Variant { of: of.name.clone(), name: self.chance.pick(&of.variants) }.into())
            }
            KeyType::Reference { class, key } => {
                Key::Reference(Reference { class: class.clone(), key: self.key(key) }.into())
            }
            KeyType::Composite(types) => Key::Composite(types.iter().map(|ty| self.key(ty)).collect()),
            other => panic!("an identity that is not known: {other}"),
        }
    }

    fn several(&mut self, ty: &Type) -> Vec<Value> {
        (0..self.chance.below(4)).map(|_| self.value(ty)).collect()
    }

    /// A small number, or now and then one at the end of the range.
    fn number(&mut self, most: i128) -> i128 {
        if self.chance.is(4) {
            self.chance.pick(&[most, -most, most - 1, most / 2])
        } else {
            let few = self.chance.is(50);
            if few { self.chance.below(3) as i128 } else { self.chance.below(14) as i128 - 3 }
        }
    }

    /// A number near one, with all its decimals.
    fn fine(&mut self, decimals: u8) -> i128 {
        let one = 10_i128.pow(decimals.into());
        let part = i128::from(self.chance.next()) % one;
        (self.chance.below(5) as i128 - 1) * one + part
    }

    fn money(&mut self, currency: Currency) -> Value {
        let minor = match self.chance.below(10) {
            0..5 => self.chance.below(5) as i128 * 100,
            5 | 6 => self.chance.pick(&[1_000, 2_000, 7_550, 100_000]),
            _ => self.number(Money::MINOR_MAX),
        };
        Value::Money(Money::new(currency, minor).expect("in range"))
    }

    fn currency(&self, code: &str) -> Currency {
        code.parse().expect("a currency")
    }

    fn any_currency(&mut self) -> Currency {
        let code = self.chance.pick(&CURRENCIES);
        self.currency(code)
    }

    fn date(&mut self) -> Date {
        let today = self.now.date().days();
        let near = [0, 0, 1, 2, 3, 10, 30, 60, -1, -3, 70];
        let days = today + self.chance.pick(&near);
        Date::from_days(days).expect("in range")
    }

    fn time(&mut self) -> Timestamp {
        let near = [0, 1000, 60_000, 600_000, 900_000, 3_600_000, DAY, -1000, -900_000];
        Timestamp::from_millis(self.now.millis() + self.chance.pick(&near))
    }

    fn within(&mut self, most: i64) -> i64 {
        let step = (most / 4).max(1);
        let below = if self.chance.is(70) { self.chance.below(4) as i64 * step } else { self.chance.next() as i64 };
        below.rem_euclid(most)
    }
}
