//! Who may read: the part of authorisation that no specification has.
//!
//! # Rules
//! A rule demands a caller, or one of several roles, for what is at the paths below one name: a class, `metrics` or `openapi.json`. One
//! more rule may be for all names without one of their own. A name without any rule is for anybody. So everything that a `GET` may
//! tell is under some rule, or under none, by the first part of its path.
//!
//! # What is no read
//! `/health` and `/health/ready` are for anybody. A read event that names roles is for these: its specification has decided, and a view for
//! those who may not read the class can be written so. A command tells its caller what became of it, which is its life-cycle state and
//! its result; but a problem keeps back the values of instances that the caller may not read, and what it waited for, which is of any class.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use enact_rebel::{Caller, Spec};

use crate::problem::{Problem, ProblemKind};
use crate::tokens::{CALLER_NAME_BYTES_MAX, is_role};

/// What is read and is no class, by the first part of its path.
pub(crate) const METRICS: &str = "metrics";
pub(crate) const DESCRIPTION: &str = "openapi.json";

/// Who may read what. Without a rule, everything is for anybody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readers {
    of_name: BTreeMap<String, RoleDemand>,
    of_others: Option<RoleDemand>,
}

/// What is demanded of those who read, or erase. Its text form is `*`, or roles with commas between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleDemand {
    /// To be a known caller.
    Caller,
    /// To have one of these roles, of which there is one at least.
    Roles(BTreeSet<String>),
}

/// A text that demands nothing of callers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected: `*` for all callers, or roles with commas between them, each of 1 to {CALLER_NAME_BYTES_MAX} letters, digits and `_`"
)]
pub struct RoleDemandError;

/// A rule for nothing that there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is neither a class nor `{METRICS}` or `{DESCRIPTION}`; there are {classes}")]
pub struct ReadersError {
    /// What the rule is for.
    pub name: String,
    /// The classes that there are.
    pub classes: String,
}

impl FromStr for RoleDemand {
    type Err = RoleDemandError;

    fn from_str(text: &str) -> Result<Self, RoleDemandError> {
        match text {
            "*" => Ok(Self::Caller),
            roles if roles.split(',').all(is_role) => Ok(Self::Roles(roles.split(',').map(str::to_owned).collect())),
            _ => Err(RoleDemandError),
        }
    }
}

impl RoleDemand {
    fn is_met_by(&self, caller: &Caller) -> bool {
        match self {
            Self::Caller => true,
            Self::Roles(roles) => roles.iter().any(|role| caller.has(role)),
        }
    }

    /// Lets `caller` do what this is demanded for.
    pub(crate) fn admit(&self, what: &str, caller: Option<&Caller>) -> Result<(), Problem> {
        match caller {
            Some(caller) if self.is_met_by(caller) => Ok(()),
            Some(_) => Err(Problem::new(ProblemKind::Forbidden, format!("{what} needs {}", needed(self)))),
            None => Err(nobody(&format!("{what} needs {}, and the request has no caller", needed(self)))),
        }
    }
}

impl fmt::Display for RoleDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caller => f.write_str("*"),
            Self::Roles(roles) => f.write_str(&roles.iter().map(String::as_str).collect::<Vec<_>>().join(",")),
        }
    }
}

impl Readers {
    /// With a rule for the paths below `/name`, instead of the one that there was.
    #[must_use]
    pub fn with(mut self, name: &str, demand: RoleDemand) -> Self {
        self.of_name.insert(name.to_owned(), demand);
        self
    }

    /// With a rule for all names without one of their own, instead of the one that there was.
    #[must_use]
    pub fn with_others(mut self, demand: RoleDemand) -> Self {
        self.of_others = Some(demand);
        self
    }

