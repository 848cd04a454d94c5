//! The contract that the models run: accounts whose events commute or do not, one of which calls another account depending on its
//! own state.

use std::fmt;
use std::sync::Arc;

use enact_entities::{Call, Condition, EntityKey, Model, Rebel, Timestamp};
use enact_rebel::{EventCall, Source, Spec, Value, check};

use crate::serial::States;

const CONTRACT: &str = "
class Account
  balance: Integer = 100

  initial unopened
    on Open(): opened

  opened
    on Deposit(amount: Integer)
      post: this.balance += amount
    on Withdraw(amount: Integer)
      pre: \"insufficient funds\": balance - amount >= 0
      post: this.balance -= amount
    on Interest(percent: Integer)
      post: this.balance = balance + balance * percent div 100
    on Share(percent: Integer, other: Account)
      post: this.balance = balance + balance * percent div 100
      sync: if balance > 0: other.Interest(percent)
    on Close(): closed

  final closed
";

/// What a transaction does at one account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// Adds so much.
    Deposit(i64),
    /// Takes so much, if it is there.
    Withdraw(i64),
    /// Adds so many percent.
    Interest(i64),
    /// Adds so many percent here and at the other account, of which is known only when this one has answered.
    Share(i64),
    /// Closes the account, which then takes nothing more.
    Close,
    /// Demands that so much cannot be withdrawn.
    Poor(i64),
    /// Demands that the account is open.
    Opened,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deposit(amount) => write!(f, "Deposit {amount}"),
            Self::Withdraw(amount) => write!(f, "Withdraw {amount}"),
            Self::Interest(percent) => write!(f, "Interest {percent}%"),
            Self::Share(percent) => write!(f, "Interest {percent}%, and then at the other account"),
            Self::Close => f.write_str("Close"),
            Self::Poor(amount) => write!(f, "not Withdraw {amount}"),
            Self::Opened => f.write_str("in state opened"),
        }
    }
}

/// The accounts.
#[derive(Clone, Debug)]
pub struct Bank {
    spec: Arc<Spec>,
    model: Arc<Rebel>,
}

impl Default for Bank {
    fn default() -> Self {
        let spec = check(vec![Source::new("bank.rebel", CONTRACT)]);
        let spec = Arc::new(spec.unwrap_or_else(|report| panic!("{}", report.render(false))));
        Self { model: Arc::new(Rebel::new(Arc::clone(&spec))), spec }
    }
}

impl Bank {
    /// The contract.
    pub fn model(&self) -> Arc<Rebel> {
        Arc::clone(&self.model)
    }

    /// The account of this name.
    ///
    /// # Panics
    /// If the name is not that of an entity.
    pub fn account(name: &str) -> EntityKey {
        EntityKey::new("Account", name).expect("the name of an account")
    }

    /// Open accounts, each with a balance of 100.
    ///
    /// # Panics
    /// If a key is not that of an account.
    pub fn opened(&self, accounts: &[EntityKey]) -> States<Rebel> {
        let open = self.event("Open", Vec::new());
        let opened = |account: &EntityKey| {
            let initial = self.model.initial(account).expect("an account");
            let state = self.model.next(account, &initial, &open, Timestamp(0)).expect("it can be opened");
            (account.clone(), state)
        };
        accounts.iter().map(opened).collect()
    }

    fn event(&self, name: &str, arguments: Vec<(&'static str, Value)>) -> EventCall {
        let class = self.spec.class("Account").expect("the contract has accounts");
        class.event(name).expect("it is an event").call(arguments).expect("the arguments fit")
    }

    /// The balance of an account in this state.
    ///
    /// # Panics
    /// If it is no state of an account.
    pub fn balance(&self, state: &<Rebel as Model>::State) -> i128 {
        let numbers = self.model.numbers(&Self::account("A"), state);
        numbers.first().expect("an account has a balance").1
    }

    /// What a transaction asks of `account`; `other` is where [`Act::Share`] leads to.
    ///
    /// # Panics
    /// If a key is not that of an account.
    pub fn call(&self, account: &EntityKey, act: Act, other: &EntityKey) -> Call<EventCall> {
        let number = Value::Integer;
        let event = |name, arguments| self.event(name, arguments);
        let withdraw = |amount| event("Withdraw", vec![("amount", number(amount))]);
        let event = match act {
            Act::Deposit(amount) => event("Deposit", vec![("amount", number(amount))]),
            Act::Withdraw(amount) => withdraw(amount),
            Act::Interest(percent) => event("Interest", vec![("percent", number(percent))]),
            Act::Share(percent) => {
                let class = self.spec.class("Account").expect("the contract has accounts");
                let other = Value::Reference(class.reference(class.key(other.id()).expect("it is an id")));
                event("Share", vec![("percent", number(percent)), ("other", other)])
            }
            Act::Close => event("Close", Vec::new()),
            Act::Poor(amount) => {
                let condition = Condition::impossible(withdraw(amount), act.to_string());
                return Call::condition(account.clone(), condition);
            }
            Act::Opened => {
                let condition = Condition::in_state(["opened"], act.to_string());
                return Call::condition(account.clone(), condition);
            }
        };
        Call::event(account.clone(), event)
    }
}
