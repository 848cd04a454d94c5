//! Several events of one transaction on one entity: what admission says of them against the exact decider, and what the
//! protocol makes of them against one step in one place.

use std::collections::BTreeMap;
use std::sync::Arc;

use enact_entities::{
    Action, Admission, Attempt, Branch, Condition, Decision, Durability, EntityKey, Input, Limits, Millis, Model,
    Output, Participant, ParticipantOptions, Prepare, Rebel, Request, Said, Slot, Strategy, Timestamp, Verdict, Vote,
    Work,
};
use enact_rebel::{EventCall, Instance, Reference, Source, Spec, Value, check};

use crate::support::bank::{Bank, Event, EventOf, Hand, InRebel, State, StateOf};
use crate::support::chance::{Chance, for_seeds};
use crate::support::world::Net;
use crate::support::{key, tx};

type WorkOf<B> = Work<EventOf<B>>;

fn random_work<B: Bank>(chance: &mut Chance) -> WorkOf<B> {
    let actions = (0..1 + chance.below(4)).map(|_| {
        let amount = 1 + chance.below(60) as i64;
        match chance.below(12) {
            0..=3 => Action::Event(B::deposit(amount)),
            4..=7 => Action::Event(B::withdraw(amount)),
            8 => Action::Event(B::interest(10)),
            9 => Action::Event(B::close()),
            10 => Action::Condition(Condition::impossible(B::withdraw(amount), "it must be poor")),
            _ => Action::Condition(Condition::in_state(["opened"], "it must be open")),
        }
    });
    Work::of(actions)
}

/// What the work makes of a state, by the plainest fold.
fn fold<B: Bank>(model: &B::Model, before: &StateOf<B>, work: &WorkOf<B>) -> Option<StateOf<B>> {
    let account = key(B::ACCOUNT);
    let mut state = before.clone();
    for action in &work.actions {
        let next = |event| model.next(&account, &state, event, Timestamp(0)).ok();
        match action {
            Action::Event(event) => state = next(event)?,
            Action::Condition(Condition { demand: enact_entities::Demand::Impossible(event), .. }) => {
                if next(event).is_some() {
                    return None;
                }
            }
            Action::Condition(_) if model.state_name(&account, &state) != "opened" => return None,
            Action::Condition(_) => {}
            Action::Ask(_) => unreachable!("nothing here asks"),
        }
    }
    model.broken(&account, before, &state, Timestamp(0)).is_empty().then_some(state)
}

/// Every state that the open work can lead to.
fn outcomes<B: Bank>(model: &B::Model, base: &StateOf<B>, open: &[WorkOf<B>]) -> Vec<StateOf<B>> {
    open.iter().fold(vec![base.clone()], |states, work| {
        let after = states.iter().filter_map(|state| fold::<B>(model, state, work)).collect::<Vec<_>>();
        assert_eq!(after.len(), states.len(), "what is open is possible in every outcome of those before it");
        [states, after].concat()
    })
}

/// Admits random work, and compares each verdict with all outcomes; decides at random, and compares the base.
fn never_wrong<B: Bank>(model: &Arc<B::Model>, seed: u64, strategy: Strategy) -> (usize, usize, usize) {
    let mut chance = Chance::new(seed);
    let mut base = B::account(model, "opened", chance.below(120) as i64);
    let limits = Limits::default();
    let mut admission = Admission::new(Arc::clone(model), key(B::ACCOUNT), base.clone(), Slot::FIRST, strategy, limits);
    let mut open: Vec<WorkOf<B>> = Vec::new();
    let (mut admitted, mut refused, mut delayed) = (0, 0, 0);
    for n in 1..=6 {
        let work = random_work::<B>(&mut chance);
        let request = Request {
            branch: Branch { tx: tx(n), attempt: Attempt::FIRST, work: work.clone(), at: Timestamp(0) },
            deadline: Millis::NEVER,
            ordered: false,
            sole: false,
            certain: false,
            calls_known: false,
        };
        let possible: Vec<bool> =
            outcomes::<B>(model, &base, &open).iter().map(|state| fold::<B>(model, state, &work).is_some()).collect();
        match admission.request(request) {
            Verdict::Admitted(..) => {
                assert!(possible.iter().all(|&possible| possible), "seed {seed}: {work:?} is admitted on {open:?}");
                open.push(work);
                admitted += usize::from(open.last().is_some_and(|work| work.events().count() > 1));
            }
            Verdict::Rejected(_) => {
                assert!(!possible.contains(&true), "seed {seed}: {work:?} is refused on {open:?}");
                refused += 1;
            }
            _ => delayed += 1,
        }
    }
    let in_progress: Vec<_> = admission.in_progress().map(|entry| (entry.branch.tx, entry.branch.work)).collect();
    for (tx, work) in in_progress {
        let commits = chance.percent(60);
        admission.decide(tx, if commits { Decision::Commit } else { Decision::Abort });
        if commits {
            base = fold::<B>(model, &base, &work).expect("it was promised");
        }
    }
    assert_eq!(*admission.base(), base, "seed {seed}");
    (admitted, refused, delayed)
}

