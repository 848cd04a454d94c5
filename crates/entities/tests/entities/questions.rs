//! Events that ask other entities: what the protocol makes of them against one step in one place, one at a time and together.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use enact_entities::{
    Action, Admission, Attempt, Branch, Decision, Durability, EntityKey, Limits, Millis, Model, Question, Rebel, Reply,
    Request, Slot, Strategy, Timestamp, ToParticipant, TxId, Verdict, Work, Written,
};
use enact_rebel::{EventCall, Instance, Reference, Source, Spec, Value, check};

use crate::support::chance::{Chance, for_seeds};
use crate::support::key;
use crate::support::world::{Net, Packet};

const CONTRACT: &str = r#"
class Account
  balance: Integer = 0
  limit: Integer
  backup: Account

  initial unopened
    on Open(with: Integer, other: Account): opened
      post: this.balance = with, this.limit = with, this.backup = other

  opened
    on Add(amount: Integer)
      post: this.balance += amount
    on Take(amount: Integer)
      pre: "not enough": balance >= amount
      post: this.balance -= amount
    on Gain(from: Account)
      post: this.balance += from.balance
    on Double()
      post: this.balance = balance * 2
    on Match()
      post: this.limit = backup.balance
    on Cap(to: Integer)
      post: this.limit = to
    on Copy()
      post: this.balance = backup.balance + 1
    on Level()
      pre: "the other is no richer": backup is closed or backup.balance > balance
      post: this.balance += 1
      sync: if not backup is finished: backup.Take(1)
    on Follow()
      pre: "nobody is behind": backup.backup.backup is opened and backup.backup.limit >= 0
      post: this.backup = backup.backup
    on Rest(other: String)
      pre: "the other could pay": not can Account[other].Take(40)
      post: this.limit = if initialized Account[other] then Account[other].balance else 0 - 1
    on Sort(amount: Integer)
      pre: amount < 25
      post: this.balance += amount
      variant rich: opened
        pre: backup.balance < balance
        post: this.limit = backup.limit
        sync: backup.Add(1)
      variant poor: finished
        pre: backup is opened, balance < 10
    on Close(): closed
      pre: balance <= 3
    on Finish(): finished
      pre: balance < 5

  final closed, finished

class Transfer
  from: Account
  to: Account
  amount: Integer = 0

  initial unmade
    on Make(payer: Account, payee: Account, sum: Integer): made
      post: this.from = payer, this.to = payee, this.amount = sum

  made
    on Simple()
      pre: "the payer is poor": from.balance > to.balance or finalized to
      sync:
        from.Take(amount)
        to.Add(amount)
    on Share()
      sync:
        from.Take(from.balance - to.balance)
        to.Add(from.balance - to.balance)
    on Circle()
      sync:
        from.Take(amount)
        to.Match()
        from.Match()
        to.Add(amount)
        to.Level()
        from.Level()
    on Chain()
      sync:
        to.Match()
        to.backup.Match()
        if to.limit > 10: from.Rest("2")
        from.Follow()
"#;

const EVENTS: [(&str, &str); 16] = [
    ("Account", "Add"),
    ("Account", "Take"),
    ("Account", "Double"),
    ("Account", "Gain"),
    ("Account", "Match"),
    ("Account", "Copy"),
    ("Account", "Level"),
    ("Account", "Follow"),
    ("Account", "Rest"),
    ("Account", "Sort"),
    ("Account", "Close"),
    ("Account", "Finish"),
    ("Transfer", "Simple"),
    ("Transfer", "Share"),
    ("Transfer", "Circle"),
    ("Transfer", "Chain"),
];

/// What reads of one account and writes to another.
const CROSSING: [(&str, &str); 5] =
    [("Account", "Copy"), ("Account", "Gain"), ("Account", "Gain"), ("Account", "Gain"), ("Account", "Add")];

const DURABILITIES: [Durability; 2] = [Durability::Shared, Durability::TwoPhase];

type World = BTreeMap<Reference, Instance>;

struct Both {
    spec: Arc<Spec>,
    net: Net<Rebel>,
    alone: World,
}

impl Both {
    fn new(strategy: Strategy, durability: Durability) -> Self {
        static SPEC: LazyLock<Arc<Spec>> = LazyLock::new(|| {
            Arc::new(check(vec![Source::new("questions.rebel", CONTRACT)]).unwrap_or_else(|report| panic!("{report}")))
        });
        static MODEL: LazyLock<Arc<Rebel>> = LazyLock::new(|| Arc::new(Rebel::new(Arc::clone(&SPEC))));
        let net = Net::with(Arc::clone(&MODEL), strategy, durability);
        Self { spec: Arc::clone(&SPEC), net, alone: World::new() }
    }

