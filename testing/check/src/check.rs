//! The check: single reads first, then the graph of all.

use crate::access::{Access, accesses};
use crate::graph::{Edges, Graph, Kind, check_tickets};
use crate::history::{History, Token};
use crate::name::{Lost, anomaly};
use crate::versions::{Source, Versions};
use crate::violation::{CheckError, Violation};

/// What a history is held to. Each criterion implies those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Criterion {
    /// The committed attempts have a serial order that explains them. Of aborted ones nothing is asked.
    Serializable,
    /// There is one in which what ended before another one began also comes before it.
    StrictlySerializable,
    /// There is one in which also every aborted attempt has a place where all that it read is current.
    Opaque,
}

impl Criterion {
    /// Whether an attempt has to be explained.
    pub(crate) const fn includes(self, is_committed: bool) -> bool {
        is_committed || matches!(self, Self::Opaque)
    }
}

/// How much was checked: a test that means to check something says how much it expects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Committed attempts.
    pub committed_count: usize,
    /// Aborted attempts, of which only [`Criterion::Opaque`] asks something.
    pub aborted_count: usize,
    /// Variables read by an attempt before it wrote them.
    pub read_count: usize,
    /// Reasons for one attempt to precede another, real time included.
    pub dependency_count: usize,
}

impl History {
    /// Looks for a serial order that explains this history.
    ///
    /// # Errors
    /// [`CheckError::Violation`] if there is none, with the first anomaly in the order: a read that is wrong by itself,
    /// G0, G1c, lost update, G-single, G2-item, real time. [`CheckError::Malformed`] if the recording contradicts
    /// itself.
    ///
    /// # Complexity
    /// `n log n` in the operations if there is no anomaly; a further search, of bounded work, among the attempts that
    /// contradict each other if there is one. A million attempts of six operations take some ten seconds and 1 GiB.
    pub fn check(&self, criterion: Criterion) -> Result<Coverage, CheckError> {
        check_tickets(self)?;
        let mut check = Check {
            history: self,
            versions: Versions::of(self)?,
            edges: Edges::default(),
            lost: None,
            coverage: Coverage::default(),
        };
        check.add_writes();
        let mut order = Vec::new();
        for (index, (attempt, ops)) in (0..).zip(self.attempts()) {
            let coverage = &mut check.coverage;
            *if attempt.is_committed { &mut coverage.committed_count } else { &mut coverage.aborted_count } += 1;
            if criterion.includes(attempt.is_committed) {
                accesses(ops, &mut order).try_for_each(|access| check.add_access(index, &access))?;
            }
        }
        let node_count = match criterion {
            Criterion::Serializable => self.len(),
            Criterion::StrictlySerializable | Criterion::Opaque => {
                let is_included = |index| criterion.includes(self.attempt(index).is_committed);
                check.edges.push_real_time(self, is_included)
            }
        };
        check.coverage.dependency_count = check.edges.len();
        let graph = Graph::new(node_count, self.len(), check.edges);
        match anomaly(self, &check.versions, &graph, check.lost) {
            None => Ok(check.coverage),
            Some(cycle) => Err(Violation::Cycle(cycle).into()),
        }
    }
}

struct Check<'a> {
    history: &'a History,
    versions: Versions,
    edges: Edges,
    lost: Option<Lost>,
    coverage: Coverage,
}

impl Check<'_> {
    fn add_writes(&mut self) {
        for (place, pair) in (1..).zip(self.versions.all.windows(2)) {
            if let (Some(from), Some(to)) = (pair[0].writer, pair[1].writer)
                && pair[0].variable == pair[1].variable
            {
                self.edges.push(from, to, Kind::Write, place);
            }
        }
    }

    fn add_access(&mut self, attempt: u32, access: &Access) -> Result<(), Violation> {
        let variable = access.variable;
        let reader = || self.history.id(attempt as usize);
        if let Some((expected, found)) = access.contradiction {
            return Err(Violation::Changed { attempt: reader(), variable, expected, found });
        }
        let Some(token) = access.read else { return Ok(()) };
        self.coverage.read_count += 1;
        if access.write.as_ref().is_some_and(|write| write.last == token || write.intermediate.contains(&token)) {
            return Err(Violation::Foreseen { attempt: reader(), variable, token });
        }
        let writer = |writer: u32| self.history.id(writer as usize);
        let place = match self.versions.source(variable, token) {
            Some(Source::Version(place)) => place,
            Some(Source::Aborted(by)) => {
                return Err(Violation::AbortedRead { reader: reader(), writer: writer(by), variable, token });
            }
            Some(Source::Intermediate(by)) => {
                return Err(Violation::IntermediateRead { reader: reader(), writer: writer(by), variable, token });
            }
            None if token == Token::INITIAL => return Ok(()),
            None => return Err(Violation::Unwritten { reader: reader(), variable, token }),
        };
        if let Some(writer) = self.versions.all[place as usize].writer {
            self.edges.push(writer, attempt, Kind::Read, place);
        }
        let Some(missed) = self.versions.after(place) else { return Ok(()) };
        let overwriter = self.versions.all[missed as usize].writer.expect("only the first version has no writer");
        self.edges.push(attempt, overwriter, Kind::Anti, missed);
        // A transaction that writes what it has read, and does not replace that version, has missed the one that did.
        if let Some(write) = &access.write
            && let Some(Source::Version(written)) = self.versions.source(variable, write.last)
            && written > missed
        {
            self.lost.get_or_insert(Lost { attempt, missed, written });
        }
        Ok(())
    }
}
