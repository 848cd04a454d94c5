//! One account of the example bank under admission, whose calls are timed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use enact_entities::{
    Admission, Attempt, Branch, Consequences, Decision, EntityKey, Limits, Millis, Model, Rebel, Request, Slot,
    Strategy, Timestamp, TxId, Verdict, Work,
};
use enact_rebel::{EventCall, Money, Source, Value, check};
use hdrhistogram::Histogram;

use super::AdmissionError;

const SPEC: &str = include_str!("../../../examples/bank.rebel");
const AT: Timestamp = Timestamp(0);
const FOREVER: Millis = Millis(u64::MAX);

/// What becomes of a transaction, as far as the oracle has to know.
type Brings = fn(cents: i64, amount: i64) -> i64;

/// An event, and what it makes of a balance in cents.
#[derive(Clone)]
pub(super) struct Doing {
    event: EventCall,
    amount: i64,
    brings: Brings,
}

/// A transaction that has been admitted or delayed.
struct Waiting {
    tx: TxId,
    doing: Doing,
}

/// The account, what is open or delayed there, and the balance that the commits so far make.
pub(super) struct Account {
    crowd: &'static str,
    model: Arc<Rebel>,
    key: EntityKey,
    admission: Admission<Rebel>,
    open: VecDeque<Waiting>,
    delayed: VecDeque<Waiting>,
    /// Open, or committed and not applied. Asking admission would copy them all, and the next call would find cold caches.
    in_progress: usize,
    next_tx: u128,
    cents: i64,
    figures: Figures,
}

/// What the calls took.
pub(super) struct Figures {
    /// Nanoseconds of each request.
    pub(super) request_ns: Histogram<u64>,
    /// Of each transaction that a decision settles or applies, its part of the nanoseconds.
    pub(super) decision_ns: Histogram<u64>,
    pub(super) call_max_ns: u64,
    pub(super) in_progress_max: usize,
    pub(super) delayed_max: usize,
}

impl Account {
    /// An account with this balance in euros.
    pub(super) fn new(crowd: &'static str, opening: i64) -> Self {
        let spec = check(vec![Source::new("bank.rebel", SPEC)]).expect("the example is Rebel");
        let model = Arc::new(Rebel::new(Arc::new(spec)));
        let key = EntityKey::new("Account", "NL91ABNA0417164300").expect("a key");
        let open = event(&model, "Open", &["Ada", &format!("EUR {opening}.00")]);
        let base = model.initial(&key).expect("the class is declared");
        let base = model.next(&key, &base, &open, AT).expect("it can be opened");
        let limits = Limits { open_max: 4_096, delayed_max: 4_096, ..Limits::default() };
        let admission =
            Admission::new(Arc::clone(&model), key.clone(), base, Slot::FIRST, Strategy::Serializable, limits);
        let histogram = || Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("the bounds are valid");
        let (request_ns, decision_ns) = (histogram(), histogram());
        Self {
            crowd,
            model,
            key,
            admission,
            open: VecDeque::new(),
            delayed: VecDeque::new(),
            in_progress: 0,
            next_tx: 1,
            cents: opening * 100,
            figures: Figures { request_ns, decision_ns, call_max_ns: 0, in_progress_max: 0, delayed_max: 0 },
        }
    }

    pub(super) fn deposit(&self, euros: i64) -> Doing {
        let event = event(&self.model, "Deposit", &[&format!("EUR {euros}.00")]);
        Doing { event, amount: euros * 100, brings: |cents, amount| cents + amount }
    }

    pub(super) fn withdraw(&self, euros: i64) -> Doing {
        let event = event(&self.model, "Withdraw", &[&format!("EUR {euros}.00")]);
        Doing { event, amount: euros * 100, brings: |cents, amount| cents - amount }
    }

    /// Interest of a millionth.
    pub(super) fn interest(&self) -> Doing {
        let event = event(&self.model, "Interest", &["0.0001%"]);
        Doing { event, amount: 0, brings: |cents, _| cents + half_even(cents, 1_000_000) }
    }

    /// Another overdraft limit, which changes no balance.
    pub(super) fn limit(&self, euros: i64) -> Doing {
        let event = event(&self.model, "LimitOverdraft", &[&format!("EUR {euros}.00")]);
        Doing { event, amount: 0, brings: |cents, _| cents }
    }

    /// How many are delayed.
    pub(super) fn delayed_count(&self) -> usize {
        self.delayed.len()
    }

    /// Asks for `doing` as one part of a transaction with several.
    pub(super) fn ask(&mut self, doing: &Doing) {
        self.request(doing, false);
    }

    /// Asks for `doing` as the whole of a transaction.
    pub(super) fn ask_alone(&mut self, doing: &Doing) {
        self.request(doing, true);
    }

