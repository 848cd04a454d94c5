//! What Rebel costs: an event with one effect, one with guards, a whole step, and the check of a large contract.
//!
//! # Oracle
//! Every run adds and takes known amounts; a wrong balance ends the benchmark without a report.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU32;
use std::path::PathBuf;

use enact_rebel::{Class, EventCall, Instance, Key, Reference, Source, Spec, Timestamp, Value, check};

use crate::measure::{Contender, Lap, Plan, Report, Sample, Stopwatch, race};

const CONTRACT: &str = include_str!("account.rebel");
const AT: Timestamp = Timestamp::from_millis(0);

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Events, or steps, of one run
    #[arg(long, default_value = "100000")]
    pub events: NonZeroU32,
    /// How often
    #[command(flatten)]
    pub plan: Plan,
    /// Writes all samples as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RebelError {
    /// An event that must be possible was refused.
    #[error("{event} is refused: {why}")]
    Refused {
        /// The event.
        event: String,
        /// Why.
        why: String,
    },
    /// The balance is not what the events make it.
    #[error("the balance is {found}, not {expected}")]
    Balance {
        /// What it should be.
        expected: i64,
        /// What it is.
        found: String,
    },
    /// The report could not be written.
    #[error("cannot write {}", path.display())]
    Report {
        /// Where to.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

/// Measures the interpreter.
///
/// # Errors
/// [`RebelError`] when an oracle refuses a result, or there is no place for the file.
///
/// # Panics
/// If the contract of the benchmark is not Rebel.
pub fn run(options: &Options) -> Result<Report, RebelError> {
    let spec = check(vec![Source::new("account.rebel", CONTRACT)]).expect("the contract is Rebel");
    let title = format!("Interpreter of Rebel, {} rounds", options.plan.rounds);
    let contenders = vec![
        Contender::new("one effect", || events(&spec, "Add", options.events)),
        Contender::new("two guards, one effect, one invariant", || events(&spec, "Pay", options.events)),
        Contender::new("step of a transfer, three events", || transfers(&spec, options.events)),
    ];
    let checked = [10_000, 20_000].map(|lines| {
        let lines = NonZeroU32::new(lines).expect("not zero");
        Contender::new(format!("{lines} lines"), move || check_of(lines))
    });
    let report = Report::of(title, || {
        let run = race("rebel", "events or steps", &options.plan, contenders)?;
        Ok(vec![run, race("check", "lines", &options.plan, checked.into())?])
    })?;
    if let Some(path) = &options.json {
        report.write_json(path).map_err(|source| RebelError::Report { path: path.clone(), source })?;
    }
    Ok(report)
}

fn class<'a>(spec: &'a Spec, name: &str) -> &'a Class {
    spec.class(name).expect("the contract has the class")
}

fn key(spec: &Spec, class_name: &str, id: &str) -> Key {
    class(spec, class_name).key(id).expect("it is an id")
}

fn call(spec: &Spec, class_name: &str, event: &str, arguments: &[(&str, Value)]) -> EventCall {
    let event = class(spec, class_name).event(event).expect("the contract has the event");
    event.call(arguments.iter().cloned()).expect("the arguments fit")
}

fn refused(event: &EventCall) -> impl Fn(Vec<enact_rebel::Violation>) -> RebelError {
    move |why| RebelError::Refused { event: event.to_string(), why: format!("{why:?}") }
}

fn verified(instance: &Instance, expected: i64) -> Result<(), RebelError> {
    match instance.fields().get("balance") {
        Some(Value::Integer(found)) if *found == expected => Ok(()),
        found => Err(RebelError::Balance { expected, found: format!("{found:?}") }),
    }
}

/// The check of a contract of so many lines, ten a class.
fn check_of(lines: NonZeroU32) -> Result<Sample, RebelError> {
    let class = |number| {
        format!(
            "class A{number}\n  balance: Money = EUR 0.00\n  invariant balance >= 0\n  initial i\n    on Open(): o\n  o\n    on \
             Pay(to: A{number}, sum: Money)\n      pre: sum > 0, balance - sum >= 0\n      post: this.balance -= sum\n\n"
        )
    };
    let text: String = (0..lines.get() / 10).map(class).collect();
    let source = vec![Source::new("large.rebel", text)];
    let watch = Stopwatch::start();
    let spec = check(source).expect("the contract is Rebel");
    let lap = watch.stop();
    assert_eq!(spec.classes().count(), lines.get() as usize / 10);
    Ok(sample(lap, lines))
}

/// The same event on one account, again and again.
fn events(spec: &Spec, event: &str, times: NonZeroU32) -> Result<Sample, RebelError> {
    let (account, key) = (class(spec, "Account"), key(spec, "Account", "a"));
    let amount = |number: i64| [("amount", Value::Integer(number))];
    let open = call(spec, "Account", "Open", &amount(0));
    let mut instance = account.next(&key, &account.initial(), &open, AT).map_err(refused(&open))?;
    let event = call(spec, "Account", event, &amount(1));
    let watch = Stopwatch::start();
    for _ in 0..times.get() {
        instance = account.next(&key, &instance, &event, AT).map_err(refused(&event))?;
    }
    let lap = watch.stop();
    verified(&instance, times.get().into())?;
    Ok(sample(lap, times))
}

/// Transfers of one from one account to another, each as a step.
fn transfers(spec: &Spec, times: NonZeroU32) -> Result<Sample, RebelError> {
    let target = |class_name: &str, id: &str| class(spec, class_name).reference(key(spec, class_name, id));
    let (a, b, transfer) = (target("Account", "a"), target("Account", "b"), target("Transfer", "t"));
    let mut world: BTreeMap<Reference, Instance> = BTreeMap::new();
    for (account, with) in [(&a, i64::from(times.get())), (&b, 0)] {
        let open = call(spec, "Account", "Open", &[("amount", Value::Integer(with))]);
        let opened = step(spec, &world, account, &open)?;
        world.extend(opened);
    }
    let [from, to] = [("from", &a), ("to", &b)].map(|(name, account)| (name, Value::Reference(account.clone())));
    let book = call(spec, "Transfer", "Book", &[from, to, ("amount", Value::Integer(1))]);
    let watch = Stopwatch::start();
    for _ in 0..times.get() {
        let after = step(spec, &world, &transfer, &book)?;
        // Each transfer is a new one.
        world.extend(after.into_iter().filter(|(touched, _)| *touched != transfer));
    }
    let lap = watch.stop();
    verified(&world[&a], 0)?;
    verified(&world[&b], times.get().into())?;
    Ok(sample(lap, times))
}

fn step(
    spec: &Spec,
    world: &BTreeMap<Reference, Instance>,
    target: &Reference,
    call: &EventCall,
) -> Result<BTreeMap<Reference, Instance>, RebelError> {
    let why = |refused: enact_rebel::Refused| RebelError::Refused { event: call.to_string(), why: refused.to_string() };
    Ok(spec.step(world, target, call, AT).map_err(why)?.after)
}

fn sample(lap: Lap, times: NonZeroU32) -> Sample {
    let ns_each = lap.wall.as_secs_f64() * 1e9 / f64::from(times.get());
    Sample::new(lap, times.get().into()).with_fact("ns each", ns_each)
}
