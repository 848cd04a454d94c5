//! Timers: what is due happens by itself, before everything else, and once.

use std::collections::BTreeMap;

use enact_rebel::{Caller, Due, Instance, Reference, Source, Spec, Style, Timely, Timestamp, Violation, check, format};
use proptest::prelude::*;

use crate::support::{self, call, spec};

type World = BTreeMap<Reference, Instance>;

fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn reference(spec: &Spec, class: &str, key: &str) -> Reference {
    let class = spec.class(class).unwrap();
    class.reference(class.key(key).unwrap())
}

/// One step at `at`, behind what is due; arguments that are times in milliseconds are given as numbers.
fn step(
    spec: &Spec,
    world: &mut World,
    (class, key): (&str, &str),
    (event, arguments): (&str, &[&str]),
    at: i64,
) -> Timely {
    let declared = spec.class(class).unwrap();
    let params = declared.event(event).unwrap().params().iter();
    let texts: Vec<String> = params
        .zip(arguments)
        .map(|(param, text)| match param.ty().to_string().as_str() {
            "Timestamp" => time(text.parse().unwrap()).to_string(),
            _ => (*text).to_owned(),
        })
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let timely = spec.step_in_time(world, &reference(spec, class, key), &call(declared, event, &texts), time(at));
    world.extend(timely.after.clone());
    timely
}

/// What was due, as the event, its time, and whether it happened.
fn due(timely: &Timely) -> Vec<(String, i64, bool)> {
    let one = |happened: &enact_rebel::Happened| {
        (happened.due.event.to_string(), happened.due.time.millis(), happened.refused.is_none())
    };
    timely.due.iter().map(one).collect()
}

fn state(world: &World, spec: &Spec, class: &str, key: &str) -> String {
    world[&reference(spec, class, key)].state().to_string()
}

fn happened(event: &str, at: i64) -> (String, i64, bool) {
    (event.to_owned(), at, true)
}

fn refused(event: &str, at: i64) -> (String, i64, bool) {
    (event.to_owned(), at, false)
}

const OFFER: &str = "
    class Offer
      until: Timestamp
      pieces: Integer = 0
      ended: Timestamp
      initial draft
        on Make(end: Timestamp): open
          post: this.until = end, this.ended = end
      open
        on Touch()
          post: this.pieces += 1
        on Extend(end: Timestamp)
          post: this.until = end
        on Accept(): accepted
        internal on Expire(): expired
          post: this.ended = now
        after until: Expire
      accepted
        on Reopen(): open
      final expired
";

#[test]
fn an_event_is_due_from_the_time_of_its_timer_on_and_comes_before_everything_else() {
    let spec = spec(OFFER);
    let offer = ("Offer", "o");
    for (at, is_early) in [(4_999, true), (5_000, false), (1_000_000, false)] {
        let mut world = World::new();
        assert!(step(&spec, &mut world, offer, ("Make", &["5000"]), 0).result.is_ok());
        let timely = step(&spec, &mut world, offer, ("Accept", &[]), at);
        assert_eq!(timely.result.is_ok(), is_early, "{at}");
        let expected = if is_early { vec![] } else { vec![happened("Expire", 5_000)] };
        assert_eq!(due(&timely), expected);
        assert_eq!(state(&world, &spec, "Offer", "o"), if is_early { "accepted" } else { "expired" });
        if !is_early {
            let instance = &world[&reference(&spec, "Offer", "o")];
            assert_eq!(support::field(instance, "ended"), time(5_000).to_string(), "`now` is the time of the timer");
        }
    }
}

#[test]
fn a_timer_whose_time_is_moved_does_not_fire_at_the_old_one() {
    let spec = spec(OFFER);
    let (mut world, offer) = (World::new(), ("Offer", "o"));
    step(&spec, &mut world, offer, ("Make", &["5000"]), 0);
    step(&spec, &mut world, offer, ("Extend", &["9000"]), 4_000);
    assert!(step(&spec, &mut world, offer, ("Touch", &[]), 8_999).due.is_empty());
    let timely = step(&spec, &mut world, offer, ("Touch", &[]), 9_000);
    assert_eq!(due(&timely), [happened("Expire", 9_000)]);
}

