//! A contract served without sockets, and two mirrors beside it: one that the pure function `Spec::step_in_time` keeps, and one of the
//! naive evaluator of `enact-naive`. Each step is compared with both.
//!
//! The clock of all stands still until a test moves it. Nobody looks after the engine: what is due happens when a command meets
//! its instance, as the mirror has it, or in [`Served::settle`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::request::Builder;
use axum::http::{HeaderMap, Request, StatusCode};
use enact_entities::{Engine, EngineOptions, ManualClock, Rebel, WallClock};
use enact_journal::Memory;
use enact_naive::{Call, Outcome, World};
use enact_rebel::{
    Caller, Class, Due, EventCall, Id, Instance, RecordValue, Reference, Refused, Source, Spec, Timely, Timestamp,
    Type, Value, Violation, check,
};
use enact_server::{Options, Router, Token, Tokens, caller_from_outside, router};
use serde_json::{Value as Json, json};
use tower::ServiceExt;

use crate::chance::Chance;

/// Steps of one random world.
const WORLD_STEPS: u64 = 300;

/// What a request waits for at most, in milliseconds: longer than a busy machine stands still.
const DEADLINE_MS: u64 = 30_000;

/// When every world begins: 2026-11-21T09:30:00Z, a Saturday.
const BEGIN: i64 = 1_795_253_400_000;

/// A command: who sends it, to which path, with which parameters.
pub(crate) type Command = (&'static str, String, Json);

/// What happens next in a random world.
pub(crate) enum Step {
    /// A command.
    Send(Command),
    /// Time goes by, and what becomes due waits until somebody meets it.
    Pass(Duration),
    /// Everything that is due happens.
    Settle,
}

impl From<Command> for Step {
    fn from(command: Command) -> Self {
        Self::Send(command)
    }
}

/// One example, served, with its mirror. Every answer is compared.
pub(crate) struct Served {
    spec: Arc<Spec>,
    clock: Arc<ManualClock>,
    router: Router<Engine<Rebel, Memory>>,
    callers: BTreeMap<&'static str, (Caller, Token)>,
    /// The instances as `Spec::step_in_time` says they are.
    mirror: BTreeMap<Reference, Instance>,
    /// The instances as the naive evaluator says they are.
    naive: World,
    /// The commands that happened: path and parameters.
    happened: Vec<(String, Json)>,
    /// How many timed events happened.
    timed: usize,
    sent: u64,
}

/// What a client is told.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Json,
    headers: HeaderMap,
}

impl Answer {
    /// The state that an accepted command leads to.
    #[track_caller]
    pub(crate) fn state(&self) -> &str {
        assert_eq!(self.status, 200, "{self:#?}");
        self.body["state"].as_str().expect("a text")
    }

    /// What an accepted command or a question returns.
    #[track_caller]
    pub(crate) fn result(&self) -> &Json {
        assert_eq!(self.status, 200, "{self:#?}");
        &self.body["result"]
    }

    /// The identity of the instance of an accepted command.
    #[track_caller]
    pub(crate) fn id(&self) -> String {
        assert_eq!(self.status, 200, "{self:#?}");
        self.body["id"].as_str().expect("a text").to_owned()
    }

    /// Why a command is refused, the first reason.
    #[track_caller]
    pub(crate) fn refusal(&self) -> &str {
        assert_eq!(self.status, 409, "{self:#?}");
        self.body["reasons"][0]["text"].as_str().expect("a text")
    }

    #[track_caller]
    pub(crate) fn is_forbidden(&self) {
        assert_eq!(self.status, 403, "{self:#?}");
    }
}

