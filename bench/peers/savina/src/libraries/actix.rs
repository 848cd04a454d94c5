//! actix: the behaviour is the actor, on an arbiter, which is a thread.
//!
//! All actors on one arbiter are the fastest choice for programs that only send; with as many as there are workers,
//! actors go to them in turn.
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use actix::fut::{ActorFutureExt, WrapFuture};
use actix::{
    Actor, ActorContext, Addr, Arbiter, ArbiterHandle, AsyncContext, Context, ContextFutureSpawner, Handler, Message,
    MessageResult, System,
};

use crate::stage::{Behaviour, Dialogue, Library, Turn};

/// The crate `actix`.
#[derive(Clone)]
pub(crate) struct Actix {
    arbiters: Arc<[ArbiterHandle]>,
    spawned: Arc<AtomicUsize>,
}

impl Actix {
    pub(crate) fn on_arbiters(count: usize) -> Self {
        // Arbiters belong to the system of the thread that makes them; nothing here needs it to run.
        drop(System::new());
        let arbiters = (0..count).map(|_| Arbiter::new().handle()).collect();
        Self { arbiters, spawned: Arc::default() }
    }

    /// The one whose turn it is.
    fn arbiter(&self) -> &ArbiterHandle {
        // Relaxed: spreads load, orders nothing.
        &self.arbiters[self.spawned.fetch_add(1, Ordering::Relaxed) % self.arbiters.len()]
    }
}

/// An actor that knows itself. It would end, and perhaps not see its last message, when another thread sends that and
/// then drops the last address; so it ends by its own word only.
pub(crate) struct Acting<B: Behaviour<Actix>> {
    behaviour: B,
    me: Addr<Self>,
}

impl<B: Behaviour<Actix>> Actor for Acting<B> {
    type Context = Context<Self>;
}

impl<B: Behaviour<Actix>> Acting<B> {
    fn new(behaviour: B, context: &Context<Self>) -> Self {
        Self { behaviour, me: context.address() }
    }
}

struct Told<M>(M);

impl<M: 'static> Message for Told<M> {
    type Result = ();
}

impl<B: Behaviour<Actix>> Handler<Told<B::Message>> for Acting<B> {
    type Result = ();

    fn handle(&mut self, Told(message): Told<B::Message>, context: &mut Context<Self>) {
        if let ControlFlow::Break(()) = self.behaviour.handle(message, || self.me.clone()) {
            context.stop();
        }
    }
}

/// An actor that asks or is asked, and also knows itself.
pub(crate) struct Talking<D: Dialogue<Actix>> {
    dialogue: D,
    _me: Addr<Self>,
}

impl<D: Dialogue<Actix>> Actor for Talking<D> {
    type Context = Context<Self>;
}

impl<D: Dialogue<Actix>> Handler<Told<D::Message>> for Talking<D> {
    type Result = ();

    fn handle(&mut self, Told(message): Told<D::Message>, context: &mut Context<Self>) {
        match self.dialogue.handle(message) {
            Turn::Next => {}
            Turn::Ask(to, question) => {
                let answer = to.send(Asked(question, PhantomData)).into_actor(self);
                let answered = answer.map(|answer, talking, _context| {
                    talking.dialogue.answered(answer.expect("an asked actor does not end"));
                });
                answered.wait(context);
            }
            Turn::Stop => context.stop(),
        }
    }
}

pub(crate) struct Asked<Q, A>(Q, PhantomData<fn() -> A>);

impl<Q: 'static, A: 'static> Message for Asked<Q, A> {
    type Result = A;
}

impl<D: Dialogue<Actix>> Handler<Asked<D::Question, D::Answer>> for Talking<D> {
    type Result = MessageResult<Asked<D::Question, D::Answer>>;

    fn handle(&mut self, asked: Asked<D::Question, D::Answer>, _context: &mut Context<Self>) -> Self::Result {
        MessageResult(self.dialogue.answer(asked.0))
    }
}

impl Library for Actix {
    type Ref<B: Behaviour<Self>> = Addr<Acting<B>>;

    fn spawn<B: Behaviour<Self>>(&self, behaviour: B) -> Self::Ref<B> {
        Acting::start_in_arbiter(self.arbiter(), |context| Acting::new(behaviour, context))
    }

    /// Where there is but one arbiter, this is its thread.
    fn spawn_in_turn<B: Behaviour<Self>>(&self, behaviour: B) -> Self::Ref<B> {
        if self.arbiters.len() == 1 {
            return Acting::create(|context| Acting::new(behaviour, context));
        }
        self.spawn(behaviour)
    }

    fn tell<B: Behaviour<Self>>(to: &Self::Ref<B>, message: B::Message) {
        to.do_send(Told(message));
    }

    type PartnerRef<D: Dialogue<Self>> = Addr<Talking<D>>;

    fn spawn_partner<D: Dialogue<Self>>(&self, dialogue: D) -> Self::PartnerRef<D> {
        Talking::start_in_arbiter(self.arbiter(), |context| Talking { dialogue, _me: context.address() })
    }

    fn tell_partner<D: Dialogue<Self>>(to: &Self::PartnerRef<D>, message: D::Message) {
        to.do_send(Told(message));
    }
}
