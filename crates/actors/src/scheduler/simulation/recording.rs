//! What a program does, as far as a scheduler sees it: its turns, what each costs, and what each sends when.
use std::ops::Range;
use std::time::Duration;

/// A turn of a recording, by its place.
pub(super) type TurnIndex = u32;

/// Turns and the messages between them.
///
/// A turn is what a message has an actor do, from its beginning to its end or to its suspension. In a replay it runs when its
/// message is taken up, whatever came before: what an actor does because of the order of its messages is as it was recorded.
#[derive(Clone, Debug)]
pub struct Recording {
    pub(super) turns: Vec<Turn>,
    sends: Vec<Send>,
    /// What comes from outside, in order of time.
    pub(super) from_outside: Vec<Send>,
    pub(super) actors: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) actor: u32,
    pub(super) cost_ns: u32,
    first_send: u32,
    sends: u32,
    /// The suspended turn that its end has go on.
    pub(super) answers: Option<TurnIndex>,
    /// Whether it holds its actor after its end, until it is answered.
    pub(super) holds: bool,
}

/// A message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Send {
    /// Since the turn began, or the run for what comes from outside.
    pub(super) after_ns: u64,
    /// What it has its receiver do.
    pub(super) turn: TurnIndex,
}

impl Recording {
    /// How many turns there are.
    #[must_use]
    pub fn turns(&self) -> usize {
        self.turns.len()
    }

    /// What all of them cost together.
    #[must_use]
    pub fn work(&self) -> Duration {
        Duration::from_nanos(self.turns.iter().map(|turn| u64::from(turn.cost_ns)).sum())
    }

    /// Has all turns together cost what a run has taken that was not recorded. What is missing is added to each alike: it is
    /// what it takes to get from one to the next; what is too much is taken from each by its length.
    #[must_use]
    pub fn of_a_run_of(mut self, wall: Duration) -> Self {
        let (wall, work) = (wall.as_nanos() as f64, self.work().as_nanos() as f64);
        let turns = self.turns.len().max(1) as f64;
        let (factor, more) = if work <= wall { (1.0, (wall - work) / turns) } else { (wall / work, 0.0) };
        let mut owed = 0.0;
        for turn in &mut self.turns {
            // What is lost of one turn by rounding comes with the next.
            let cost = f64::from(turn.cost_ns) * factor + more + owed;
            turn.cost_ns = cost.floor() as u32;
            owed = cost.fract();
            let sends = turn.first_send as usize..(turn.first_send + turn.sends) as usize;
            for send in &mut self.sends[sends] {
                send.after_ns = ((send.after_ns as f64 * factor) as u64).min(u64::from(turn.cost_ns));
            }
        }
        self
    }

    pub(super) fn sends_of(&self, turn: TurnIndex) -> &[Send] {
        let Turn { first_send, sends, .. } = self.turns[turn as usize];
        &self.sends[Range { start: first_send as usize, end: (first_send + sends) as usize }]
    }
}

/// What it takes the thread outside at most to make an actor and to send to it: in a recording, it may have waited for a core.
const BETWEEN_SENDS_MAX_NS: u64 = 2_000;

/// A recording in the making.
#[derive(Default)]
pub(super) struct Draft {
    turns: Vec<DraftTurn>,
    from_outside: Vec<Send>,
}

#[derive(Default)]
struct DraftTurn {
    actor: u32,
    cost_ns: u64,
    sends: Vec<Send>,
    answers: Option<TurnIndex>,
    holds: bool,
}

impl Draft {
    /// Adds a turn of this actor.
    pub(super) fn turn(&mut self, actor: u32, cost_ns: u64) -> TurnIndex {
        self.turns.push(DraftTurn { actor, cost_ns, ..DraftTurn::default() });
        TurnIndex::try_from(self.turns.len() - 1).expect("a recording fits into memory")
    }

    /// Has `from` send the message of `turn` when it has run for so long.
    pub(super) fn send(&mut self, from: TurnIndex, after_ns: u64, turn: TurnIndex) {
        self.turns[from as usize].sends.push(Send { after_ns, turn });
    }

    /// Has the message of `turn` come from outside.
    pub(super) fn send_from_outside(&mut self, after_ns: u64, turn: TurnIndex) {
        self.from_outside.push(Send { after_ns, turn });
    }

    pub(super) fn set_cost(&mut self, turn: TurnIndex, cost_ns: u64) {
        self.turns[turn as usize].cost_ns = cost_ns;
    }

    /// Has `turn` hold its actor until it is answered, when it has ended.
    pub(super) fn hold_after(&mut self, turn: TurnIndex) {
        self.turns[turn as usize].holds = true;
    }

    /// Has `resumed` go on at the end of `turn`.
    pub(super) fn answer(&mut self, turn: TurnIndex, resumed: TurnIndex) {
        self.turns[turn as usize].answers = Some(resumed);
    }

    /// Whether the end of `turn` has another one go on.
    pub(super) fn answers(&self, turn: TurnIndex) -> bool {
        self.turns[turn as usize].answers.is_some()
    }

    /// The turn of the last message that `turn` has sent.
    pub(super) fn last_sent(&self, turn: TurnIndex) -> Option<TurnIndex> {
        self.turns[turn as usize].sends.last().map(|send| send.turn)
    }

    pub(super) fn finish(self) -> Recording {
        let actors = self.turns.iter().map(|turn| turn.actor as usize + 1).max().unwrap_or(0);
        let (mut turns, mut sends) = (Vec::with_capacity(self.turns.len()), Vec::new());
        for turn in self.turns {
            let DraftTurn { actor, cost_ns, sends: own, answers, holds } = turn;
            let cost_ns = u32::try_from(cost_ns).unwrap_or(u32::MAX);
            let (first_send, count) = (sends.len() as u32, own.len() as u32);
            turns.push(Turn { actor, cost_ns, first_send, sends: count, answers, holds });
            sends.extend(own.into_iter().map(|send| Send { after_ns: send.after_ns.min(u64::from(cost_ns)), ..send }));
        }
        Recording { turns, sends, from_outside: without_pauses(self.from_outside), actors }
    }
}

/// What comes from outside, as if its thread had never waited.
fn without_pauses(mut sends: Vec<Send>) -> Vec<Send> {
    let (mut before_ns, mut after_ns) = (0, 0);
    for send in &mut sends {
        after_ns += (send.after_ns.saturating_sub(before_ns)).min(BETWEEN_SENDS_MAX_NS);
        before_ns = std::mem::replace(&mut send.after_ns, after_ns);
    }
    sends
}
