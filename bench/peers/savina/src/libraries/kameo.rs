//! kameo: the behaviour is the actor, its enum the one message it handles.
use std::convert::Infallible;
use std::ops::ControlFlow;

use kameo::Actor;
use kameo::actor::{ActorRef, Spawn};
use kameo::mailbox;
use kameo::message::{Context, Message};

use crate::stage::{Behaviour, Dialogue, Library, Turn};

/// The crate `kameo`.
#[derive(Clone)]
pub(crate) struct Kameo;

pub(crate) struct Acting<B>(B);

impl<B: Behaviour<Kameo>> Actor for Acting<B> {
    type Args = Self;
    type Error = Infallible;

    async fn on_start(args: Self, _me: ActorRef<Self>) -> Result<Self, Infallible> {
        Ok(args)
    }
}

pub(crate) struct Told<M>(M);

impl<B: Behaviour<Kameo>> Message<Told<B::Message>> for Acting<B> {
    type Reply = ();

    async fn handle(&mut self, Told(message): Told<B::Message>, context: &mut Context<Self, ()>) {
        if let ControlFlow::Break(()) = self.0.handle(message, || context.actor_ref().clone()) {
            context.stop();
        }
    }
}

/// An actor that asks or is asked.
pub(crate) struct Talking<D>(D);

impl<D: Dialogue<Kameo>> Actor for Talking<D> {
    type Args = Self;
    type Error = Infallible;

    async fn on_start(args: Self, _me: ActorRef<Self>) -> Result<Self, Infallible> {
        Ok(args)
    }
}

impl<D: Dialogue<Kameo>> Message<Told<D::Message>> for Talking<D> {
    type Reply = ();

    async fn handle(&mut self, Told(message): Told<D::Message>, context: &mut Context<Self, ()>) {
        match self.0.handle(message) {
            Turn::Next => {}
            Turn::Ask(to, question) => {
                let answer = to.ask(Asked(question)).await;
                self.0.answered(answer.unwrap_or_else(|_| panic!("an asked actor does not end")));
            }
            Turn::Stop => context.stop(),
        }
    }
}

pub(crate) struct Asked<Q>(Q);

impl<D: Dialogue<Kameo>> Message<Asked<D::Question>> for Talking<D> {
    type Reply = Result<D::Answer, Infallible>;

    async fn handle(
        &mut self,
        Asked(question): Asked<D::Question>,
        _context: &mut Context<Self, Self::Reply>,
    ) -> Self::Reply {
        Ok(self.0.answer(question))
    }
}

impl Library for Kameo {
    type Ref<B: Behaviour<Self>> = ActorRef<Acting<B>>;

    fn spawn<B: Behaviour<Self>>(&self, behaviour: B) -> Self::Ref<B> {
        Acting::spawn_with_mailbox(Acting(behaviour), mailbox::unbounded())
    }

    fn tell<B: Behaviour<Self>>(to: &Self::Ref<B>, message: B::Message) {
        // The actor has ended, or it hears us.
        to.tell(Told(message)).try_send().ok();
    }

    type PartnerRef<D: Dialogue<Self>> = ActorRef<Talking<D>>;

    fn spawn_partner<D: Dialogue<Self>>(&self, dialogue: D) -> Self::PartnerRef<D> {
        Talking::spawn_with_mailbox(Talking(dialogue), mailbox::unbounded())
    }

    fn tell_partner<D: Dialogue<Self>>(to: &Self::PartnerRef<D>, message: D::Message) {
        // The actor has ended, or it hears us.
        to.tell(Told(message)).try_send().ok();
    }
}