#[test]
fn a_timer_that_was_late_already_fires_at_the_time_of_the_last_event() {
    let spec = spec(OFFER);
    let (mut world, offer) = (World::new(), ("Offer", "o"));
    step(&spec, &mut world, offer, ("Make", &["5000"]), 7_000);
    let class = spec.class("Offer").unwrap();
    let it = reference(&spec, "Offer", "o");
    let expected = Due { at: time(5_000), time: time(7_000), event: "Expire".into() };
    assert_eq!(class.due(&it.key, &world[&it]), Some(expected));
    assert_eq!(due(&step(&spec, &mut world, offer, ("Touch", &[]), 7_000)), [happened("Expire", 7_000)]);
}

#[test]
fn a_timed_event_happens_only_as_the_next_one_and_its_caller_is_the_system() {
    let spec = spec(OFFER);
    let (mut world, offer) = (World::new(), ("Offer", "o"));
    step(&spec, &mut world, offer, ("Make", &["5000"]), 0);
    let (class, it) = (spec.class("Offer").unwrap(), reference(&spec, "Offer", "o"));
    let next = class.due(&it.key, &world[&it]).unwrap();
    assert_eq!(next.call().caller(), Some(&Caller::system()));
    let wrong = Due { at: time(4_000), ..next.clone() };
    for (due, is_next) in [(next.clone(), true), (wrong, false)] {
        for call in [due.call(), due.refused()] {
            let result = spec.step(&world, &it, &call, due.time);
            assert_eq!(result.is_ok(), is_next);
            if let Err(refused) = result {
                assert!(matches!(refused.violations[..], [Violation::NotDue { .. }]), "{refused}");
            }
        }
    }
    world.extend(spec.step(&world, &it, &next.call(), next.time).unwrap().after);
    for call in [next.call(), next.refused()] {
        let refused = spec.step(&world, &it, &call, next.time).unwrap_err();
        assert!(matches!(refused.violations[..], [Violation::NotDue { .. }]), "it happens once: {refused}");
    }
}

#[test]
fn a_step_that_meets_a_due_event_is_refused_as_long_as_that_has_not_happened() {
    let spec = spec(OFFER);
    let (mut world, offer) = (World::new(), ("Offer", "o"));
    step(&spec, &mut world, offer, ("Make", &["5000"]), 0);
    let accept = call(spec.class("Offer").unwrap(), "Accept", &[]);
    let refused = spec.step(&world, &reference(&spec, "Offer", "o"), &accept, time(5_000)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Offer o.Accept: `Expire` has been due since 1970-01-01T00:00:05.000Z, and comes first"
    );
}

/// Two timers, of which the second may come first, and one of the same time as another.
const REMINDERS: &str = "
    class Loan
      first: Timestamp
      second: Timestamp
      log: Integer = 0
      initial new
        on Lend(a: Timestamp, b: Timestamp): lent
          post: this.first = a, this.second = b
      lent
        after second: Warn
        on Touch()
        on Move(a: Timestamp)
          post: this.first = a
        on Remind()
          post: this.log = log * 10 + 1
        on Warn()
          post: this.log = log * 10 + 2
        on Back(): shelved
        after first: Remind
      shelved
        on Again(): lent
";

#[test]
fn what_is_due_happens_in_the_order_of_time_and_then_of_the_text() {
    let spec = spec(REMINDERS);
    for (a, b, expected) in [("1", "2", "12"), ("2", "1", "21"), ("3", "3", "21")] {
        let mut world = World::new();
        step(&spec, &mut world, ("Loan", "l"), ("Lend", &[a, b]), 0);
        let timely = step(&spec, &mut world, ("Loan", "l"), ("Touch", &[]), 10);
        assert_eq!(support::field(&world[&reference(&spec, "Loan", "l")], "log"), expected);
        assert_eq!((timely.due.len(), timely.result.is_ok()), (2, true));
    }
}

