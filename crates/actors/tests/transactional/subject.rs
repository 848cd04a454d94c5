//! Actors that do in a turn what the test says, and keep notes: what they note is their state.
use std::pin::Pin;

use enact_actors::{Actor, ActorError, Ask, Cx, Promise, Sent, System, actor};
use enact_stm::{Abort, Tx, atomically};

/// What a turn does; it answers with a number.
pub(crate) enum Turn<A: Actor> {
    Plain(Plain<A>),
    Shared(Reading<A>),
    Held(Held<A>),
    Cooperative(Cooperative<A>),
}

pub(crate) type Plain<A> = Box<dyn FnOnce(&mut A, &Cx<A>) -> u32 + Send>;
pub(crate) type Reading<A> = Box<dyn FnOnce(&A, &Cx<A>) -> u32 + Send>;
pub(crate) type Held<A> = Box<dyn for<'a> FnOnce(&'a mut A, &'a Cx<A>) -> Work<'a> + Send>;
pub(crate) type Cooperative<A> = Box<dyn FnOnce(Cx<A>) -> Work<'static> + Send>;
pub(crate) type Work<'a> = Pin<Box<dyn Future<Output = u32> + Send + 'a>>;

pub(crate) fn plain<A: Actor>(act: impl FnOnce(&mut A, &Cx<A>) -> u32 + Send + 'static) -> Turn<A> {
    Turn::Plain(Box::new(act))
}

pub(crate) fn reading<A: Actor>(act: impl FnOnce(&A, &Cx<A>) -> u32 + Send + 'static) -> Turn<A> {
    Turn::Shared(Box::new(act))
}

pub(crate) fn held<A: Actor>(act: impl for<'a> FnOnce(&'a mut A, &'a Cx<A>) -> Work<'a> + Send + 'static) -> Turn<A> {
    Turn::Held(Box::new(act))
}

pub(crate) fn cooperative<A: Actor>(act: impl FnOnce(Cx<A>) -> Work<'static> + Send + 'static) -> Turn<A> {
    Turn::Cooperative(Box::new(act))
}

/// A turn that notes `n` and answers with it.
pub(crate) fn note<A: Subject>(n: u32) -> Turn<A> {
    plain(move |actor: &mut A, _| actor.note(n))
}

/// The kinds of handlers in which a transaction can be run to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    Held,
    Cooperative,
}

pub(crate) const FORMS: [Form; 3] = [Form::Plain, Form::Held, Form::Cooperative];

/// A turn that runs a transaction and then does `rest` with what that gave.
pub(crate) fn transact<A: Subject>(
    form: Form,
    body: impl for<'t> Fn(&mut Tx<'t, 'static>) -> Result<u32, Abort> + Send + 'static,
    rest: impl FnOnce(&mut A, u32) -> u32 + Send + 'static,
) -> Turn<A> {
    match form {
        Form::Plain => plain(move |actor: &mut A, _| {
            let given = atomically(body).run();
            rest(actor, given)
        }),
        Form::Held => held(move |actor: &mut A, _| {
            Box::pin(async move {
                let given = atomically(body).await;
                rest(actor, given)
            })
        }),
        Form::Cooperative => cooperative(move |cx: Cx<A>| {
            Box::pin(async move {
                let given = atomically(body).await;
                cx.with(|actor| rest(actor, given))
            })
        }),
    }
}

/// An actor that does what it is told in its turns.
pub(crate) trait Subject: Actor<Ref: Directed<Self>> {
    const IS_SPECULATIVE: bool;

    fn with_notes(notes: &[u32]) -> Self;

    fn new() -> Self {
        Self::with_notes(&[])
    }

    fn notes(&self) -> &[u32];

    /// Notes `n` and gives it back.
    fn note(&mut self, n: u32) -> u32;
}

/// The handle of a [`Subject`].
pub(crate) trait Directed<A: Actor> {
    fn ask(&self, turn: Turn<A>) -> Promise<u32>;
    fn ask_within(&self, tx: &mut Tx<'_, '_>, turn: Turn<A>) -> Ask<u32>;
    fn send(&self, turn: Turn<A>) -> Sent;
    fn send_within(&self, tx: &mut Tx<'_, '_>, turn: Turn<A>) -> Sent;
    fn have(&self, cx: &Cx<impl Actor>, turn: Turn<A>) -> Result<u32, ActorError>;
    /// What the actor has noted when the messages before this one have been taken up.
    fn noted(&self) -> Vec<u32>;
}

