//! Turns that wait for each other: of each circle one is told, and everybody goes on.
use enact_actors::{ActorError, Cx, Forward, actor};

use crate::model;

/// Asks the next one, and keeps its actor meanwhile.
#[derive(Default)]
struct Node {
    next: Option<NodeRef>,
}

#[actor]
impl Node {
    fn meet(&mut self, next: NodeRef) {
        self.next = Some(next);
    }
    async fn ask(&mut self) -> Result<u32, ActorError> {
        self.next().number().await
    }
    /// By way of the next one, which hands the question on.
    async fn ask_further(&mut self) -> Result<u32, ActorError> {
        self.next().number_of_next().await
    }
    fn number_of_next(&self, cx: &Cx<Self>) -> Forward<u32> {
        self.next().forward(cx).number()
    }
    fn number(&self) -> u32 {
        1
    }
}

impl Node {
    fn next(&self) -> &NodeRef {
        self.next.as_ref().expect("they have met")
    }
}

fn at_most_one_is_told(answers: &[Result<u32, ActorError>]) {
    let told = answers.iter().filter(|answer| matches!(answer, Err(ActorError::Deadlock { .. }))).count();
    assert!(told <= 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| **answer == Ok(1)).count(), answers.len() - told, "{answers:?}");
}

#[test]
fn of_three_held_turns_in_a_circle_at_most_one_is_told_and_all_go_on() {
    for workers in 1..=2 {
        model(workers, |system| {
            let nodes = [(); 3].map(|()| system.spawn(Node::default()));
            (0..3).for_each(|at| _ = nodes[at].tell().meet(nodes[(at + 1) % 3].clone()));
            let answers = nodes.each_ref().map(NodeRef::ask).map(|answer| answer.wait().expect("it ends"));
            at_most_one_is_told(&answers);
            nodes.iter().for_each(|node| node.kill());
        });
    }
}

#[test]
fn of_two_held_turns_whose_questions_are_handed_to_each_other_at_most_one_is_told_and_both_go_on() {
    for workers in 1..=2 {
        model(workers, |system| {
            let [one, desk, other, other_desk] = [(); 4].map(|()| system.spawn(Node::default()));
            let ring = [&one, &desk, &other, &other_desk];
            (0..4).for_each(|at| _ = ring[at].tell().meet(ring[(at + 1) % 4].clone()));
            let answers = [one.ask_further(), other.ask_further()].map(|answer| answer.wait().expect("it ends"));
            at_most_one_is_told(&answers);
            ring.iter().for_each(|node| node.kill());
        });
    }
}
