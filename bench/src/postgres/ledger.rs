//! What clients ask for, and what the accounts hold if all that was acknowledged has happened once.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::PostgresError;
use crate::engine::Kind;
use crate::psac::Experiment;

/// Euros on an account in the beginning.
pub(super) const OPENING: i64 = 1_000_000;

/// The number of an account.
pub(super) type Account = i64;

/// The `turn`th order of a client, which no other order is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OrderId {
    pub(super) client: u32,
    pub(super) turn: u32,
}

impl OrderId {
    pub(super) fn number(self) -> i64 {
        i64::from(self.client) << 32 | i64::from(self.turn)
    }
}

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// An account with [`OPENING`] euros.
    Open(Account),
    /// A transfer of one euro.
    Book { id: OrderId, payer: Account, payee: Account },
}

/// Accounts that are there in the beginning, with the numbers from 0 on, and what clients do with them.
#[derive(Debug)]
pub(super) struct Workload {
    kind: Kind,
    pub(super) accounts: u32,
}

impl Workload {
    /// # Panics
    /// If the experiment is none with a bank.
    pub(super) fn new(experiment: Experiment) -> Self {
        let (kind, accounts) = experiment.bank().expect("one with a bank");
        Self { kind, accounts }
    }

    pub(super) fn draw(&self, id: OrderId, draws: &mut ChaCha8Rng) -> Order {
        let count = i64::from(self.accounts);
        match self.kind {
            Kind::Open => Order::Open(count + id.number()),
            Kind::TransferHot => {
                // The account that all have in common comes last in the order of keys, so that it is locked last.
                Order::Book { id, payer: draws.random_range(0..count - 1), payee: count - 1 }
            }
            Kind::Transfer | Kind::Deposit => {
                let payer = draws.random_range(0..count);
                Order::Book { id, payer, payee: (payer + draws.random_range(1..count)) % count }
            }
        }
    }
}

/// What was acknowledged.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Of the accounts that were there in the beginning.
    balances: Vec<i64>,
    done: Vec<Order>,
}

impl Ledger {
    pub(super) fn new(workload: &Workload) -> Self {
        Self { balances: vec![OPENING; workload.accounts as usize], done: Vec::new() }
    }

    /// How many accounts were there in the beginning.
    pub(super) fn accounts(&self) -> u32 {
        u32::try_from(self.balances.len()).expect("as many as there were")
    }

    /// Notes an order that was acknowledged.
    pub(super) fn note(&mut self, order: Order) {
        if let Order::Book { payer, payee, .. } = order {
            let place = |account: Account| usize::try_from(account).expect("it was there in the beginning");
            self.balances[place(payer)] -= 1;
            self.balances[place(payee)] += 1;
        }
        self.done.push(order);
    }

    /// Up to so many of the acknowledged orders, evenly chosen.
    pub(super) fn some(&self, count_max: usize) -> Vec<Order> {
        let step = self.done.len().div_ceil(count_max).max(1);
        self.done.iter().step_by(step).copied().collect()
    }

    /// Accepts what the accounts hold that were there in the beginning, in order of their numbers.
    ///
    /// # Errors
    /// [`PostgresError::Wrong`] if an account holds something else than what was acknowledged.
    pub(super) fn accept(&self, found: &[i64]) -> Result<(), PostgresError> {
        if found.len() != self.balances.len() {
            let (found, expected) = (found.len(), self.balances.len());
            return Err(PostgresError::Wrong(format!("there are {found} accounts, not {expected}")));
        }
        match found.iter().zip(&self.balances).enumerate().find(|(_, (found, expected))| found != expected) {
            None => Ok(()),
            Some((account, (found, expected))) => {
                Err(PostgresError::Wrong(format!("account {account} holds EUR {found}, not EUR {expected}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn orders(experiment: Experiment) -> (Workload, Vec<Order>) {
        let workload = Workload::new(experiment);
        let mut draws = ChaCha8Rng::seed_from_u64(1);
        let mut draw = |turn| workload.draw(OrderId { client: 3, turn }, &mut draws);
        let orders = (0..2_000).map(&mut draw).collect();
        (workload, orders)
    }

    #[test]
    fn transfers_are_between_two_known_accounts_and_on_a_hot_one_come_to_the_last() {
        for (experiment, accounts) in
            [(Experiment::Sync1000, 1_000), (Experiment::Sync100, 100), (Experiment::Hot, 1_000)]
        {
            for order in orders(experiment).1 {
                let Order::Book { payer, payee, .. } = order else { panic!("{order:?}") };
                assert!(
                    payer != payee && (0..accounts).contains(&payer) && (0..accounts).contains(&payee),
                    "{order:?}"
                );
                assert!(experiment != Experiment::Hot || payee == accounts - 1, "{order:?}");
            }
        }
    }

    #[test]
    fn no_account_is_opened_twice() {
        let (workload, orders) = orders(Experiment::NoSync);
        let mut opened: Vec<_> = orders
            .iter()
            .map(|order| match order {
                Order::Open(account) if *account >= i64::from(workload.accounts) => *account,
                _ => panic!("{order:?}"),
            })
            .collect();
        opened.dedup();
        assert_eq!(opened.len(), orders.len());
    }

    #[test]
    fn the_oracle_accepts_what_was_acknowledged_and_finds_a_euro_that_went_elsewhere() {
        let (workload, orders) = orders(Experiment::Sync100);
        let mut ledger = Ledger::new(&workload);
        orders.iter().for_each(|&order| ledger.note(order));
        let mut found = ledger.balances.clone();
        assert_eq!(found.iter().sum::<i64>(), 100 * OPENING);
        assert!(ledger.accept(&found).is_ok());
        // The sum is right.
        found[3] += 1;
        found[4] -= 1;
        let wrong = ledger.accept(&found).expect_err("it is seen").to_string();
        assert!(wrong.starts_with("account 3 holds EUR "), "{wrong}");
        assert!(ledger.accept(&found[1..]).is_err());
    }

    #[test]
    fn a_sample_of_the_orders_is_even_and_all_of_them_where_they_are_few() {
        let (workload, orders) = orders(Experiment::Sync100);
        let mut ledger = Ledger::new(&workload);
        orders.iter().for_each(|&order| ledger.note(order));
        assert_eq!(ledger.some(usize::MAX), orders);
        assert_eq!(ledger.some(2_000), orders);
        assert_eq!(ledger.some(500), orders.iter().step_by(4).copied().collect::<Vec<_>>());
        assert!(Ledger::new(&workload).some(9).is_empty());
    }
}
