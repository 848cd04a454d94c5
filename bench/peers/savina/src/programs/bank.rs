//! Bank transaction, in millionths.
use std::ops::ControlFlow;

use enact_workloads::savina::Lcg16;
use serde::Deserialize;

use crate::stage::{
    Behaviour, Dialogue, Findings, Library, NEXT, Presence, Program, Report, STOP, Stage, Turn, reports,
};

/// A balance that no transfer exhausts.
const BALANCE: i64 = 1_000_000_000_000;

#[derive(Deserialize)]
pub(super) struct Bank {
    accounts: usize,
    transfers: u64,
}

struct Teller<L: Library> {
    accounts: Vec<L::PartnerRef<Account<L>>>,
    draws: Lcg16,
    left: u64,
    _presence: Presence,
}

enum ToTeller {
    Start,
    Done,
}

impl<L: Library> Behaviour<L> for Teller<L> {
    type Message = ToTeller;

    fn handle(&mut self, message: ToTeller, me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        match message {
            ToTeller::Start => {
                let accounts = self.accounts.len() as u64;
                for _ in 0..self.left {
                    let from = self.draws.below(accounts / 10 * 8);
                    let to = from + self.draws.below(accounts - from).max(1);
                    let amount = (self.draws.harmonic() * 1_000.0 * 1e6).round() as i64;
                    let to = self.accounts[to as usize].clone();
                    L::tell_partner(&self.accounts[from as usize], ToAccount::Credit { teller: me(), amount, to });
                }
            }
            ToTeller::Done => {
                self.left -= 1;
                if self.left == 0 {
                    self.accounts.iter().for_each(|account| L::tell_partner(account, ToAccount::Exit));
                    return STOP;
                }
            }
        }
        NEXT
    }
}

struct Account<L: Library> {
    id: usize,
    balance: i64,
    /// The account that wants to know when the transfer under way is done.
    teller: Option<L::Ref<Teller<L>>>,
    report: Report<(usize, i64)>,
    _presence: Presence,
}

enum ToAccount<L: Library> {
    Credit { teller: L::Ref<Teller<L>>, amount: i64, to: L::PartnerRef<Account<L>> },
    Exit,
}

impl<L: Library> Dialogue<L> for Account<L> {
    type Message = ToAccount<L>;
    /// An amount to take.
    type Question = i64;
    type Answer = ();
    type Asked = Self;

    fn handle(&mut self, message: ToAccount<L>) -> Turn<L, Self> {
        match message {
            ToAccount::Credit { teller, amount, to } => {
                self.balance -= amount;
                self.teller = Some(teller);
                Turn::Ask(to, amount)
            }
            ToAccount::Exit => {
                self.report.give((self.id, self.balance - BALANCE));
                Turn::Stop
            }
        }
    }

    fn answer(&mut self, amount: i64) {
        self.balance += amount;
    }

    fn answered(&mut self, (): ()) {
        let teller = self.teller.take().expect("asked on behalf of a teller");
        L::tell(&teller, ToTeller::Done);
    }
}

impl Program for Bank {
    /// Number and change of each account.
    type Found = Vec<(usize, i64)>;

    fn start<L: Library>(self, stage: &Stage<L>) -> Findings<Self::Found> {
        let (report, reported) = reports();
        let account =
            |id| Account { id, balance: BALANCE, teller: None, report: report.clone(), _presence: stage.presence() };
        let teller = Teller {
            accounts: (0..self.accounts).map(|id| stage.spawn_partner(account(id))).collect(),
            draws: Lcg16::new(123_456),
            left: self.transfers,
            _presence: stage.presence(),
        };
        L::tell(&stage.spawn(teller), ToTeller::Start);
        Box::new(move || reported.sorted())
    }
}
