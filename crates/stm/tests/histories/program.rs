//! Random transactions that record what they see, also in attempts that are thrown away.
use std::cell::{Cell, RefCell};
use std::sync::Arc;

use enact_check::{Recorder, Tickets, Token, Variable};
use enact_stm::{Abort, TCell, TLink, TVar, Tx, atomically, snapshot};

/// Variables of every kind, which hold tokens.
pub(crate) struct Store {
    cells: Vec<TCell<u64>>,
    boxes: Vec<TVar<u64>>,
    links: Vec<TLink<u64>>,
    tickets: Tickets,
}

/// What one transaction does with one variable.
#[derive(Clone, Copy)]
struct Step {
    variable: usize,
    writes: bool,
}

impl Store {
    /// `count` cells, as many boxed variables, and as many links, which lead to nothing instead of to 0.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            cells: (0..count).map(|_| TCell::new(0)).collect(),
            boxes: (0..count).map(|_| TVar::new(0)).collect(),
            links: (0..count).map(|_| TLink::default()).collect(),
            tickets: Tickets::default(),
        }
    }

    fn len(&self) -> usize {
        self.cells.len() + self.boxes.len() + self.links.len()
    }

    fn read<'t>(&'t self, tx: &mut Tx<'t, '_>, variable: usize) -> Result<u64, Abort> {
        match self.place(variable) {
            Place::Cell(cell) => tx.read(cell),
            Place::Boxed(boxed) => tx.read(boxed).copied(),
            Place::Link(link) => Ok(tx.read(link)?.map_or(0, |token| *token)),
        }
    }

    fn write<'t>(&'t self, tx: &mut Tx<'t, '_>, variable: usize, token: u64) -> Result<(), Abort> {
        match self.place(variable) {
            Place::Cell(cell) => tx.write(cell, token).map(drop),
            Place::Boxed(boxed) => tx.write(boxed, token).map(drop),
            Place::Link(link) => tx.write(link, Some(Arc::new(token))).map(drop),
        }
    }

    fn place(&self, variable: usize) -> Place<'_> {
        let count = self.cells.len();
        match variable / count {
            0 => Place::Cell(&self.cells[variable]),
            1 => Place::Boxed(&self.boxes[variable - count]),
            _ => Place::Link(&self.links[variable - 2 * count]),
        }
    }
}

/// One variable of a store.
enum Place<'s> {
    Cell(&'s TCell<u64>),
    Boxed(&'s TVar<u64>),
    Link(&'s TLink<u64>),
}

/// Runs `count` random transactions of up to `steps_max` steps as `thread`.
pub(crate) fn run(store: &Store, thread: u64, seed: u64, count: u64, steps_max: usize) -> Recorder {
    let recorder = RefCell::new(Recorder::new(u32::try_from(thread).expect("few threads")));
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ thread.wrapping_mul(0xD129_0DD3_A6A1_C5B5) | 1);
    for number in 1..=count {
        let mut steps: Vec<Step> = Vec::new();
        for _ in 0..=random.below(steps_max) {
            let variable = random.below(store.len());
            if steps.iter().all(|step| step.variable != variable) {
                steps.push(Step { variable, writes: random.below(2) == 0 });
            }
        }
        recorder.borrow_mut().begin(store.tickets.next());
        // An attempt that is thrown away has read nothing more when the closure ends, and the next one begins after that.
        let ended = Cell::new((0, 0));
        if steps.iter().all(|step| !step.writes) && random.below(2) == 0 {
            snapshot(|tx| follow(tx, store, &steps, &recorder, 0));
        } else {
            atomically(|tx| {
                if tx.attempt() > 1 {
                    let (end, begin) = ended.get();
                    let mut recorder = recorder.borrow_mut();
                    recorder.abort(end);
                    recorder.begin(begin);
                }
                // Every attempt writes tokens of its own.
                let token = thread << 56 | number << 24 | u64::from(tx.attempt());
                let result = follow(tx, store, &steps, &recorder, token);
                ended.set((store.tickets.next(), store.tickets.next()));
                result
            })
            .run();
        }
        recorder.borrow_mut().commit(store.tickets.next());
    }
    recorder.into_inner()
}

fn follow<'t>(
    tx: &mut Tx<'t, '_>,
    store: &'t Store,
    steps: &[Step],
    recorder: &RefCell<Recorder>,
    token: u64,
) -> Result<(), Abort> {
    for step in steps {
        let name = Variable(step.variable as u64);
        let seen = store.read(tx, step.variable)?;
        recorder.borrow_mut().read(name, Token(seen));
        if step.writes {
            store.write(tx, step.variable, token)?;
            recorder.borrow_mut().replace(name, Token(seen), Token(token));
        }
    }
    Ok(())
}

/// A generator whose stream never changes.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % bound as u64).expect("below a usize")
    }
}
