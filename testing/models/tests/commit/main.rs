//! The commit protocol between journals, exhaustively: every order in which messages arrive, are lost and doubled, records become
//! durable and nodes crash, of the production machines.
//!
//! `ENACT_SCENARIOS=all` explores those, too, that the gate has no time for; an argument names one alone.
//!
//! In each state that is reached, nothing has gone wrong, and two futures of it end well: one in which all that is on the way
//! arrives, and one in which it is lost.

mod scenarios;

use std::sync::Arc;
use std::time::Instant;

use enact_entities::Rebel;
use enact_models::{Action, Protocol, Scenario, State};
use scenarios::{Named, SCENARIOS};
use stateright::{Checker, Expectation, Model, Property};

struct Explored(Arc<Protocol<Rebel>>);

impl Model for Explored {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.0.start()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.0.actions(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        Some(self.0.next(state, action))
    }

    fn format_action(&self, action: &Action) -> String {
        self.0.show(*action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let always = |name, condition| Property { expectation: Expectation::Always, name, condition };
        let holds: fn(&Self, &State) -> bool = |model, state| model.0.breach(state).is_none();
        let ends: fn(&Self, &State) -> bool = |model, state| model.0.ends_well(state, false);
        let ends_lost: fn(&Self, &State) -> bool = |model, state| model.0.ends_well(state, true);
        vec![
            always("no promise is broken on the way", holds),
            always("all ends well if what is on the way arrives", ends),
            always("all ends well if what is on the way is lost", ends_lost),
        ]
    }
}

/// Explores a scenario, and gives the number of states.
fn explore(scenario: Scenario<Rebel>) -> usize {
    let protocol = Arc::new(Protocol::new(scenario));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let checker = Explored(Arc::clone(&protocol)).checker().threads(threads).spawn_bfs().join();
    if let Some((property, path)) = checker.discoveries().into_iter().next() {
        let last = path.last_state().clone();
        let steps: Vec<_> = path.into_actions().into_iter().map(|action| protocol.show(action)).collect();
        let ends = [false, true].into_iter().find_map(|is_lost| protocol.end(&last, is_lost).err());
        let why = protocol.breach(&last).or(ends).unwrap_or_default();
        eprintln!("{property}: {why} after\n{}", steps.join("\n"));
        std::process::exit(1);
    }
    checker.unique_state_count()
}

fn main() {
    let chosen = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    let is_deep = std::env::var("ENACT_SCENARIOS").is_ok_and(|scenarios| scenarios == "all");
    let is_explored = |named: &&Named| match &chosen {
        Some(name) => named.name == name,
        None => is_deep || !named.is_deep,
    };
    for Named { name, scenario, states, .. } in SCENARIOS.iter().filter(is_explored) {
        let begun = Instant::now();
        let found = explore(scenario());
        println!("{name}: {found} states in {:.1} s", begun.elapsed().as_secs_f64());
        if let Some(states) = states {
            assert_eq!(
                found, *states,
                "{name} has as many states as ever: if a change is meant to change that, say so here"
            );
        }
    }
}