#[test]
fn several_events_of_one_transaction_are_admitted_and_refused_as_the_exact_decider_would() {
    let mut reached = (0, 0, 0);
    for strategy in Strategy::ALL {
        for_seeds("composed", 400, |seed| {
            for (admitted, refused, delayed) in [
                never_wrong::<Hand>(&Hand::plain(), seed, strategy),
                never_wrong::<Hand>(&Hand::load(), seed, strategy),
                never_wrong::<InRebel>(&InRebel::load(), seed, strategy),
            ] {
                reached = (reached.0 + admitted, reached.1 + refused, reached.2 + delayed);
            }
        });
    }
    let (admitted, refused, delayed) = reached;
    assert!(admitted > 100 && refused > 100 && delayed > 100, "every verdict is met: {reached:?}");
}

#[test]
fn a_batch_on_one_account_is_one_linear_job_that_its_strictest_moment_decides() {
    let model = InRebel::load();
    let account = key(InRebel::ACCOUNT);
    let (put, take) = (InRebel::deposit(30), InRebel::withdraw(30));
    let linear = |events: &[EventCall]| model.linear(&account, events, Timestamp(0)).expect("it is linear");
    let low = |events: &[EventCall]| {
        let bounds = linear(events).thresholds.into_iter().filter_map(|threshold| match threshold.bound {
            enact_entities::Bound::AtLeast(bound) if bound > -1_000_000 => Some(bound),
            _ => None,
        });
        bounds.max()
    };
    assert_eq!(low(&[take.clone(), take.clone()]), Some(6_000), "both are covered");
    assert_eq!(low(&[take.clone(), put.clone()]), Some(3_000), "the first is covered before the second gives");
    assert_eq!(low(&[put.clone(), take.clone()]), Some(0), "what is given is there to be taken");
    assert!(linear(&[put.clone(), take]).deltas.is_empty());
    assert_eq!(linear(&[put.clone(), put]).deltas[0].1, 6_000);
}

const CONTRACT: &str = r#"
class Account
  balance: Integer = 0
  invariant "never below zero": balance >= 0

  initial unopened
    on Open(with: Integer): opened
      post: this.balance == with

  opened
    on Add(amount: Integer)
      post: this.balance += amount
    on Take(amount: Integer)
      pre: "at most 40 at once": amount <= 40
      post: this.balance -= amount
    on Close(): closed
      pre: balance == 0

  final closed

class Transfer
  from: Account
  to: Account
  amount: Integer = 0
  following: Set[Transfer] = {}
  times: Set[Integer] = {}

  initial unmade
    on Make(payer: Account, payee: Account, sum: Integer, others: Set[Transfer], repeats: Set[Integer]): made
      post: this.from == payer, this.to == payee, this.amount == sum, this.following == others, this.times == repeats

  made
    on Last()
      pre: from instate opened
      sync:
        from.Take(amount)
        to.Add(amount)
    on Middle()
      sync:
        for n in times: from.Take(amount)
        for t in following: t.Last()
        for n in times: to.Add(amount)
    on First()
      pre: "there must be an account": initialized to
      sync:
        from.Take(amount)
        for t in following: t.Middle()
        to.Add(amount)
    on Empty()
      sync:
        for t in following: t.Last()
        from.Take(amount)
        to.Add(amount)
        from.Close()
    on Unless()
      sync:
        not from.Take(amount)
        for t in following: t.Last()
"#;

struct Both {
    spec: Arc<Spec>,
    net: Net<Rebel>,
    alone: BTreeMap<Reference, Instance>,
}

impl Both {
    fn new(durability: Durability) -> Self {
        let spec = check(vec![Source::new("composed.rebel", CONTRACT)]).unwrap_or_else(|report| panic!("{report}"));
        let spec = Arc::new(spec);
        let net = Net::with(Arc::new(Rebel::new(Arc::clone(&spec))), Strategy::Serializable, durability);
        Self { spec, net, alone: BTreeMap::new() }
    }