    fn request(&mut self, doing: &Doing, sole: bool) {
        let tx = TxId::from_u128(self.next_tx);
        self.next_tx += 1;
        let branch = Branch { tx, attempt: Attempt::FIRST, work: Work::event(doing.event.clone()), at: AT };
        let request = Request { branch, deadline: FOREVER, ordered: true, sole, certain: false, calls_known: false };
        let begin = Instant::now();
        let verdict = self.admission.request(request);
        let ns = self.note(begin);
        self.figures.request_ns.saturating_record(ns);
        let waiting = Waiting { tx, doing: doing.clone() };
        match verdict {
            Verdict::Admitted(..) => self.admitted(waiting),
            Verdict::Delayed => self.delayed.push_back(waiting),
            Verdict::Rejected(_) => {}
            Verdict::Unanswered(_) | Verdict::OutOfOrder | Verdict::Busy => {
                unreachable!("nothing is asked, the order is kept, and there is room: {verdict:?}")
            }
        }
        self.figures.delayed_max = self.figures.delayed_max.max(self.delayed.len());
    }

    /// Commits what has been open longest; says whether there was anything.
    pub(super) fn commit(&mut self) -> bool {
        let Some(decided) = self.open.pop_front() else { return false };
        self.cents = (decided.doing.brings)(self.cents, decided.doing.amount);
        self.decide(decided.tx, Decision::Commit);
        true
    }

    /// Aborts what has been open longest; says whether there was anything.
    pub(super) fn abort(&mut self) -> bool {
        let Some(decided) = self.open.pop_front() else { return false };
        self.decide(decided.tx, Decision::Abort);
        true
    }

    /// Sets what has been open longest aside: it is decided after all others.
    pub(super) fn postpone(&mut self) {
        self.open.rotate_left(1);
    }

    fn decide(&mut self, tx: TxId, decision: Decision) {
        let begin = Instant::now();
        let Consequences { applied, settled, .. } = self.admission.decide(tx, decision);
        let ns = self.note(begin);
        let settled_count = (applied.len() + settled.len()).max(1) as u64;
        self.figures.decision_ns.saturating_record_n(ns / settled_count, settled_count);
        self.in_progress -= applied.len() + usize::from(decision == Decision::Abort);
        for (tx, verdict) in settled {
            let place = self.delayed.iter().position(|waiting| waiting.tx == tx).expect("what is settled was delayed");
            let waiting = self.delayed.remove(place).expect("it is there");
            if let Verdict::Admitted(..) = verdict {
                self.admitted(waiting);
            }
        }
    }

    fn admitted(&mut self, admitted: Waiting) {
        self.open.push_back(admitted);
        self.in_progress += 1;
        self.figures.in_progress_max = self.figures.in_progress_max.max(self.in_progress);
    }

    /// How long the call took that began at `begin`.
    fn note(&mut self, begin: Instant) -> u64 {
        let ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.figures.call_max_ns = self.figures.call_max_ns.max(ns);
        ns
    }

    /// The figures, if nothing is left and the balance is what the commits made it.
    pub(super) fn verified(self) -> Result<Figures, AdmissionError> {
        let crowd = self.crowd;
        let wrong = |what, expected: String, found: String| AdmissionError::Wrong { crowd, what, expected, found };
        let left = self.admission.in_progress().count() + self.admission.delayed_count();
        if left > 0 {
            return Err(wrong("what is left in progress or delayed", "0".to_owned(), left.to_string()));
        }
        let base = self.admission.base();
        let found = self.model.value(&self.key, base, "balance").map_or_else(String::new, |value| value.to_string());
        let currency = "EUR".parse().expect("a currency");
        let expected = Money::new(currency, self.cents.into()).map_or_else(String::new, |money| money.to_string());
        if found == expected { Ok(self.figures) } else { Err(wrong("the balance", expected, found)) }
    }
}

fn event(model: &Rebel, name: &str, arguments: &[&str]) -> EventCall {
    let event = model.spec().class("Account").and_then(|class| class.event(name)).expect("the event is declared");
    let arguments = event.params().iter().zip(arguments);
    let values = arguments.map(|(param, text)| (&**param.name(), Value::parse(param.ty(), text).expect("of its type")));
    event.call(values).expect("they fit")
}

/// `cents / divisor`, rounded to the nearest, half to even.
fn half_even(cents: i64, divisor: i64) -> i64 {
    let (whole, rest) = (cents.div_euclid(divisor), cents.rem_euclid(divisor));
    let rounds_up = 2 * rest > divisor || 2 * rest == divisor && whole % 2 != 0;
    whole + i64::from(rounds_up)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_cent_goes_to_the_even_one() {
        let quarters: Vec<_> = [1, 2, 3, 4, 5, 6, 7, 10].map(|cents| half_even(cents, 4)).into();
        assert_eq!(quarters, [0, 0, 1, 1, 1, 2, 2, 2]);
    }

    #[test]
    fn a_balance_that_the_commits_do_not_explain_is_refused() {
        let mut account = Account::new("test", 1);
        let deposit = account.deposit(3);
        account.ask(&deposit);
        account.commit();
        account.cents += 1;
        let wrong = account.verified().err().expect("a cent is missing").to_string();
        assert_eq!(wrong, "test: the balance is EUR 4.00, not EUR 4.01");
    }

    #[test]
    fn what_is_left_open_is_refused() {
        let mut account = Account::new("test", 1);
        let deposit = account.deposit(3);
        account.ask(&deposit);
        assert!(account.verified().is_err());
    }
}
