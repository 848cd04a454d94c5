//! Which events get along, and why, case by case. That admission does what is said here is shown by `scaling` in the tests of
//! `enact-entities`.

mod cases;

use enact_rebel::scaling::{Because, Concurrency, Precision, Scaling};

use crate::support;

fn scaling(text: &str) -> Scaling {
    support::spec(text).scaling().find(|scaling| **scaling.class() == *"Thing").unwrap()
}

#[test]
fn each_pair_gets_along_as_its_row_says_and_for_that_reason() {
    let scaling = scaling(cases::CONTRACT);
    let mut wrong = Vec::new();
    for (open, incoming, concurrency, reason) in cases::ROWS {
        let pair = scaling.pair(open, incoming).unwrap();
        let first = pair.reasons.first().map(|reason| (reason.place.to_string(), reason.open, reason.incoming));
        let expected = reason.map(|(place, open, incoming)| (place.to_owned(), open, incoming));
        if (pair.concurrency, &first) != (*concurrency, &expected) {
            wrong.push(format!("{open}, {incoming}: {:?}, {first:?}", pair.concurrency));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_reason_names_the_lines_of_both_events() {
    let scaling = scaling(cases::CONTRACT);
    let text = |span: enact_rebel::Span| &cases::CONTRACT[span.start..span.end];
    let reason = &scaling.pair("Put", "Take").unwrap().reasons[0];
    assert_eq!((text(reason.open_span), text(reason.incoming_span)), ("count", "pieces"));
    let line = cases::CONTRACT[..reason.open_span.start].lines().last().unwrap();
    assert_eq!(line.trim(), "post: this.pieces +=");
    let rest = &cases::CONTRACT[reason.incoming_span.start..];
    assert!(rest.starts_with("pieces - count >= 0\n"), "the guard, not the invariant: {rest:.30}");
}

#[test]
fn equal_arguments_and_what_is_not_exact_are_told() {
    let scaling = scaling(cases::CONTRACT);
    let flags = |open, incoming| {
        let reason = &scaling.pair(open, incoming).unwrap().reasons[0];
        (reason.equal_together, reason.by_precision)
    };
    assert_eq!(flags("Rate", "Rate"), (true, false));
    assert_eq!(flags("Double", "Double"), (true, false));
    assert_eq!(flags("Reset", "Restart"), (false, false));
    assert_eq!(flags("Copy", "Copy"), (false, false));
    assert_eq!(flags("Small", "Tag"), (false, true));
    assert_eq!(flags("Either", "Put"), (false, false));
}

#[test]
fn events_are_exact_conservative_or_opaque_for_a_reason() {
    let scaling = scaling(cases::CONTRACT);
    let of = |name: &str| {
        let profile = scaling.events().iter().find(|profile| *profile.event == *name).unwrap();
        match profile.precision {
            Precision::Exact => "exact".to_owned(),
            Precision::Conservative(because, span) => {
                format!("conservative {because:?} {}", &cases::CONTRACT[span.start..span.end])
            }
            Precision::Opaque(because, span) => {
                format!("opaque {because:?} {}", &cases::CONTRACT[span.start..span.end])
            }
        }
    };
    for exact in ["Put", "Take", "Cap", "Fit", "Rate", "Name", "Expect", "Open", "Fresh", "TagA", "Sum", "Rename"] {
        assert_eq!(of(exact), "exact", "{exact}");
    }
    for (event, said) in [
        ("Double", "conservative Effect price * 2"),
        ("TagAll", "conservative Effect words"),
        ("Price", "conservative Effect this.prices[word] = at_"),
        ("Small", "conservative Condition tags.size <= limit"),
        ("Differ", "conservative Condition status != text"),
        ("Either", "conservative Condition pieces > count or sealed"),
        ("Lock", "conservative Moves Lock"),
        ("Send", "opaque Calls item"),
        ("Tell", "opaque Returns pieces"),
        ("Halve", "opaque Variants Halve"),
        ("Home", "opaque Differs Home"),
    ] {
        assert_eq!(of(event), said);
    }
}

/// Which pieces are free decides nothing: all that move them get along. Ends of the fields do not show that.
#[test]
fn a_sum_of_fields_that_one_event_changes_is_told() {
    let scaling = scaling(cases::SUM);
    let sums: Vec<_> = scaling.events().iter().map(|profile| (&*profile.event, profile.sum.is_some())).collect();
    assert_eq!(sums, [("Begin", false), ("Hold", true), ("Put", false)]);
}

#[test]
fn what_may_change_what_is_due_is_opaque_and_says_so() {
    let scaling = scaling(cases::TIMED);
    assert!(scaling.timer().is_some());
    let is_opaque = |precision| matches!(precision, Precision::Opaque(Because::Timer, _));
    let opaque: Vec<_> = scaling.events().iter().map(|found| (&*found.event, is_opaque(found.precision))).collect();
    assert_eq!(opaque, [("Begin", true), ("Put", false), ("Wait", true), ("Stop", true)]);
    assert_eq!(scaling.pair("Put", "Put").unwrap().concurrency, Concurrency::Together);
    assert_eq!(scaling.pair("Wait", "Put").unwrap().concurrency, Concurrency::Together);
    assert_eq!(scaling.pair("Wait", "Wait").unwrap().concurrency, Concurrency::InLine);
}

#[test]
fn questions_whether_an_event_is_possible_are_told_at_that_event() {
    let scaling = scaling(cases::CONTRACT);
    let asked: Vec<_> = scaling.events().iter().filter(|profile| !profile.asked.is_empty()).collect();
    let [cap] = asked[..] else { panic!("{asked:?}") };
    let text: Vec<&str> = cap.asked.iter().map(|span| &cases::CONTRACT[span.start..span.end]).collect();
    assert_eq!((&*cap.event, text), ("Cap", vec!["not thing.Cap(1)"]));
}

#[test]
fn what_waits_for_itself_does_not_scale_and_pairs_are_counted() {
    let text = "class Thing\n  pieces: Integer = 0\n  price: Integer = 0\n  initial blank\n    on Begin(): used\n  used\n    on Put(count: Integer)\n      post: this.pieces += count\n    on Rate(to: Integer)\n      post: this.price = to\n";
    let scaling = scaling(text);
    let names = |positions: Vec<usize>| {
        positions.into_iter().map(|at| scaling.events()[at].event.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(scaling.serial().collect()), ["Begin", "Rate"]);
    // Begin is refused behind the two others, which wait for it and get along with each other; so does Put with itself.
    assert_eq!((scaling.decided(), scaling.pairs().len()), (5, 9));
    assert!(scaling.pair("Put", "Spin").is_none());
}
