//! What can be set about a benchmark.
use std::fmt::Display;
use std::str::FromStr;

/// The parameters of one benchmark, by name.
pub(super) trait Parameters: Default {
    /// Names and values, in order of their declaration.
    fn all(&self) -> Vec<(&'static str, String)>;

    /// Sets `key` to what `value` says.
    fn set(&mut self, key: &str, value: &str) -> Result<(), BadSetting>;
}

/// Why a parameter was not set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadSetting {
    /// No benchmark that was asked for has it.
    #[error("there is no parameter `{key}`; known are {}", known.join(", "))]
    Unknown {
        /// What was to be set.
        key: String,
        /// What could have been set.
        known: Vec<&'static str>,
    },
    /// The value is of another type.
    #[error("`{value}` is no value for `{key}`: {why}")]
    Value {
        /// What was to be set.
        key: String,
        /// To what.
        value: String,
        /// What is wrong with it.
        why: String,
    },
    /// No benchmark that was asked for has a variant that was asked for.
    #[error("there is no such variant of what was named")]
    NoVariant,
    /// The parameters do not fit together.
    #[error("{benchmark} cannot be run with these parameters: {why}")]
    Impossible {
        /// The benchmark.
        benchmark: &'static str,
        /// What would have to hold.
        why: &'static str,
    },
}

/// The value that `text` says.
pub(super) fn parse<T: FromStr<Err: Display>>(key: &str, text: &str) -> Result<T, BadSetting> {
    text.parse().map_err(|why: T::Err| BadSetting::Value {
        key: key.to_owned(),
        value: text.to_owned(),
        why: why.to_string(),
    })
}

/// Declares a struct of parameters with their defaults.
macro_rules! parameters {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $key:ident: $type:ty = $default:expr,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone)]
        pub(super) struct $name {
            $($(#[$doc])* $key: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)+ }
            }
        }

        impl $crate::savina::parameters::Parameters for $name {
            fn all(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($key), self.$key.to_string()),)+]
            }

            fn set(&mut self, key: &str, value: &str) -> Result<(), $crate::savina::parameters::BadSetting> {
                match key {
                    $(stringify!($key) => self.$key = $crate::savina::parameters::parse(key, value)?,)+
                    _ => {
                        return Err($crate::savina::parameters::BadSetting::Unknown {
                            key: key.to_owned(),
                            known: vec![$(stringify!($key),)+],
                        });
                    }
                }
                Ok(())
            }
        }
    };
}
pub(super) use parameters;
