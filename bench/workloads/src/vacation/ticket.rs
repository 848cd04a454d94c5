//! Ticket numbers, each with an expensive hash.
use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;

use super::{Use, draws};
use crate::SplitMix64;

const PASSWORD_LETTERS: usize = 20;
const TICKETS: u64 = 10_000;

/// How expensive the hash is: 2^cost rounds of bcrypt, or no hash at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost(u32);

/// No cost that bcrypt knows.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a cost is 0 (no hash) or 4 to 31")]
pub struct CostError;

impl Cost {
    /// No hash.
    pub const FREE: Self = Self(0);

    /// Checks `cost`: 0, or 4 to 31.
    ///
    /// # Errors
    /// If bcrypt does not have it.
    pub fn new(cost: u32) -> Result<Self, CostError> {
        if cost == 0 || (4..=31).contains(&cost) { Ok(Self(cost)) } else { Err(CostError) }
    }

    /// Whether there is a hash.
    pub fn is_free(self) -> bool {
        self.0 == 0
    }
}

impl FromStr for Cost {
    type Err = CostError;

    fn from_str(text: &str) -> Result<Self, CostError> {
        text.parse().map_err(|_| CostError).and_then(Self::new)
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the ticket number of one attempt is made of.
#[derive(Debug)]
pub struct Ticket {
    reservation: usize,
    number: u64,
    password: String,
    salt: [u8; 16],
}

impl Ticket {
    /// Draws for an attempt.
    pub fn draw(reservation: usize, attempt: u32) -> Self {
        let mut draws: SplitMix64 = draws(reservation, Use::Ticket, attempt);
        let number = draws.below(TICKETS);
        let password = (0..PASSWORD_LETTERS).map(|_| char::from(b'a' + draws.below(26) as u8)).collect();
        let mut salt = [0; 16];
        salt[..8].copy_from_slice(&draws.next_u64().to_le_bytes());
        salt[8..].copy_from_slice(&draws.next_u64().to_le_bytes());
        Self { reservation, number, password, salt }
    }

    /// The ticket number: the expensive part.
    pub fn issue(&self, destination: u32, at_ms: u128, cost: Cost) -> String {
        STANDARD.encode(format!("{}{at_ms}//{}", self.prefix(destination), self.hash(cost)))
    }

    /// Whether `pnr` is this ticket, issued at any time, with a hash of `cost` that is the password's if
    /// `is_password_checked`: to know that takes as long as to issue it.
    pub fn is(&self, pnr: &str, destination: u32, cost: Cost, is_password_checked: bool) -> bool {
        let Some(text) = STANDARD.decode(pnr).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else {
            return false;
        };
        let Some((at_ms, hash)) = text.strip_prefix(&self.prefix(destination)).and_then(|rest| rest.split_once("//"))
        else {
            return false;
        };
        let has_hash = if cost.is_free() { hash.is_empty() } else { hash.starts_with(&format!("$2b${cost:02}$")) };
        at_ms.parse::<u128>().is_ok() && has_hash && (!is_password_checked || hash == self.hash(cost))
    }

    fn prefix(&self, destination: u32) -> String {
        format!("{}//vacation-benchmark//{}//{destination}//", self.reservation, self.number)
    }

    fn hash(&self, cost: Cost) -> String {
        if cost.is_free() {
            return String::new();
        }
        let parts = bcrypt::hash_with_salt(&self.password, cost.0, self.salt).expect("the cost was checked");
        parts.format_for_version(bcrypt::Version::TwoB)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(cost: u32) -> Cost {
        Cost::new(cost).expect("a cost of bcrypt")
    }

    #[test]
    fn costs_are_zero_and_four_to_thirty_one() {
        for good in ["0", "4", "5", "31"] {
            assert_eq!(good.parse::<Cost>().map(|cost| cost.to_string()), Ok(good.to_owned()));
        }
        for bad in ["1", "3", "32", "-1", "x", ""] {
            assert_eq!(bad.parse::<Cost>(), Err(CostError), "{bad}");
        }
    }

    #[test]
    fn an_issued_ticket_is_recognised_and_no_other() {
        let ticket = Ticket::draw(3, 0);
        let pnr = ticket.issue(17, 1_234, cost(4));
        assert!(ticket.is(&pnr, 17, cost(4), true));
        assert!(!ticket.is(&pnr, 18, cost(4), false), "another destination");
        assert!(!ticket.is(&pnr, 17, cost(5), false), "another cost");
        assert!(!ticket.is(&pnr, 17, Cost::FREE, false), "a hash that was not asked for");
        assert!(!Ticket::draw(4, 0).is(&pnr, 17, cost(4), false), "another reservation");
        assert!(!Ticket::draw(3, 1).is(&pnr, 17, cost(4), false), "another attempt");
        assert!(!ticket.is("?", 17, cost(4), false), "not base64");
        let swapped = STANDARD.encode(format!("{}1//{}", ticket.prefix(17), Ticket::draw(4, 0).hash(cost(4))));
        assert!(!ticket.is(&swapped, 17, cost(4), true), "the hash of another password");
    }

    #[test]
    fn the_hash_is_bcrypt_of_the_password() {
        let ticket = Ticket::draw(0, 0);
        assert_eq!(ticket.password.len(), 20);
        assert_eq!(bcrypt::verify(&ticket.password, &ticket.hash(cost(4))).ok(), Some(true));
    }

    #[test]
    fn without_a_hash_the_ticket_has_its_other_parts() {
        let ticket = Ticket::draw(0, 0);
        let pnr = ticket.issue(5, 77, Cost::FREE);
        let text = STANDARD.decode(&pnr).expect("base64");
        let expected = format!("0//vacation-benchmark//{}//5//77//", ticket.number);
        assert_eq!(String::from_utf8(text), Ok(expected));
        assert!(ticket.is(&pnr, 5, Cost::FREE, true));
    }
}
