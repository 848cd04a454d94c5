//! Random programs, small enough for all their serial executions.
use crate::program::{Kind, Op, Program, Step, Turns};

/// A generator whose stream never changes.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % bound as u64).expect("below a usize")
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

struct Writer {
    random: Random,
    cells: usize,
    actors: Vec<Kind>,
    actors_at_first: usize,
    scripts: usize,
    /// Tells notes from each other.
    numbers: i64,
}

/// For whom steps are written.
#[derive(Clone, Copy)]
struct Author {
    /// Sends only these scripts and later ones.
    scripts_from: usize,
    may_ask: bool,
    may_become: bool,
}

/// The program of this seed: 2 to 4 actors of any kind, cells that they share, and two clients.
pub(crate) fn program(seed: u64) -> Program {
    let mut random = Random::new(seed);
    let actors_at_first = 1 + random.below(3);
    let kind = |random: &mut Random| Kind {
        is_speculative: !random.one_in(3),
        turns: [Turns::Plain, Turns::Held, Turns::Beside][random.below(3)],
    };
    let actors = (0..=actors_at_first).map(|_| kind(&mut random)).collect();
    let (cells, scripts) = (1 + random.below(3), 3);
    let mut writer = Writer { random, cells, actors, actors_at_first, scripts, numbers: 100 };
    // Any actor may get any script.
    let may_become = writer.actors.iter().all(|kind| kind.turns != Turns::Beside);
    let of_scripts = (0..scripts)
        .map(|script| writer.steps(Author { scripts_from: script + 1, may_ask: false, may_become }))
        .collect();
    let client = Author { scripts_from: 0, may_ask: true, may_become: false };
    let mut clients: Vec<_> = (0..2).map(|_| writer.steps(client)).collect();
    // An actor that a transaction makes is made once.
    let made = actors_at_first;
    if writer.random.one_in(3) {
        clients[0].push(Step::Atomically(vec![
            Op::Spawn(made),
            Op::Tell(made, writer.random.below(scripts)),
            Op::Add(0, 1),
        ]));
    }
    Program {
        cells: (0..cells).map(|cell| i64::from(cell == 0)).collect(),
        actors: writer.actors,
        actors_at_first,
        scripts: of_scripts,
        clients,
    }
}

impl Writer {
    fn number(&mut self) -> i64 {
        self.numbers += 1;
        self.numbers
    }

    /// An actor and a script for it, if there is one to send.
    fn letter(&mut self, author: Author) -> Option<(usize, usize)> {
        let count = self.scripts.checked_sub(author.scripts_from).filter(|&count| count > 0)?;
        Some((self.random.below(self.actors_at_first), author.scripts_from + self.random.below(count)))
    }

    fn steps(&mut self, author: Author) -> Vec<Step> {
        let mut steps = vec![self.transaction(author)];
        for _ in 0..self.random.below(3) {
            steps.push(match self.random.below(5) {
                0 => Step::Note(self.number()),
                1 if author.may_become => Step::Become(self.number()),
                2 => self.letter(author).map_or(Step::Note(0), |(actor, script)| Step::Tell(actor, script)),
                _ => self.transaction(author),
            });
        }
        let at = self.random.below(steps.len());
        steps.swap(0, at);
        steps
    }

    fn transaction(&mut self, author: Author) -> Step {
        Step::Atomically(self.ops(author, 1))
    }

    fn ops(&mut self, author: Author, nesting: usize) -> Vec<Op> {
        let mut ops: Vec<Op> = (0..=self.random.below(3)).map(|_| self.op(author, nesting)).collect();
        if self.random.one_in(2) {
            let at = self.random.below(ops.len() + 1);
            ops.insert(at, Op::Linger);
        }
        if self.random.one_in(8) {
            ops.push(Op::Fail);
        }
        ops
    }

    fn op(&mut self, author: Author, nesting: usize) -> Op {
        let cell = self.random.below(self.cells);
        match self.random.below(9) {
            0 => Op::Read(cell),
            1 => Op::Copy { from: cell, to: self.random.below(self.cells) },
            2 => Op::Take(cell),
            3 if nesting > 0 => Op::Part(self.ops(author, nesting - 1)),
            4 if author.may_become => Op::Become(self.number()),
            5..=7 => match self.letter(author) {
                Some((actor, script)) if author.may_ask && self.random.one_in(3) => Op::Ask(actor, script),
                Some((actor, script)) => Op::Tell(actor, script),
                None => Op::Read(cell),
            },
            _ => Op::Add(cell, 1),
        }
    }
}
