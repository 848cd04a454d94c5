//! Shared accounts: tellers transfer money at the same time, and one transfer waits until the money is there.

use std::sync::Arc;

use enact::{Abort, Promise, System, TCell, Tx, actor, atomically};

struct Account {
    cents: TCell<i64>,
}

impl Account {
    fn new(cents: i64) -> Arc<Self> {
        Arc::new(Self { cents: TCell::new(cents) })
    }

    /// Takes `amount`, as soon as there is so much.
    fn withdraw<'t>(&'t self, tx: &mut Tx<'t, '_>, amount: i64) -> Result<(), Abort> {
        let cents = tx.read(&self.cents)?;
        if cents < amount {
            return tx.retry(); // sleeps until the balance changes
        }
        tx.write(&self.cents, cents - amount).map(drop)
    }

    fn deposit<'t>(&'t self, tx: &mut Tx<'t, '_>, amount: i64) -> Result<(), Abort> {
        tx.update(&self.cents, |cents| cents + amount).map(drop)
    }

    fn balance(&self) -> i64 {
        atomically(|tx| tx.read(&self.cents)).run()
    }
}

struct Teller;

#[actor]
impl Teller {
    /// Both accounts change, or neither does. The teller's thread serves other actors while this one waits.
    async fn transfer(&mut self, from: Arc<Account>, to: Arc<Account>, amount: i64) {
        atomically(|tx| {
            from.withdraw(tx, amount)?;
            to.deposit(tx, amount)
        })
        .await;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let system = System::builder().build()?;
    let accounts = [Account::new(1_000), Account::new(1_000), Account::new(0)];
    let [ada, bob, cleo] = &accounts;
    let transfer = |from: &Arc<Account>, to: &Arc<Account>, amount| -> Promise<()> {
        system.spawn(Teller).transfer(Arc::clone(from), Arc::clone(to), amount)
    };

    let patient = transfer(cleo, ada, 1_500); // waits for the others
    for _ in 0..10 {
        transfer(ada, cleo, 100).wait()?;
        transfer(bob, cleo, 50).wait()?;
    }
    patient.wait()?;

    let balances = accounts.each_ref().map(|account| account.balance());
    println!("{balances:?}");
    assert_eq!(balances, [1_500, 500, 0]);
    Ok(())
}