    /// Three accounts, of which the last may not exist, and three transfers between them. The keys of transfers come last. Where
    /// accounts cross, the first two are behind each other.
    fn at_random(chance: &mut Chance, strategy: Strategy, durability: Durability, crosses: bool) -> Self {
        let mut both = Self::new(strategy, durability);
        for account in 0..if chance.below(3) == 0 { 2 } else { 3 } {
            let backup = if crosses { (account + 1) % 2 } else { chance.below(3) };
            let arguments = [chance.below(60).to_string(), backup.to_string()];
            assert!(both.happens("Account", account, "Open", &arguments));
        }
        for transfer in 0..3 {
            let arguments = [chance.below(3), chance.below(3), chance.below(20)].map(|number| number.to_string());
            assert!(both.happens("Transfer", transfer, "Make", &arguments));
        }
        both
    }

    fn call(&self, class: &str, id: usize, event: &str, arguments: &[String]) -> (Reference, EventCall) {
        let declared = self.spec.class(class).expect("the contract has it");
        let event = declared.event(event).expect("the contract has it");
        let values = event.params().iter().zip(arguments);
        let values = values.map(|(param, text)| (&**param.name(), Value::parse(param.ty(), text).expect("it fits")));
        let target = declared.reference(declared.key(&id.to_string()).expect("it is an id"));
        (target, event.call(values).expect("the arguments fit"))
    }

    fn random_call(&self, chance: &mut Chance, events: &[(&str, &str)]) -> (Reference, EventCall) {
        let (class, event) = *chance.pick(events);
        let argument = match event {
            "Rest" => chance.below(4),
            "Gain" => chance.below(2),
            _ => chance.below(30),
        };
        let params = self.spec.class(class).and_then(|class| class.event(event)).expect("it is there").params().len();
        let id = chance.below(if events.len() == CROSSING.len() { 2 } else { 3 });
        self.call(class, id, event, &vec![argument.to_string(); params])
    }

    fn begin(&mut self, (target, call): &(Reference, EventCall)) -> TxId {
        self.net.event(&format!("{}/{}", target.class, target.key), call.clone())
    }

    fn step(&self, world: &World, (target, call): &(Reference, EventCall)) -> Option<World> {
        let accepted = self.spec.step(world, target, call, enact_rebel::Timestamp::from_millis(0)).ok()?;
        Some(world.clone().into_iter().chain(accepted.after).collect())
    }

    /// Lets one event happen in both, compares what becomes of it, and says whether it happened.
    fn happens(&mut self, class: &str, id: usize, event: &str, arguments: &[String]) -> bool {
        let call = self.call(class, id, event, arguments);
        self.both(&call)
    }

    fn both(&mut self, call: &(Reference, EventCall)) -> bool {
        let expected = self.step(&self.alone, call);
        let tx = self.begin(call);
        self.net.run();
        let (committed, refused) = (self.net.committed(tx), self.net.refused(tx));
        assert!(committed || refused, "{call:?} is answered: {:?}", self.net.reply(tx));
        assert_eq!(committed, expected.is_some(), "{call:?}: {:?}", self.net.reply(tx));
        self.alone = expected.unwrap_or_else(|| self.alone.clone());
        assert!(self.agrees_with(&self.alone));
        committed
    }

    fn agrees_with(&self, world: &World) -> bool {
        world.iter().all(|(reference, instance)| {
            let entity = EntityKey::new(&reference.class, &reference.key.to_string()).expect("it is a key");
            self.net.participants[&entity].admission().base() == instance
        })
    }

    /// Whether the calls, one after the other in some order from `world`, all happen and end in what the entities have.
    fn some_order_explains(&self, world: &World, calls: &[(Reference, EventCall)]) -> bool {
        if calls.is_empty() {
            return self.agrees_with(world);
        }
        (0..calls.len()).any(|first| {
            let Some(next) = self.step(world, &calls[first]) else { return false };
            let mut rest = calls.to_vec();
            rest.remove(first);
            self.some_order_explains(&next, &rest)
        })
    }
}