    /// Whether everything is for anybody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.of_name.is_empty() && self.of_others.is_none()
    }

    /// Whether each rule is for something that a server of `spec` has.
    ///
    /// # Errors
    /// The first name, in the order of the alphabet, that is nothing.
    pub fn check(&self, spec: &Spec) -> Result<(), ReadersError> {
        let is_known = |name: &str| [METRICS, DESCRIPTION].contains(&name) || spec.class(name).is_some();
        match self.of_name.keys().find(|name| !is_known(name)) {
            None => Ok(()),
            Some(name) => {
                let classes = spec.classes().map(|class| format!("`{}`", class.name())).collect::<Vec<_>>().join(", ");
                Err(ReadersError { name: name.clone(), classes })
            }
        }
    }

    /// What is demanded of those who read what is below `/name`, if something is.
    pub(crate) fn demand(&self, name: &str) -> Option<&RoleDemand> {
        self.of_name.get(name).or(self.of_others.as_ref())
    }

    /// Whether `caller` may read what is below `/name`.
    pub(crate) fn allow(&self, name: &str, caller: Option<&Caller>) -> bool {
        self.demand(name).is_none_or(|demand| caller.is_some_and(|caller| demand.is_met_by(caller)))
    }

    /// Lets `caller` read what is below `/name`.
    pub(crate) fn admit(&self, name: &str, caller: Option<&Caller>) -> Result<(), Problem> {
        self.demand(name).map_or(Ok(()), |demand| demand.admit(&format!("reading /{name}"), caller))
    }

    /// The classes that `caller` may read, of changes in all of them; nothing if these are all that there are.
    pub(crate) fn readable(&self, spec: &Spec, caller: Option<&Caller>) -> Result<Option<BTreeSet<String>>, Problem> {
        let all = || spec.classes().map(|class| &**class.name());
        let readable: BTreeSet<String> = all().filter(|name| self.allow(name, caller)).map(str::to_owned).collect();
        if readable.len() == all().count() {
            return Ok(None);
        }
        match all().next() {
            // What is wrong with one is wrong with all.
            Some(class) if readable.is_empty() => Err(self.admit(class, caller).expect_err("none is readable")),
            _ => Ok(Some(readable)),
        }
    }

    /// The problem as `caller` may know it.
    pub(crate) fn tell(&self, problem: Problem, spec: &Spec, caller: Option<&Caller>) -> Problem {
        if self.is_empty() || spec.classes().all(|class| self.allow(class.name(), caller)) {
            return problem;
        }
        problem.without_values(|class| self.allow(class, caller))
    }
}

/// The problem of a request without a caller that needs one.
fn nobody(detail: &str) -> Problem {
    let challenge = axum::http::HeaderValue::from_static("Bearer");
    Problem::new(ProblemKind::Unauthenticated, detail).with_header(axum::http::header::WWW_AUTHENTICATE, challenge)
}

fn needed(demand: &RoleDemand) -> String {
    match demand {
        RoleDemand::Caller => "a caller".to_owned(),
        RoleDemand::Roles(roles) => {
            let roles: Vec<&str> = roles.iter().map(String::as_str).collect();
            format!("the role {}", roles.join(" or "))
        }
    }
}

#[cfg(test)]
mod tests {
    use enact_rebel::{Source, check};

    use super::*;

    #[test]
    fn a_demand_is_read_as_it_is_written() {
        for (text, expected) in [
            ("*", Some("*")),
            ("auditor", Some("auditor")),
            ("teller,auditor,teller", Some("auditor,teller")),
            ("", None),
            ("auditor,", None),
            ("auditor, teller", None),
            ("1st", None),
            ("*,auditor", None),
        ] {
            assert_eq!(text.parse::<RoleDemand>().ok().map(|demand| demand.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn the_rule_of_a_name_precedes_that_of_all_others() {
        let demand = |text: &str| text.parse::<RoleDemand>().expect("a demand");
        let caller = |roles: &[&str]| Caller::new("alice", roles.iter().copied()).expect("a caller");
        let one = Readers::default().with("Account", demand("teller"));
        let both = one.clone().with_others(demand("auditor")).with(METRICS, demand("*"));
        // (rules, name, nobody, a caller without roles, teller, auditor)
        for (readers, name, expected) in [
            (&Readers::default(), "Account", [true, true, true, true]),
            (&one, "Account", [false, false, true, false]),
            (&one, "Rate", [true, true, true, true]),
            (&both, "Account", [false, false, true, false]),
            (&both, "Rate", [false, false, false, true]),
            (&both, METRICS, [false, true, true, true]),
            (&both, DESCRIPTION, [false, false, false, true]),
        ] {
            let callers = [None, Some(caller(&[])), Some(caller(&["teller"])), Some(caller(&["auditor"]))];
            let allowed = callers.each_ref().map(|caller| readers.allow(name, caller.as_ref()));
            assert_eq!(allowed, expected, "{name} under {readers:?}");
        }
    }

    #[test]
    fn a_rule_is_for_something_that_there_is() {
        let spec =
            check(vec![Source::new("lamp.rebel", "class Lamp initial off on Light(): lit\nlit")]).expect("well-formed");
        for (name, is_known) in
            [("Lamp", true), (METRICS, true), (DESCRIPTION, true), ("lamp", false), ("health", false)]
        {
            assert_eq!(Readers::default().with(name, RoleDemand::Caller).check(&spec).is_ok(), is_known, "{name}");
        }
    }
}
