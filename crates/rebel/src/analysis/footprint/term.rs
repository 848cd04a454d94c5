//! How an event names instances, keys and elements, whatever the arguments.

use std::collections::BTreeSet;
use std::fmt;

use crate::value::{Name, Value};

/// What stands for an instance, a key or an element in every step of an event.
///
/// It stands for one value, or for each of several. `Display` writes it in the words of the language.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Term {
    /// The instance of the event.
    This,
    /// An argument of the event.
    Param(Name),
    /// A value that is written out.
    Literal(Value),
    /// The id of the caller.
    Caller,
    /// A field of an instance, of its identity or of a record; the `keys` or `values` of a map. Fields are those from before the
    /// step.
    Member(Box<Term>, Name),
    /// The value of a map under a key, or of a list at a position.
    Entry(Box<Term>, Box<Term>),
    /// Each element of a collection.
    Each(Box<Term>),
    /// The instance of a class with this identity.
    Identified(Name, Vec<Term>),
    /// An instance of a class that the step names by `fresh`.
    Fresh(Name),
    /// One of these.
    OneOf(Vec<Term>),
    /// What an expression of the event gives, as it is written.
    Written(Name),
    /// What follows from more than the text of the event: any value.
    Unknown,
}

/// Parts of one term at most; one of more parts is [`Term::Unknown`].
const PARTS_MAX: usize = 32;

impl Term {
    /// The term if it has few parts.
    pub(super) fn bounded(self) -> Self {
        if self.parts() > PARTS_MAX { Term::Unknown } else { self }
    }

    /// Each of several terms; [`Term::Unknown`] of none.
    pub(super) fn one_of(terms: Vec<Term>) -> Self {
        let mut different: Vec<Term> = Vec::new();
        for term in terms {
            let parts = if let Term::OneOf(parts) = term { parts } else { vec![term] };
            for part in parts {
                if !different.contains(&part) {
                    different.push(part);
                }
            }
        }
        match different.len() {
            1 => different.remove(0),
            0 => Term::Unknown,
            _ if different.contains(&Term::Unknown) => Term::Unknown,
            _ => Term::OneOf(different).bounded(),
        }
    }

    pub(super) fn member(of: Term, name: &Name) -> Self {
        Term::Member(of.into(), name.clone()).bounded()
    }

    fn parts(&self) -> usize {
        1 + self.inner().into_iter().map(Term::parts).sum::<usize>()
    }

    fn inner(&self) -> Vec<&Term> {
        match self {
            Term::Member(of, _) | Term::Each(of) => vec![of],
            Term::Entry(of, key) => vec![of, key],
            Term::Identified(_, terms) | Term::OneOf(terms) => terms.iter().collect(),
            _ => Vec::new(),
        }
    }
}

/// What the terms of a called or asked event stand for in the event that calls or asks.
pub(super) struct Binding<'a> {
    /// The instance.
    pub(super) this: &'a Term,
    /// The arguments.
    pub(super) arguments: &'a [(Name, Term)],
    /// The fields that may have got other values by the time of the call.
    pub(super) written: &'a BTreeSet<Name>,
}

impl Binding<'_> {
    /// What `term` stands for.
    pub(super) fn of(&self, term: &Term) -> Term {
        self.bound(term).bounded()
    }

    fn bound(&self, term: &Term) -> Term {
        let all = |terms: &[Term]| terms.iter().map(|term| self.bound(term)).collect::<Vec<_>>();
        let known = |term: &Term, make: &dyn Fn(Box<Term>) -> Term| match self.bound(term) {
            Term::Unknown => Term::Unknown,
            of => make(of.into()),
        };
        match term {
            Term::This => self.this.clone(),
            Term::Param(name) => {
                let argument = self.arguments.iter().find(|(param, _)| param == name);
                argument.map_or(Term::Unknown, |(_, argument)| argument.clone())
            }
            Term::Member(_, name) if self.written.contains(name) => Term::Unknown,
            Term::Member(of, name) => known(of, &|of| Term::Member(of, name.clone())),
            Term::Entry(of, key) => known(of, &|of| Term::Entry(of, self.bound(key).into())),
            Term::Each(of) => known(of, &Term::Each),
            Term::Identified(class, keys) => Term::Identified(class.clone(), all(keys)),
            Term::OneOf(terms) => Term::one_of(all(terms)),
            // What is written there is not written here.
            Term::Written(_) | Term::Unknown => Term::Unknown,
            Term::Literal(_) | Term::Caller | Term::Fresh(_) => term.clone(),
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, terms: &[Term], between: &str| {
            for (index, term) in terms.iter().enumerate() {
                let before = if index > 0 { between } else { "" };
                write!(f, "{before}{term}")?;
            }
            Ok(())
        };
        match self {
            Term::This => f.pad("this"),
            Term::Param(name) | Term::Written(name) => f.pad(name),
            Term::Literal(Value::String(text)) => write!(f, "{text:?}"),
            Term::Literal(Value::Variant(variant)) => write!(f, "{}.{}", variant.of, variant.name),
            Term::Literal(value) => value.fmt(f),
            Term::Caller => f.pad("caller.id"),
            Term::Member(of, name) if **of == Term::This => f.pad(name),
            Term::Member(of, name) if matches!(**of, Term::Each(_) | Term::OneOf(_)) => write!(f, "({of}).{name}"),
            Term::Member(of, name) => write!(f, "{of}.{name}"),
            Term::Entry(of, key) => write!(f, "{of}[{key}]"),
            Term::Each(of) => write!(f, "each of {of}"),
            Term::Identified(class, keys) => {
                write!(f, "{class}[")?;
                list(f, keys, ", ")?;
                f.write_str("]")
            }
            Term::Fresh(class) => write!(f, "fresh({class})"),
            Term::OneOf(terms) => list(f, terms, " or "),
            Term::Unknown => f.pad(".."),
        }
    }
}
