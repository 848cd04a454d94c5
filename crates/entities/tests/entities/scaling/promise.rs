//! What each way of getting along promises, held against admission.

use std::collections::BTreeSet;
use std::sync::Arc;

use enact_entities::{
    Admission, Asked, Attempt, Branch, Calls, EntityKey, Limits, Millis, Model as _, Question, Rebel, Request, Slot,
    Strategy, TxId, Verdict,
};
use enact_rebel::scaling::{Concurrency, Pair, Precision, Scaling};
use enact_rebel::{EventCall, Instance, Value};

use super::oracle::{AT, Met, Oracle};
use super::universe::Universe;
use crate::support::chance::Chance;

/// States in which an event is in progress, for each event; and how many are tried for each.
const BEGINS: usize = 40;
const TRIES: usize = 60;

pub(crate) struct Promise<'a> {
    pub(crate) model: &'a Arc<Rebel>,
    pub(crate) scaling: &'a Scaling,
    pub(crate) text: &'a str,
    pub(crate) told: &'a str,
}

pub(crate) fn name(scaling: &Scaling, pair: &Pair) -> String {
    let [open, incoming] = [pair.open, pair.incoming].map(|at| &scaling.events()[at].event);
    format!("{}: {open}, {incoming}", scaling.class())
}

/// What admission says to a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Admitted,
    InLine,
    Rejected,
    Delayed,
}

