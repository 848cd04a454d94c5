//! A contract served without sockets, and a mirror that the pure function `Spec::step` keeps beside it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use enact_actors::System;
use enact_entities::{Engine, EngineOptions, EntityKey, Rebel, Record};
use enact_journal::{Journal, Memory, Seq};
use enact_rebel::{
    Caller, Class, EventCall, Id, Instance, RecordValue, Reference, Refused, Source, Spec, Timestamp, Type, Value,
    Violation, check,
};
use enact_server::{Options, Token, Tokens, caller_from_outside, router};
use serde_json::{Value as Json, json};
use tower::ServiceExt;

use crate::chance::Chance;

/// Steps of one random world.
const WORLD_STEPS: u64 = 300;

/// A command: who sends it, to which path, with which parameters.
pub(crate) type Command = (&'static str, String, Json);

/// One example, served, with its mirror. Every answer is compared.
pub(crate) struct Served {
    spec: Arc<Spec>,
    journal: Memory,
    router: Router,
    callers: BTreeMap<&'static str, (Caller, Token)>,
    /// The instances as `Spec::step` says they are.
    mirror: BTreeMap<Reference, Instance>,
    /// The commands that happened: path and parameters.
    happened: Vec<(String, Json)>,
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
    /// The contract `examples/{example}.rebel`, with callers: id and roles.
    pub(crate) fn open(example: &str, callers: &[(&'static str, &[&str])]) -> Self {
        let path = format!("{}/../../examples/{example}.rebel", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("an example");
        let spec = Arc::new(check(vec![Source::new(example, text)]).unwrap_or_else(|report| panic!("{report}")));
        let caller = |(number, (id, roles)): (u8, &(&'static str, &[&str]))| {
            let caller = caller_from_outside(id, roles.iter().copied()).expect("a caller");
            (*id, (caller, Token::from_random([number; 32])))
        };
        let callers: BTreeMap<_, _> = (1..).zip(callers).map(caller).collect();
        let lines: Vec<_> = callers.values().map(|(caller, token)| token.line(caller)).collect();
        let tokens = Tokens::parse(lines.join("\n").as_bytes()).expect("well formed");
        let options = Options { tokens: Some(tokens), ..Options::loopback([127, 0, 0, 1].into()) };
        let (journal, system) = (Memory::new(), System::builder().workers(2).build().expect("two threads"));
        let engine = Engine::new(Rebel::new(spec.clone()), journal.clone(), system, EngineOptions::default());
        Self {
            router: router(engine, options),
            spec,
            journal,
            callers,
            mirror: BTreeMap::new(),
            happened: Vec::new(),
            sent: 0,
        }
    }

    /// Sends a command to `/Class/ID/Event`, or `/Class/Event` to create an instance without naming it.
    ///
    /// # Panics
    /// If `Spec::step` does not answer alike, or a touched instance is read otherwise than the mirror has it.
    pub(crate) async fn post(&mut self, who: &str, path: &str, body: Json) -> Answer {
        self.sent += 1;
        let key = format!("command-{}", self.sent);
        let answer = self.send(who, path, &key, &body).await;
        if self.sent.is_multiple_of(8) {
            let again = self.send(who, path, &key, &body).await;
            assert_eq!((again.status, &again.body), (answer.status, &answer.body), "sent again: {path} {body}");
            let is_recorded = answer.status == 200 || answer.status == 409;
            assert!(again.headers.contains_key("idempotency-replayed") || !is_recorded, "{again:#?}");
        }
        let (target, call) = self.call(who, path, &body, &answer);
        let at = self.time_of(&target, &answer).await;
        let expected = self.spec.step(&self.mirror, &target, &call, at);
        match expected {
            Ok(accepted) => {
                assert_eq!(answer.status, 200, "{who}: {path} {body} is possible: {answer:#?}");
                assert_eq!(answer.body["result"], accepted.result.as_ref().map_or(Json::Null, to_json), "{path}");
                assert_eq!(answer.body["state"], **accepted.after[&target].state(), "{path}");
                self.happened.push((path.to_owned(), body));
                for (touched, instance) in accepted.after {
                    self.mirror.insert(touched.clone(), instance);
                    self.is_mirrored(&touched, answer.body["transaction"].as_str().expect("a text")).await;
                }
            }
            Err(refused) => {
                let (status, class) = (self.status(&refused, &target), &target.class);
                assert_eq!(answer.status, status, "{who}: {path} {body} of {class}: {refused}: {answer:#?}");
            }
        }
        answer
    }

    /// Asks a question.
    pub(crate) async fn get(&self, who: &str, path: &str) -> Answer {
        let request = Request::get(path).header("host", "localhost").header("authorization", self.bearer(who));
        self.ask(request.body(Body::empty()).expect("a request")).await
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
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("authorization", self.bearer(who))
            .header("idempotency-key", key);
        self.ask(request.body(Body::from(body.to_string())).expect("a request")).await
    }

    fn bearer(&self, who: &str) -> String {
        format!("Bearer {}", self.callers[who].1)
    }

    async fn ask(&self, request: Request<Body>) -> Answer {
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
        let call = event.call(event.params().iter().map(|parameter| (&**parameter.name(), argument(parameter))));
        let call = call.unwrap_or_else(|errors| panic!("{path} {body}: {errors:?}"));
        let caller = self.callers[who].0.clone();
        (class.reference(class.key(&id).expect("a key")), call.with_caller(caller))
    }

    /// When the command happened: as journaled, or by now.
    async fn time_of(&self, target: &Reference, answer: &Answer) -> Timestamp {
        if answer.status == 200 {
            let key = EntityKey::new(&target.class, &target.key.to_string()).expect("a key");
            let records = self.journal.read(&key, Seq::NONE).await.expect("readable");
            for record in records.iter().rev() {
                if let Ok(Record::Committed { tx, at, .. }) = Record::<EventCall>::decode(&record.payload)
                    && answer.body["transaction"] == tx.to_string()
                {
                    return Timestamp::from_millis(at.0);
                }
            }
            panic!("{key} has no record of {answer:#?}");
        }
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        Timestamp::from_millis(i64::try_from(since.as_millis()).expect("before the end"))
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

    /// The instance reads over HTTP as the mirror has it, after the transaction.
    async fn is_mirrored(&self, reference: &Reference, transaction: &str) {
        let instance = &self.mirror[reference];
        let (Reference { class, key }, who) = (reference, self.callers.keys().next().expect("a caller"));
        let read = self.get(who, &format!("/{class}/{key}?after={transaction}")).await;
        let fields: serde_json::Map<_, _> =
            instance.fields().iter().map(|(name, value)| (name.to_string(), to_json(value))).collect();
        let expected =
            json!({ "class": **class, "id": key.to_string(), "state": **instance.state(), "fields": fields });
        assert_eq!((read.status, read.body), (StatusCode::OK, expected));
    }
}

/// Makes random steps in worlds of their own: `choose` says what is sent next, and `conserved` counts after each step.
///
/// `ENACT_SCENARIO_STEPS` says how many steps, `ENACT_SEED` where the seeds begin. A failure prints its seed.
pub(crate) async fn random(
    open: impl AsyncFn() -> Served,
    choose: impl Fn(&mut Chance, &Served) -> Command,
    conserved: impl Fn(&Served),
) {
    let number = |name: &str, standard| std::env::var(name).map_or(standard, |text| text.parse().expect("a number"));
    let (steps, first) = (number("ENACT_SCENARIO_STEPS", WORLD_STEPS), number("ENACT_SEED", 0));
    let (mut accepted, mut refused) = (0, 0);
    for world in 0..steps.div_ceil(WORLD_STEPS) {
        let seed = TellSeed(first + world);
        let (mut chance, mut served) = (Chance::new(seed.0), open().await);
        for _ in 0..WORLD_STEPS.min(steps - world * WORLD_STEPS) {
            let (who, path, body) = choose(&mut chance, &served);
            match served.post(who, &path, body).await.status.as_u16() {
                200 => accepted += 1,
                _ => refused += 1,
            }
            conserved(&served);
        }
    }
    let is_telling = accepted * 5 > steps && refused * 20 > steps;
    assert!(is_telling || steps < WORLD_STEPS, "{accepted} accepted and {refused} refused mean little");
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
            let fields = record.fields.iter().map(|(name, ty)| (name.clone(), from_json(ty, &json[&**name])));
            Value::Record(Arc::new(RecordValue { of: record.name.clone(), fields: fields.collect() }))
        }
        (ty, Json::String(json)) => text(ty, json),
        (ty, json) => text(ty, &json.to_string()),
    }
}
