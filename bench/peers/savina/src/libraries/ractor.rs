//! ractor: the behaviour is the state of the actor, its enum the actor's message.
use std::marker::PhantomData;
use std::ops::ControlFlow;

use ractor::rpc::CallResult;
use ractor::{Actor, ActorProcessingErr, ActorRef, ActorRuntime, RpcReplyPort};

use crate::stage::{Behaviour, Dialogue, Library, Turn};

/// The crate `ractor`.
#[derive(Clone)]
pub(crate) struct Ractor;

struct Acting<B>(PhantomData<fn() -> B>);

impl<B: Behaviour<Ractor>> Actor for Acting<B> {
    type Msg = B::Message;
    type State = B;
    type Arguments = B;

    async fn pre_start(&self, _me: ActorRef<B::Message>, behaviour: B) -> Result<B, ActorProcessingErr> {
        Ok(behaviour)
    }

    async fn handle(
        &self,
        me: ActorRef<B::Message>,
        message: B::Message,
        behaviour: &mut B,
    ) -> Result<(), ActorProcessingErr> {
        if let ControlFlow::Break(()) = behaviour.handle(message, || me.clone()) {
            me.stop(None);
        }
        Ok(())
    }
}

/// An actor that asks or is asked.
struct Talking<D>(PhantomData<fn() -> D>);

pub(crate) enum Letter<D: Dialogue<Ractor>> {
    Told(D::Message),
    Asked(D::Question, RpcReplyPort<D::Answer>),
}

impl<D: Dialogue<Ractor>> Actor for Talking<D> {
    type Msg = Letter<D>;
    type State = D;
    type Arguments = D;

    async fn pre_start(&self, _me: ActorRef<Letter<D>>, dialogue: D) -> Result<D, ActorProcessingErr> {
        Ok(dialogue)
    }

    async fn handle(
        &self,
        me: ActorRef<Letter<D>>,
        letter: Letter<D>,
        dialogue: &mut D,
    ) -> Result<(), ActorProcessingErr> {
        match letter {
            // The asker waits, or was given up.
            Letter::Asked(question, port) => drop(port.send(dialogue.answer(question))),
            Letter::Told(message) => match dialogue.handle(message) {
                Turn::Next => {}
                Turn::Ask(to, question) => match to.call(|port| Letter::Asked(question, port), None).await {
                    Ok(CallResult::Success(answer)) => dialogue.answered(answer),
                    _ => panic!("an asked actor does not end"),
                },
                Turn::Stop => me.stop(None),
            },
        }
        Ok(())
    }
}

impl Library for Ractor {
    type Ref<B: Behaviour<Self>> = ActorRef<B::Message>;

    fn spawn<B: Behaviour<Self>>(&self, behaviour: B) -> Self::Ref<B> {
        let started = ActorRuntime::spawn_instant(None, Acting(PhantomData), behaviour);
        started.expect("only a name could be taken").0
    }

    fn tell<B: Behaviour<Self>>(to: &Self::Ref<B>, message: B::Message) {
        // The actor has ended, or it hears us.
        to.cast(message).ok();
    }

    type PartnerRef<D: Dialogue<Self>> = ActorRef<Letter<D>>;

    fn spawn_partner<D: Dialogue<Self>>(&self, dialogue: D) -> Self::PartnerRef<D> {
        let started = ActorRuntime::spawn_instant(None, Talking(PhantomData), dialogue);
        started.expect("only a name could be taken").0
    }

    fn tell_partner<D: Dialogue<Self>>(to: &Self::PartnerRef<D>, message: D::Message) {
        // The actor has ended, or it hears us.
        to.cast(Letter::Told(message)).ok();
    }
}
