//! The committed versions of every variable, in their order, and where each token comes from.

use std::collections::HashMap;

use crate::access::{Write, accesses};
use crate::history::{AttemptId, History, Token, Variable};
use crate::violation::{Anomaly, CheckError, Cycle, Dependency, Malformed, Step, Violation};

pub(crate) struct Version {
    pub(crate) variable: Variable,
    pub(crate) token: Token,
    /// Nobody wrote the first version.
    pub(crate) writer: Option<u32>,
}

/// Where a token comes from.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// The place of a version.
    Version(u32),
    /// This attempt, which has committed and has overwritten it before.
    Intermediate(u32),
    /// This attempt, which has not committed.
    Aborted(u32),
}

impl Source {
    const fn writer(self, versions: &[Version]) -> Option<u32> {
        match self {
            Self::Version(place) => versions[place as usize].writer,
            Self::Intermediate(writer) | Self::Aborted(writer) => Some(writer),
        }
    }
}

/// Versions of one variable stand side by side, from the initial one on. A variable that is never overwritten has none.
pub(crate) struct Versions {
    pub(crate) all: Vec<Version>,
    sources: HashMap<(Variable, Token), Source>,
}

/// A committed write before its place is known.
struct Draft {
    variable: Variable,
    token: Token,
    replaced: Option<Token>,
    has_read_replaced: bool,
    writer: u32,
}

impl Versions {
    pub(crate) fn of(history: &History) -> Result<Self, CheckError> {
        let mut versions = Self { all: Vec::new(), sources: HashMap::new() };
        let (mut drafts, mut order) = (Vec::new(), Vec::new());
        for (index, (attempt, ops)) in (0..).zip(history.attempts()) {
            for access in accesses(ops, &mut order) {
                let Some(Write { last, intermediate, replaced }) = access.write else { continue };
                let (variable, writer) = (access.variable, index);
                let (overwritten, source) = if attempt.is_committed {
                    let has_read_replaced = access.read.is_some() && access.read == replaced;
                    drafts.push(Draft { variable, token: last, replaced, has_read_replaced, writer });
                    // The place follows when all are known; until then it is the writer that counts.
                    (Source::Intermediate(writer), Source::Intermediate(writer))
                } else {
                    (Source::Aborted(writer), Source::Aborted(writer))
                };
                for token in intermediate {
                    versions.enter(history, (variable, token), writer, overwritten)?;
                }
                versions.enter(history, (variable, last), writer, source)?;
            }
        }
        drafts.sort_unstable_by_key(|draft| (draft.variable, draft.token));
        for group in drafts.chunk_by(|one, other| one.variable == other.variable) {
            versions.push(group[0].variable, Token::INITIAL, None);
            if group.iter().all(|draft| draft.replaced.is_none()) {
                group.iter().for_each(|draft| versions.push(draft.variable, draft.token, Some(draft.writer)));
            } else {
                versions.push_chain(history, group)?;
            }
        }
        Ok(versions)
    }

    /// Where a token comes from; nothing if nobody wrote it, or if it is the initial one of what is never overwritten.
    pub(crate) fn source(&self, variable: Variable, token: Token) -> Option<Source> {
        self.sources.get(&(variable, token)).copied()
    }

    /// What replaced a version.
    pub(crate) fn after(&self, place: u32) -> Option<u32> {
        let next = self.all.get(place as usize + 1)?;
        (next.variable == self.all[place as usize].variable).then_some(place + 1)
    }

    fn enter(
        &mut self,
        history: &History,
        (variable, token): (Variable, Token),
        writer: u32,
        source: Source,
    ) -> Result<(), Malformed> {
        let id = |writer: u32| history.id(writer as usize);
        if token == Token::INITIAL {
            return Err(Malformed::InitialWritten { variable, writer: id(writer) });
        }
        match self.sources.insert((variable, token), source) {
            None => Ok(()),
            Some(earlier) => {
                let first = id(earlier.writer(&self.all).expect("somebody wrote it"));
                Err(Malformed::TokenReused { variable, token, first, second: id(writer) })
            }
        }
    }

    fn push(&mut self, variable: Variable, token: Token, writer: Option<u32>) {
        let place = u32::try_from(self.all.len()).expect("fewer than 2^32 versions");
        self.all.push(Version { variable, token, writer });
        self.sources.insert((variable, token), Source::Version(place));
    }

    /// The versions of one variable whose writes name what they replaced.
    fn push_chain(&mut self, history: &History, group: &[Draft]) -> Result<(), CheckError> {
        let variable = group[0].variable;
        let id = |draft: &Draft| history.id(draft.writer as usize);
        let mut successors: HashMap<Token, &Draft> = HashMap::with_capacity(group.len());
        for draft in group {
            let Some(replaced) = draft.replaced else { return Err(Malformed::OrdersMixed { variable }.into()) };
            if let Some(other) = successors.insert(replaced, draft) {
                let (first, second) = (id(other), id(draft));
                if other.has_read_replaced && draft.has_read_replaced {
                    let sides = [(first, second, draft.token), (second, first, other.token)];
                    return Err(lost_update(variable, replaced, sides).into());
                }
                return Err(Malformed::ReplacedTwice { variable, replaced, first, second }.into());
            }
        }
        let mut last = Token::INITIAL;
        while let Some(draft) = successors.remove(&last) {
            self.push(variable, draft.token, Some(draft.writer));
            last = draft.token;
        }
        match group.iter().find(|draft| draft.replaced.is_some_and(|replaced| successors.contains_key(&replaced))) {
            None => Ok(()),
            Some(lost) => {
                let replaced = lost.replaced.expect("checked above");
                Err(Malformed::ReplacedNothing { variable, replaced, writer: id(lost) }.into())
            }
        }
    }
}

/// Two attempts have read a version, and each has replaced it.
fn lost_update(variable: Variable, before: Token, sides: [(AttemptId, AttemptId, Token); 2]) -> Violation {
    let step = |(from, to, after)| {
        let dependency = Dependency::Anti { variable, before, after };
        Step { from, is_committed: true, dependency, to }
    };
    Violation::Cycle(Cycle { anomaly: Anomaly::LostUpdate, steps: sides.map(step).into() })
}