macro_rules! subject {
    ($doc:literal: #[$actor:meta] $name:ident, $reference:ident, speculative: $is_speculative:literal) => {
        #[doc = $doc]
        pub(crate) struct $name {
            notes: Vec<u32>,
        }

        #[$actor]
        impl $name {
            fn plain(&mut self, cx: &Cx<Self>, act: Plain<Self>) -> u32 {
                act(self, cx)
            }

            fn shared(&self, cx: &Cx<Self>, act: Reading<Self>) -> u32 {
                act(self, cx)
            }

            async fn held(&mut self, cx: &Cx<Self>, act: Held<Self>) -> u32 {
                act(self, cx).await
            }

            async fn cooperative(cx: Cx<Self>, act: Cooperative<Self>) -> u32 {
                act(cx).await
            }
        }

        impl Subject for $name {
            const IS_SPECULATIVE: bool = $is_speculative;

            fn with_notes(notes: &[u32]) -> Self {
                Self { notes: notes.to_vec() }
            }

            fn notes(&self) -> &[u32] {
                &self.notes
            }

            fn note(&mut self, n: u32) -> u32 {
                self.notes.push(n);
                n
            }
        }

        impl Directed<$name> for $reference {
            fn ask(&self, turn: Turn<$name>) -> Promise<u32> {
                through!(self, turn)
            }

            fn ask_within(&self, tx: &mut Tx<'_, '_>, turn: Turn<$name>) -> Ask<u32> {
                through!(self.within(tx), turn)
            }

            fn send(&self, turn: Turn<$name>) -> Sent {
                through!(self.tell(), turn)
            }

            fn send_within(&self, tx: &mut Tx<'_, '_>, turn: Turn<$name>) -> Sent {
                through!(self.tell_within(tx), turn)
            }

            fn have(&self, cx: &Cx<impl Actor>, turn: Turn<$name>) -> Result<u32, ActorError> {
                through!(self.call(cx), turn)
            }

            fn noted(&self) -> Vec<u32> {
                self.run(|actor, _| actor.notes.clone()).wait().expect("it is alive")
            }
        }
    };
}

macro_rules! through {
    ($view:expr, $turn:ident) => {
        match $turn {
            Turn::Plain(act) => $view.plain(act),
            Turn::Shared(act) => $view.shared(act),
            Turn::Held(act) => $view.held(act),
            Turn::Cooperative(act) => $view.cooperative(act),
        }
    };
}

subject! {
    "Takes up undecided messages at once.": #[actor(pub(crate), speculative)] Eager, EagerRef, speculative: true
}

impl Clone for Eager {
    fn clone(&self) -> Self {
        Self { notes: self.notes.clone() }
    }
}

subject! {
    "Lets undecided messages wait. It cannot be cloned.": #[actor(pub(crate))] Patient, PatientRef, speculative: false
}

/// Makes each case a test for either kind of actors.
macro_rules! for_both_kinds {
    ($($case:ident),* $(,)?) => {
        mod eager {
            $(#[test]
            fn $case() {
                let _turn = crate::my_turn();
                super::$case::<crate::subject::Eager>();
            })*
        }

        mod patient {
            $(#[test]
            fn $case() {
                let _turn = crate::my_turn();
                super::$case::<crate::subject::Patient>();
            })*
        }
    };
}

pub(crate) fn system(workers: usize) -> System {
    System::builder().workers(workers).build().expect("threads for the workers")
}

/// More runs than a test leaves to be done.
const RUNS: usize = 16;

/// Has the only worker of `system` take up what it has been given so far. What a test finds not to have happened after
/// that could have happened.
pub(crate) fn settle(system: &System) {
    // For each run from outside, the worker owes one to what it has itself. One actor could answer several asks in
    // the same run.
    for _ in 0..RUNS {
        system.spawn(Patient::new()).ask(note(0)).wait().expect("it is alive");
    }
}

/// What a message of a transaction is answered, by the fate of that.
pub(crate) fn answer(commits: bool, value: u32) -> Result<u32, ActorError> {
    if commits { Ok(value) } else { Err(ActorError::Retracted) }
}