#[test]
fn a_timer_that_stays_in_its_state_fires_once_for_each_time_and_again_when_the_state_is_entered() {
    let spec = spec(REMINDERS);
    let (mut world, loan) = (World::new(), ("Loan", "l"));
    step(&spec, &mut world, loan, ("Lend", &["5", "1000"]), 0);
    assert_eq!(due(&step(&spec, &mut world, loan, ("Touch", &[]), 6)), [happened("Remind", 5)]);
    assert_eq!(due(&step(&spec, &mut world, loan, ("Touch", &[]), 7)), []);
    step(&spec, &mut world, loan, ("Move", &["8"]), 7);
    assert_eq!(due(&step(&spec, &mut world, loan, ("Touch", &[]), 9)), [happened("Remind", 8)]);
    // Back to a time that it has fired for, and that no timer has had since.
    step(&spec, &mut world, loan, ("Move", &["5"]), 10);
    assert_eq!(due(&step(&spec, &mut world, loan, ("Touch", &[]), 11)), [happened("Remind", 10)]);
    step(&spec, &mut world, loan, ("Back", &[]), 12);
    step(&spec, &mut world, loan, ("Again", &[]), 13);
    assert_eq!(due(&step(&spec, &mut world, loan, ("Touch", &[]), 14)), [happened("Remind", 13)]);
}

const SALE: &str = "
    class Sale
      until: Timestamp
      pieces: Integer = 0
      initial new
        on Plan(end: Timestamp): planned
          post: this.until = end
      planned
        on Add()
          post: this.pieces += 1
        on Move(end: Timestamp)
          post: this.until = end
        on Stop(): stopped
        on Begin(): begun
          pre: \"nothing to sell\": pieces > 0
        after until: Begin
      stopped
        on Resume(): planned
      final begun
";

#[test]
fn a_refused_event_is_not_tried_again_until_the_state_is_entered_again_or_the_time_changes() {
    for again in [&[("Move", &["20"][..])][..], &[("Stop", &[][..]), ("Resume", &[][..])][..]] {
        let spec = spec(SALE);
        let (mut world, sale) = (World::new(), ("Sale", "s"));
        step(&spec, &mut world, sale, ("Plan", &["5"]), 0);
        let timely = step(&spec, &mut world, sale, ("Add", &[]), 6);
        assert_eq!((due(&timely), timely.result.is_ok()), (vec![refused("Begin", 5)], true));
        assert_eq!(due(&step(&spec, &mut world, sale, ("Add", &[]), 7)), [], "it would be possible by now");
        for event in again {
            assert_eq!(due(&step(&spec, &mut world, sale, *event, 8)), []);
        }
        let timely = step(&spec, &mut world, sale, ("Add", &[]), 20);
        assert_eq!(timely.due.len(), 1);
        assert_eq!(state(&world, &spec, "Sale", "s"), "begun");
    }
}

#[test]
fn an_instance_that_was_refused_is_kept_with_what_it_has_spent() {
    let spec = spec(SALE);
    let (mut world, sale) = (World::new(), ("Sale", "s"));
    step(&spec, &mut world, sale, ("Plan", &["5"]), 7);
    for (event, at) in [("Add", 8), ("Add", 9)] {
        let it = reference(&spec, "Sale", "s");
        let text = serde_json::to_string(&world[&it]).unwrap();
        world.insert(it, serde_json::from_str(&text).unwrap());
        assert_eq!(step(&spec, &mut world, sale, (event, &[]), at).due.len(), usize::from(at == 8), "{text}");
    }
}

#[test]
fn an_event_into_a_state_whose_timer_faults_is_refused() {
    let spec = spec(
        "class A
           n: Integer = 0
           until: Timestamp
           initial new
             on Make(by: Integer, end: Timestamp): made
               post: this.n = by, this.until = end
           made
             on End(): ended
             after (if n + 1 > 0 then until else until): End
           final ended",
    );
    let mut world = World::new();
    let max = i64::MAX.to_string();
    let refused = step(&spec, &mut world, ("A", "a"), ("Make", &[&max, "5"]), 0).result.unwrap_err();
    assert!(refused.to_string().contains("if n + 1 > 0 then until else until"), "{refused}");
    assert!(step(&spec, &mut world, ("A", "a"), ("Make", &["1", "5"]), 0).result.is_ok());
}