impl Served {
    /// The contract `examples/{example}.rebel`, or that of the modules in `examples/{example}`, with callers: id and roles.
    pub(crate) fn open(example: &str, callers: &[(&'static str, &[&str])]) -> Self {
        let spec = Arc::new(check(sources(example)).unwrap_or_else(|report| panic!("{report}")));
        let caller = |(number, (id, roles)): (u8, &(&'static str, &[&str]))| {
            let caller = caller_from_outside(id, roles.iter().copied()).expect("a caller");
            (*id, (caller, Token::from_random([number; 32])))
        };
        let callers: BTreeMap<_, _> = (1..).zip(callers).map(caller).collect();
        let lines: Vec<_> = callers.values().map(|(caller, token)| token.line(caller, None)).collect();
        let tokens = Tokens::parse(lines.join("\n").as_bytes()).expect("well formed");
        let options = Options { tokens: Some(tokens), ..Options::loopback([127, 0, 0, 1].into()) };
        let clock = Arc::new(ManualClock::new(enact_entities::Timestamp(BEGIN)));
        let model = Rebel::new(spec.clone());
        let engine = Engine::with_clock(model, Memory::new(), EngineOptions::default(), clock.clone());
        Self {
            router: router(engine, options),
            spec,
            clock,
            callers,
            mirror: BTreeMap::new(),
            naive: World::new(),
            happened: Vec::new(),
            timed: 0,
            sent: 0,
        }
    }

    /// Sends a command to `/Class/ID/Event`, or `/Class/Event` to create an instance without naming it.
    ///
    /// # Panics
    /// If `Spec::step_in_time` or the naive evaluator does not answer alike, or a touched instance is read otherwise than the mirror has
    /// it.
    pub(crate) async fn post(&mut self, who: &str, path: &str, body: Json) -> Answer {
        self.sent += 1;
        let key = format!("command-{}", self.sent);
        let answer = self.send(who, path, &key, &body).await;
        if self.sent.is_multiple_of(8) {
            let again = self.send(who, path, &key, &body).await;
            let said = |answer: &Answer| (answer.status, without_request_id(&answer.body));
            assert_eq!(said(&again), said(&answer), "sent again: {path} {body}");
            let is_recorded = answer.status == 200 || answer.status == 409;
            assert!(again.headers.contains_key("idempotency-replayed") || !is_recorded, "{again:#?}");
        }
        let (target, call) = self.call(who, path, &body, &answer);
        let timely = self.spec.step_in_time(&self.mirror, &target, &call, self.now());
        let naive = enact_naive::step(&self.spec, &self.naive, &target, &Call::from(&call), self.now());
        self.agree(&timely, naive, &format!("{who}: {path} {body}"));
        for happened in &timely.due {
            assert_eq!(happened.refused, None, "a timer is refused");
            self.timed += 1;
        }
        let transaction = answer.body["transaction"].as_str();
        self.mirror.extend(timely.after.clone());
        let mut changed: BTreeMap<Reference, Option<&str>> = timely.after.into_keys().map(|of| (of, None)).collect();
        match timely.result {
            Ok(accepted) => {
                assert_eq!(answer.status, 200, "{who}: {path} {body} is possible: {answer:#?}");
                assert_eq!(answer.body["result"], accepted.result.as_ref().map_or(Json::Null, to_json), "{path}");
                assert_eq!(answer.body["state"], **accepted.after[&target].state(), "{path}");
                self.happened.push((path.to_owned(), body));
                changed.extend(accepted.after.into_keys().map(|of| (of, transaction)));
            }
            Err(refused) => {
                let status = self.status(&refused, &target);
                assert_eq!(answer.status, status, "{who}: {path} {body}: {refused}: {answer:#?}");
            }
        }
        for (of, after) in changed {
            assert_eq!(self.catch_up(&of), BTreeSet::new(), "a command leaves nothing that is due");
            self.is_mirrored(&of, after).await;
        }
        answer
    }

    /// Lets time go by. What becomes due waits until somebody meets it.
    pub(crate) fn pass(&self, span: Duration) {
        let millis = i64::try_from(span.as_millis()).expect("a short time");
        self.clock.set(enact_entities::Timestamp(self.now().millis() + millis));
    }

    /// Lets happen everything that is due, in the order of time, as a service does that somebody looks after.
    ///
    /// # Panics
    /// If a timed event is refused, of which an example without warnings has none, or an instance is read otherwise than the mirror has it.
    pub(crate) async fn settle(&mut self) {
        while let Some(of) = self.next_due() {
            let changed = self.catch_up(&of);
            // It is read first: that makes it happen.
            self.is_mirrored(&of, None).await;
            for changed in changed {
                self.is_mirrored(&changed, None).await;
            }
        }
    }

    /// The instance that has the earliest due event.
    fn next_due(&self) -> Option<Reference> {
        let due = |(of, instance): (&Reference, &Instance)| Some((of.clone(), self.due(of, instance)?));
        self.mirror.iter().filter_map(due).min_by_key(|(_, due)| due.time).map(|(of, _)| of)
    }

    fn due(&self, of: &Reference, instance: &Instance) -> Option<Due> {
        self.spec.class(&of.class)?.due_before(&of.key, instance, self.now(), false)
    }

    /// Lets happen in the mirror all that is due at one instance, as a read of it does, and says what has changed.
    fn catch_up(&mut self, of: &Reference) -> BTreeSet<Reference> {
        let mut changed = BTreeSet::new();
        while let Some(due) = self.mirror.get(of).and_then(|instance| self.due(of, instance)) {
            let timely = self.spec.step_in_time(&self.mirror, of, &due.call(), due.time);
            let naive = enact_naive::let_happen(&self.spec, &self.naive, of);
            self.agree(&timely, naive, &format!("{} of {of}", due.event));
            let result = timely.result.map(drop);
            assert_eq!((result, &*timely.due), (Ok(()), &[][..]), "a timer is refused, or meets another one");
            changed.extend(timely.after.keys().cloned());
            self.mirror.extend(timely.after);
            self.timed += 1;
        }
        changed
    }

    /// Brings the naive mirror to where the step leaves it.
    ///
    /// # Panics
    /// If the step is another one there.
    fn agree(&mut self, timely: &Timely, naive: Outcome, step: &str) {
        enact_naive::compare(&self.spec, timely, &naive)
            .unwrap_or_else(|disagreement| panic!("{step}, at {}: {disagreement}", self.now()));
        self.naive.extend(naive.after);
    }

    /// The present time.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.clock.time().0)
    }

    /// Asks a question.
    pub(crate) async fn get(&self, who: &str, path: &str) -> Answer {
        let request = Request::get(path).header("authorization", self.bearer(who));
        self.ask(request, Body::empty()).await
    }

    /// All instances of a class, by their keys.
    pub(crate) fn all<'a>(&'a self, class: &'a str) -> impl Iterator<Item = (String, &'a Instance)> {
        let of = self.mirror.iter().filter(move |(reference, _)| *reference.class == *class);
        of.map(|(reference, instance)| (reference.key.to_string(), instance))
    }

    /// A field of an instance, as JSON.
    #[track_caller]
    pub(crate) fn field(&self, class: &str, key: &str, field: &str) -> Json {
        let (_, instance) = self.all(class).find(|(found, _)| found == key).expect("an instance");
        to_json(instance.fields().get(field).expect("a field"))
    }

    /// The sum of a whole parameter over all commands to `path` that happened.
    pub(crate) fn sum_of(&self, path: &str, parameter: &str) -> i128 {
        let bodies = self.happened.iter().filter(|(happened, _)| happened == path).map(|(_, body)| body);
        bodies.map(|body| i128::from(body[parameter].as_i64().expect("a whole number"))).sum()
    }

    async fn send(&self, who: &str, path: &str, key: &str, body: &Json) -> Answer {
        let request = Request::post(path)
            .header("content-type", "application/json")
            .header("authorization", self.bearer(who))
            .header("idempotency-key", key);
        self.ask(request, Body::from(body.to_string())).await
    }

    fn bearer(&self, who: &str) -> String {
        format!("Bearer {}", self.callers[who].1)
    }

    async fn ask(&self, request: Builder, body: Body) -> Answer {
        let request = request.header("host", "localhost").header("enact-deadline-ms", DEADLINE_MS);
        let request = request.body(body).expect("a request");
        let response = self.router.clone().oneshot(request).await.expect("an answer");
        let (head, body) = response.into_parts();
        let body = to_bytes(body, 1 << 20).await.expect("bounded");
        Answer { status: head.status, headers: head.headers, body: serde_json::from_slice(&body).expect("JSON") }
    }

    /// What the command means to the language.
    fn call(&self, who: &str, path: &str, body: &Json, answer: &Answer) -> (Reference, EventCall) {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let (class, id, event) = match parts[..] {
            [class, id, event] => (class, id.to_owned(), event),
            // Nobody knows the identity of what was refused to be created.
            [class, event] => {
                (class, answer.body["id"].as_str().map_or(Id::from_u128(0).to_string(), str::to_owned), event)
            }
            _ => panic!("{path}"),
        };
        let class = self.spec.class(class).expect("a class");
        let event = class.event(event).expect("an event");
        let argument = |parameter: &enact_rebel::Param| from_json(parameter.ty(), &body[&**parameter.name()]);
        // What has a default may be missing.
        let is_given =
            |parameter: &&enact_rebel::Param| parameter.default().is_none() || body.get(&**parameter.name()).is_some();
        let given = event.params().iter().filter(is_given);
        let call = event.call(given.map(|parameter| (&**parameter.name(), argument(parameter))).collect::<Vec<_>>());
        let call = call.unwrap_or_else(|errors| panic!("{path} {body}: {errors:?}"));
        let caller = self.callers[who].0.clone();
        (class.reference(class.key(&id).expect("a key")), call.with_caller(caller))
    }

    fn status(&self, refused: &Refused, target: &Reference) -> StatusCode {
        let class: &Class = self.spec.class(&target.class).expect("a class");
        let is_initial = |state: &str| class.initial().state().as_ref() == state;
        let lacks_instance = |violation: &Violation| matches!(violation, Violation::LifeCycle { state, .. } if refused.at == *target && is_initial(state));
        if refused.violations.iter().any(|violation| matches!(violation, Violation::Role { .. })) {
            StatusCode::FORBIDDEN
        } else if refused.violations.iter().any(lacks_instance) {
            StatusCode::NOT_FOUND
        } else {
            StatusCode::CONFLICT
        }
    }

    /// The instance reads over HTTP as the mirror has it, after a transaction of it.
    async fn is_mirrored(&self, reference: &Reference, after: Option<&str>) {
        let instance = &self.mirror[reference];
        let after = after.map_or_else(String::new, |transaction| format!("?after={transaction}"));
        let (Reference { class, key }, who) = (reference, self.callers.keys().next().expect("a caller"));
        let read = self.get(who, &format!("/{class}/{key}{after}")).await;
        let fields: serde_json::Map<_, _> =
            instance.fields().iter().map(|(name, value)| (name.to_string(), to_json(value))).collect();
        let expected =
            json!({ "class": **class, "id": key.to_string(), "state": **instance.state(), "fields": fields });
        assert_eq!((read.status, read.body), (StatusCode::OK, expected));
    }
}

fn sources(example: &str) -> Vec<Source> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(example);
    let files = match path.is_dir() {
        true => path.read_dir().expect("modules").map(|entry| entry.expect("a module").path()).collect(),
        false => vec![path.with_extension("rebel")],
    };
    let text = |file: &PathBuf| std::fs::read_to_string(file).expect("an example");
    files.iter().map(|file| Source::new(file.display().to_string(), text(file))).collect()
}

