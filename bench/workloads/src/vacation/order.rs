//! The order in which commits must have happened, from the versions that they have seen.
//!
//! Version n of an object is what its nth change has left. A commit that has seen n comes after the one that made n, and
//! before the one that made n + 1 of it. A run is serializable if these relations have no circle: that is how an order
//! is found that needs no shared clock or log, which would make every transaction conflict with every other.
use std::collections::VecDeque;

use super::{Find, Size, WrongVacation};

/// What a transaction that has committed leaves for the oracle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Whose reservation; it has changed it once.
    pub reservation: usize,
    /// The count of the reservation's changes that it has seen.
    pub seen: u32,
    /// The attempt whose draws made the ticket, if it issued one.
    pub ticket: Option<u32>,
    /// Its searches; what they found it has booked.
    pub finds: Vec<Find>,
}

impl Commit {
    /// Version that it has seen of each object that it has looked at, an object perhaps twice.
    fn reads<'a>(&'a self, size: &'a Size) -> impl Iterator<Item = (usize, u32)> + 'a {
        let of_find = |find: &'a Find| find.looked_at(size, self.reservation).zip(find.seen.iter().copied());
        self.finds.iter().flat_map(of_find).chain([(reservation_object(size, self), self.seen)])
    }

    /// Objects that it has changed, an item as often as it has booked it.
    fn writes<'a>(&'a self, size: &'a Size) -> impl Iterator<Item = usize> + 'a {
        self.finds.iter().filter_map(|find| find.item).chain([reservation_object(size, self)])
    }
}

/// Objects are the items by their numbers, and then the reservations.
fn reservation_object(size: &Size, commit: &Commit) -> usize {
    3 * size.items + commit.reservation
}

/// Places of `commits` in an order in which each has seen what the ones before it have left.
pub(super) fn serial_order(size: &Size, commits: &[Commit]) -> Result<Vec<usize>, WrongVacation> {
    let makers = makers(size, commits)?;
    let mut edges = Vec::new();
    for (reader, commit) in commits.iter().enumerate() {
        for (object, seen) in commit.reads(size) {
            let (of_object, seen) = (&makers[object], seen as usize);
            if seen > of_object.len() {
                return Err(WrongVacation::Version { object, version: seen });
            }
            let before = seen.checked_sub(1).map(|place| (of_object[place], reader));
            let after = of_object.get(seen).map(|&next| (reader, next));
            edges.extend([before, after].into_iter().flatten().filter(|(from, to)| from != to));
        }
    }
    sorted(commits.len(), edges).map_err(|left| WrongVacation::Circle { commits: left })
}

/// For each object, the transactions that have made its versions from 1 on.
fn makers(size: &Size, commits: &[Commit]) -> Result<Vec<Vec<usize>>, WrongVacation> {
    let mut changes = vec![Vec::new(); 3 * size.items + size.customers];
    for (maker, commit) in commits.iter().enumerate() {
        for object in commit.writes(size) {
            let seen = commit.reads(size).find(|(read, _)| *read == object).map(|(_, seen)| seen);
            let seen = seen.ok_or(WrongVacation::Blind { reservation: commit.reservation, object })?;
            changes[object].push((seen as usize, maker));
        }
    }
    let of_object = |(object, mut changes): (usize, Vec<(usize, usize)>)| {
        changes.sort_unstable();
        for place in 0..changes.len() {
            let (seen, maker) = changes[place];
            // A booking that takes an item twice sees it once.
            let is_next = seen == place || place > 0 && changes[place - 1] == (seen, maker);
            if !is_next {
                return Err(WrongVacation::Version { object, version: place + 1 });
            }
        }
        Ok(changes.into_iter().map(|(_, maker)| maker).collect())
    };
    changes.into_iter().enumerate().map(of_object).collect()
}

/// A topological order of `0..count`, or how many have no place in any.
fn sorted(count: usize, mut edges: Vec<(usize, usize)>) -> Result<Vec<usize>, usize> {
    edges.sort_unstable();
    edges.dedup();
    let mut missing = vec![0_u32; count];
    for &(_, to) in &edges {
        missing[to] += 1;
    }
    let mut next: VecDeque<_> = (0..count).filter(|&node| missing[node] == 0).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(node) = next.pop_front() {
        order.push(node);
        let first = edges.partition_point(|&(from, _)| from < node);
        for &(_, to) in edges[first..].iter().take_while(|&&(from, _)| from == node) {
            missing[to] -= 1;
            if missing[to] == 0 {
                next.push_back(to);
            }
        }
    }
    if order.len() == count { Ok(order) } else { Err(count - order.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { customers: 3, items: 1, queries: 1 };

    /// A commit for one customer that has looked at the only flight, and perhaps booked it, and at the only room.
    fn commit(reservation: usize, flight: (u32, bool), room: (u32, bool)) -> Commit {
        let find = |slot, item, (seen, is_booked): (u32, bool)| {
            let item = is_booked.then_some(item);
            Find { slot, attempt: 0, item, seen: vec![seen] }
        };
        Commit { reservation, seen: 0, ticket: Some(0), finds: vec![find(0, 0, flight), find(2, 1, room)] }
    }

    fn check(commits: &[Commit], expected: Result<&[usize], WrongVacation>) {
        assert_eq!(serial_order(&SIZE, commits), expected.map(<[usize]>::to_vec));
    }

    #[test]
    fn who_sees_a_change_comes_after_it_and_who_misses_it_before() {
        let books = commit(0, (0, true), (0, false));
        let sees = commit(1, (1, false), (0, false));
        let misses = commit(2, (0, false), (0, false));
        check(&[sees, books, misses], Ok(&[2, 1, 0]));
    }

    #[test]
    fn write_skew_has_no_order() {
        let one = commit(0, (0, true), (0, false));
        let other = commit(1, (0, false), (0, true));
        check(&[one, other], Err(WrongVacation::Circle { commits: 2 }));
    }

    #[test]
    fn two_changes_of_one_version_are_a_lost_update() {
        let one = commit(0, (0, true), (0, false));
        let other = commit(1, (0, true), (0, false));
        check(&[one, other], Err(WrongVacation::Version { object: 0, version: 2 }));
    }

    #[test]
    fn a_version_that_nobody_made_is_found() {
        check(&[commit(0, (1, false), (0, false))], Err(WrongVacation::Version { object: 0, version: 1 }));
        check(&[commit(0, (1, true), (0, false))], Err(WrongVacation::Version { object: 0, version: 1 }));
    }

    #[test]
    fn one_transaction_may_book_an_item_twice() {
        let mut twice = commit(0, (0, true), (0, false));
        twice.finds.insert(1, Find { slot: 1, ..twice.finds[0].clone() });
        let once = commit(1, (2, true), (0, false));
        check(&[once, twice], Ok(&[1, 0]));
    }
}
