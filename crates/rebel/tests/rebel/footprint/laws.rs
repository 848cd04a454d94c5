//! What footprints promise, checked against the interpreter.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use enact_rebel::footprint::{Commutes, Footprint, Mode, Place};
use enact_rebel::{Action, Class, Event, EventCall, Instance, Reference, Spec, Value};

use super::outcome::{Outcome, after, outcome};
use super::places::{Meaning, Spot, differences, edits, has};
use crate::chance::Chance;
use crate::universe::{Universe, World};

const READS: [Mode; 2] = [Mode::Read, Mode::Question];

/// How much is tried of each event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Steps to choose from.
    pub(crate) tried: usize,
    /// Steps that are looked at, of those that happen and of those that are refused.
    pub(crate) kept: [usize; 2],
    /// Instances that differ in one place from one of such a step.
    pub(crate) neighbours: usize,
    /// Pairs of steps.
    pub(crate) pairs: usize,
}

/// How often something was met that a law speaks of. A run that meets none of it shows nothing.
#[derive(Debug, Default)]
pub(crate) struct Met {
    pub(crate) accepted: Cell<usize>,
    pub(crate) refused: Cell<usize>,
    /// Places that no footprint reads.
    pub(crate) irrelevant: Cell<usize>,
    /// Places that are only tested.
    pub(crate) tested: Cell<usize>,
    /// By mode, in the order of the modes.
    pub(crate) written: [Cell<usize>; 4],
    pub(crate) asked: Cell<usize>,
    pub(crate) called: Cell<usize>,
    pub(crate) commuting: Cell<usize>,
    /// Two steps that change one place, and commute.
    pub(crate) together: Cell<usize>,
    /// Events that were never accepted.
    pub(crate) never: RefCell<Vec<String>>,
}

impl Met {
    /// Everything was met.
    pub(crate) fn all(&self) {
        let Self { accepted, refused, irrelevant, tested, written, asked, called, commuting, together, .. } = self;
        let marks = [accepted, refused, irrelevant, tested, asked, called, commuting, together];
        assert!(marks.into_iter().chain(written).all(|mark| mark.get() > 0), "{self:?}");
    }

    /// What these specifications can show was met.
    pub(crate) fn these<const N: usize>(&self, marks: impl Fn(&Self) -> [&Cell<usize>; N]) {
        assert!(marks(self).into_iter().all(|mark| mark.get() > 0), "{self:?}");
    }
}

fn meet(mark: &Cell<usize>) {
    mark.set(mark.get() + 1);
}

/// A step, and what it shows.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    world: World,
    root: Reference,
    call: EventCall,
    outcome: Outcome,
}

pub(crate) struct Laws<'u> {
    pub(crate) universe: &'u Universe<'u>,
    pub(crate) source: &'u str,
    pub(crate) met: &'u Met,
}

