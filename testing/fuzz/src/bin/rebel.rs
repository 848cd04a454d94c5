//! Words of the language in any order and layout: a text is refused, or it is a contract whose events happen or are refused.
#![no_main]

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use enact_rebel::{Action, Class, Instance, Reference, Source, Spec, Style, Timestamp, Type, Value, check, format};
use libfuzzer_sys::fuzz_target;

const WORDS: &str = "class A B enum Kind const fn rounding half-even invariant initial final internal on pre post sync if then \
     else for in not and or initialized finalized instate is can where variant all any count sum set this now today true false \
     let return read by roles caller has after record with none div mod module import extends abstract external event needs index use as migrate from \
     fresh first last list map max min sort round divide clamp abs zero money percentage Decimal(2) Money(EUR) List Map Duration Period Timestamp Id \
     15 minutes 1 month 1.25 ?? ! ? -> / .size .get .keys .length .year \
     @identity Money Integer Boolean Set String Date Currency Percentage a b x s t E F EUR 5.00 USD 1.00 2.5% 2026-11-25 0 7 \"t\" ( ) { } [ ] , : . .. ..< =";
const OPERATORS: [&str; 12] = ["==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "+=", "-=", "≡"];

#[derive(Arbitrary, Debug)]
enum Piece<'a> {
    Word(u8),
    Operator(u8),
    /// A line break and an indentation.
    Line(u8),
    /// A field.
    Field(u8, u8),
    /// A state with an event, whose parameter may have a default.
    Event {
        from: u8,
        name: u8,
        to: u8,
        default: Option<i8>,
        has_effects: bool,
    },
    /// A line of `post:` that governs what is indented below it or stands behind it.
    Governs(u8, u8),
    /// An effect on a field, or on an entry of it.
    Effect(u8, bool, u8),
    Any(&'a str),
}

impl Piece<'_> {
    fn text(&self) -> String {
        let words: Vec<&str> = WORDS.split_whitespace().collect();
        let word = |index: &u8| words[usize::from(*index) % words.len()];
        let name = |index: &u8| ["a", "b", "x", "s", "t", "E", "F"][usize::from(*index) % 7];
        match self {
            Self::Word(index) => word(index).to_owned(),
            Self::Operator(index) => OPERATORS[usize::from(*index) % OPERATORS.len()].to_owned(),
            Self::Line(indentation) => format!("\n{}", " ".repeat(usize::from(*indentation % 12))),
            Self::Field(field, ty) => {
                let types = [
                    "Money",
                    "Integer",
                    "Boolean",
                    "String",
                    "Date",
                    "Set[Integer]",
                    "A",
                    "Percentage",
                    "Integer?",
                    "List[Integer]",
                    "Map[Integer, Money]",
                    "Decimal(2)",
                    "Money(EUR)",
                    "Timestamp",
                    "Duration",
                ];
                format!("\n  {}: {}", name(field), types[usize::from(*ty) % types.len()])
            }
            Self::Event { from, name: event, to, default, has_effects } => {
                let default = default.map_or_else(String::new, |number| format!(" = {number}"));
                let (from, event, to) = (name(from), name(event).to_uppercase(), name(to));
                let post = if *has_effects { "\n      post:" } else { "" };
                format!("\n  {from}\n    on {event}(n: Integer{default}): {to}{post}")
            }
            Self::Governs(which, depth) => {
                let lines = ["if n > 0:", "else:", "for i in 0 .. n:", "for i in a:", "if a == b:"];
                format!("\n{}{}", " ".repeat(8 + usize::from(*depth % 4) * 2), lines[usize::from(*which) % lines.len()])
            }
            Self::Effect(field, is_entry, effect) => {
                let effects = ["= n", "+= n", "-= n", "= 7", "+= i", "-= i", "= a"];
                let key = if *is_entry { "[i]" } else { "" };
                format!("\n        this.{}{key} {}", name(field), effects[usize::from(*effect) % effects.len()])
            }
            Self::Any(text) => (*text).to_owned(),
        }
    }
}

/// Some value of a type, from a text form that many types share.
fn value(ty: &Type) -> Option<Value> {
    ["7", "EUR 5.00", "true", "2026-11-25", "2.5%", "EUR", "1.25", "[7]", "{}", "15 minutes", "2026-11-25T10:00Z", "t"]
        .iter()
        .find_map(|text| Value::parse(ty, text).ok())
}

fn run(spec: &Spec, world: &mut BTreeMap<Reference, Instance>, class: &Class) {
    let Some(key) = ["k", "7", "NL91ABNA0417164300"].iter().find_map(|text| class.key(text).ok()) else { return };
    let (mut instance, target) = (class.initial(), class.reference(key.clone()));
    for event in class.events().iter().take(8) {
        let params = event.params().iter().filter(|param| param.default().is_none());
        let given: Option<Vec<_>> = params.map(|param| Some((&**param.name(), value(param.ty())?))).collect();
        let Some(Ok(call)) = given.map(|given| event.call(given)) else { continue };
        let at = Timestamp::from_millis(1_795_253_400_000);
        let _needs = class.syncs(&key, &instance, &call, at);
        if let Ok(next) = class.next(&key, &instance, &call, at) {
            instance = next;
        }
        // A step with all that it calls and asks; what it did at one instance is done again there with the answers alone.
        let Ok(accepted) = spec.step(world, &target, &call, at) else { continue };
        let footprint = spec.footprint(class.name(), event.name()).expect("it is declared");
        let is_named = |met: &Reference| footprint.touches().iter().any(|touch| touch.class == met.class);
        assert!(!footprint.is_complete() || accepted.work.keys().all(is_named), "{call}");
        for (reference, tasks) in &accepted.work {
            let class = spec.class(&reference.class).expect("it was met");
            let mut instance = world.get(reference).cloned().unwrap_or_else(|| class.initial());
            for task in tasks {
                if let Action::Do(call) = &task.action {
                    instance = class.act(&reference.key, &instance, call, at).expect("it happened in the step");
                }
            }
            assert!(accepted.after.get(reference).is_none_or(|after| *after == instance), "{reference}");
        }
        world.extend(accepted.after);
    }
}

fuzz_target!(|pieces: Vec<Piece<'_>>| {
    let text: Vec<String> = pieces.iter().map(Piece::text).collect();
    let text = text.join(" ");
    let style = Style { canonical: text.len() % 2 == 0, from_free: false };
    let checked = check(vec![Source::new("any.rebel", text.clone())]);
    if let Ok(printed) = format(Source::new("any.rebel", text), style) {
        let again = format(Source::new("any.rebel", printed.clone()), style).expect("what is printed can be read");
        assert_eq!(again, printed, "formatting again changes more");
        assert_eq!(check(vec![Source::new("any.rebel", printed)]).is_ok(), checked.is_ok(), "the meaning stays");
    }
    if let Ok(spec) = checked {
        let mut world = BTreeMap::new();
        for _ in 0..2 {
            spec.classes().for_each(|class| run(&spec, &mut world, class));
        }
    }
});
