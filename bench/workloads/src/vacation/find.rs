//! The search for the cheapest of some items.
use super::{Item, SLOTS, Size, Use, draws};

/// What a search has looked at, and found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Find {
    /// Which of the [`SLOTS`] it was for.
    pub slot: usize,
    /// The attempt whose draws it used.
    pub attempt: u32,
    /// Number of the item, if any had enough seats.
    pub item: Option<usize>,
    /// The count of bookings that it has seen of each item, in the order of the draws.
    pub seen: Vec<u32>,
}

impl Find {
    /// The items that it has looked at, in the order of the draws; one may come twice.
    pub fn looked_at(&self, size: &Size, reservation: usize) -> impl Iterator<Item = usize> + use<> {
        candidates(size, reservation, self.slot, self.attempt)
    }
}

fn candidates(size: &Size, reservation: usize, slot: usize, attempt: u32) -> impl Iterator<Item = usize> + use<> {
    let mut draws = draws(reservation, Use::Slot(slot), attempt);
    let (first, items) = (size.numbers_of(SLOTS[slot]).start, size.items as u64);
    (0..size.queries).map(move |_| first + draws.below(items) as usize)
}

/// Looks at items drawn for `slot` of `reservation` and takes the cheapest with seats for `people`; of several the first.
///
/// `held` are items that this customer is going to book for other slots: their seats no longer count.
///
/// # Errors
/// Those of `look`, which gives an item by its number.
pub fn find<E>(
    size: &Size,
    (reservation, slot, attempt): (usize, usize, u32),
    people: u32,
    held: &[usize],
    mut look: impl FnMut(usize) -> Result<Item, E>,
) -> Result<Find, E> {
    let mut seen = Vec::with_capacity(size.queries);
    let mut cheapest: Option<(u32, usize)> = None;
    for number in candidates(size, reservation, slot, attempt) {
        let item = look(number)?;
        seen.push(item.bookings);
        let times_held = held.iter().filter(|&&held| held == number).count() as u32;
        let has_seats = item.seats >= (people * (times_held + 1)).cast_signed();
        if has_seats && cheapest.is_none_or(|(price, _)| item.price < price) {
            cheapest = Some((item.price, number));
        }
    }
    Ok(Find { slot, attempt, item: cheapest.map(|(_, number)| number), seen })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const SIZE: Size = Size { customers: 1, items: 50, queries: 10 };

    fn find_among(held: &[usize], item: impl Fn(usize) -> Item) -> Find {
        let Ok(found) = find(&SIZE, (0, 0, 0), 3, held, |number| Ok::<_, Infallible>(item(number)));
        found
    }

    fn item(seats: i32, price: u32) -> Item {
        Item { seats, price, bookings: 7 }
    }

    #[test]
    fn the_first_of_equally_cheap_items_is_taken() {
        let drawn: Vec<_> = candidates(&SIZE, 0, 0, 0).collect();
        let found = find_among(&[], |_| item(100, 50));
        assert_eq!(found, Find { slot: 0, attempt: 0, item: Some(drawn[0]), seen: vec![7; 10] });
    }

    #[test]
    fn a_cheaper_item_is_taken_only_with_enough_seats() {
        let drawn: Vec<_> = candidates(&SIZE, 0, 0, 0).collect();
        let (cheap, dear) = (drawn[3], drawn[5]);
        let with_seats = |seats| {
            move |number| match number {
                _ if number == cheap => item(seats, 50),
                _ if number == dear => item(100, 60),
                _ => item(100, 90),
            }
        };
        assert_eq!(find_among(&[], with_seats(3)).item, Some(cheap));
        assert_eq!(find_among(&[], with_seats(2)).item, Some(dear));
        assert_eq!(find_among(&[cheap], with_seats(5)).item, Some(dear), "three of the five seats are held");
        assert_eq!(find_among(&[cheap], with_seats(6)).item, Some(cheap));
    }

    #[test]
    fn nothing_is_found_when_all_are_full() {
        assert_eq!(find_among(&[], |_| item(2, 50)).item, None);
    }

    #[test]
    fn candidates_are_of_the_slots_table_and_differ_between_slots_and_attempts() {
        let of = |slot, attempt| candidates(&SIZE, 0, slot, attempt).collect::<Vec<_>>();
        for (slot, table) in SLOTS.into_iter().enumerate() {
            assert!(of(slot, 0).iter().all(|number| SIZE.numbers_of(table).contains(number)));
        }
        assert_ne!(of(0, 0), of(1, 0));
        assert_ne!(of(0, 0), of(0, 1));
        assert_eq!(of(0, 0), of(0, 0));
    }
}