#[test]
fn the_protocol_makes_of_events_that_ask_what_one_step_makes_of_them() {
    let mut met: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for durability in [Durability::TwoPhase, Durability::Shared] {
        for_seeds("questions", 200, |seed| {
            let mut chance = Chance::new(seed);
            let mut both = Both::at_random(&mut chance, Strategy::Serializable, durability, false);
            for _ in 0..10 {
                let call = both.random_call(&mut chance, &EVENTS);
                let (happened, refused) = met.entry(call.1.event().to_string()).or_default();
                *(if both.both(&call) { happened } else { refused }) += 1;
            }
            both.net.crash_all();
            both.net.restart_all();
            both.net.run();
            assert!(both.agrees_with(&both.alone), "the answers are in the journal");
        });
    }
    assert_eq!(met.len(), EVENTS.len());
    assert!(met.values().all(|(happened, refused)| *happened > 0 && *refused > 0), "all are met: {met:?}");
}

#[test]
fn events_that_ask_are_serializable_whatever_happens_at_the_same_time() {
    let (mut happened, mut refused, mut expired, mut restarted) = (0, 0, 0, 0);
    for (strategy, durability) in [
        (Strategy::Locking, Durability::Shared),
        (Strategy::LockingEarlyRelease, Durability::Shared),
        (Strategy::Serializable, Durability::Shared),
        (Strategy::Serializable, Durability::TwoPhase),
    ] {
        for_seeds("questions", 300, |seed| {
            let mut chance = Chance::new(seed);
            let crosses = chance.percent(50);
            let mut both = Both::at_random(&mut chance, strategy, durability, crosses);
            let before = both.alone.clone();
            let open_max = *chance.pick(&[1, 2, 8]);
            both.net.crash_all();
            both.net.participant_options.limits.open_max = open_max;
            both.net.restart_all();
            both.net.run();
            let events: &[_] = if crosses { &CROSSING } else { &EVENTS };
            let calls: Vec<_> = (0..5).map(|_| both.random_call(&mut chance, events)).collect();
            let begun: Vec<TxId> = calls.iter().map(|call| both.begin(call)).collect();
            run_at_random(&mut both.net, &mut chance, &begun);
            let mut committed = Vec::new();
            for (call, tx) in calls.iter().zip(begun) {
                match both.net.reply(tx) {
                    Some(Reply::Answered { result: Ok(_), .. }) => committed.push(call.clone()),
                    Some(Reply::Answered { .. }) => refused += 1,
                    Some(Reply::TimedOut { .. }) => expired += 1,
                    other => panic!("{call:?} has no answer: {other:?}"),
                }
            }
            happened += committed.len();
            assert!(both.some_order_explains(&before, &committed), "{committed:#?}\nfrom {before:#?}");
            restarted += usize::from(both.net.marks.contains("asked out of order and restarted"));
        });
    }
    eprintln!("{happened}, {refused}, {expired}, {restarted}");
    assert!(happened > 500 && refused > 100 && restarted > 20, "{happened}, {refused}, {expired}, {restarted}");
}

/// Delivers and writes in any order, until everything is answered.
fn run_at_random(net: &mut Net<Rebel>, chance: &mut Chance, begun: &[TxId]) {
    loop {
        let (packets, writes) = (net.net.len(), net.writable());
        match packets + writes.len() {
            0 if begun.iter().all(|tx| net.reply(*tx).is_some()) => return,
            0 => net.pass(250),
            all => match chance.below(all) {
                n if n < packets => {
                    if chance.percent(10) {
                        net.net.push(net.net[n].clone());
                    }
                    net.deliver(n);
                }
                n => net.write(writes[n - packets], Written::Durable),
            },
        }
    }
}

#[test]
fn an_answer_is_held_until_the_transaction_that_asked_is_decided() {
    for strategy in [Strategy::Psac, Strategy::Serializable] {
        let mut both = Both::new(strategy, Durability::Shared);
        for (account, other) in [(0, 1), (1, 0)] {
            assert!(both.happens("Account", account, "Open", &["7".into(), other.to_string()]));
        }
        // The balance of account 1 is what account 0 asks for. Its decision is on the way to the disk.
        let asking = both.call("Account", 0, "Match", &[]);
        let asking = both.begin(&asking);
        while both.net.disk.is_empty() {
            both.net.deliver(0);
        }
        let add = both.call("Account", 1, "Add", &["1".into()]);
        let add = both.begin(&add);
        while !both.net.net.is_empty() {
            both.net.deliver(0);
        }
        let admission = both.net.participants[&key("Account/1")].admission();
        match strategy {
            Strategy::Serializable => assert!(admission.find(add).is_some_and(|entry| entry.answer.in_line)),
            _ => assert_eq!(admission.delayed_attempt(add), Some(Attempt::FIRST)),
        }
        both.net.run();
        assert!(both.net.committed(asking) && both.net.committed(add));
        let field = |account: &str, name: &str| {
            both.net.participants[&key(account)].admission().base().fields().get(name).cloned()
        };
        assert_eq!(field("Account/0", "limit"), Some(Value::Integer(7)), "as it was when it was asked");
        assert_eq!(field("Account/1", "balance"), Some(Value::Integer(8)));
    }
}

