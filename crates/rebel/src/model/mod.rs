//! The checked specification: every name is resolved, every expression typed.

pub(crate) mod builtin;
pub(crate) mod expr;
mod timer;

use std::sync::Arc;

pub use self::builtin::Builtin;
pub(crate) use self::expr::Let;
use self::expr::{Effect, Expr, ExprKind, Returned, Rule, Statement};
pub use self::timer::{Due, Timer};
use crate::analysis::Relation;
use crate::caller::Caller;
use crate::diagnostic::Report;
use crate::instance::{EventCall, Instance};
use crate::source::Span;
use crate::value::{Enumeration, Key, KeyType, Name, Type, Value, ValueError, is_same};
use crate::violation::Violation;

/// A checked specification: its classes, and the warnings that came with them.
///
/// Made by [`check`](crate::check). Immutable; classes are shared, so that each entity can hold its own.
#[derive(Debug)]
pub struct Spec {
    pub(crate) modules: Vec<Module>,
    pub(crate) version: u32,
    pub(crate) classes: Vec<Arc<Class>>,
    pub(crate) enums: Vec<Arc<Enumeration>>,
    pub(crate) warnings: Report,
}

impl Spec {
    /// The modules, in the order of the sources. A source without a `module` line is none.
    #[must_use]
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The version that its `module` lines state; 1 if none does.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The classes, in the order of the sources.
    pub fn classes(&self) -> impl ExactSizeIterator<Item = &Arc<Class>> {
        self.classes.iter()
    }

    /// The class called `name`.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<&Arc<Class>> {
        self.classes.iter().find(|class| *class.name == *name)
    }

    /// The enums, in the order of the sources.
    pub fn enums(&self) -> impl ExactSizeIterator<Item = &Enumeration> {
        self.enums.iter().map(|enumeration| &**enumeration)
    }

    /// What is allowed but probably not meant.
    #[must_use]
    pub fn warnings(&self) -> &Report {
        &self.warnings
    }
}

/// A source that begins with `module`.
#[derive(Clone, Debug)]
pub struct Module {
    pub(crate) name: Name,
    pub(crate) version: Option<u32>,
    pub(crate) span: Span,
    pub(crate) source: usize,
}

impl Module {
    /// The name, with its dots.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The number behind `version`, from 1.
    #[must_use]
    pub fn version(&self) -> Option<u32> {
        self.version
    }

    /// Where its name stands.
    #[must_use]
    pub fn span(&self) -> Span {
        self.span
    }

    /// The index of the source that it is.
    #[must_use]
    pub fn source(&self) -> usize {
        self.source
    }
}

/// A class: fields, a life cycle, and the events that move an instance through it.
///
/// Self-contained: deciding and applying an event of an instance needs its class and nothing else.
#[derive(Debug)]
pub struct Class {
    pub(crate) name: Name,
    pub(crate) module: Option<Name>,
    pub(crate) is_external: bool,
    pub(crate) indexes: Vec<Vec<Name>>,
    pub(crate) documentation: String,
    /// The fields of the identity, in the order of the source.
    pub(crate) identity: Vec<Name>,
    pub(crate) key_type: KeyType,
    pub(crate) fields: Vec<Field>,
    /// The names of the fields, in order: those that bindings of all fields have.
    pub(crate) names: Arc<[Name]>,
    pub(crate) states: Vec<State>,
    pub(crate) events: Vec<Event>,
    pub(crate) invariants: Vec<Rule>,
    pub(crate) timers: Vec<Timer>,
    pub(crate) initial: Instance,
    /// Of every pair (open, incoming), row by row.
    pub(crate) relations: Vec<Relation>,
    /// Of its name.
    pub(crate) span: Span,
}

impl Class {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The module that declares it.
    #[must_use]
    pub fn module(&self) -> Option<&Name> {
        self.module.as_ref()
    }

    /// Whether only its events are declared, and somebody else decides what happens to its instances. The interpreter takes each
    /// event that its states have; who serves instances refuses such a class.
    #[must_use]
    pub fn is_external(&self) -> bool {
        self.is_external
    }