/// Makes random steps in worlds of their own: `choose` says what is sent next, and `conserved` counts after each step.
///
/// `ENACT_SCENARIO_STEPS` says how many steps, `ENACT_SEED` where the seeds begin. A failure prints its seed.
pub(crate) async fn random<S: Into<Step>>(
    open: impl AsyncFn() -> Served,
    choose: impl Fn(&mut Chance, &Served) -> S,
    conserved: impl Fn(&Served),
) {
    let number = |name: &str, standard| std::env::var(name).map_or(standard, |text| text.parse().expect("a number"));
    let (steps, first) = (number("ENACT_SCENARIO_STEPS", WORLD_STEPS), number("ENACT_SEED", 0));
    let (mut accepted, mut refused, mut passed, mut timed) = (0, 0, 0, 0);
    for world in 0..steps.div_ceil(WORLD_STEPS) {
        let seed = TellSeed(first + world);
        let (mut chance, mut served) = (Chance::new(seed.0), open().await);
        for _ in 0..WORLD_STEPS.min(steps - world * WORLD_STEPS) {
            match choose(&mut chance, &served).into() {
                Step::Send((who, path, body)) => match served.post(who, &path, body).await.status.as_u16() {
                    200 => accepted += 1,
                    _ => refused += 1,
                },
                Step::Pass(span) => {
                    passed += 1;
                    served.pass(span);
                }
                Step::Settle => served.settle().await,
            }
            conserved(&served);
        }
        timed += served.timed;
    }
    let is_telling = accepted * 5 > steps && refused * 20 > steps && timed * 10 >= passed;
    assert!(
        is_telling || steps < WORLD_STEPS,
        "{accepted} accepted, {refused} refused and {timed} timed events mean little"
    );
}