#[test]
fn a_refused_event_is_noted_beside_a_timer_that_faults() {
    let spec = spec(
        "
        class Lease
          until: Timestamp
          part: Integer = 1
          locked: Boolean = true
          initial draft
            on Make(end: Timestamp): open
              post: this.until = end
          open
            on Mend()
              post: this.part = 1
            on End(): ended
              pre: not locked
            after until: End
            after until + 1 hour * (6 div part): End
          final ended
        ",
    );
    let of = reference(&spec, "Lease", "l");
    // As a contract with fewer timers may have left it.
    let stored = r#"{ "state": "open", "fields": {
        "until": { "Timestamp": "1970-01-01T00:00:00.005Z" }, "part": { "Integer": 0 }, "locked": { "Boolean": true } } }"#;
    let lease: Instance = serde_json::from_str(stored).unwrap();
    let mut world = World::from([(of.clone(), lease)]);
    let timely = step(&spec, &mut world, ("Lease", "l"), ("Mend", &[]), 10);
    assert_eq!((due(&timely), timely.result.is_ok()), (vec![refused("End", 5)], true), "{:?}", timely.result);
    assert_eq!(support::field(&world[&of], "part"), "1");
}

#[test]
fn a_timer_without_a_time_never_fires() {
    let spec = spec(
        "class A
           until: Timestamp? = none
           initial new
             on Make(): made
           made
             on Touch()
             on Set()
               post: this.until = now + 15 minutes
             on Clear()
               post: this.until = none
             on End(): ended
             after until: End
           final ended",
    );
    let (mut world, it, quarter) = (World::new(), ("A", "a"), 15 * 60 * 1000);
    step(&spec, &mut world, it, ("Make", &[]), 0);
    assert_eq!(due(&step(&spec, &mut world, it, ("Touch", &[]), i64::MAX / 2_000_000)), []);
    step(&spec, &mut world, it, ("Set", &[]), 5);
    step(&spec, &mut world, it, ("Clear", &[]), 6);
    assert_eq!(due(&step(&spec, &mut world, it, ("Touch", &[]), quarter + 5)), []);
    step(&spec, &mut world, it, ("Set", &[]), 7);
    assert_eq!(due(&step(&spec, &mut world, it, ("Touch", &[]), quarter + 7)), [happened("End", quarter + 7)]);
}

#[test]
fn a_class_has_the_timers_of_those_that_it_extends() {
    let spec = spec(
        "
         abstract class Held(span: Duration)
           since: Timestamp
           initial new
             on Hold(): held
               post: this.since = now
           held
             on Touch()
             internal on Release(): free
             after since + span: Release
           final free
         abstract class Table(span: Duration) extends Held(span: span)
           seats: Integer = 4
         class Seat extends Table(span: 20 seconds)
           number: Integer = 0",
    );
    assert!(spec.warnings().errors().next().is_none());
    let (mut world, seat) = (World::new(), ("Seat", "s"));
    step(&spec, &mut world, seat, ("Hold", &[]), 5);
    assert_eq!(due(&step(&spec, &mut world, seat, ("Touch", &[]), 20_004)), []);
    assert_eq!(due(&step(&spec, &mut world, seat, ("Touch", &[]), 20_005)), [happened("Release", 20_005)]);
}

/// Rooms that tickets hold, for a time.
const ROOMS: &str = "
    class Room
      taken: Integer = 0
      closes: Timestamp
      initial unbuilt
        on Build(end: Timestamp): built
          post: this.closes = end
      built
        internal on Take()
          post: this.taken += 1
        internal on GiveBack()
          post: this.taken -= 1
        internal on Close(): closed
        after closes: Close
      final closed
    class Ticket
      room: Room
      until: Timestamp
      initial wished
        on Hold(of: Room, end: Timestamp): held
          post: this.room = of, this.until = end
          sync: of.Take()
      held
        on Buy(): sold
          pre: room is built
        internal on Release(): released
          sync: room.GiveBack()
        after until: Release
      final sold, released