#[test]
fn two_that_ask_each_other_see_one_another_in_one_order() {
    for strategy in [Strategy::Locking, Strategy::LockingEarlyRelease, Strategy::Serializable] {
        let mut both = Both::new(strategy, Durability::Shared);
        for (account, with) in [(0, 7), (1, 11)] {
            assert!(both.happens("Account", account, "Open", &[with.to_string(), "0".into()]));
        }
        let before = both.alone.clone();
        // Message by message: both are told the answers before either happens.
        let calls = [both.call("Account", 0, "Gain", &["1".into()]), both.call("Account", 1, "Gain", &["0".into()])];
        let begun = calls.clone().map(|call| both.begin(&call));
        both.net.run();
        assert!(begun.iter().all(|tx| both.net.committed(*tx)));
        assert!(both.some_order_explains(&before, &calls));
        assert!(both.net.marks.contains("asked out of order and restarted"));
    }
}

/// Two transfers of what the accounts differ by: each reads both balances, and then changes them.
#[test]
fn what_is_read_and_then_changed_is_promised_in_the_place_of_the_answer() {
    let strategies = [Strategy::Locking, Strategy::Psac, Strategy::Serializable];
    for (strategy, durability) in strategies.into_iter().flat_map(|strategy| DURABILITIES.map(|kept| (strategy, kept)))
    {
        let mut both = Both::new(strategy, durability);
        for (account, with) in [(0, 9), (1, 2)] {
            assert!(both.happens("Account", account, "Open", &[with.to_string(), "0".into()]));
        }
        for transfer in [0, 1] {
            assert!(both.happens("Transfer", transfer, "Make", &["0".into(), "1".into(), "0".into()]));
        }
        let before = both.alone.clone();
        let calls = [0, 1].map(|transfer| both.call("Transfer", transfer, "Share", &[]));
        let begun = calls.clone().map(|call| both.begin(&call));
        both.net.run_except(|packet| {
            if let Packet::Down(to, ToParticipant::Prepare(prepare)) = packet {
                let branch = &prepare.request.branch;
                assert_eq!(branch.attempt.number, 1, "{} begins anew at {to}", branch.tx);
            }
            false
        });
        assert!(begun.iter().all(|tx| both.net.committed(*tx)));
        assert!(both.some_order_explains(&before, &calls));
        assert!(both.net.marks.contains("delayed, then admitted"), "the second waits for the first");
        both.net.check_settled();
    }
}

/// A transfer asks for balances and changes them; an account asks for the state of another, which stays.
#[test]
fn only_what_the_called_event_may_change_is_asked_to_change_it() {
    let mut both = Both::new(Strategy::Serializable, Durability::Shared);
    assert!(both.happens("Account", 0, "Open", &["7".into(), "1".into()]));
    assert!(both.happens("Transfer", 0, "Make", &["0".into(), "1".into(), "2".into()]));
    for (class, event, to_change) in [("Transfer", "Simple", true), ("Account", "Level", false)] {
        let entity = key(&format!("{class}/0"));
        let (_, call) = both.call(class, 0, event, &[]);
        let state = both.net.participants[&entity].admission().base();
        let asked = both.net.model.questions(&entity, state, &call, Timestamp(0)).expect("it may ask");
        assert!(!asked.is_empty() && asked.iter().all(|asked| asked.to_change == to_change), "{asked:?}");
    }
}

/// The payer refuses when both have answered and are to change.
#[test]
fn a_refusal_gives_up_the_answers_that_are_held() {
    for durability in DURABILITIES {
        let mut both = Both::new(Strategy::Serializable, durability);
        for (account, with) in [(0, 9), (1, 2)] {
            assert!(both.happens("Account", account, "Open", &[with.to_string(), "0".into()]));
        }
        assert!(both.happens("Transfer", 0, "Make", &["0".into(), "1".into(), "20".into()]));
        assert!(!both.happens("Transfer", 0, "Simple", &[]));
        for entity in ["Account/0", "Account/1", "Transfer/0"] {
            assert_eq!(both.net.participants[&key(entity)].admission().in_progress().count(), 0, "at {entity}");
        }
    }
}

