//! What can be asked, and what an answer says.
use enact_entities::{Cursor, Record, Slot, Timestamp, TxId};
use enact_journal::{Journal, Kind, Memory, NewRecord, Seq};
use enact_projection::{Mark, Projection, ProjectionError, Query};

use crate::shop::{LONG, all, class, event, shop, submit};

#[tokio::test]
async fn what_does_not_fit_the_class_is_told_all_at_once() {
    let shop = shop(&Memory::new());
    let of_things = |pairs: &[(&str, &str)]| match Query::parse(&class(&shop, "Thing"), pairs.iter().copied()) {
        Ok(_) => Vec::new(),
        Err(unfit) => unfit.into_iter().map(|error| error.to_string()).collect(),
    };
    for (name, text, told) in [
        (
            "size",
            "1",
            "`size`: `Thing` has no field `size`; there are `number`, `count`, `limit`, `price`, `label`, `colour`",
        ),
        ("state", "lost", "`state`: `Thing` has no state `lost`; there are `unmade`, `made`, `spoilt`"),
        ("count", "many", "`count`: `many` is no Integer; write it like `-42`"),
        ("count.ne", "1", "`count.ne`: a field is compared by `.eq`, `.ge`, `.gt`, `.le` or `.lt`"),
        ("colour.ge", "red", "`colour.ge`: values of `colour` have no order: ask for one of them"),
        ("number", "x", "`number`: `x` is no Integer; write it like `-42`"),
        ("limit.ge", "none", "`limit.ge`: nothing is larger or smaller than `none`"),
    ] {
        assert_eq!(of_things(&[(name, text)]), [told]);
    }
    assert_eq!(of_things(&[("size", "1"), ("count", "2"), ("colour", "blue")]).len(), 2);
}

#[tokio::test]
async fn an_answer_has_the_order_of_the_index_that_it_is_found_by() {
    let shop = shop(&Memory::new());
    for (number, (count, price, label)) in
        [(5, "EUR 9.00", "b"), (3, "EUR 10.00", "a"), (4, "USD 1.00", "a")].iter().enumerate()
    {
        let arguments = [&count.to_string(), "none", price, *label, "red"];
        submit(&shop, &format!("Thing/{number}"), event(&shop, "Thing", "Set", &arguments)).await;
    }
    let projection = Projection::new(shop.clone(), None);
    let things = class(&shop, "Thing");
    for (pairs, expected) in [
        (vec![], vec!["0", "1", "2"]),
        (vec![("price.ge", "EUR 9.50")], vec!["1"]),
        (vec![("price.le", "EUR 10.00")], vec!["0", "1"]),
        (vec![("label", "a")], vec!["1", "2"]),
        (vec![("label", "a"), ("count.gt", "3")], vec!["2"]),
        (vec![("label.ge", "a")], vec!["1", "2", "0"]),
        (vec![("limit", "none")], vec!["0", "1", "2"]),
        (vec![("limit.le", "100")], vec![]),
    ] {
        let query = Query::parse(&things, pairs.iter().copied()).expect("it fits");
        assert_eq!(all(&projection, &query, 100).await, expected, "{pairs:?}");
    }
}

#[tokio::test]
async fn what_was_acknowledged_before_the_question_is_in_the_answer() {
    let shop = shop(&Memory::new());
    let projection = Projection::new(shop.clone(), None);
    let query = Query::parse::<&str, &str>(&class(&shop, "Thing"), []).expect("it fits");
    for number in 0..30 {
        submit(&shop, &format!("Thing/{number}"), event(&shop, "Thing", "Set", &["1", "none", "EUR 1.00", "", "red"]))
            .await;
        assert_eq!(all(&projection, &query, 7).await.len(), number + 1);
    }
}