    /// The fields that queries may ask for together, in the order of the source: single values, those of the identity included, each
    /// at most once.
    #[must_use]
    pub fn indexes(&self) -> &[Vec<Name>] {
        &self.indexes
    }

    /// What the `///` lines before it say.
    #[must_use]
    pub fn documentation(&self) -> &str {
        &self.documentation
    }

    /// The `@identity` fields, in the order of the source. A class without any is addressed by any text.
    #[must_use]
    pub fn identity(&self) -> &[Name] {
        &self.identity
    }

    /// The type of the identity.
    #[must_use]
    pub fn key_type(&self) -> &KeyType {
        &self.key_type
    }

    /// Reads an identity of this class from its text form.
    ///
    /// # Errors
    /// What [`Key::parse`] says of the text.
    pub fn key(&self, text: &str) -> Result<Key, ValueError> {
        Key::parse(&self.key_type, text)
    }

    /// The fields but the identity, in the order of the source.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The states, in the order of the source.
    #[must_use]
    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// The events, in the order of the source.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// What holds of every instance at the end of a step, in the order of the source.
    #[must_use]
    pub fn invariants(&self) -> &[Rule] {
        &self.invariants
    }

    /// What happens by itself, in the order of the source.
    #[must_use]
    pub fn timers(&self) -> &[Timer] {
        &self.timers
    }

    /// Where its name is declared.
    #[must_use]
    pub fn span(&self) -> Span {
        self.span
    }

    /// The event called `name`.
    #[must_use]
    pub fn event(&self, name: &str) -> Option<&Event> {
        self.events.iter().find(|event| *event.name == *name)
    }

    /// Whether what `event` does may depend on its time: it, or an invariant, reads `now` or `today`.
    #[must_use]
    pub fn reads_time(&self, event: &Event) -> bool {
        let mut found = false;
        let mut look =
            |expr: &Expr| expr.walk(&mut |expr| found |= matches!(&expr.kind, ExprKind::Now | ExprKind::Today));
        event.transitions.iter().flat_map(|transition| transition.body.expressions()).for_each(&mut look);
        self.invariants.iter().for_each(|invariant| look(&invariant.expr));
        found
    }

    /// The instance that every instance is before its first event: in the initial state, with the declared defaults.
    ///
    /// An instance that was never stored is this one. Fields without a default have no value yet.
    #[must_use]
    pub fn initial(&self) -> Instance {
        self.initial.clone()
    }

    pub(crate) fn is_initial(&self, state: &str) -> bool {
        **self.initial.state() == *state
    }
}

/// A field.
#[derive(Debug)]
pub struct Field {
    pub(crate) name: Name,
    pub(crate) documentation: String,
    pub(crate) ty: Type,
    /// The index in [`Bindings`](crate::Bindings) of all fields.
    pub(crate) slot: usize,
}

impl Field {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// What the `///` lines before it say.
    #[must_use]
    pub fn documentation(&self) -> &str {
        &self.documentation
    }

    /// The type.
    #[must_use]
    pub fn ty(&self) -> &Type {
        &self.ty
    }
}

/// What a state is in the life cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateKind {
    /// Where every instance begins; an instance in it does not exist yet. Never entered.
    Initial,
    /// Neither of the others.
    Intermediate,
    /// Where instances end; no event leaves it.
    Final,
}

/// A state of the life cycle.
#[derive(Debug)]
pub struct State {
    pub(crate) name: Name,
    pub(crate) kind: StateKind,
    /// Of its name.
    pub(crate) span: Span,
}

impl State {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// What it is in the life cycle.
    #[must_use]
    pub fn kind(&self) -> StateKind {
        self.kind
    }

    /// Where it is named first.
    #[must_use]
    pub fn span(&self) -> Span {
        self.span
    }
}

/// A parameter of an event.
#[derive(Clone, Debug)]
pub struct Param {
    pub(crate) name: Name,
    pub(crate) ty: Type,
    /// The rank of the name among all parameters, which is its index in bindings of all of them.
    pub(crate) slot: usize,
    pub(crate) default: Option<Value>,
    /// Of a personal one, the parameter that says whose it is.
    pub(crate) subject: Option<Name>,
}

