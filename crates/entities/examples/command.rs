//! Runs one kind of command so many times, to be counted by callgrind: the difference between two numbers of runs is what the
//! commands execute, without the program around them. `docs/performance.md` has the figures.
//!
//! Coordinators and participants do what they do in the engine, and records are encoded; actors, journal and HTTP are left out.

use std::collections::{BTreeMap, VecDeque};
use std::env;
use std::hint::black_box;
use std::sync::Arc;

use enact_entities::{
    Begin, Call, Coordinator, CoordinatorInput, CoordinatorOptions, CoordinatorOutput, Durability, EntityKey, Input,
    Millis, Model, Output, Participant, ParticipantOptions, Rebel, Reply, Strategy, Timestamp, ToParticipant, TxId,
    Written,
};
use enact_rebel::{EventCall, Source, Value, check};

const SPEC: &str = include_str!("../../../examples/bank.rebel");
const IBANS: [&str; 2] = ["NL91ABNA0417164300", "DE89370400440532013000"];

fn main() {
    let mut arguments = env::args().skip(1);
    let kind = arguments.next().unwrap_or_else(|| "transfer".to_owned());
    let times = arguments.next().map_or(1, |times| times.parse().expect("a number of runs"));
    let mut bank = Bank::open();
    let before = bank.recorded;
    for number in 0..times {
        let payer = IBANS[number % 2];
        match kind.as_str() {
            "deposit" => bank.command("Account", payer, "Deposit", &["EUR 0.01"]),
            "transfer" => {
                let payee = IBANS[(number + 1) % 2];
                bank.command("Transfer", &format!("t{number:09}"), "Book", &["EUR 0.01", payer, payee]);
            }
            _ => panic!("there is no command {kind}"),
        }
    }
    println!("{times} times {kind}, {} bytes recorded each", (bank.recorded - before) / times.max(1));
}

struct Bank {
    model: Arc<Rebel>,
    coordinator: EntityKey,
    participants: BTreeMap<EntityKey, Participant<Rebel>>,
    begun: u128,
    recorded: usize,
}

impl Bank {
    /// With an account for each number.
    fn open() -> Self {
        let spec = check(vec![Source::new("bank.rebel", SPEC)]).expect("the example is Rebel");
        let mut bank = Self {
            model: Arc::new(Rebel::new(spec.into())),
            coordinator: EntityKey::new("Coordinator", "1").expect("a key"),
            participants: BTreeMap::new(),
            begun: 0,
            recorded: 0,
        };
        for iban in IBANS {
            bank.command("Account", iban, "Open", &["Ada", "EUR 1000000.00"]);
        }
        bank
    }

    /// Reads the arguments and lets the event happen.
    fn command(&mut self, class: &str, id: &str, event: &str, arguments: &[&str]) {
        let declared = self.model.spec().class(class).and_then(|class| class.event(event)).expect("it is declared");
        let arguments = declared.params().iter().zip(arguments);
        let typed =
            arguments.map(|(param, text)| (&**param.name(), Value::parse(param.ty(), text).expect("of its type")));
        let event = declared.call(typed).expect("they fit");
        let reply = self.run(EntityKey::new(class, id).expect("a key"), event);
        assert!(matches!(reply, Some(Reply::Answered { result: Ok(_), .. })), "{reply:?}");
    }

    fn run(&mut self, entity: EntityKey, event: EventCall) -> Option<Reply> {
        let mut options = CoordinatorOptions::new(Durability::Shared);
        (options.resend_after, options.recent_max, options.answers_max) = (Millis::NEVER, 0, 0);
        let mut coordinator = Coordinator::new(Arc::clone(&self.model), self.coordinator.clone(), options);
        self.begun += 1;
        let begin = Begin {
            tx: TxId::from_u128(self.begun),
            calls: vec![Call::event(entity, event)],
            at: Timestamp(1_767_225_600_000),
            deadline: Millis(2_000),
            idempotency: None,
        };
        let mut inputs = VecDeque::from([CoordinatorInput::Begin(begin)]);
        let mut told = None;
        while let Some(input) = inputs.pop_front() {
            for output in coordinator.step(input, Millis(0)) {
                match output {
                    CoordinatorOutput::Append { write, records, .. } => {
                        let encoded = records.iter().map(|(_, record)| black_box(record.encode()).len());
                        self.recorded += encoded.sum::<usize>();
                        inputs.push_back(CoordinatorInput::Written { write, result: Written::Durable });
                    }
                    CoordinatorOutput::Send { to, message } => {
                        let up = self.tell(&to, message).into_iter();
                        inputs.extend(up.map(CoordinatorInput::Heard));
                    }
                    CoordinatorOutput::Reply { reply, .. } => told = Some(reply),
                    other => unreachable!("nothing is due, and the journal fails never: {other:?}"),
                }
            }
        }
        told
    }

    /// What an entity says to a message.
    fn tell(
        &mut self,
        to: &EntityKey,
        message: ToParticipant<EventCall>,
    ) -> Vec<enact_entities::ToCoordinator<EventCall>> {
        let input = match message {
            ToParticipant::Prepare(prepare) => Input::Prepare(prepare),
            ToParticipant::Decide(decide) => Input::Decide(decide),
        };
        let participant = self.participants.entry(to.clone()).or_insert_with(|| {
            let options = ParticipantOptions::new(Strategy::default());
            Participant::new(Arc::clone(&self.model), to.clone(), options).expect("the class is declared")
        });
        let outputs = participant.step(input, Millis(0));
        black_box(self.model.bytes(to, participant.admission().base()));
        let up = outputs.into_iter().filter_map(|output| match output {
            Output::Send(up) => Some(up),
            _ => None,
        });
        up.collect()
    }
}
