//! What transactions of one kind do.

use std::sync::Arc;

use enact_entities::{Action, Condition, EntityKey, Model, Question, Rebel, Timestamp, Work};
use enact_models::Chance;
use enact_rebel::{Event, EventCall, Instance, Source, Type, Value, check};

const GOAL: &str = include_str!("goal.rebel");
const LEASE: &str = include_str!("lease.rebel");

/// A kind of transactions, at one class.
pub(crate) struct Mix {
    pub(crate) name: &'static str,
    pub(crate) key: EntityKey,
    pub(crate) model: Arc<Rebel>,
    /// What is drawn from; what stands there twice is drawn twice as often.
    events: Vec<&'static str>,
    /// How many actions a transaction has at most.
    actions_max: usize,
    /// How many of a hundred actions are conditions, or questions.
    demands: usize,
    /// What a scenario may begin in.
    bases: Vec<Instance>,
    /// The time of an event lies before.
    time_end: usize,
}

impl Mix {
    pub(crate) fn all() -> Vec<Self> {
        let numbers = ["Save", "Save", "Take", "Take", "Limit", "Boast", "Pledge", "Need", "Side", "Lower"];
        let functions = ["Save", "Take", "Double", "Turn", "Copy", "Judge", "Rest", "Need", "Boast", "Lower"];
        let money = ["Price", "Discount", "Discount", "Thirds", "Save", "Take"];
        let sets = ["Join", "Leave", "Clear", "Mark", "Unmark", "Seek", "Note", "Read"];
        let contents =
            ["Freeze", "Thaw", "Rest", "Name", "Keep", "Rank", "Spend", "Postpone", "Remind", "Trust", "Lean", "Take"];
        let life_cycle = ["Pause", "Resume", "Save", "Pledge", "Double", "Take"];
        let everything = [&numbers[..], &functions, &money, &sets, &contents, &life_cycle].concat();
        let leases = [
            "Use", "Use", "Most", "Tag", "Tag", "Untag", "Name", "Double", "Extend", "Plan", "Rent", "Tick", "Pause",
            "End", "Park", "Unpark", "Resume",
        ];
        let goal = |name, events: &[&'static str], actions_max, demands| {
            let (model, key) = (model(GOAL), EntityKey::new("Goal", "boat").expect("a key"));
            let bases = vec![opened(&model, &key)];
            Self { name, key, model, events: events.to_vec(), actions_max, demands, bases, time_end: 1 }
        };
        let mut below = goal("below an invariant", &everything, 1, 0);
        below.bases =
            [(-9, 0), (-1, -6), (-5, -5), (0, -4)].map(|(limit, pledge)| below.lowered(limit, pledge)).to_vec();
        let lease = |name, actions_max, demands| {
            let (model, key) = (model(LEASE), EntityKey::new("Lease", "l").expect("a key"));
            let bases = vec![rented(&model, &key)];
            Self { name, key, model, events: leases.to_vec(), actions_max, demands, bases, time_end: 9 }
        };
        vec![
            goal("numbers", &numbers, 1, 0),
            goal("functions", &functions, 1, 0),
            goal("money", &money, 1, 0),
            goal("sets and lists", &sets, 1, 0),
            goal("contents", &contents, 1, 0),
            goal("life cycle", &life_cycle, 1, 0),
            goal("all events", &everything, 1, 0),
            goal("several events", &everything, 3, 0),
            goal("demands", &everything, 1, 60),
            goal("events and demands", &everything, 3, 40),
            below,
            lease("timers", 1, 0),
            lease("timers, events and demands", 3, 30),
        ]
    }

    pub(crate) fn base(&self, chance: &mut Chance) -> &Instance {
        &self.bases[chance.below(self.bases.len())]
    }

    pub(crate) fn time(&self, chance: &mut Chance) -> Timestamp {
        Timestamp(i64::try_from(chance.below(self.time_end)).expect("small"))
    }

    pub(crate) fn work(&self, chance: &mut Chance) -> Work<EventCall> {
        let count = 1 + chance.below(self.actions_max);
        let action = |_| if chance.percent(self.demands) { self.demand(chance) } else { self.event(chance) };
        let work = Work::of((0..count).map(action));
        Work { to_change: chance.percent(20), ..work }
    }

    fn event(&self, chance: &mut Chance) -> Action<EventCall> {
        Action::Event(self.call(chance))
    }