impl Param {
    /// A variable, which stands in no bindings.
    pub(crate) fn local(name: Name, ty: Type) -> Self {
        Self { name, ty, slot: 0, default: None, subject: None }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The type.
    #[must_use]
    pub fn ty(&self) -> &Type {
        &self.ty
    }

    /// The argument of a call that gives none, if there is one.
    #[must_use]
    pub fn default(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    /// Of a [personal](Type::Personal) one, the parameter that refers to the instance whose values it takes; nothing if they are those
    /// of the instance that the event happens to.
    #[must_use]
    pub fn subject(&self) -> Option<&Name> {
        self.subject.as_ref()
    }
}

/// An event: what can happen to an instance, in which states, and where it leads.
#[derive(Debug)]
pub struct Event {
    pub(crate) name: Name,
    pub(crate) documentation: String,
    pub(crate) params: Vec<Param>,
    pub(crate) internal: bool,
    /// Whether it only reads.
    pub(crate) read: bool,
    pub(crate) result: Option<Type>,
    /// Of which the caller needs one, if there are any.
    pub(crate) roles: Vec<Name>,
    /// Whether it reads the id of the caller.
    pub(crate) reads_caller: bool,
    /// Whether it needs a seed.
    pub(crate) needs_seed: bool,
    pub(crate) transitions: Vec<Transition>,
    /// Of its name.
    pub(crate) span: Span,
}

impl Event {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// What the `///` lines before its declarations say.
    #[must_use]
    pub fn documentation(&self) -> &str {
        &self.documentation
    }

    /// The parameters, in the order of the source.
    #[must_use]
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Whether it only happens when another event synchronises with it. The interpreter accepts it either way; who
    /// takes requests from outside refuses it.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        self.internal
    }

    /// Whether it only reads: it is asked and changes nothing, and the states it is possible in lead to themselves.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.read
    }

    /// The type of the value that it returns, if it returns one.
    #[must_use]
    pub fn result(&self) -> Option<&Type> {
        self.result.as_ref()
    }

    /// Whether a call of it returns the same wherever it happens: what it returns reads no field.
    #[must_use]
    pub fn has_fixed_result(&self) -> bool {
        let mut returned = self.transitions.iter().map(|transition| transition.body.returned.as_ref());
        let Some(Some(first)) = returned.next() else { return false };
        let mut reads = false;
        let read = |expr: &Expr| matches!(&expr.kind, ExprKind::Field(_) | ExprKind::NewField(_));
        first.value.walk(&mut |expr| reads |= read(expr));
        !reads && returned.all(|other| other.is_some_and(|other| other.value == first.value))
    }

    /// The roles of which the caller needs one, in the order of the source; without any, everybody may call it.
    #[must_use]
    pub fn roles(&self) -> &[Name] {
        &self.roles
    }

    /// Whether it is refused where no caller is known: it demands a role, or reads the id of the caller.
    #[must_use]
    pub fn needs_caller(&self) -> bool {
        self.reads_caller || !self.roles.is_empty()
    }

    /// Whether a step that begins with it needs a [seed](EventCall::with_seed): it names a fresh instance, or may call an event
    /// that does.
    #[must_use]
    pub fn needs_seed(&self) -> bool {
        self.needs_seed
    }

    /// Whether it names a fresh instance.
    #[must_use]
    pub fn uses_fresh(&self) -> bool {
        let mut found = false;
        let mut look = |expr: &Expr| expr.walk(&mut |expr| found |= matches!(&expr.kind, ExprKind::Fresh(..)));
        self.transitions.iter().flat_map(|transition| transition.body.expressions()).for_each(&mut look);
        found
    }