#[tokio::test]
async fn a_journal_that_cannot_be_read_is_told_and_read_again_by_the_next_question() {
    let journal = Memory::new();
    let shop = shop(&journal);
    let set = || event(&shop, "Thing", "Set", &["1", "none", "EUR 1.00", "", "red"]);
    submit(&shop, "Thing/1", set()).await;
    let projection = Projection::new(shop.clone(), None);
    let query = Query::parse::<&str, &str>(&class(&shop, "Thing"), []).expect("it fits");
    assert_eq!(all(&projection, &query, 10).await, ["1"]);
    submit(&shop, "Thing/2", set()).await;
    journal.fail_reads(true);
    assert!(matches!(projection.find(&query, None, 10, LONG).await, Err(ProjectionError::Unread(_))));
    journal.fail_reads(false);
    assert_eq!(all(&projection, &query, 10).await, ["1", "2"]);
}

#[test]
fn a_mark_is_digits_in_pairs() {
    let mark: Mark = "00ff7a".parse().expect("it is one");
    assert_eq!(mark.to_string(), "00ff7a");
    for text in ["0", "0g", "é1"] {
        assert!(text.parse::<Mark>().is_err(), "{text}");
    }
}

#[tokio::test]
async fn an_object_that_cannot_have_changed_as_the_journal_says_is_in_no_answer_and_the_others_are() {
    let journal = Memory::new();
    let shop = shop(&journal);
    let set = || event(&shop, "Thing", "Set", &["1", "none", "EUR 1.00", "", "red"]);
    submit(&shop, "Thing/1", set()).await;
    submit(&shop, "Thing/2", set()).await;
    // A thing that is not made cannot be spoilt, and what comes behind that is nobody's either.
    for (number, event) in [event(&shop, "Thing", "Spoil", &[]), set()].into_iter().enumerate() {
        let (slot, tx) = (Slot(number as u64 + 1), TxId::from_u128(7 + number as u128));
        let forged =
            Record::Committed { tx, slot, events: vec![event], at: Timestamp(0), version: 1, overlap: Some(0) };
        let (kind, payload) = (Kind(forged.kind()), forged.encode());
        let entity = "Thing/3".parse().expect("a key");
        let record = NewRecord { entity, expected: Seq(number as u64), kind, payload };
        journal.append(vec![record]).await.expect("nothing refuses it");
    }
    submit(&shop, "Thing/4", set()).await;
    let query = Query::parse(&class(&shop, "Thing"), [("price.ge", "EUR 0.00")]).expect("it fits");
    assert_eq!(all(&Projection::new(shop, None), &query, 10).await, ["1", "2", "4"]);
}

#[tokio::test]
async fn a_page_ends_when_it_has_a_few_mebibytes() {
    const THINGS: usize = 12;
    let shop = shop(&Memory::new());
    let label = "x".repeat(900_000);
    for number in 0..THINGS {
        let set = event(&shop, "Thing", "Set", &["1", "none", "EUR 1.00", &label, "red"]);
        submit(&shop, &format!("Thing/{number}"), set).await;
    }
    let query = Query::parse::<&str, &str>(&class(&shop, "Thing"), []).expect("it fits");
    let projection = Projection::new(shop.clone(), None);
    let first = projection.find(&query, None, 1_000, LONG).await.expect("it answers");
    assert!((2..THINGS).contains(&first.found.len()), "{} of {THINGS}", first.found.len());
    assert_eq!(all(&projection, &query, 1_000).await.len(), THINGS);
    let (mut after, mut lengths) = (Cursor::START, Vec::new());
    loop {
        let some = shop.changes(after, 1_000, LONG).await.expect("they can be read");
        after = some.next;
        lengths.push(some.changes.len());
        if !some.has_more {
            break;
        }
    }
    assert_eq!(lengths.iter().sum::<usize>(), THINGS);
    assert!(lengths.len() > 2, "{lengths:?}");
}

#[tokio::test]
async fn a_projection_that_is_built_late_takes_up_all_there_is() {
    const CHANGES: usize = 2_100;
    let shop = shop(&Memory::new());
    for number in 0..CHANGES {
        let label = number.to_string();
        let set = event(&shop, "Thing", "Set", &["1", "none", "EUR 1.00", &label, "red"]);
        submit(&shop, &format!("Thing/{}", number % 3), set).await;
    }
    let last = (CHANGES - 1).to_string();
    let query = Query::parse(&class(&shop, "Thing"), [("label", &*last)]).expect("it fits");
    assert_eq!(all(&Projection::new(shop, None), &query, 10).await.len(), 1);
}