impl<'u> Laws<'u> {
    fn spec(&self) -> &'u Spec {
        self.universe.spec
    }

    /// Checks some steps of each event that is meant.
    pub(crate) fn some(&self, chance: &mut Chance, effort: Effort, is_meant: impl Fn(&Footprint) -> bool) {
        let is_kept_here = |footprint: &Footprint| !self.spec().class(footprint.class()).unwrap().is_external();
        let meant = |footprint: &Footprint| is_kept_here(footprint) && is_meant(footprint);
        let footprints: Vec<Footprint> = self.spec().footprints().filter(meant).collect();
        let mut accepted = Vec::new();
        for footprint in &footprints {
            let class = self.spec().class(footprint.class()).unwrap();
            let event = class.event(footprint.event()).unwrap();
            let steps = self.steps(chance, class, event, effort);
            if !steps.iter().any(|step| step.outcome.is_accepted()) {
                self.met.never.borrow_mut().push(format!("{}.{}", class.name(), event.name()));
            }
            for step in steps {
                self.single(footprint, &step);
                self.neighbours(chance, footprint, &step, effort);
                if step.outcome.is_accepted() {
                    accepted.push((footprint, step));
                }
            }
        }
        for _ in 0..if accepted.is_empty() { 0 } else { effort.pairs * footprints.len() } {
            let [(one, first), (other, second)] = [0; 2].map(|_: usize| &accepted[chance.below(accepted.len())]);
            // Most are of one instance.
            let is_alike = first.root.class == second.root.class && chance.below(4) > 0;
            let root = if is_alike { &first.root } else { &second.root };
            self.pair((one, first), (other, root, &second.call));
        }
    }

    /// Checks all calls of the events of one class in all states of one instance, in a world with some others; of the pairs of
    /// calls one in so many.
    pub(crate) fn all(&self, root: &Reference, states: &[Instance], others: &World, calls: &[EventCall], pairs: usize) {
        let footprints: Vec<Footprint> = self.spec().footprints().collect();
        let world = |instance: &Instance| {
            let mut world = others.clone();
            world.insert(root.clone(), instance.clone());
            world
        };
        let is_near = |a: &Instance, b: &Instance| differences(a, b).len() == 1;
        let near: Vec<Vec<usize>> = states
            .iter()
            .map(|one| (0..states.len()).filter(|other| is_near(one, &states[*other])).collect())
            .collect();
        for (turn, call) in calls.iter().enumerate() {
            let is_its_own =
                |footprint: &&Footprint| *footprint.class() == root.class && footprint.event() == call.event();
            let footprint = footprints.iter().find(is_its_own).unwrap();
            let step = |instance| {
                let world = world(instance);
                let outcome = outcome(self.spec(), &world, root, call)?;
                Some(Step { world, root: root.clone(), call: call.clone(), outcome })
            };
            let steps: Vec<Option<Step>> = states.iter().map(step).collect();
            for (index, (step, near)) in steps.iter().zip(&near).enumerate() {
                let Some(step) = step else { continue };
                self.single(footprint, step);
                let near = near.iter().filter_map(|other| steps[*other].as_ref());
                near.for_each(|other| self.compare(footprint, step, other, root));
                if step.outcome.is_accepted() {
                    for other in calls.iter().skip((turn + index) % pairs).step_by(pairs) {
                        let its_own = footprints
                            .iter()
                            .find(|known| *known.class() == root.class && known.event() == other.event());
                        self.pair((footprint, step), (its_own.unwrap(), root, other));
                    }
                }
            }
        }
    }

    /// Some steps that happen, and some that are refused, each for other reasons. What refuses one is changed for the next.
    fn steps(&self, chance: &mut Chance, class: &Class, event: &Event, effort: Effort) -> Vec<Step> {
        let [mut accepted, mut refused] = effort.kept;
        let (mut steps, mut seen): (Vec<Step>, Vec<Vec<String>>) = (Vec::new(), Vec::new());
        let roots = self.universe.references(class);
        let sources: Vec<&str> = event.transitions().map(|(source, _)| &**source).collect();
        let fresh = |chance: &mut Chance| {
            let (mut world, root) = (self.universe.world(chance), roots[chance.below(roots.len())].clone());
            let source = sources[chance.below(sources.len())];
            world.insert(root.clone(), self.universe.instance_in(chance, class, source));
            (world, root, self.universe.call(chance, event))
        };
        let (mut world, mut root, mut call) = fresh(chance);
        for _ in 0..effort.tried {
            if accepted + refused == 0 {
                break;
            }
            let Some(outcome) = outcome(self.spec(), &world, &root, &call) else {
                (world, root, call) = fresh(chance);
                continue;
            };
            let step = Step { world: world.clone(), root: root.clone(), call: call.clone(), outcome };
            match &step.outcome {
                Outcome::Refused { at, reasons, .. } => {
                    let at = at.clone();
                    if refused > 0 && !seen.contains(reasons) {
                        refused -= 1;
                        seen.push(reasons.clone());
                        steps.push(step);
                    }
                    match chance.below(8) {
                        0 => (world, root, call) = fresh(chance),
                        1..4 => call = self.universe.call(chance, event),
                        _ => {
                            let class = self.spec().class(&at.class).unwrap();
                            let source = sources[chance.below(sources.len())];
                            let instance = match at == root {
                                true => self.universe.instance_in(chance, class, source),
                                false => self.universe.instance(chance, class),
                            };
                            world.insert(at, instance);
                        }
                    }
                }
                Outcome::Accepted { .. } => {
                    if accepted > 0 {
                        accepted -= 1;
                        steps.push(step);
                    }
                    (world, root, call) = fresh(chance);
                }
            }
        }
        steps
    }

    fn single(&self, footprint: &Footprint, step: &Step) {
        assert!(footprint.is_complete());
        meet(if step.outcome.is_accepted() { &self.met.accepted } else { &self.met.refused });
        self.meets_what_it_names(footprint, step);
        self.changes_what_it_writes(footprint, step);
    }

    fn neighbours(&self, chance: &mut Chance, footprint: &Footprint, step: &Step, effort: Effort) {
        // Half of what is tried is the instance of the event itself.
        let others: Vec<&Reference> = step.world.keys().collect();
        for turn in 0..effort.neighbours {
            let of = if turn % 2 == 0 { &step.root } else { others[chance.below(others.len())] };
            let class = self.spec().class(&of.class).unwrap();
            let edits = edits(self.universe, class, &step.world[of]);
            if let Some(edit) = edits.get(chance.below(edits.len().max(1))) {
                self.neighbour(footprint, step, of, edit.apply(&step.world[of]));
            }
        }
    }

    /// Every instance that a step touches or asks, or that refuses it, has a term; and each of its calls and questions a touch.
    fn meets_what_it_names(&self, footprint: &Footprint, step: &Step) {
        let meaning = self.meaning(step);
        for met in step.outcome.met() {
            let is_named = footprint.touches().iter().any(|touch| meaning.is_of(touch, met));
            assert!(is_named, "{met} is named by nothing: {}", self.told(footprint, step));
        }
        let Outcome::Accepted { tasks, .. } = &step.outcome else { return };
        for (place, at, action) in tasks {
            let is_right = |place: &Place, mode: Mode| match action {
                Action::Do(call) => mode == Mode::Call && *place == Place::Event(call.event().clone()),
                _ => mode == Mode::Question,
            };
            // The event itself is a task too.
            let is_root = matches!(action, Action::Do(call) if *at == step.root && call.event() == footprint.event());
            if is_root {
                continue;
            }
            meet(if matches!(action, Action::Do(_)) { &self.met.called } else { &self.met.asked });
            let mut touches = footprint.touches().iter();
            let is_named = touches.any(|touch| is_right(&touch.place, touch.mode) && meaning.is_of(touch, at));
            assert!(is_named, "{place} {at} {action:?}: {}", self.told(footprint, step));
        }
    }

    /// Every place that a step changes has a touch that writes.
    fn changes_what_it_writes(&self, footprint: &Footprint, step: &Step) {
        let Outcome::Accepted { after: changed, .. } = &step.outcome else { return };
        let meaning = self.meaning(step);
        for (of, now) in changed {
            let before = self.before(&step.world, of);
            for spot in differences(&before, now) {
                let touches = meaning.touches(footprint, of, &spot, (&before, now));
                let modes = match (spot.content(&before), spot.content(now), &spot) {
                    (_, Some(Value::Boolean(is_in)), Spot::Element(..)) => {
                        [if is_in { Mode::Insert } else { Mode::Delete }, Mode::Assign]
                    }
                    (Some(_), None, Spot::Entry(..)) => [Mode::Delete, Mode::Assign],
                    (_, _, Spot::State) => [Mode::Assign; 2],
                    _ => [Mode::Add, Mode::Assign],
                };
                let written: Vec<Mode> =
                    touches.iter().map(|touch| touch.mode).filter(|mode| modes.contains(mode)).collect();
                assert!(!written.is_empty(), "{spot:?} of {of} changes: {}", self.told(footprint, step));
                for mode in written {
                    let index =
                        [Mode::Add, Mode::Insert, Mode::Delete, Mode::Assign].iter().position(|known| *known == mode);
                    meet(&self.met.written[index.unwrap()]);
                }
                // Whether it exists is a place of its own.
                if spot == Spot::State {
                    let initial = self.spec().class(&of.class).unwrap().initial();
                    let is_created = before.state() == initial.state();
                    let says_so =
                        touches.iter().any(|touch| touch.place == Place::Existence && touch.mode == Mode::Assign);
                    assert!(!is_created || says_so, "{of} begins to exist: {}", self.told(footprint, step));
                }
            }
        }
    }

    /// The same call where one instance differs in one place.
    fn neighbour(&self, footprint: &Footprint, step: &Step, of: &Reference, other: Instance) {
        let mut world = step.world.clone();
        world.insert(of.clone(), other);
        if let Some(outcome) = outcome(self.spec(), &world, &step.root, &step.call) {
            self.compare(footprint, step, &Step { world, outcome, ..step.clone() }, of);
        }
    }

    /// What a step shows does not depend on a place that no touch reads.
    fn compare(&self, footprint: &Footprint, step: &Step, changed: &Step, of: &Reference) {
        let (before, other) = (self.before(&step.world, of), self.before(&changed.world, of));
        let spots = differences(&before, &other);
        let [spot] = spots.iter().collect::<Vec<_>>()[..] else { panic!("{spots:?}") };
        let told = || format!("{spot:?} of {of}, otherwise {:?}: {}", changed.outcome, self.told(footprint, step));

        let mut touches = self.meaning(step).touches(footprint, of, spot, (&before, &other));
        touches.extend(self.meaning(changed).touches(footprint, of, spot, (&before, &other)));
        if has(&touches, &READS) {
            return;
        }
        let is_tested = has(&touches, &[Mode::Test]);
        meet(if is_tested { &self.met.tested } else { &self.met.irrelevant });
        if is_tested {
            self.lies_together(footprint, step, (of, &other, spot));
        }
        let (
            Outcome::Accepted { after: a, tasks, result },
            Outcome::Accepted { after: b, tasks: others, result: second },
        ) = (&step.outcome, &changed.outcome)
        else {
            let lacks_sum =
                has(&touches, &[Mode::Add]) && [step, changed].iter().any(|step| step.outcome.is_without_sum());
            assert!(is_tested || lacks_sum || step.outcome == changed.outcome, "{}", told());
            return;
        };
        assert_eq!((tasks, result), (others, second), "{}", told());
        let touched = |after: &World| after.keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(touched(a), touched(b), "{}", told());
        for reference in a.keys() {
            let differs = differences(&a[reference], &b[reference]);
            let is_same = differs.iter().all(|differing| reference == of && differing == spot);
            assert!(is_same, "{differs:?} of {reference}: {}", told());
        }
        self.makes_what_it_says(&touches, (step, changed), of, spot, &told);
    }

    /// The place itself, which nothing reads, keeps its content in both, gets the same in both, or gets as much more in both.
    fn makes_what_it_says(
        &self,
        touches: &[&enact_rebel::footprint::Touch],
        (one, other): (&Step, &Step),
        of: &Reference,
        spot: &Spot,
        told: &dyn Fn() -> String,
    ) {
        let contents = [one, other].map(|step| {
            let after = after(self.spec(), &step.world, &step.outcome, of);
            (spot.content(&self.before(&step.world, of)), spot.content(&after))
        });
        let [(before, now), (other, then)] = &contents;
        let is_kept = before == now && other == then;
        let is_put = has(touches, &[Mode::Assign, Mode::Insert, Mode::Delete]) && now == then;
        let more = |before: &Option<Value>, after: &Option<Value>| {
            let (before, after) = (before.as_ref()?, after.as_ref()?);
            (before.currency() == after.currency()).then_some(after.number()? - before.number()?)
        };
        let is_added =
            has(touches, &[Mode::Add]) && more(before, now).is_some() && more(before, now) == more(other, then);
        assert!(is_kept || is_put || is_added, "{contents:?}: {}", told());
    }

    /// The numbers in a place with which the call is accepted, everything else the same, lie together.
    fn lies_together(&self, footprint: &Footprint, step: &Step, (of, like, spot): (&Reference, &Instance, &Spot)) {
        let Spot::Field(name) = spot else { return };
        let class = self.spec().class(&of.class).unwrap();
        let field = class.fields().iter().find(|field| field.name() == name).unwrap();
        let currency = |value: &Value| value.currency();
        let unit = like.fields().get(name).and_then(currency);
        let mut values = self.universe.values(field.ty());
        values.retain(|value| currency(value) == unit && value.number().is_some());
        values.sort_by_key(Value::number);
        let verdict = |value: &Value| {
            let fields = like
                .fields()
                .iter()
                .map(|(other, old)| (other.clone(), if other == name { value } else { old }.clone()));
            let mut world = step.world.clone();
            world.insert(of.clone(), crate::universe::instance(like.state(), fields));
            outcome(self.spec(), &world, &step.root, &step.call).is_some_and(|outcome| outcome.is_accepted())
        };
        let verdicts: Vec<bool> = values.iter().map(verdict).collect();
        let changes = verdicts.windows(2).filter(|pair| pair[0] != pair[1]).count();
        let is_together = changes < 2 || changes == 2 && !verdicts[0];
        assert!(is_together, "{name} of {of}: {values:?} {verdicts:?} {}", self.told(footprint, step));
    }

    /// Two steps whose footprints commute do: neither decides on the other, and their order does not show.
    fn pair(&self, (one, first): (&Footprint, &Step), (other, root, call): (&Footprint, &Reference, &EventCall)) {
        let world = &first.world;
        let (meaning, other_meaning) = (self.meaning(first), Meaning { spec: self.spec(), world, root, call });
        let mut meets = false;
        for touch in one.touches() {
            for other in other.touches() {
                if meaning.may_meet(touch, (other, &other_meaning)) {
                    if touch.commutes(other) != Commutes::Always {
                        return;
                    }
                    meets |=
                        touch.mode.is_write() && touch.mode == other.mode && touch.place.field() == other.place.field();
                }
            }
        }
        let told = || format!("{root} {call} beside {}", self.told(one, first));
        let run = |world: &World| outcome(self.spec(), world, root, call);
        let after_first = self.world_after(world, &first.outcome);
        let (Some(alone), Some(behind)) = (run(world), run(&after_first)) else { return };
        assert_eq!(alone.is_accepted(), behind.is_accepted(), "behind it {behind:?}, alone {alone:?}: {}", told());
        if !alone.is_accepted() {
            return;
        }
        let after_second = self.world_after(world, &alone);
        let Some(before) = outcome(self.spec(), &after_second, &first.root, &first.call) else { return };
        assert!(before.is_accepted(), "{before:?}: {}", told());
        let (a, b) = (self.world_after(&after_first, &behind), self.world_after(&after_second, &before));
        let differs: Vec<_> = a.keys().filter(|key| !differences(&a[*key], &b[*key]).is_empty()).collect();
        assert!(differs.is_empty(), "{differs:?}: {}", told());
        let result = |outcome: &Outcome| match outcome {
            Outcome::Accepted { result, .. } => result.clone(),
            Outcome::Refused { .. } => None,
        };
        assert_eq!(result(&alone), result(&behind), "{}", told());
        assert_eq!(result(&first.outcome), result(&before), "{}", told());
        meet(&self.met.commuting);
        if meets {
            meet(&self.met.together);
        }
    }

    fn world_after(&self, world: &World, outcome: &Outcome) -> World {
        let mut world = world.clone();
        if let Outcome::Accepted { after, .. } = outcome {
            world.extend(after.clone());
        }
        world
    }

    fn meaning<'m>(&'m self, step: &'m Step) -> Meaning<'m> {
        Meaning { spec: self.spec(), world: &step.world, root: &step.root, call: &step.call }
    }

    fn before(&self, world: &World, of: &Reference) -> Instance {
        world.get(of).cloned().unwrap_or_else(|| self.spec().class(&of.class).unwrap().initial())
    }

    fn told(&self, footprint: &Footprint, step: &Step) -> String {
        let touches: Vec<String> = footprint.touches().iter().map(ToString::to_string).collect();
        let Step { world, root, call, outcome } = step;
        format!(
            "{root} {call} by {:?} is {outcome:?} in {world:#?}, with the touches\n{}\nunder\n{}",
            call.caller(),
            touches.join("\n"),
            self.source
        )
    }
}