";

#[test]
fn what_is_due_at_instances_that_are_called_or_asked_comes_first_too() {
    let spec = spec(ROOMS);
    let mut world = World::new();
    step(&spec, &mut world, ("Room", "r"), ("Build", &["100"]), 0);
    assert!(step(&spec, &mut world, ("Ticket", "a"), ("Hold", &["r", "50"]), 1).result.is_ok());
    assert!(step(&spec, &mut world, ("Ticket", "b"), ("Hold", &["r", "500"]), 1).result.is_ok());
    // Asked.
    let timely = step(&spec, &mut world.clone(), ("Ticket", "b"), ("Buy", &[]), 100);
    assert_eq!((due(&timely), timely.result.is_ok()), (vec![happened("Close", 100)], false));
    // Called by a command.
    let hold = ("Hold", &["r", "900"][..]);
    let timely = step(&spec, &mut world.clone(), ("Ticket", "c"), hold, 100);
    assert_eq!((due(&timely), timely.result.is_ok()), (vec![happened("Close", 100)], false));
    // Called by a due event at 50, which is before the room closes.
    let timely = step(&spec, &mut world, ("Ticket", "a"), ("Buy", &[]), 100);
    assert_eq!(due(&timely), [happened("Release", 50)]);
    // Called by a due event at 500, which is after it.
    let timely = step(&spec, &mut world, ("Ticket", "b"), ("Buy", &[]), 500);
    assert_eq!(due(&timely), [happened("Close", 100), refused("Release", 500)]);
    assert_eq!(state(&world, &spec, "Ticket", "b"), "held");
}

#[test]
fn a_due_event_that_an_earlier_one_ends_does_not_happen() {
    let source = "
        class Offer
          until: Timestamp
          maker: Maker
          initial draft
            on Make(end: Timestamp, by: Maker): open
              post: this.until = end, this.maker = by
          open
            on Touch()
            on Extend(end: Timestamp)
              post: this.until = end
            internal on Expire(): expired
              sync: maker.Note()
            on Withdraw(): withdrawn
            after until: Expire
          withdrawn
            on Look()
          final expired
        class Maker
          leaves: Timestamp
          offer: Offer
          longer: Timestamp? = none
          notes: Integer = 0
          initial new
            on Begin(end: Timestamp, of: Offer, then_: Timestamp?): active
              post: this.leaves = end, this.offer = of, this.longer = then_
          active
            internal on Leave(): gone
              sync:
                if longer == none: offer.Withdraw()
                if longer != none: offer.Extend(longer!)
            after leaves: Leave
          active, gone
            on Note()
              post: this.notes += 1
    ";
    let spec = spec(source);
    let (offer, maker) = (("Offer", "o"), ("Maker", "m"));
    for (then, event, left) in [("none", "Look", "withdrawn"), ("1970-01-01T00:00:01.000Z", "Touch", "open")] {
        let mut world = World::new();
        step(&spec, &mut world, offer, ("Make", &["10", "m"]), 0);
        step(&spec, &mut world, maker, ("Begin", &["5", "o", then]), 0);
        // The offer expires at 10, which meets the maker, who leaves at 5, which ends the offer or lets it go on.
        let timely = step(&spec, &mut world, offer, (event, &[]), 20);
        assert_eq!((due(&timely), timely.result.is_ok()), (vec![happened("Leave", 5)], true), "{:?}", timely.result);
        assert_eq!(state(&world, &spec, "Offer", "o"), left);
        assert_eq!(support::field(&world[&reference(&spec, "Maker", "m")], "notes"), "0");
    }
}

