//! Random questions about random objects have the answers that a look at every object has.
use std::collections::BTreeMap;

use enact_journal::Memory;
use enact_projection::{Projection, Query};
use proptest::prelude::*;

use crate::shop::{all, class, event, shop, submit};

/// What a thing is, as this test keeps it.
#[derive(Clone, Debug)]
struct Thing {
    count: i64,
    limit: Option<i64>,
    price: (&'static str, i64),
    label: &'static str,
    colour: &'static str,
    is_spoilt: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Set(i64, Thing),
    Spoil(i64),
    Ask(Vec<Pair>, usize),
}

/// A condition: a field, a comparison, and a value to compare with.
#[derive(Clone, Debug)]
enum Pair {
    State(bool),
    Number(&'static str, i64),
    Count(&'static str, i64),
    Limit(&'static str, Option<i64>),
    Price(&'static str, (&'static str, i64)),
    Label(&'static str, &'static str),
    Colour(&'static str),
}

const TESTS: [&str; 6] = ["", ".eq", ".ge", ".gt", ".le", ".lt"];

fn holds<T: Ord>(test: &str, value: &T, wanted: &T) -> bool {
    match test {
        "" | ".eq" => value == wanted,
        ".ge" => value >= wanted,
        ".gt" => value > wanted,
        ".le" => value <= wanted,
        _ => value < wanted,
    }
}

impl Pair {
    fn holds(&self, number: i64, thing: &Thing) -> bool {
        match self {
            Self::State(is_spoilt) => thing.is_spoilt == *is_spoilt,
            Self::Number(test, wanted) => holds(test, &number, wanted),
            Self::Count(test, wanted) => holds(test, &thing.count, wanted),
            Self::Limit(test, wanted) => match (thing.limit, wanted) {
                (Some(limit), Some(wanted)) => holds(test, &limit, wanted),
                (limit, wanted) => matches!(*test, "" | ".eq") && limit == *wanted,
            },
            Self::Price(test, wanted) => thing.price.0 == wanted.0 && holds(test, &thing.price.1, &wanted.1),
            Self::Label(test, wanted) => holds(test, &thing.label, wanted),
            Self::Colour(wanted) => thing.colour == *wanted,
        }
    }

    fn written(&self) -> (String, String) {
        let of = |name: &str, test: &str, text: String| (format!("{name}{test}"), text);
        match self {
            Self::State(is_spoilt) => of("state", "", if *is_spoilt { "spoilt" } else { "made" }.to_owned()),
            Self::Number(test, wanted) => of("number", test, wanted.to_string()),
            Self::Count(test, wanted) => of("count", test, wanted.to_string()),
            Self::Limit(test, wanted) => of("limit", test, optional(*wanted)),
            Self::Price(test, wanted) => of("price", test, money(*wanted)),
            Self::Label(test, wanted) => of("label", test, (*wanted).to_owned()),
            Self::Colour(wanted) => of("colour", "", (*wanted).to_owned()),
        }
    }
}

fn optional(value: Option<i64>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

fn money((currency, cents): (&str, i64)) -> String {
    format!("{currency} {}{}.{:02}", if cents < 0 { "-" } else { "" }, cents.abs() / 100, cents.abs() % 100)
}

fn thing() -> impl Strategy<Value = Thing> {
    let labels = prop::sample::select(vec!["", "a", "ab", "b", "ä"]);
    let colours = prop::sample::select(vec!["red", "green"]);
    (-3..4_i64, prop::option::of(-2..3_i64), price(), labels, colours)
        .prop_map(|(count, limit, price, label, colour)| Thing { count, limit, price, label, colour, is_spoilt: false })
}

fn price() -> impl Strategy<Value = (&'static str, i64)> {
    (prop::sample::select(vec!["EUR", "USD"]), prop::sample::select(vec![-150_i64, -1, 0, 1, 99, 100, 12_345]))
}

fn pair() -> impl Strategy<Value = Pair> {
    let test = || prop::sample::select(TESTS.to_vec());
    prop_oneof![
        any::<bool>().prop_map(Pair::State),
        (test(), 0..12_i64).prop_map(|(test, wanted)| Pair::Number(test, wanted)),
        (test(), -3..4_i64).prop_map(|(test, wanted)| Pair::Count(test, wanted)),
        (test(), -2..3_i64).prop_map(|(test, wanted)| Pair::Limit(test, Some(wanted))),
        Just(Pair::Limit("", None)),
        (test(), price()).prop_map(|(test, wanted)| Pair::Price(test, wanted)),
        (test(), prop::sample::select(vec!["", "a", "ab", "c"])).prop_map(|(test, wanted)| Pair::Label(test, wanted)),
        prop::sample::select(vec!["red", "green"]).prop_map(Pair::Colour),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..12_i64, thing()).prop_map(|(number, thing)| Step::Set(number, thing)),
        1 => (0..12_i64).prop_map(Step::Spoil),
        3 => (prop::collection::vec(pair(), 0..4), 1..5_usize).prop_map(|(pairs, limit)| Step::Ask(pairs, limit)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_answer_is_that_of_a_look_at_every_object(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let journal = Memory::new();
            let shop = shop(&journal);
            // A box is in no answer about things.
            submit(&shop, "Box/1", event(&shop, "Box", "Open", &[])).await;
            let projection = Projection::new(shop.clone(), None);
            let mut things: BTreeMap<i64, Thing> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Set(number, thing) if things.get(&number).is_none_or(|thing| !thing.is_spoilt) => {
                        let Thing { count, limit, price, label, colour, .. } = &thing;
                        let arguments = [&count.to_string(), &optional(*limit), &money(*price), *label, *colour];
                        submit(&shop, &format!("Thing/{number}"), event(&shop, "Thing", "Set", &arguments)).await;
                        things.insert(number, thing);
                    }
                    Step::Spoil(number) if things.get(&number).is_some_and(|thing| !thing.is_spoilt) => {
                        submit(&shop, &format!("Thing/{number}"), event(&shop, "Thing", "Spoil", &[])).await;
                        things.entry(number).and_modify(|thing| thing.is_spoilt = true);
                    }
                    Step::Set(..) | Step::Spoil(_) => {}
                    Step::Ask(pairs, limit) => {
                        let query = Query::parse(&class(&shop, "Thing"), pairs.iter().map(Pair::written));
                        let query = query.unwrap_or_else(|unfit| panic!("{unfit:?}"));
                        let is_found = |(number, thing): &(&i64, &Thing)| pairs.iter().all(|pair| pair.holds(**number, thing));
                        let mut expected: Vec<String> = things.iter().filter(is_found).map(|(number, _)| number.to_string()).collect();
                        expected.sort();
                        // One that is built now, too.
                        for projection in [&projection, &Projection::new(shop.clone(), None)] {
                            let mut found = all(projection, &query, limit).await;
                            found.sort();
                            prop_assert_eq!(&found, &expected, "{:?}", &pairs);
                        }
                    }
                }
            }
            Ok(())
        })?;
    }
}
