//! Random graphs of waits against an oracle that knows only what was drawn: nothing hangs, of each circle one is told, and
//! nobody else is.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::mpsc::{self, Sender};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use enact_actors::{ActorError, ActorId, Promise, Spec, System, actor};
use proptest::prelude::*;
use tokio::sync::oneshot;

type Members = BTreeSet<usize>;

/// What a turn waits for; members are numbered.
#[derive(Clone, Debug)]
enum Needs {
    One(usize),
    All(Vec<Needs>),
    Any(Vec<Needs>),
}

/// What else can wake it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outside {
    Nothing,
    /// A thread that drops its waker soon, and perhaps wakes it before.
    Passing {
        wakes: bool,
    },
    /// What ends its wait, after all that can end without.
    Lasting,
}

#[derive(Clone, Debug)]
struct Drawn {
    needs: Needs,
    outside: Outside,
}

/// Asks others in one turn, and answers nobody meanwhile.
struct Member;

/// What a turn does with its waker besides.
struct Beside {
    passing: Option<(Sender<(Waker, bool)>, bool)>,
    lasting: Option<oneshot::Receiver<()>>,
}

#[actor]
impl Member {
    async fn ask(
        &mut self,
        gate: Promise<()>,
        members: Vec<MemberRef>,
        needs: Needs,
        mut beside: Beside,
    ) -> Result<(), ActorError> {
        gate.await?;
        let mut answer = needs.ask(&members);
        poll_fn(|cx| {
            if let Some((outside, wakes)) = beside.passing.take() {
                outside.send((cx.waker().clone(), wakes)).expect("it is there as long as a turn");
            }
            if let Some(lasting) = &mut beside.lasting
                && Pin::new(lasting).poll(cx).is_ready()
            {
                return Poll::Ready(Ok(()));
            }
            Pin::new(&mut answer).poll(cx)
        })
        .await
    }

    fn answer(&self) {}
}

impl Needs {
    fn ask(&self, members: &[MemberRef]) -> Promise<()> {
        let ask = |needs: &[Self]| needs.iter().map(|needs| needs.ask(members)).collect::<Vec<_>>();
        match self {
            Self::One(at) => members[*at].answer(),
            Self::All(needs) => Promise::join_all(ask(needs)).map(|_| ()),
            Self::Any(needs) => Promise::race(ask(needs)),
        }
    }

    /// All that are asked.
    fn asked(&self) -> Members {
        match self {
            Self::One(at) => Members::from([*at]),
            Self::All(needs) | Self::Any(needs) => needs.iter().flat_map(Self::asked).collect(),
        }
    }

    /// The members of `dead` without which no answer comes; none if it can come.
    fn missing(&self, dead: &Members) -> Members {
        match self {
            Self::One(at) => dead.get(at).copied().into_iter().collect(),
            Self::All(needs) => needs.iter().flat_map(|needs| needs.missing(dead)).collect(),
            Self::Any(needs) => {
                let missing: Vec<_> = needs.iter().map(|needs| needs.missing(dead)).collect();
                let can_come = missing.iter().any(Members::is_empty);
                missing.into_iter().flatten().filter(|_| !can_come).collect()
            }
        }
    }
}

/// Everything that `from` leads to in one or more steps.
fn reach(from: usize, next: impl Fn(usize) -> Members) -> Members {
    let (mut reach, mut open) = (Members::new(), next(from));
    while let Some(at) = open.pop_first() {
        if reach.insert(at) {
            open.extend(next(at));
        }
    }
    reach
}

/// Whether the wait of `at` could be one in a circle, whatever else could wake `at`.
fn may_be_told(graph: &[Drawn], at: usize) -> bool {
    let mut dead: Members =
        (0..graph.len()).filter(|&turn| turn == at || graph[turn].outside != Outside::Lasting).collect();
    while let Some(live) = dead.iter().copied().find(|&turn| graph[turn].needs.missing(&dead).is_empty()) {
        dead.remove(&live);
    }
    dead.contains(&at) && reach(at, |turn| graph[turn].needs.missing(&dead)).contains(&at)
}

/// Whether something that lasts could end the wait of `at`, over any number of steps.
fn may_last(graph: &[Drawn], at: usize) -> bool {
    let lasts = |&turn: &usize| graph[turn].outside == Outside::Lasting;
    lasts(&at) || reach(at, |turn| graph[turn].needs.asked()).iter().any(lasts)
}