#[test]
fn at_most_a_hundred_due_events_come_before_one_step() {
    let source = "
        class Clock
          next: Timestamp
          step: Integer = 0
          initial new
            on Start(at: Timestamp): running
              post: this.next = at
          running
            on Touch()
            on Tick(): paused
            after next: Tick
          paused
            on Touch()
            on Tock(): running
            after next: Tock
    ";
    let spec = spec(source);
    let (mut world, clock) = (World::new(), ("Clock", "c"));
    step(&spec, &mut world, clock, ("Start", &["5"]), 0);
    let timely = step(&spec, &mut world, clock, ("Touch", &[]), 6);
    assert_eq!(timely.due.len(), 100);
    let refused = timely.result.unwrap_err();
    assert_eq!(refused.to_string(), "Clock c: a step has at most 100 due events before it");
    assert!(timely.after.contains_key(&reference(&spec, "Clock", "c")), "those that have happened stay");
}

#[test]
fn after_is_a_word_only_below_a_state_before_an_expression() {
    let source = "
        class A
          after: Timestamp
          initial new
            on Make(end: Timestamp): made
              post: this.after = end
          made
            after after: End
            on End(): ended
          final ended
        class B
          initial after
            on Go(): other
          other
    ";
    let spec = spec(source);
    let timers = spec.class("A").unwrap().timers();
    assert_eq!((timers.len(), &*timers[0].event, &*timers[0].text), (1, "End", "after"));
    assert_eq!(timers[0].states.iter().map(|state| &**state).collect::<Vec<_>>(), ["made"]);
    assert!(spec.warnings().diagnostics().is_empty(), "{}", spec.warnings());
}

#[test]
fn timers_are_laid_out_like_events_and_keep_their_comments() {
    let messy = "class A\n  until: Timestamp\n  initial new\n    on Make(t: Timestamp): made\n      post: this.until = t\n  \
                 made\n        // at last\n        after  ( until ) :End  // done\n        on End(): ended\n  final ended\n";
    let neat = "class A\n  until: Timestamp\n  initial new\n    on Make(t: Timestamp): made\n      post: this.until = t\n  \
                made\n    // at last\n    after (until): End  // done\n    on End(): ended\n  final ended\n";
    let print = |text: &str| format(Source::new("a.rebel", text), Style::default()).unwrap();
    assert_eq!(print(messy), neat);
    assert_eq!(print(neat), neat);
    assert_eq!(check(vec![Source::new("a.rebel", neat)]).unwrap().class("A").unwrap().timers().len(), 1);
}

#[test]
fn a_state_has_at_most_64_timers() {
    let source = |count: usize| {
        let timers = "    after until: End\n".repeat(count);
        format!(
            "class A\n  until: Timestamp\n  initial new\n    on Make(t: Timestamp): made\n      post: this.until = t\n  \
             made\n    on End(): ended\n{timers}  final ended\n"
        )
    };
    spec(&source(64));
    let report = check(vec![Source::new("a.rebel", source(65))]).unwrap_err();
    let said: Vec<&str> = report.errors().map(|error| error.message.as_str()).collect();
    assert_eq!(said, ["a state has at most 64 timers"]);
}

/// A second reading of the rules for one class: an offer whose event may be refused.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Naive {
    state: &'static str,
    until: i64,
    pieces: i64,
    last: i64,
    tried: Option<i64>,
}

impl Naive {
    fn catch_up(&mut self, now: i64, log: &mut Vec<(String, i64, bool)>) {
        if self.state == "planned" && self.until <= now && self.tried != Some(self.until) {
            let at = self.until.max(self.last);
            let happens = self.pieces > 0;
            if happens {
                self.state = "begun";
            }
            (self.tried, self.last) = (Some(self.until), at);
            log.push(("Begin".to_owned(), at, happens));
        }
    }

    fn act(&mut self, event: &str, end: i64, now: i64) -> bool {
        let is_allowed = match event {
            "Plan" => self.state == "new",
            "Resume" => self.state == "stopped",
            "Begin" => self.state == "planned" && self.pieces > 0,
            _ => self.state == "planned",
        };
        if !is_allowed {
            return false;
        }
        self.last = now;
        match event {
            "Plan" => (self.state, self.until) = ("planned", end),
            "Resume" => self.state = "planned",
            "Stop" => (self.state, self.tried) = ("stopped", None),
            "Begin" => self.state = "begun",
            "Move" => {
                self.until = end;
                self.tried = self.tried.filter(|tried| *tried == end);
            }
            _ => self.pieces += 1,
        }
        true
    }
}