    /// Why it is refused to the caller of `call`, which is a call of it.
    pub(crate) fn role_violation(&self, call: &EventCall) -> Option<Violation> {
        let has_role = |caller: &Caller| self.roles.is_empty() || self.roles.iter().any(|role| caller.has(role));
        let is_fine = call.caller().map_or(!self.needs_caller(), has_role);
        (!is_fine).then(|| Violation::Role { event: self.name.clone(), roles: self.roles.clone() })
    }

    /// Finds out whether it reads the id of the caller.
    pub(crate) fn note_caller(&mut self) {
        let expressions = self.transitions.iter().flat_map(|transition| transition.body.expressions());
        let mut found = false;
        expressions.for_each(|expr| expr.walk(&mut |expr| found |= matches!(&expr.kind, ExprKind::CallerId)));
        self.reads_caller = found;
    }

    /// Whether it asks other instances questions whose answers it reads. Conditions on others that are guards of their own are
    /// none: they only have to hold.
    #[must_use]
    pub fn asks(&self) -> bool {
        self.transitions.iter().any(|transition| transition.body.asks)
    }

    /// Whether it may need anything of other instances: that they do something, or a condition on them.
    #[must_use]
    pub fn needs_others(&self) -> bool {
        self.transitions.iter().any(|transition| !transition.body.statements.is_empty())
    }

    /// The states it leaves, each with the state it leads to; one for each variant.
    pub fn transitions(&self) -> impl ExactSizeIterator<Item = (&Name, &Name)> {
        self.transitions.iter().map(|transition| (&transition.source, &transition.target))
    }

    /// What it does in each state that it leaves, in each of its variants there; in the order of the text.
    #[must_use]
    pub fn ways(&self) -> &[Transition] {
        &self.transitions
    }

    /// Where its name is declared first.
    #[must_use]
    pub fn span(&self) -> Span {
        self.span
    }

    /// What it does in `state`; if it has variants there, the first.
    pub(crate) fn transition(&self, state: &Name) -> Option<&Transition> {
        self.transitions.iter().find(|transition| is_same(&transition.source, state))
    }

    /// Whether it has variants in `state`.
    pub(crate) fn has_variants(&self, state: &Name) -> bool {
        self.transition(state).is_some_and(|first| first.variant.is_some())
    }

    /// What it may do in `state`, in the order of the text.
    pub(crate) fn variants<'a>(&'a self, state: &'a Name) -> impl Iterator<Item = &'a Transition> {
        self.transitions.iter().filter(move |transition| transition.source == *state)
    }
}

/// What an event does in one state, or one of its variants there.
#[derive(Debug)]
pub struct Transition {
    /// The state that is left.
    pub source: Name,
    /// The state that it leads to.
    pub target: Name,
    /// The variant, if the event has some.
    pub variant: Option<Name>,
    /// What happens; shared by the states of one group.
    pub body: Arc<Body>,
}

/// What an event, or one of its variants, needs and does.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// The values that it names, each after those that it reads.
    pub lets: Vec<Arc<Let>>,
    /// What has to hold.
    pub guards: Vec<Rule>,
    /// How many of the guards all variants have; all of them if there are no variants.
    pub common: usize,
    /// What it changes, all at once.
    pub effects: Vec<Effect>,
    /// What it needs from other instances: conditions among the guards, and calls in the order of the text.
    pub statements: Vec<Statement>,
    /// What it returns.
    pub returned: Option<Arc<Returned>>,
    /// Whether it asks other instances questions whose answers it reads.
    pub(crate) asks: bool,
}

impl Body {
    /// Every expression of guards, effects, statements and what is returned.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let guards = self.guards.iter().map(|guard| &guard.expr);
        let effects = self.effects.iter().map(|effect| &effect.value);
        let returned = self.returned.iter().map(|returned| &returned.value);
        guards.chain(effects).chain(self.statements.iter().flat_map(Statement::expressions)).chain(returned)
    }
}

/// A function of the language. It reads nothing but its parameters, which are its locals.
#[derive(Debug, PartialEq)]
pub struct Function {
    /// What it computes.
    pub body: Expr,
    /// Whether it, or a function it calls, may lack a value for another reason than the range of numbers.
    pub(crate) may_mismatch: bool,
}
