//! Records of random sizes and alignments against a plain queue of values.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;

use proptest::prelude::*;

use super::*;
use crate::System;
use crate::actor::tests::Bare;

/// Calls `f` with something to take records up with.
fn with_lender(f: impl FnOnce(&mut Lender)) {
    let system = System::builder().workers(1).build().unwrap();
    f(&mut Lender::new(std::sync::Arc::clone(system.spawn(Bare).cell())));
}

thread_local! {
    /// What was taken up or refused, in order.
    static TAKEN: RefCell<Vec<Taken>> = const { RefCell::new(Vec::new()) };
    /// How many values are alive.
    static ALIVE: Cell<usize> = const { Cell::new(0) };
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Taken {
    Begun(u8),
    Refused(u8),
}

/// Counts the value that it is a part of.
struct Alive;

impl Alive {
    fn new() -> Self {
        ALIVE.set(ALIVE.get() + 1);
        Self
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        ALIVE.set(ALIVE.get() - 1);
    }
}

/// So many bytes, each with the message's number; without bytes it has none, and counts as 0.
struct Value<const BYTES: usize, A> {
    bytes: [u8; BYTES],
    _alive: Alive,
    _aligned: [A; 0],
}

impl<const BYTES: usize, A> Value<BYTES, A> {
    fn new(number: u8) -> Self {
        Self { bytes: [number; BYTES], _alive: Alive::new(), _aligned: [] }
    }

    fn number(&self) -> u8 {
        assert!((&raw const *self).is_aligned(), "a value lies where its alignment allows");
        let number = self.bytes.first().copied().unwrap_or(0);
        assert!(self.bytes == [number; BYTES], "a value arrives whole");
        number
    }
}

impl<const BYTES: usize, A: Send + 'static> Record for Value<BYTES, A> {
    const HANDLER: &'static str = "value";
    const KIND: Kind = Kind::Plain;

    fn begin(self, _lender: &mut Lender) -> Begun {
        TAKEN.with_borrow_mut(|taken| taken.push(Taken::Begun(self.number())));
        Begun::Ended
    }

    fn refuse(self, _error: ActorError) {
        TAKEN.with_borrow_mut(|taken| taken.push(Taken::Refused(self.number())));
    }
}

#[repr(align(16))]
struct Align16;
#[repr(align(64))]
struct Align64;

fn add<R: Record>(queue: &mut Records, record: R) {
    let reserve = |header| Ok::<_, Infallible>(Reserved { room: queue.push(header), guard: (), outcome: () });
    assert!(put(record, None, reserve).is_ok());
}

/// Has a queue without room give the record back.
fn add_in_vain<R: Record>(record: R) -> R {
    let Err((record, ())) = put(record, None, |_| Err::<Reserved<(), ()>, ()>(())) else { panic!("there is no room") };
    record
}

/// A value of one of many types.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Empty,
    EmptyAligned,
    Byte,
    Word,
    MoreThanAWord,
    Line,
    Largest,
    TooLarge,
    TwoKilobytes,
    Aligned16,
    Aligned64,
    LargeAndAligned,
}

const SHAPES: [Shape; 12] = [
    Shape::Empty,
    Shape::EmptyAligned,
    Shape::Byte,
    Shape::Word,
    Shape::MoreThanAWord,
    Shape::Line,
    Shape::Largest,
    Shape::TooLarge,
    Shape::TwoKilobytes,
    Shape::Aligned16,
    Shape::Aligned64,
    Shape::LargeAndAligned,
];

impl Shape {
    /// Adds a value of this type, after an attempt in vain; the number that it will be taken up with.
    fn add(self, queue: &mut Records, number: u8) -> u8 {
        fn add_one<const BYTES: usize, A: Send + 'static>(queue: &mut Records, number: u8) -> u8 {
            let value = add_in_vain(Value::<BYTES, A>::new(number));
            let number = value.number();
            add(queue, value);
            number
        }
        const MAX: usize = INLINE_WORDS_MAX * size_of::<Word>();
        match self {
            Self::Empty => add_one::<0, u8>(queue, number),
            Self::EmptyAligned => add_one::<0, Align64>(queue, number),
            Self::Byte => add_one::<1, u8>(queue, number),
            Self::Word => add_one::<8, u8>(queue, number),
            Self::MoreThanAWord => add_one::<9, u64>(queue, number),
            Self::Line => add_one::<64, u32>(queue, number),
            Self::Largest => add_one::<MAX, u64>(queue, number),
            Self::TooLarge => add_one::<{ MAX + 1 }, u8>(queue, number),
            Self::TwoKilobytes => add_one::<2048, u64>(queue, number),
            Self::Aligned16 => add_one::<5, Align16>(queue, number),
            Self::Aligned64 => add_one::<64, Align64>(queue, number),
            Self::LargeAndAligned => add_one::<2000, Align64>(queue, number),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Add(Shape),
    AddResumption,
    Begin,
    Refuse,
    TakeResumption,
    /// Adds these to another queue, takes some of them up there, and appends what is left.
    Append(Shape, Shape, usize),
    ClearIfEmpty,
}

fn step() -> impl Strategy<Value = Step> {
    let shape = || (0..SHAPES.len()).prop_map(|at| SHAPES[at]);
    prop_oneof![
        6 => shape().prop_map(Step::Add),
        2 => Just(Step::AddResumption),
        5 => Just(Step::Begin),
        2 => Just(Step::Refuse),
        2 => Just(Step::TakeResumption),
        2 => (shape(), shape(), 0_usize..3).prop_map(|(one, other, taken)| Step::Append(one, other, taken)),
        1 => Just(Step::ClearIfEmpty),
    ]
}

/// What is to be in a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entry {
    Value(u8),
    Resumption(TurnId),
}