impl Promise<'_> {
    /// Checks every pair in as many samples as `samples` says of its name, and says what was met of each.
    pub(crate) fn check(&self, seed: u64, samples: impl Fn(&str) -> u64) -> Vec<Met> {
        let class = self.model.spec().class(self.scaling.class()).unwrap();
        let universe = Universe::new(self.model.spec(), self.text);
        let key = EntityKey::new(class.name().as_ref(), &universe.references(class)[0].key.to_string()).unwrap();
        let oracle = Oracle { model: self.model, key: &key };
        let mut chance = Chance::new(seed);
        let events: Vec<_> = self.scaling.events().iter().map(|profile| class.event(&profile.event).unwrap()).collect();
        let begins: Vec<Vec<_>> = events
            .iter()
            .map(|event| (0..BEGINS).filter_map(|_| self.possible(&oracle, &universe, &mut chance, event)).collect())
            .collect();
        let mut found = Vec::new();
        for pair in self.scaling.pairs() {
            let mut met = Met::default();
            for _ in 0..samples(&name(self.scaling, pair)) {
                let begins = &begins[pair.open];
                if begins.is_empty() {
                    break;
                }
                let (state, open) = &begins[chance.below(begins.len())];
                let call = universe.call(&mut chance, events[pair.incoming]);
                let (after, _) = oracle.step(state, open).expect("it is possible");
                let incoming = self.answered(&oracle, &universe, &mut chance, &[state, &after], &call);
                // Left out: amounts of another currency than the one that is there, and what is due first.
                let has_dollars = format!("{state:?} {open:?} {incoming:?}").contains("USD");
                let leads_to_due = [state, &after]
                    .into_iter()
                    .any(|before| oracle.step(before, &incoming).is_some_and(|(end, _)| oracle.is_due(&end)));
                if has_dollars || leads_to_due {
                    continue;
                }
                met = met + self.sample(pair, &oracle, state, open, &incoming);
            }
            found.push(met);
        }
        found
    }

    /// A state with a call of the event that is possible there, if one is found.
    fn possible(
        &self,
        oracle: &Oracle<'_>,
        universe: &Universe<'_>,
        chance: &mut Chance,
        event: &enact_rebel::Event,
    ) -> Option<(Instance, EventCall)> {
        let class = self.model.spec().class(self.scaling.class()).unwrap();
        let sources: Vec<_> = event.transitions().map(|(source, _)| source.clone()).collect();
        for _ in 0..TRIES {
            let source = &sources[chance.below(sources.len())];
            let state = universe.instance_in(chance, class, source);
            if !self.model.is_sound(oracle.key, &state) || oracle.is_due(&state) {
                continue;
            }
            let call = universe.call(chance, event);
            let call = self.answered(oracle, universe, chance, &[&state], &call);
            if oracle.step(&state, &call).is_some_and(|(after, _)| !oracle.is_due(&after)) {
                return Some((state, call));
            }
        }
        None
    }

    /// The call with some answers to all that it asks in these states.
    fn answered(
        &self,
        oracle: &Oracle<'_>,
        universe: &Universe<'_>,
        chance: &mut Chance,
        states: &[&Instance],
        call: &EventCall,
    ) -> EventCall {
        let mut answers: Vec<(Asked<EventCall>, Option<Value>)> = Vec::new();
        loop {
            let call = self.model.answered(call, &answers);
            let asks = |state: &&Instance| self.model.questions(oracle.key, state, &call, AT).unwrap_or_default();
            let asked = states.iter().map(asks).find(|asked| !asked.is_empty());
            let Some(asked) = asked.filter(|_| answers.len() < 20) else { return call };
            for asked in asked {
                let class = self.model.spec().class(asked.key.class()).unwrap();
                let value = match &asked.question {
                    Question::Field(name) => {
                        let field = class.fields().iter().find(|field| **field.name() == *name.as_str());
                        field.map(|field| universe.value(chance, field.ty()))
                    }
                    Question::Result(event) => {
                        let ty = class.event(event.event()).unwrap().result().unwrap();
                        Some(universe.value(chance, ty))
                    }
                    _ => Some(Value::Boolean(chance.below(4) > 0)),
                };
                answers.push((asked, value));
            }
        }
    }

    fn told(&self, oracle: &Oracle<'_>, state: &Instance, open: &EventCall, incoming: &EventCall, sole: bool) -> Told {
        let model = Arc::clone(self.model);
        let (key, limits) = (oracle.key.clone(), Limits::default());
        let mut admission = Admission::new(model, key, state.clone(), Slot::FIRST, Strategy::Serializable, limits);
        let request = |tx, call, sole| {
            let (tx, work) = (TxId::from_u128(tx), oracle.work(call));
            let branch = Branch { tx, attempt: Attempt::FIRST, work, at: AT };
            Request { branch, deadline: Millis(1_000), ordered: true, sole, certain: false, calls_known: false }
        };
        let first = admission.request(request(1, open, false));
        assert!(matches!(first, Verdict::Admitted(..)), "{}: {open} is possible in {state:?}: {first:?}", self.told);
        match admission.request(request(2, incoming, sole)) {
            Verdict::Admitted(_, answer) if answer.in_line => Told::InLine,
            Verdict::Admitted(..) => Told::Admitted,
            Verdict::Rejected(_) => Told::Rejected,
            Verdict::Delayed => Told::Delayed,
            other => panic!("{}: {open} before {incoming:?} in {state:?}: {other:?}", self.told),
        }
    }

    fn sample(
        &self,
        pair: &Pair,
        oracle: &Oracle<'_>,
        state: &Instance,
        open: &EventCall,
        incoming: &EventCall,
    ) -> Met {
        let verdict = oracle.verdict(state, open, incoming);
        let part = self.told(oracle, state, open, incoming, false);
        let alone = self.told(oracle, state, open, incoming, true);
        let told = || {
            let pair = name(self.scaling, pair);
            format!(
                "{}: {pair}: {open} before {incoming} in {state:?}: {part:?}, alone {alone:?}, {verdict:?}",
                self.told
            )
        };
        self.check_precision(pair.open, oracle, state, open, &told);
        // Whatever the pair is: what is possible before and behind the other one may stand behind it.
        let by_verdict = |admitted| match (verdict.is_certain, verdict.is_possible) {
            (false, _) => Told::Delayed,
            (true, false) => Told::Rejected,
            (true, true) => admitted,
        };
        // What is more than thresholds and constants stands behind all that is open, also where it could come before.
        let is_exact = self.scaling.events()[pair.incoming].precision == Precision::Exact;
        let alone = if alone == Told::InLine && verdict.commutes && !is_exact { Told::Admitted } else { alone };
        let as_if_nothing_were_open = if verdict.is_possible { Told::Admitted } else { Told::Rejected };
        let exact = by_verdict(if verdict.commutes { Told::Admitted } else { Told::Delayed });
        match pair.concurrency {
            Concurrency::Never => assert_eq!((part, alone), (Told::Rejected, Told::Rejected), "{}", told()),
            Concurrency::Together => {
                assert_eq!((part, alone), (as_if_nothing_were_open, as_if_nothing_were_open), "{}", told());
            }
            Concurrency::UnlessSame => {
                assert_eq!(part, exact, "{}", told());
                if self.are_apart(open, incoming) {
                    assert_eq!((part, alone), (as_if_nothing_were_open, as_if_nothing_were_open), "{}", told());
                }
            }
            Concurrency::WhileFar => assert_eq!(part, exact, "{}", told()),
            Concurrency::InLine => {
                let waits_by_verdict = |reason: &enact_rebel::scaling::Reason| reason.concurrency < Concurrency::InLine;
                if !pair.reasons.iter().any(waits_by_verdict) {
                    assert!(alone != Told::Delayed && verdict.is_certain, "{}", told());
                }
                if verdict.is_possible && verdict.is_certain && !verdict.commutes {
                    assert_eq!((part, alone), (Told::Delayed, Told::InLine), "{}", told());
                }
            }
            Concurrency::Turns => {}
        }
        // What the pair leaves open is never wrong.
        let rightly = match alone {
            Told::Rejected => verdict.is_certain && !verdict.is_possible,
            Told::Admitted | Told::InLine => verdict.is_certain && verdict.is_possible,
            // What is refused for different reasons waits, if what it calls depends on them.
            Told::Delayed => true,
        };
        assert!(rightly, "{}", told());
        assert!(part == exact || part == Told::Delayed, "{}", told());
        let count = u64::from;
        Met {
            refused: count(part == Told::Rejected),
            admitted: count(part == Told::Admitted),
            delayed: count(part == Told::Delayed),
            alone: count(part == Told::Delayed && alone != Told::Delayed),
            delayed_alone: count(alone == Told::Delayed),
        }
    }

    /// What is said of the open event, which is possible, is how admission knows it.
    fn check_precision(
        &self,
        at: usize,
        oracle: &Oracle<'_>,
        state: &Instance,
        call: &EventCall,
        told: &dyn Fn() -> String,
    ) {
        let linear = self.model.linear(oracle.key, std::slice::from_ref(call), AT);
        let effects = self.model.effects(oracle.key, state, call, AT);
        let asks = self.model.has_result(oracle.key, call) && !self.model.has_fixed_result(oracle.key, call);
        let is_fixed = !asks && matches!(self.model.calls(oracle.key, None, call, AT), Calls::Known(_));
        let is_rightly = match self.scaling.events()[at].precision {
            Precision::Exact => is_fixed && linear.is_some(),
            Precision::Conservative(..) => is_fixed && (linear.is_some() || effects.is_some()),
            Precision::Opaque(..) => !is_fixed || linear.is_none() && effects.is_none(),
        };
        assert!(is_rightly, "{}: {:?}", told(), self.scaling.events()[at]);
    }

    /// Whether two calls have no value in common, and none that the contract names itself.
    fn are_apart(&self, one: &EventCall, other: &EventCall) -> bool {
        let values = |call: &EventCall| -> BTreeSet<Value> {
            let mut found = BTreeSet::new();
            call.arguments().iter().for_each(|(_, value)| leaves(value, &mut found));
            found
        };
        let is_named = |value: &Value| self.text.contains(&format!("\"{value}\""));
        let (one, other) = (values(one), values(other));
        one.is_disjoint(&other) && !one.iter().chain(&other).any(is_named)
    }
}

fn leaves(value: &Value, found: &mut BTreeSet<Value>) {
    match value {
        Value::Set(elements) => elements.iter().for_each(|element| leaves(element, found)),
        Value::List(elements) => elements.iter().for_each(|element| leaves(element, found)),
        Value::Map(entries) => entries.iter().for_each(|(key, value)| {
            leaves(key, found);
            leaves(value, found);
        }),
        Value::Record(record) => record.fields.iter().for_each(|(_, value)| leaves(value, found)),
        value => {
            found.insert(value.clone());
        }
    }
}