/// The answers of a run of `graph`.
fn run(system: &System, graph: &[Drawn]) -> (Vec<ActorId>, Vec<Result<(), ActorError>>) {
    let members: Vec<_> = graph.iter().map(|_| system.spawn(Spec::new(Member).keep_alive())).collect();
    let (outside, passing) = mpsc::channel();
    let (mut open, mut end, mut answers) = (Vec::new(), Vec::new(), Vec::new());
    for (member, drawn) in members.iter().zip(graph) {
        let (gate, resolver) = Promise::pair();
        open.push(resolver);
        let lasting = (drawn.outside == Outside::Lasting).then(|| {
            let (sender, receiver) = oneshot::channel();
            end.push(sender);
            receiver
        });
        let passing = match drawn.outside {
            Outside::Passing { wakes } => Some((outside.clone(), wakes)),
            _ => None,
        };
        let answer = member.ask(gate, members.clone(), drawn.needs.clone(), Beside { passing, lasting });
        answers.push(answer.timeout(Duration::from_secs(60)));
    }
    drop(outside);
    // Everybody's turn comes before what it will be asked: now they may ask.
    let opening = thread::spawn(|| open.into_iter().for_each(|gate| gate.resolve(())));
    let waking = thread::spawn(|| {
        for (waker, wakes) in passing {
            if wakes {
                waker.wake_by_ref();
            }
            drop(waker);
        }
    });
    let end_of = |answer: Promise<Result<(), ActorError>>| answer.wait().expect("no wait hangs");
    let mut answers: Vec<_> = answers.into_iter().map(Some).collect();
    let mut ended: Vec<_> =
        (0..graph.len()).map(|at| if may_last(graph, at) { None } else { answers[at].take().map(end_of) }).collect();
    end.into_iter().for_each(|end| _ = end.send(()));
    for (ended, answer) in ended.iter_mut().zip(answers) {
        *ended = ended.take().or_else(|| answer.map(end_of));
    }
    opening.join().expect("gates open");
    waking.join().expect("wakers are dropped");
    let ids = members.iter().map(|member| member.id()).collect();
    members.iter().for_each(|member| member.kill());
    (ids, ended.into_iter().flatten().collect())
}

/// The numbers of those in the cycle that `answer` reports, if it does.
fn told(ids: &[ActorId], answer: &Result<(), ActorError>) -> Option<Vec<usize>> {
    match answer {
        Ok(()) => None,
        Err(ActorError::Deadlock { cycle }) => {
            let number = |id| ids.iter().position(|&known| known == id).expect("a member");
            Some(cycle.actors().iter().map(|actor| number(actor.id())).collect())
        }
        Err(error) => panic!("{error}"),
    }
}

fn check(graph: &[Drawn]) {
    let system = System::builder().workers(2).build().expect("threads");
    let (ids, answers) = run(&system, graph);
    let told: Vec<_> = answers.iter().map(|answer| told(&ids, answer)).collect();
    for (at, cycle) in told.iter().enumerate().filter_map(|(at, cycle)| Some((at, cycle.as_ref()?))) {
        assert!(may_be_told(graph, at), "{at} is told of {cycle:?} and is in no circle");
        assert_eq!(cycle[0], at, "{at} is told of {cycle:?}");
        let next = cycle.iter().cycle().skip(1);
        let is_asked = |(from, to): (&usize, &usize)| graph[*from].needs.asked().contains(to);
        assert!(cycle.iter().zip(next).all(is_asked), "{at} is told of {cycle:?}, which does not exist");
    }
    if graph.iter().all(|drawn| matches!(drawn.needs, Needs::One(_))) {
        for at in 0..graph.len() {
            let circle = reach(at, |turn| graph[turn].needs.asked());
            if circle.contains(&at) && !may_last(graph, at) {
                let count = circle.iter().filter(|&&member| told[member].is_some()).count();
                assert_eq!(count, 1, "of the circle {circle:?}, these are told: {told:?}");
            }
        }
    }
}

/// What the turns of a graph of `size` members wait for.
fn drawn(size: usize, needs: impl Strategy<Value = Needs>) -> impl Strategy<Value = Vec<Drawn>> {
    let outside = prop_oneof![
        6 => Just(Outside::Nothing),
        3 => any::<bool>().prop_map(|wakes| Outside::Passing { wakes }),
        1 => Just(Outside::Lasting),
    ];
    let drawn = (needs, outside).prop_map(|(needs, outside)| Drawn { needs, outside });
    prop::collection::vec(drawn, size)
}

fn one_of(size: usize) -> impl Strategy<Value = Needs> + Clone {
    (0..size).prop_map(Needs::One)
}

fn several_of(size: usize) -> impl Strategy<Value = Needs> {
    one_of(size).prop_recursive(2, 6, 3, |needs| {
        let several = prop::collection::vec(needs, 1..=3);
        prop_oneof![several.clone().prop_map(Needs::All), several.prop_map(Needs::Any)]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn of_turns_that_ask_one_member_each_one_in_every_circle_is_told(
        graph in (1..=6usize).prop_flat_map(|size| drawn(size, one_of(size))),
    ) {
        check(&graph);
    }

    #[test]
    fn of_turns_that_ask_several_members_only_those_in_circles_are_told(
        graph in (1..=6usize).prop_flat_map(|size| drawn(size, several_of(size))),
    ) {
        check(&graph);
    }
}
