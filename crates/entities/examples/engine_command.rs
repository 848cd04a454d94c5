//! Runs one kind of command so many times in an engine over the embedded journal, to be counted by callgrind: the difference
//! between two numbers of runs is what the commands execute, without the program around them. `docs/performance.md` has the figures.
//!
//! 32 clients on one thread submit one command after the other; the journal writes on threads of its own.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use enact_entities::{Command, Engine, EngineOptions, EntityKey, Rebel};
use enact_journal::{Embedded, Options};
use enact_rebel::{EventCall, Source, Spec, Value, check};

const SPEC: &str = include_str!("../../../examples/bank.rebel");
const CLIENTS: usize = 32;

fn main() {
    let mut arguments = env::args().skip(1);
    let kind = arguments.next().unwrap_or_else(|| "transfer".to_owned());
    let times: usize = arguments.next().map_or(1, |times| times.parse().expect("a number of runs"));
    let directory = tempfile::tempdir().expect("a directory");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(run(&kind, times, directory.path()));
    println!("{times} times {kind}");
}

async fn run(kind: &str, times: usize, directory: &std::path::Path) {
    let spec = Arc::new(check(vec![Source::new("bank.rebel", SPEC)]).expect("the example is Rebel"));
    let journal = Embedded::open(&directory.join("journal"), Options::default()).expect("a journal");
    let engine = Engine::new(Rebel::new(Arc::clone(&spec)), journal, EngineOptions::default());
    // Of each client two.
    let ibans: Arc<[String]> = (0..2 * CLIENTS).map(iban).collect();
    for account in &*ibans {
        submit(&engine, &spec, "Account", account, "Open", &["Ada", "EUR 1000000.00"]).await;
    }
    let clients = (0..CLIENTS).map(|client| {
        let (engine, spec, ibans, kind) = (engine.clone(), Arc::clone(&spec), Arc::clone(&ibans), kind.to_owned());
        tokio::spawn(async move {
            for number in (client..times).step_by(CLIENTS) {
                let (payer, payee) = (&*ibans[2 * client + number % 2], &*ibans[2 * client + (number + 1) % 2]);
                match &*kind {
                    "deposit" => submit(&engine, &spec, "Account", payer, "Deposit", &["EUR 0.01"]).await,
                    "transfer" => {
                        let id = format!("t{number:09}");
                        submit(&engine, &spec, "Transfer", &id, "Book", &["EUR 0.01", payer, payee]).await;
                    }
                    _ => panic!("there is no command {kind}"),
                }
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("a client does not panic");
    }
    engine.shutdown(Duration::from_secs(60)).await.expect("nothing is under way");
}

async fn submit(engine: &Engine<Rebel, Embedded>, spec: &Spec, class: &str, id: &str, event: &str, arguments: &[&str]) {
    let event = call(spec, class, event, arguments);
    let key = EntityKey::new(class, id).expect("a key");
    let command = Command { key, event, then: Vec::new(), idempotency: None, deadline: Duration::from_secs(60) };
    engine.submit(command).await.expect("it is done");
}

fn call(spec: &Spec, class: &str, event: &str, arguments: &[&str]) -> EventCall {
    let declared = spec.class(class).and_then(|class| class.event(event)).expect("it is declared");
    let arguments = declared.params().iter().zip(arguments);
    let typed = arguments.map(|(param, text)| (&**param.name(), Value::parse(param.ty(), text).expect("of its type")));
    declared.call(typed).expect("they fit")
}

/// The account with this number, with the check digits of ISO 13616.
fn iban(number: usize) -> String {
    let account = format!("ABNA{number:010}");
    let digits =
        format!("{account}NL00").chars().map(|c| c.to_digit(36).expect("alphanumeric").to_string()).collect::<String>();
    let rest = digits.bytes().fold(0, |rest, digit| (rest * 10 + u32::from(digit - b'0')) % 97);
    format!("NL{:02}{account}", 98 - rest)
}
