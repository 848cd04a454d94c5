//! Whole groups out of pages of records that may end anywhere.

use crate::journal::ReadError;
use crate::record::{Group, Position, Record};

/// Records that follow each other, each with the name of its group, if it says so: the first of a group always does.
pub(crate) type Page = Vec<(Option<String>, Record)>;

/// The groups after `after`, where a group ends, out of what `page` finds after a position: at least one if there is one.
///
/// An empty page is the end, and the end of a group.
pub(crate) async fn whole_groups<F>(after: Position, page: impl Fn(Position) -> F) -> Result<Vec<Group>, ReadError>
where
    F: Future<Output = Result<Page, ReadError>>,
{
    let mut groups: Vec<Vec<Record>> = Vec::new();
    let (mut last, mut name) = (after, None);
    loop {
        let records = page(last).await?;
        if records.is_empty() {
            return Ok(groups.into_iter().map(Group::of).collect());
        }
        for (said, record) in records {
            last = record.position;
            let is_first = said.is_some() && said != name;
            name = said.or(name);
            match groups.last_mut() {
                Some(group) if !is_first => group.push(record),
                _ => groups.push(vec![record]),
            }
        }
        // The last one may go on in the next page.
        if groups.len() > 1 {
            groups.pop();
            return Ok(groups.into_iter().map(Group::of).collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use enact_journal_kit::contract::block_on;

    use super::*;
    use crate::record::{EntityKey, Kind, Seq};

    /// Whatever the pages are, the same groups come out of them.
    #[test]
    fn groups_are_whole_wherever_pages_end() {
        let groups = [("a", 1), ("b", 3), ("c", 1), ("d", 5), ("e", 2)];
        let entity = EntityKey::new("Account", "A").unwrap();
        let record = |n: usize| Record {
            entity: entity.clone(),
            seq: Seq(n as u64),
            position: Position(n as u64),
            kind: Kind(0),
            payload: Vec::new(),
        };
        let mut all: Vec<(&str, bool)> = Vec::new();
        for (name, len) in groups {
            all.extend((0..len).map(|index| (name, index == 0)));
        }
        for names_all in [true, false] {
            for len in 1..=all.len() {
                let page = |after: Position| {
                    let from = after.0 as usize;
                    let page = (from..all.len().min(from + len)).map(|at| {
                        let (name, is_first) = all[at];
                        ((names_all || is_first).then(|| name.to_owned()), record(at + 1))
                    });
                    std::future::ready(Ok(page.collect()))
                };
                let (mut found, mut last) = (Vec::new(), Position::START);
                loop {
                    let some = block_on(whole_groups(last, page)).unwrap();
                    let Some(end) = some.last() else { break };
                    last = end.last();
                    found.extend(some.iter().map(|group| group.records().len()));
                }
                assert_eq!(found, groups.map(|(_, len)| len), "pages of {len}");
            }
        }
    }
}