struct TellSeed(u64);

impl Drop for TellSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("repeat with ENACT_SEED={} cargo test -p enact-server --test examples", self.0);
        }
    }
}

/// A number in the smallest unit of its type: cents of an amount.
#[track_caller]
pub(crate) fn number(instance: &Instance, field: &str) -> i128 {
    instance.fields().get(field).and_then(Value::number).expect("a number")
}

/// A value as a client reads it.
pub(crate) fn to_json(value: &Value) -> Json {
    match value {
        Value::None => Json::Null,
        Value::Boolean(truth) => json!(truth),
        Value::Integer(number) => json!(number),
        Value::Set(elements) => elements.iter().map(to_json).collect(),
        Value::List(elements) => elements.iter().map(to_json).collect(),
        Value::Map(entries) => entries.iter().map(|(key, value)| (key.to_string(), to_json(value))).collect(),
        Value::Record(record) => record.fields.iter().map(|(name, value)| (name.to_string(), to_json(value))).collect(),
        text => json!(text.to_string()),
    }
}

/// A value as a client writes it.
fn from_json(ty: &Type, json: &Json) -> Value {
    let each = |ty: &Type, json: &Json| -> Vec<Value> {
        json.as_array().expect("an array").iter().map(|element| from_json(ty, element)).collect()
    };
    let text = |ty: &Type, text: &str| Value::parse(ty, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    match (ty, json) {
        (Type::Optional(_), Json::Null) => Value::None,
        (Type::Optional(ty), json) => from_json(ty, json),
        (Type::Set(ty), json) => Value::Set(Arc::new(each(ty, json).into_iter().collect())),
        (Type::List(ty), json) => Value::List(each(ty, json).into()),
        (Type::Map(types), json) => {
            let entries = json.as_object().expect("an object").iter();
            let entries = entries.map(|(key, value)| (text(&types.0, key), from_json(&types.1, value)));
            Value::Map(Arc::new(entries.collect()))
        }
        (Type::Record(record), json) => {
            let fields = record.fields.iter().enumerate().map(|(index, (name, ty))| {
                let value = match (json.get(&**name), record.default(index)) {
                    (None, Some(default)) => default.clone(),
                    _ => from_json(ty, &json[&**name]),
                };
                (name.clone(), value)
            });
            Value::Record(Arc::new(RecordValue { of: record.name.clone(), fields: fields.collect() }))
        }
        (ty, Json::String(json)) => text(ty, json),
        (ty, json) => text(ty, &json.to_string()),
    }
}

/// An answer without what each request has of its own.
fn without_request_id(body: &Json) -> Json {
    let mut body = body.clone();
    body.as_object_mut().and_then(|body| body.remove("request_id"));
    body
}