#[test]
fn a_question_delays_only_what_could_change_its_answer() {
    let spec = Both::new(Strategy::Serializable, Durability::Shared).spec;
    let model = Arc::new(Rebel::new(Arc::clone(&spec)));
    let class = spec.class("Account").expect("the contract has it");
    let call = |event: &str, arguments: &[(&str, Value)]| {
        class.event(event).expect("the contract has it").call(arguments.iter().cloned()).expect("the arguments fit")
    };
    let other = Value::Reference(class.reference(class.key("1").expect("it is an id")));
    let opened = class.next(
        &class.key("0").expect("it is an id"),
        &class.initial(),
        &call("Open", &[("with", Value::Integer(500)), ("other", other)]),
        enact_rebel::Timestamp::from_millis(0),
    );
    let account = || {
        let (model, base) = (Arc::clone(&model), opened.clone().expect("it is possible"));
        let limits = Limits { open_max: 1024, ..Limits::default() };
        Admission::new(model, key("Account/0"), base, Slot::FIRST, Strategy::Serializable, limits)
    };
    let request = |n: u128, action: Action<EventCall>| Request {
        branch: Branch { tx: TxId::from_u128(n), attempt: Attempt::FIRST, work: Work::of([action]), at: Timestamp(0) },
        deadline: Millis(1_000),
        ordered: true,
        sole: false,
        certain: false,
        calls_known: false,
    };
    let add = || Action::Event(call("Add", &[("amount", Value::Integer(1))]));
    let ask = |field: &str| Action::Ask(Question::Field(field.to_owned()));
    let answer = |verdict: Verdict<EventCall>| match verdict {
        Verdict::Admitted(_, answer) => answer.answers,
        other => panic!("{other:?}"),
    };
    // What is committed behind something open counts, although it is not applied.
    let mut capped = account();
    let cap = Action::Event(call("Cap", &[("to", Value::Integer(9))]));
    assert!(matches!(capped.request(request(1, cap)), Verdict::Admitted(..)));
    assert!(matches!(capped.request(request(2, add())), Verdict::Admitted(..)));
    assert!(capped.decide(TxId::from_u128(2), Decision::Commit).applied.is_empty());
    assert_eq!(answer(capped.request(request(3, ask("balance")))), [Some(Value::Integer(501))]);
    assert_eq!(capped.request(request(4, ask("limit"))), Verdict::Delayed);
    // A hundred open additions and a hundred open questions about what they do not change, in any order.
    let mut hot = account();
    for n in (0..100).map(|n| 2 * n + 1) {
        assert!(matches!(hot.request(request(n, add())), Verdict::Admitted(..)), "{n}");
        let field = if n % 4 == 1 { "limit" } else { "backup" };
        assert_eq!(answer(hot.request(request(n + 1, ask(field)))).len(), 1);
    }
    assert_eq!(hot.in_progress().count(), 200);
    // One about the sum waits for all of them, and is answered once they are decided.
    assert_eq!(hot.request(request(1000, ask("balance"))), Verdict::Delayed);
    let mut settled = Vec::new();
    for n in (0..100).map(|n| 2 * n + 1) {
        let decision = if n % 3 == 0 { Decision::Abort } else { Decision::Commit };
        settled.extend(hot.decide(TxId::from_u128(n), decision).settled);
    }
    let [(_, verdict)] = <[_; 1]>::try_from(settled).expect("it was delayed until the last one");
    assert_eq!(answer(verdict), [Some(Value::Integer(567))]);
    // While it is open no addition is, and one that adds nothing is.
    assert_eq!(hot.request(request(1001, add())), Verdict::Delayed);
    let nothing = Action::Event(call("Add", &[("amount", Value::Integer(0))]));
    assert!(matches!(hot.request(request(1002, nothing)), Verdict::Admitted(..)));
    assert_eq!(answer(hot.request(request(1003, ask("balance")))), [Some(Value::Integer(567))], "it is asked again");
    hot.decide(TxId::from_u128(1003), Decision::Abort);
    let settled = hot.decide(TxId::from_u128(1000), Decision::Commit).settled;
    assert!(matches!(settled[..], [(_, Verdict::Admitted(..))]), "{settled:?}");
}
