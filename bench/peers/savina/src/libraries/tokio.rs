//! No library: an actor is a task that owns its state and the receiving end of a channel.
use std::ops::ControlFlow;

use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::oneshot;

use crate::stage::{Behaviour, Dialogue, Library, Turn};

/// tokio's tasks and channels.
#[derive(Clone)]
pub(crate) struct Tokio;

/// What an actor that is also asked takes; a question brings the channel for its answer.
pub(crate) enum Letter<D: Dialogue<Tokio>> {
    Told(D::Message),
    Asked(D::Question, oneshot::Sender<D::Answer>),
}

impl Library for Tokio {
    type Ref<B: Behaviour<Self>> = UnboundedSender<B::Message>;

    fn spawn<B: Behaviour<Self>>(&self, mut behaviour: B) -> Self::Ref<B> {
        let (address, mut mailbox) = mpsc::unbounded_channel();
        // The task keeps its channel open, so it ends by its own word only; every actor of the suite has one.
        let me = address.clone();
        tokio::spawn(async move {
            while let Some(message) = mailbox.recv().await {
                if let ControlFlow::Break(()) = behaviour.handle(message, || me.clone()) {
                    break;
                }
            }
        });
        address
    }

    fn tell<B: Behaviour<Self>>(to: &Self::Ref<B>, message: B::Message) {
        // The actor has ended, or it hears us.
        to.send(message).ok();
    }

    type PartnerRef<D: Dialogue<Self>> = UnboundedSender<Letter<D>>;

    fn spawn_partner<D: Dialogue<Self>>(&self, mut dialogue: D) -> Self::PartnerRef<D> {
        let (address, mut mailbox) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(letter) = mailbox.recv().await {
                match letter {
                    // The asker waits, or was given up.
                    Letter::Asked(question, asking) => drop(asking.send(dialogue.answer(question))),
                    Letter::Told(message) => match dialogue.handle(message) {
                        Turn::Next => {}
                        Turn::Ask(to, question) => {
                            let (asking, answer) = oneshot::channel();
                            to.send(Letter::Asked(question, asking)).ok();
                            dialogue.answered(answer.await.expect("an asked actor does not end"));
                        }
                        Turn::Stop => break,
                    },
                }
            }
        });
        address
    }

    fn tell_partner<D: Dialogue<Self>>(to: &Self::PartnerRef<D>, message: D::Message) {
        // The actor has ended, or it hears us.
        to.send(Letter::Told(message)).ok();
    }
}
