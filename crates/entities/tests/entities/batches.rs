//! Batches of payments in Rebel: several calls on one instance happen one after the other, and nothing is merged or lost.

use std::sync::{Arc, LazyLock};

use enact_entities::{Durability, Rebel, Reply, Strategy};
use enact_rebel::{Key, Reference, Source, Value, check};
use proptest::prelude::*;

use crate::support::key;
use crate::support::world::Net;

/// Batches of payments, and a batch of batches.
const BANK: &str = r#"
class Account
  balance: Money = EUR 0.00
  initial unopened
    on Open(deposit: Money): opened
      pre: deposit >= EUR 0.00
      post: this.balance == deposit
  opened
    on Withdraw(amount: Money): opened
      pre: amount > EUR 0.00,
           "insufficient funds": balance >= amount
      post: this.balance -= amount
    on Deposit(amount: Money): opened
      pre: amount > EUR 0.00
      post: this.balance += amount

class Batch
  initial drafted
    on Pay(from: Account, first: Account, second: Account, third: Account, amount: Money): paid
      sync:
        from.Withdraw(amount)
        first.Deposit(amount)
        from.Withdraw(amount)
        second.Deposit(amount)
        from.Withdraw(amount)
        third.Deposit(amount)
  paid
    on Again(): paid

class Order
  initial placed
    on Settle(one: Batch, other: Batch, a: Account, b: Account, c: Account, amount: Money): settled
      sync:
        one.Pay(a, b, c, b, amount)
        other.Pay(b, a, a, c, amount)
        a.Withdraw(amount)
        c.Deposit(amount)
  final settled
"#;

const ACCOUNTS: [&str; 3] = ["A", "B", "C"];

struct World {
    net: Net<Rebel>,
    spec: Arc<enact_rebel::Spec>,
}

impl World {
    fn new(strategy: Strategy, durability: Durability, balances: [i64; 3]) -> Self {
        static SPEC: LazyLock<Arc<enact_rebel::Spec>> = LazyLock::new(|| {
            Arc::new(check(vec![Source::new("bank.rebel", BANK)]).unwrap_or_else(|report| panic!("{report}")))
        });
        static MODEL: LazyLock<Arc<Rebel>> = LazyLock::new(|| Arc::new(Rebel::new(Arc::clone(&SPEC))));
        let net = Net::with(Arc::clone(&MODEL), strategy, durability);
        let mut world = Self { net, spec: Arc::clone(&SPEC) };
        for (account, balance) in ACCOUNTS.into_iter().zip(balances) {
            let opened = world.run("Account", account, "Open", &[("deposit", world.money(balance))]);
            assert!(opened, "{account}");
        }
        world
    }

    fn money(&self, euros: i64) -> Value {
        Value::parse(&enact_rebel::Type::Money, &format!("EUR {euros}.00")).expect("an amount")
    }

    fn reference(&self, class: &str, id: &str) -> Value {
        let class = self.spec.class(class).expect("a class");
        let key: Key = class.key(id).expect("an id");
        Value::Reference(Reference { class: Arc::clone(class.name()), key })
    }

    /// Whether the event commits.
    fn run(&mut self, class: &str, id: &str, event: &str, arguments: &[(&str, Value)]) -> bool {
        let declared = self.spec.class(class).and_then(|class| class.event(event)).expect("an event");
        let call = declared.call(arguments.iter().cloned()).expect("the arguments fit");
        let tx = self.net.event(&format!("{class}/{id}"), call);
        self.net.run();
        matches!(self.net.reply(tx), Some(Reply::Answered { result: Ok(_), .. }))
    }

    fn balances(&self) -> [i64; 3] {
        ACCOUNTS.map(|account| {
            let state = self.net.participants[&key(&format!("Account/{account}"))].admission().base();
            match state.fields().get("balance") {
                Some(Value::Money(money)) => i64::try_from(money.minor() / 100).expect("a small amount"),
                other => panic!("{other:?}"),
            }
        })
    }
}

/// What the payments, one after the other, leave; nothing if one of them is refused.
fn expected(mut balances: [i64; 3], payments: &[(usize, usize)], amount: i64) -> Option<[i64; 3]> {
    for &(from, to) in payments {
        balances[from] = balances[from].checked_sub(amount).filter(|left| *left >= 0)?;
        balances[to] += amount;
    }
    Some(balances)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_batch_does_each_of_its_payments_once_or_none(
        balances in [0..60_i64, 0..60, 0..60],
        from in 0..3_usize,
        to in [0..3_usize, 0..3, 0..3],
        amount in 1..30_i64,
        is_shared: bool,
    ) {
        let durability = if is_shared { Durability::Shared } else { Durability::TwoPhase };
        for strategy in Strategy::ALL {
            let mut world = World::new(strategy, durability, balances);
            let account = |index: usize| ACCOUNTS[index];
            let arguments = [
                ("from", world.reference("Account", account(from))),
                ("first", world.reference("Account", account(to[0]))),
                ("second", world.reference("Account", account(to[1]))),
                ("third", world.reference("Account", account(to[2]))),
                ("amount", world.money(amount)),
            ];
            let committed = world.run("Batch", "1", "Pay", &arguments);
            let after = expected(balances, &to.map(|to| (from, to)), amount);
            prop_assert_eq!(committed, after.is_some());
            prop_assert_eq!(world.balances(), after.unwrap_or(balances));
        }
    }

    #[test]
    fn batches_in_an_order_happen_depth_first_and_conserve_money(
        balances in [0..90_i64, 0..90, 0..90],
        amount in 1..30_i64,
        order in prop::sample::select(vec![[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]),
    ) {
        for strategy in Strategy::ALL {
            let mut world = World::new(strategy, Durability::Shared, balances);
            let [a, b, c] = order;
            let arguments = [
                ("one", world.reference("Batch", "1")),
                ("other", world.reference("Batch", "2")),
                ("a", world.reference("Account", ACCOUNTS[a])),
                ("b", world.reference("Account", ACCOUNTS[b])),
                ("c", world.reference("Account", ACCOUNTS[c])),
                ("amount", world.money(amount)),
            ];
            let committed = world.run("Order", "1", "Settle", &arguments);
            let payments = [(a, b), (a, c), (a, b), (b, a), (b, a), (b, c), (a, c)];
            let after = expected(balances, &payments, amount);
            prop_assert_eq!(committed, after.is_some());
            let balances = after.unwrap_or(balances);
            prop_assert_eq!(world.balances(), balances);
        }
    }
}

#[test]
fn a_batch_for_one_account_that_is_called_twice_is_refused_by_its_life_cycle() {
    let mut world = World::new(Strategy::Serializable, Durability::Shared, [60, 60, 60]);
    let account = |index: usize| world.reference("Account", ACCOUNTS[index]);
    let arguments = [
        ("one", world.reference("Batch", "1")),
        ("other", world.reference("Batch", "1")),
        ("a", account(0)),
        ("b", account(1)),
        ("c", account(2)),
        ("amount", world.money(1)),
    ];
    assert!(!world.run("Order", "1", "Settle", &arguments), "the second call finds the batch paid");
    assert_eq!(world.balances(), [60, 60, 60]);
}