    /// Lets one event happen in both, compares what becomes of it, and says whether it happened.
    fn happens(&mut self, class: &str, id: &str, event: &str, arguments: &[String]) -> bool {
        let declared = self.spec.class(class).expect("the contract has it");
        let event = declared.event(event).expect("the contract has it");
        let values = event.params().iter().zip(arguments);
        let values = values.map(|(param, text)| (&**param.name(), Value::parse(param.ty(), text).expect("it fits")));
        let call = event.call(values).expect("the arguments fit");
        let target = declared.reference(declared.key(id).expect("it is an id"));
        let expected = self.spec.step(&self.alone, &target, &call, enact_rebel::Timestamp::from_millis(0));
        let tx = self.net.event(&format!("{class}/{id}"), call.clone());
        self.net.run();
        let (committed, refused) = (self.net.committed(tx), self.net.refused(tx));
        assert!(committed || refused, "{call} is answered: {:?}", self.net.reply(tx));
        assert_eq!(committed, expected.is_ok(), "{target}.{call}: {expected:?}, {:?}", self.net.reply(tx));
        if let Ok(accepted) = expected {
            self.alone.extend(accepted.after);
        }
        self.compare();
        committed
    }

    fn compare(&self) {
        for (reference, instance) in &self.alone {
            let entity = EntityKey::new(&reference.class, &reference.key.to_string()).expect("it is a key");
            assert_eq!(self.net.participants[&entity].admission().base(), instance, "{reference}");
        }
    }
}

fn set(items: &[usize], quote: &str) -> String {
    let items: Vec<String> = items.iter().map(|item| format!("{quote}{item}{quote}")).collect();
    format!("{{{}}}", items.join(", "))
}

#[test]
fn the_protocol_makes_of_random_call_graphs_what_one_step_makes_of_them() {
    let (mut happened, mut refused) = (0, 0);
    for durability in [Durability::TwoPhase, Durability::Shared] {
        for_seeds("composed", 150, |seed| {
            let mut chance = Chance::new(seed);
            let mut both = Both::new(durability);
            for account in 0..3 {
                let with = chance.below(80).to_string();
                assert!(both.happens("Account", &account.to_string(), "Open", &[with]));
            }
            for transfer in 0..4 {
                // The keys of transfers come after those of accounts, so that everything is revealed late.
                let mut some = |of: usize| {
                    let count = chance.below(3);
                    (0..count).map(|_| chance.below(of)).collect::<Vec<_>>()
                };
                let (others, repeats) = (some(4), some(3));
                let arguments = [
                    chance.below(3).to_string(),
                    chance.below(3).to_string(),
                    chance.below(45).to_string(),
                    set(&others, "\""),
                    set(&repeats, ""),
                ];
                assert!(both.happens("Transfer", &transfer.to_string(), "Make", &arguments));
            }
            for _ in 0..8 {
                let event = *chance.pick(&["First", "First", "Middle", "Empty", "Unless"]);
                let transfer = chance.below(4).to_string();
                let outcome =
                    if both.happens("Transfer", &transfer, event, &[]) { &mut happened } else { &mut refused };
                *outcome += 1;
            }
            both.net.crash_all();
            both.net.restart_all();
            both.net.run();
            both.compare();
        });
    }
    assert!(happened > 200 && refused > 200, "both are met: {happened} and {refused}");
}

#[test]
fn a_question_of_an_earlier_round_neither_replaces_a_later_promise_nor_counts_as_its_answer() {
    let model = Hand::load();
    let options = ParticipantOptions::new(Strategy::Serializable);
    let mut account = Participant::new(Arc::clone(&model), key("Account/A"), options).expect("there are accounts");
    let prepare = |attempt, events: Vec<Event>| {
        Input::Prepare(Prepare {
            coordinator: key("Coordinator/C"),
            durability: Durability::Shared,
            request: Request {
                branch: Branch { tx: tx(1), attempt, work: Work::of_events(events), at: Timestamp(0) },
                deadline: Millis(1_000),
                ordered: true,
                sole: false,
                certain: false,
                calls_known: false,
            },
        })
    };
    let votes = |outputs: Vec<Output<State, Event>>| {
        let up = outputs.into_iter().filter_map(|output| match output {
            Output::Send(up) => Some((up.attempt, matches!(up.said, Said::Vote(Vote::Yes { .. })))),
            _ => None,
        });
        up.collect::<Vec<_>>()
    };
    let (first, second) = (Attempt::FIRST, Attempt::FIRST.next_round());
    assert!(first < second && second < first.next());
    // The first question comes twice: refused, and then, late, possible.
    assert_eq!(votes(account.step(prepare(first, vec![Hand::deposit(1)]), Millis(0))), [(first, false)]);
    assert_eq!(votes(account.step(prepare(first, vec![Hand::open(50)]), Millis(0))), [(first, true)]);
    let more = vec![Hand::open(50), Hand::deposit(1)];
    assert_eq!(votes(account.step(prepare(second, more.clone()), Millis(0))), [(second, true)]);
    assert_eq!(votes(account.step(prepare(first, vec![Hand::open(50)]), Millis(0))), []);
    let promised: Vec<_> = account.admission().in_progress().map(|entry| entry.branch.work).collect();
    assert_eq!(promised, [Work::of_events(more)]);
}