proptest! {
    /// A naive reading of the rules agrees; and whether what is due happens at once or only when somebody looks is the same.
    #[test]
    fn it_does_not_matter_how_late_anybody_looks(
        commands in proptest::collection::vec((0..6_usize, 0..40_i64, 0..8_i64, any::<bool>()), 1..30),
    ) {
        const EVENTS: [&str; 6] = ["Plan", "Add", "Move", "Stop", "Resume", "Begin"];
        let spec = spec(SALE);
        let (sale, it) = (("Sale", "s"), reference(&spec, "Sale", "s"));
        let class = spec.class("Sale").unwrap();
        let (mut lazy, mut eager) = (World::new(), World::new());
        let mut naive = Naive { state: "new", until: 0, pieces: 0, last: 0, tried: None };
        let mut now = 0;
        for (event, end, later, looks) in commands {
            now += later;
            if looks {
                // Somebody fires what is due, at some time after it was due.
                while let Some(due) = eager.get(&it).and_then(|found| class.due(&it.key, found)).filter(|due| due.at <= time(now)) {
                    let done = spec.step(&eager, &it, &due.call(), due.time);
                    let done = done.or_else(|_| spec.step(&eager, &it, &due.refused(), due.time)).unwrap();
                    eager.extend(done.after);
                }
            }
            let end = end.to_string();
            let arguments = [end.as_str()];
            let arguments = if matches!(EVENTS[event], "Plan" | "Move") { &arguments[..] } else { &[] };
            let late = step(&spec, &mut lazy, sale, (EVENTS[event], arguments), now);
            let early = step(&spec, &mut eager, sale, (EVENTS[event], arguments), now);
            prop_assert_eq!(late.result.is_ok(), early.result.is_ok());
            prop_assert_eq!(&lazy, &eager);
            let mut log = Vec::new();
            naive.catch_up(now, &mut log);
            let is_accepted = naive.act(EVENTS[event], end.parse().unwrap(), now);
            prop_assert_eq!((due(&late), late.result.is_ok()), (log, is_accepted));
            if let Some(found) = lazy.get(&it) {
                prop_assert_eq!(&**found.state(), naive.state);
            }
        }
    }
}

#[test]
fn what_a_timer_has_come_to_is_not_forgotten_when_the_contract_changes() {
    let text = "class Bell
  at: Timestamp
  rings: Integer = 0
  initial made
    on Set(to: Timestamp): waiting
      post: this.at = to
  waiting
    internal on Ring()
      post: this.rings += 1
    on Touch()
    after at: Ring
";
    let earlier = spec(text);
    let renamed = text.replace("waiting", "set_").replace("rings", "times");
    let later = spec(&format!(
        "module bells version 2\n{renamed}migrate from 1\n  state Bell.waiting -> set_\n  rename Bell.rings to times\n"
    ));
    let mut world = World::new();
    step(&earlier, &mut world, ("Bell", "b"), ("Set", &["100"]), 10);
    let rung = step(&earlier, &mut world, ("Bell", "b"), ("Touch", &[]), 150);
    assert_eq!(due(&rung), [happened("Ring", 100)]);

    let bell = reference(&earlier, "Bell", "b");
    let migration = later.migration(&earlier).unwrap_or_else(|report| panic!("{report}"));
    let migrated = migration.instance("Bell", &bell.key, &world[&bell]).expect("a value").expect("not dropped");
    assert_eq!(later.class("Bell").expect("the class").due(&bell.key, &migrated), None, "it has rung at that time");
    world.insert(bell, migrated);
    assert_eq!(due(&step(&later, &mut world, ("Bell", "b"), ("Touch", &[]), 200)), []);
}
