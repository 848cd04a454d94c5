//! Which strategy holds where.

use std::collections::BTreeMap;
use std::fmt;

use super::Strategy;

/// The strategy of each class.
///
/// A transaction has the weakest guarantee of the classes it touches. If one of them has [`Strategy::Psac`], two transactions may be
/// applied in opposite orders at two of its entities. If none has, it is serializable, whichever of the others they have: in each of
/// them the order of transactions that conflict is that of their decisions, or of their application if they stand in line. What
/// happens at entities of serializable classes has one order also where the same transactions touch others.
///
/// ```
/// use enact_entities::{Strategies, Strategy};
///
/// let strategies = Strategies::from(Strategy::Serializable).with("Counter", Strategy::LockingEarlyRelease);
/// assert_eq!(strategies.of("Counter"), Strategy::LockingEarlyRelease);
/// assert_eq!(strategies.of("Account"), Strategy::Serializable);
/// assert_eq!(strategies.to_string(), "serializable, Counter=locking-early-release");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strategies {
    others: Strategy,
    classes: BTreeMap<String, Strategy>,
}

/// There is a strategy for a class that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{class}={strategy}: there is no class `{class}`; there are `{}`", known.join("`, `"))]
pub struct UnknownClass {
    /// The name.
    pub class: String,
    /// Its strategy.
    pub strategy: Strategy,
    /// The classes that there are.
    pub known: Vec<String>,
}

impl From<Strategy> for Strategies {
    /// The same strategy for all classes.
    fn from(others: Strategy) -> Self {
        Self { others, classes: BTreeMap::new() }
    }
}

impl Strategies {
    /// The same with another strategy for `class`.
    #[must_use]
    pub fn with(mut self, class: impl Into<String>, strategy: Strategy) -> Self {
        self.classes.insert(class.into(), strategy);
        self
    }

    /// The same with another strategy for all classes that have none of their own.
    #[must_use]
    pub fn with_others(self, others: Strategy) -> Self {
        Self { others, ..self }
    }

    /// The strategy of `class`.
    pub fn of(&self, class: &str) -> Strategy {
        self.classes.get(class).copied().unwrap_or(self.others)
    }

    /// Whether transactions that touch only these classes are serializable.
    pub fn are_serializable<'a>(&self, classes: impl IntoIterator<Item = &'a str>) -> bool {
        classes.into_iter().all(|class| self.of(class).is_serializable())
    }

    /// Compares the names with all classes of a contract. An engine does not: for it, the name of no class has no effect.
    ///
    /// # Errors
    /// The first name of no class.
    pub fn check<'a>(&self, classes: impl IntoIterator<Item = &'a str>) -> Result<(), UnknownClass> {
        let known: Vec<String> = classes.into_iter().map(str::to_owned).collect();
        match self.classes.iter().find(|(class, _)| !known.contains(class)) {
            None => Ok(()),
            Some((class, &strategy)) => Err(UnknownClass { class: class.clone(), strategy, known }),
        }
    }
}

impl fmt::Display for Strategies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.others.fmt(f)?;
        self.classes.iter().try_for_each(|(class, strategy)| write!(f, ", {class}={strategy}"))
    }
}

impl fmt::Display for Strategy {
    /// As it is called on the command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Locking => "locking",
            Self::LockingEarlyRelease => "locking-early-release",
            Self::Psac => "psac",
            Self::Serializable => "serializable",
        })
    }
}