    /// What another entity wants to hold, or asks.
    fn demand(&self, chance: &mut Chance) -> Action<EventCall> {
        let class = self.model.spec().class(self.key.class()).expect("the class");
        let states: Vec<_> = class.states().iter().map(|state| state.name().to_string()).collect();
        let state = states[chance.below(states.len())].clone();
        let fields: Vec<_> = class.fields().iter().map(|field| field.name().to_string()).collect();
        match chance.below(7) {
            0 => Action::Condition(Condition::in_state([state], "its state")),
            1 => Action::Condition(Condition::initialized("it exists")),
            2 => Action::Condition(Condition::impossible(self.call(chance), "it cannot")),
            3 => Action::Ask(Question::InState(vec![state])),
            4 => Action::Ask(Question::Possible(self.call(chance))),
            _ => Action::Ask(Question::Field(fields[chance.below(fields.len())].clone())),
        }
    }

    fn call(&self, chance: &mut Chance) -> EventCall {
        let event = declared(&self.model, &self.key, chance.pick(&self.events));
        let arguments = event.params().iter().map(|param| (&**param.name(), argument(param.ty(), chance)));
        event.call(arguments.collect::<Vec<_>>()).expect("they fit")
    }

    /// A goal with this limit and this pledge, which may be too low: an earlier contract had no such rules.
    fn lowered(&self, limit: i64, pledge: i64) -> Instance {
        let rules =
            ["  invariant saved + limit >= 0\n", "  invariant saved + pledge >= 0\n", "      pre: saved + to >= 0\n"];
        let lax = model(&rules.iter().fold(GOAL.to_owned(), |text, rule| text.replace(rule, "")));
        let steps = [("Limit", limit), ("Pledge", pledge)];
        steps.into_iter().fold(opened(&lax, &self.key), |goal, (name, to)| {
            happens(&lax, &self.key, &goal, name, [Value::Integer(to)])
        })
    }
}

fn model(contract: &str) -> Arc<Rebel> {
    let spec = check(vec![Source::new("decider.rebel", contract)]);
    Arc::new(Rebel::new(spec.unwrap_or_else(|report| panic!("{}", report.render(false))).into()))
}

fn declared<'a>(model: &'a Rebel, key: &EntityKey, name: &str) -> &'a Event {
    model.spec().class(key.class()).and_then(|class| class.event(name)).expect("the event")
}

fn happens<const N: usize>(
    model: &Rebel,
    key: &EntityKey,
    state: &Instance,
    name: &str,
    arguments: [Value; N],
) -> Instance {
    let event = declared(model, key, name);
    let names = event.params().iter().map(|param| &**param.name());
    let event = event.call(names.zip(arguments).collect::<Vec<_>>()).expect("they fit");
    model.next(key, state, &event, Timestamp(0)).expect("possible")
}

/// The goal after its start, with 3 saved, a limit of 2 and one saver.
fn opened(model: &Rebel, key: &EntityKey) -> Instance {
    let new = model.initial(key).expect("the class");
    let started = happens(model, key, &new, "Start", []);
    let integers = [("Save", 3), ("Limit", 2), ("Join", 1)];
    integers.into_iter().fold(started, |goal, (name, n)| happens(model, key, &goal, name, [Value::Integer(n)]))
}

/// A lease that ends at 7.
fn rented(model: &Rebel, key: &EntityKey) -> Instance {
    let end = Value::Timestamp(enact_rebel::Timestamp::from_millis(7));
    happens(model, key, &model.initial(key).expect("the class"), "Rent", [end])
}

/// One of few values, so that transactions meet.
fn argument(ty: &Type, chance: &mut Chance) -> Value {
    let texts: &[&str] = match ty {
        Type::Integer => return Value::Integer(chance.pick(&[-6, -2, -1, 0, 1, 1, 2, 2, 3, 4, 6, 10])),
        Type::Timestamp => {
            let time = 4 + i64::try_from(chance.below(6)).expect("small");
            return Value::Timestamp(enact_rebel::Timestamp::from_millis(time));
        }
        Type::Money => &["EUR 1.00", "EUR 3.00", "USD 1.00"],
        Type::Percentage => &["50%", "200%"],
        Type::Date => &["2026-05-01", "2026-06-01", "2026-07-01"],
        Type::Enum(_) => &["plain", "gold", "black"],
        Type::Optional(_) if chance.percent(40) => return Value::None,
        Type::Optional(of) => return argument(of, chance),
        Type::String => &["", "a", "none"],
        other => unreachable!("no event takes {other}"),
    };
    Value::parse(ty, chance.pick(texts)).expect("of its type")
}
