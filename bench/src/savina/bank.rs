//! Bank transaction: an account asks another and takes no other message until the answer has come, and may itself be
//! asked meanwhile.
//!
//! `port` keeps the published balances, next to which the amounts vanish: none ever changes. `strict` and `stash` count
//! in millionths. `port` and `strict` await the answer in an `async fn(&mut self)`; in `stash` it is a message, too,
//! and guards set those aside that come too early. Money moves to accounts of higher number only, so nobody waits
//! in a circle.
use std::ops::{AddAssign, SubAssign};

use enact::{Cx, actor};
use enact_workloads::savina::Lcg16;

use super::oracle::{Wrong, equal};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Reader, Report, Stage, Variant, Verified, read, reports};

parameters! {
    /// Bank transaction.
    Bank {
        /// How many accounts there are.
        accounts: usize = 1_000,
        /// How many transfers the teller asks for.
        transfers: u64 = 50_000,
    }
}

/// What a balance is counted in.
trait Money: Copy + Send + Sync + AddAssign + SubAssign + 'static {
    fn amount(amount: f64) -> Self;
    /// By how much `self` is more than `initial`, in millionths.
    fn change_from(self, initial: Self) -> i64;
}

impl Money for f64 {
    fn amount(amount: f64) -> Self {
        amount
    }

    fn change_from(self, initial: Self) -> i64 {
        ((self - initial) * 1e6) as i64
    }
}

/// Millionths.
impl Money for i64 {
    fn amount(amount: f64) -> Self {
        (amount * 1e6).round() as Self
    }

    fn change_from(self, initial: Self) -> i64 {
        self - initial
    }
}

struct Transfer {
    from: usize,
    to: usize,
    amount: f64,
}

/// What the teller asks for, in order.
struct Transfers {
    draws: Lcg16,
    accounts: u64,
}

impl Transfers {
    fn draw(&mut self) -> Transfer {
        let from = self.draws.below(self.accounts / 10 * 8);
        let to = from + self.draws.below(self.accounts - from).max(1);
        Transfer { from: from as usize, to: to as usize, amount: self.draws.harmonic() * 1_000.0 }
    }
}

struct Teller<M: Money> {
    accounts: Vec<AccountRef<M>>,
    transfers: Transfers,
    left: u64,
    stash: bool,
    _presence: Presence,
}

#[actor]
impl<M: Money> Teller<M> {
    fn start(&mut self, cx: &Cx<Self>) {
        for _ in 0..self.left {
            let Transfer { from, to, amount } = self.transfers.draw();
            let (from, to, amount) = (self.accounts[from].tell(), self.accounts[to].clone(), M::amount(amount));
            if self.stash {
                from.credit_or_stash(cx.handle(), amount, to);
            } else {
                from.credit(cx.handle(), amount, to);
            }
        }
    }

    fn done(&mut self, cx: &Cx<Self>) {
        self.left -= 1;
        if self.left == 0 {
            self.accounts.iter().for_each(|account| drop(account.tell().exit()));
            cx.stop();
        }
    }
}

struct Account<M: Money> {
    id: usize,
    initial: M,
    balance: M,
    /// The account that asked for the transfer under way, where messages are set aside.
    teller: Option<TellerRef<M>>,
    report: Report<(usize, i64)>,
    _presence: Presence,
}

#[actor]
impl<M: Money> Account<M> {
    async fn credit(&mut self, teller: TellerRef<M>, amount: M, to: AccountRef<M>) {
        self.balance -= amount;
        to.debit(amount).await.expect("accounts live until the last transfer");
        teller.tell().done();
    }

    fn debit(&mut self, amount: M) {
        self.balance += amount;
    }

    #[when(self.teller.is_none())]
    fn credit_or_stash(&mut self, cx: &Cx<Self>, teller: TellerRef<M>, amount: M, to: AccountRef<M>) {
        self.balance -= amount;
        self.teller = Some(teller);
        to.tell().debit_or_stash(amount, cx.handle());
    }

    #[when(self.teller.is_none())]
    fn debit_or_stash(&mut self, amount: M, from: AccountRef<M>) {
        self.balance += amount;
        from.tell().debited();
    }

    fn debited(&mut self) {
        if let Some(teller) = self.teller.take() {
            teller.tell().done();
        }
    }

    fn exit(&mut self, cx: &Cx<Self>) {
        self.report.give((self.id, self.balance.change_from(self.initial)));
        cx.stop();
    }
}

pub(super) struct Prepared {
    variant: Variant,
    /// The change of each account, in millionths.
    changes: Vec<(usize, i64)>,
}

impl Bank {
    fn transfers(&self) -> Transfers {
        Transfers { draws: Lcg16::new(123_456), accounts: self.accounts as u64 }
    }