/// Takes the first record up that is more than the place of one.
fn begin(queue: &mut Records, lender: &mut Lender) -> Option<Entry> {
    while !queue.is_empty() {
        match queue.begin_front(lender, &mut 1) {
            Begun::Resumes(turn) => return Some(Entry::Resumption(turn)),
            Begun::Ended => {
                let Some(Taken::Begun(number)) = TAKEN.with_borrow_mut(Vec::pop) else { panic!("it was begun") };
                return Some(Entry::Value(number));
            }
            _ => {}
        }
    }
    None
}

fn play(steps: Vec<Step>, lender: &mut Lender) {
    let (mut queue, mut expected) = (Records::default(), VecDeque::new());
    let mut next = 0_u8;
    let mut number = || {
        next = next % 250 + 1;
        next
    };
    for step in steps {
        match step {
            Step::Add(shape) => expected.push_back(Entry::Value(shape.add(&mut queue, number()))),
            Step::AddResumption => {
                let turn = TurnId(u64::from(number()));
                add(&mut queue, Resumption(turn));
                expected.push_back(Entry::Resumption(turn));
            }
            Step::Begin => assert_eq!(begin(&mut queue, lender), expected.pop_front()),
            Step::Refuse => {
                // Resumptions are refused without a word.
                if let Some(Entry::Value(number)) = expected.front() {
                    while TAKEN.with_borrow(Vec::is_empty) {
                        queue.refuse_front(ActorError::Abandoned);
                    }
                    assert_eq!(TAKEN.take(), [Taken::Refused(*number)]);
                    expected.pop_front();
                }
            }
            Step::TakeResumption => {
                let at = expected.iter().position(|entry| matches!(entry, Entry::Resumption(_)));
                let taken = queue.take_resumption().map(Entry::Resumption);
                assert_eq!(taken, at.and_then(|at| expected.remove(at)));
            }
            Step::Append(one, another, taken) => {
                let mut other = Records::default();
                let mut added: VecDeque<_> =
                    [one, another].map(|shape| Entry::Value(shape.add(&mut other, number()))).into();
                for _ in 0..taken {
                    assert_eq!(begin(&mut other, lender), added.pop_front());
                }
                queue.append(&mut other);
                assert!(other.is_empty());
                expected.append(&mut added);
            }
            Step::ClearIfEmpty => {
                if queue.is_empty() {
                    queue.clear();
                }
            }
        }
        let values = expected.iter().filter(|entry| matches!(entry, Entry::Value(_))).count();
        assert_eq!(ALIVE.get(), values, "what was taken up is gone, and what waits is there");
    }
    drop(queue);
    let left: Vec<_> = expected
        .into_iter()
        .filter_map(|entry| match entry {
            Entry::Value(number) => Some(Taken::Refused(number)),
            Entry::Resumption(_) => None,
        })
        .collect();
    assert_eq!(TAKEN.take(), left, "what is left is refused in order");
    assert_eq!(ALIVE.get(), 0);
}

/// An interpreter takes minutes for more.
const CASES: u32 = if cfg!(miri) { 4 } else { 64 };
const STEPS: usize = if cfg!(miri) { 40 } else { 200 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn records_of_any_type_are_taken_up_once_in_their_order(steps in prop::collection::vec(step(), 0..STEPS)) {
        with_lender(|lender| play(steps, lender));
    }
}

#[test]
fn those_of_its_type_that_follow_a_record_are_taken_up_with_it_as_far_as_the_budget_goes() {
    with_lender(|lender| {
        let mut queue = Records::default();
        for (shape, number) in
            [(Shape::Byte, 1), (Shape::Byte, 2), (Shape::Byte, 3), (Shape::Word, 4), (Shape::Byte, 5), (Shape::Byte, 6)]
        {
            shape.add(&mut queue, number);
        }
        let mut begin = |mut budget| {
            let begun = queue.begin_front(lender, &mut budget);
            assert!(matches!(begun, Begun::Ended));
            let begun = |taken| if let Taken::Begun(number) = taken { number } else { panic!("nothing is refused") };
            (TAKEN.take().into_iter().map(begun).collect::<Vec<_>>(), budget)
        };
        assert_eq!(begin(2), (vec![1, 2], 0));
        assert_eq!(begin(9), (vec![3], 8), "what follows is of another type");
        assert_eq!(begin(9), (vec![4], 8));
        assert_eq!(begin(9), (vec![5, 6], 7));
        assert!(queue.is_empty() && ALIVE.get() == 0);
    });
}

/// Panics when it is taken up.
struct Bomb(Alive);

impl Record for Bomb {
    const HANDLER: &'static str = "bomb";
    const KIND: Kind = Kind::Plain;

    fn begin(self, _lender: &mut Lender) -> Begun {
        panic!("on purpose");
    }

    fn refuse(self, _error: ActorError) {
        drop(self);
    }
}

#[test]
fn a_record_whose_beginning_panics_is_moved_out_all_the_same() {
    with_lender(|lender| {
        let mut queue = Records::default();
        add(&mut queue, Bomb(Alive::new()));
        Shape::Line.add(&mut queue, 7);
        let begun = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| queue.begin_front(lender, &mut 1)));
        assert!(begun.is_err() && ALIVE.get() == 1);
        assert_eq!(begin(&mut queue, lender), Some(Entry::Value(7)));
        assert!(queue.is_empty() && ALIVE.get() == 0);
    });
}

#[test]
fn an_empty_queue_gives_back_what_a_burst_has_taken() {
    with_lender(|lender| {
        let mut queue = Records::default();
        (0..100).for_each(|number| _ = Shape::Largest.add(&mut queue, number));
        while begin(&mut queue, lender).is_some() {}
        queue.clear();
        assert!(queue.words.capacity() <= KEPT_WORDS);
    });
}