    /// The balances for which the published programs have room.
    fn published_balance(&self) -> f64 {
        f64::MAX / (self.accounts as f64 * self.transfers as f64) / 1_000.0 * 1_000.0
    }

    fn changes<M: Money>(&self, initial: M) -> Vec<(usize, i64)> {
        let mut balances = vec![initial; self.accounts];
        let mut transfers = self.transfers();
        for _ in 0..self.transfers {
            let Transfer { from, to, amount } = transfers.draw();
            balances[from] -= M::amount(amount);
            balances[to] += M::amount(amount);
        }
        balances.into_iter().map(|balance| balance.change_from(initial)).enumerate().collect()
    }

    fn open<M: Money>(&self, initial: M, stash: bool, stage: &Stage) -> Findings<Vec<(usize, i64)>> {
        let (report, reported) = reports();
        let account = |id| Account {
            id,
            initial,
            balance: initial,
            teller: None,
            report: report.clone(),
            _presence: stage.presence(),
        };
        let teller = Teller {
            accounts: (0..self.accounts).map(|id| stage.spawn(account(id))).collect(),
            transfers: self.transfers(),
            left: self.transfers,
            stash,
            _presence: stage.presence(),
        };
        stage.spawn(teller).tell().start();
        Box::new(move || reported.sorted())
    }
}

/// A balance in millionths that no transfer exhausts.
const BALANCE_IN_MILLIONTHS: i64 = 1_000_000_000_000;

impl Program for Bank {
    const NAME: &'static str = "btx";
    const TITLE: &'static str = "Bank Transaction";
    const SIZE: Option<&'static str> = Some("transfers");
    const VARIANTS: &'static [Variant] = &[Variant::Port, Variant::Strict, Variant::Stash];
    type Prepared = Prepared;
    type Found = Vec<(usize, i64)>;
    const OF_PEERS: Option<Reader<Self::Found>> = Some(read);

    fn refuse(&self) -> Option<&'static str> {
        (self.accounts < 10 || self.transfers == 0).then_some("there are ten accounts and a transfer")
    }

    fn prepare(&self, variant: Variant) -> Prepared {
        let changes = match variant {
            Variant::Port => self.changes(self.published_balance()),
            Variant::Strict | Variant::Stash => self.changes(BALANCE_IN_MILLIONTHS),
        };
        Prepared { variant, changes }
    }

    fn start(&self, prepared: &Prepared, stage: &Stage) -> Findings<Self::Found> {
        match prepared.variant {
            Variant::Port => self.open(self.published_balance(), false, stage),
            Variant::Strict => self.open(BALANCE_IN_MILLIONTHS, false, stage),
            Variant::Stash => self.open(BALANCE_IN_MILLIONTHS, true, stage),
        }
    }

    fn verify(&self, prepared: &Prepared, found: &Self::Found) -> Result<Verified, Wrong> {
        equal("changes of the accounts", found, &prepared.changes)?;
        Ok(Verified::after(4 * self.transfers + 1 + self.accounts as u64))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use enact_workloads::savina::poly31;

    use super::*;

    #[test]
    fn oracle_has_the_published_result() {
        let program = Bank::default();
        let mut transfers = program.transfers();
        let all: Vec<_> = (0..program.transfers).map(|_| transfers.draw()).collect();
        let ends: Vec<_> = all[..4].iter().map(|transfer| (transfer.from, transfer.to)).collect();
        assert_eq!(ends, [(377, 709), (300, 809), (651, 772), (294, 485)]);
        assert_eq!((all[0].amount, all[1].amount), (0.043_736_878_936_319_1, 0.092_225_398_874_850_14));
        assert_eq!(all.iter().map(|transfer| transfer.from).collect::<HashSet<_>>().len(), 800);
        assert_eq!(all.iter().map(|transfer| transfer.to).collect::<HashSet<_>>().len(), 984);
        let changes: Vec<_> = program.prepare(Variant::Strict).changes.into_iter().map(|(_, change)| change).collect();
        assert_eq!(changes[..5], [-3_588_721, -9_282_178, -4_352_585, -11_625_992, -4_774_061]);
        assert_eq!((changes[999], changes.iter().sum::<i64>()), (7_033_828, 0));
        assert_eq!(poly31(changes), 6_564_191_372_416_953_162);
    }

    #[test]
    fn no_balance_of_the_published_programs_ever_changes() {
        assert!(Bank::default().prepare(Variant::Port).changes.iter().all(|&(_, change)| change == 0));
    }

    #[test]
    fn money_from_nowhere_is_refused() {
        let program = Bank { accounts: 10, transfers: 20 };
        let prepared = program.prepare(Variant::Strict);
        assert!(program.verify(&prepared, &prepared.changes.clone()).is_ok());
        let mut richer = prepared.changes.clone();
        richer[9].1 += 1;
        assert!(program.verify(&prepared, &richer).is_err());
    }
}
