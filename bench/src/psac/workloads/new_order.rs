//! New-Order of TPC-C: an order of 5 to 15 lines takes the next number of its district and is supplied from stock.
//!
//! By the rules of the benchmark, in fewer of everything: a line is supplied by another warehouse once in a hundred; stock that would
//! fall below 10 is refilled by 91; one order in a hundred names an unknown item and is refused as a whole; customers and items are drawn
//! by `NURand`. What no rule needs, such as names and addresses, is left out.
//!
//! # Oracle
//! * The numbers of the acknowledged orders of each district have no gap, none twice, and end where the district goes on.
//! * Stock was ordered as often as the acknowledged orders say. It is always between 10 and 100, 91 numbers, so that what was there, what was
//!   ordered and refills by 91 leave one quantity, in whatever order the orders came.
//!
//! # Source
//! *TPC Benchmark C*, revision 5.11, clauses 2.1.6 and 2.4.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use enact_rebel::Value;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::engine::{Draw, EngineError, Engines, Expected, Request, Turn, Workload};

const WAREHOUSES: u32 = 2;
const DISTRICTS: u32 = 10;
/// Of each district; 3,000 in the benchmark.
const CUSTOMERS: u32 = 30;
/// 100,000 in the benchmark.
const ITEMS: u32 = 1_000;
/// The number of an item that nobody sells.
const UNKNOWN: u32 = ITEMS + 1;
const FIRST_ORDER: i64 = 3_001;
const QUANTITY_MIN: i64 = 10;
const REFILL: i64 = 91;
/// What `NURand` mixes in, as large a part of the range as in the benchmark, and its constant.
const MIXED_CUSTOMERS: u32 = 7;
const MIXED_ITEMS: u32 = 63;
const NURAND_C: u32 = 5;

/// What the acknowledged orders say.
#[derive(Debug, Default)]
struct Books {
    /// The numbers of the orders of each district.
    orders: BTreeMap<String, Vec<i64>>,
    /// By place of stock.
    taken: BTreeMap<String, Taken>,
}

/// What orders take of a stock.
#[derive(Debug, Default, Clone, Copy)]
struct Taken {
    pieces: i64,
    lines: i64,
    remote_lines: i64,
}

pub(in crate::psac) struct NewOrder {
    books: Mutex<Books>,
}

/// A line of an order: which item, from which stock, how many.
struct Line {
    item: u32,
    supply: String,
    quantity: i64,
    is_remote: bool,
}

/// The district of an order, and its lines.
pub(in crate::psac) struct Entered {
    district: String,
    lines: Vec<Line>,
}

impl NewOrder {
    pub(in crate::psac) fn new() -> Self {
        Self { books: Mutex::new(Books::default()) }
    }

    fn line(home: u32, draws: &mut ChaCha8Rng) -> Line {
        let item = nurand(MIXED_ITEMS, ITEMS, draws);
        let is_remote = draws.random_ratio(1, 100);
        let warehouse = if is_remote { 1 + home % WAREHOUSES } else { home };
        Line { item, supply: stock(warehouse, item), quantity: draws.random_range(1..=10), is_remote }
    }
}

fn district(warehouse: u32, number: u32) -> String {
    format!("w{warehouse}-d{number}")
}

fn customer(district: &str, number: u32) -> String {
    format!("{district}-c{number}")
}

fn stock(warehouse: u32, item: u32) -> String {
    format!("w{warehouse}-i{item}")
}

/// How many there are of an item in the beginning.
fn stored(item: u32) -> i64 {
    QUANTITY_MIN + i64::from(item) * 37 % REFILL
}

fn districts() -> impl Iterator<Item = (u32, String)> {
    (1..=WAREHOUSES).flat_map(|warehouse| (1..=DISTRICTS).map(move |number| (warehouse, district(warehouse, number))))
}

/// From 1 to `last`, not uniformly.
fn nurand(mixed: u32, last: u32, draws: &mut ChaCha8Rng) -> u32 {
    ((draws.random_range(0..=mixed) | draws.random_range(1..=last)) + NURAND_C) % last + 1
}

/// The text of the argument.
fn text(lines: &[Line]) -> String {
    let line = |Line { item, supply, quantity, is_remote }: &Line| {
        format!(r#"Line(item: {item}, supply: "{supply}", quantity: {quantity}, isRemote: {is_remote})"#)
    };
    format!("[{}]", lines.iter().map(line).collect::<Vec<_>>().join(", "))
}

impl Workload for NewOrder {
    type Note = Entered;

    const CONTRACT: &'static str = include_str!("new_order.rebel");

    fn opening(&self, engines: &Engines) -> Vec<Request> {
        let mut requests = Vec::new();
        for warehouse in 1..=WAREHOUSES {
            let number = warehouse.to_string();
            requests.push(engines.request("Warehouse", &number, "Open", &[("rate", &format!("{}%", 7 * warehouse))]));
            for item in 1..=ITEMS {
                let count = stored(item).to_string();
                requests.push(engines.request("Stock", &stock(warehouse, item), "Store", &[("count", &count)]));
            }
        }
        for (warehouse, district) in districts() {
            let (of, first) = (warehouse.to_string(), FIRST_ORDER.to_string());
            let arguments = [("of", &*of), ("rate", "2.5%"), ("first", &*first)];
            requests.push(engines.request("District", &district, "Open", &arguments));
            for number in 1..=CUSTOMERS {
                let (customer, share) = (customer(&district, number), format!("{}%", number % 51));
                requests.push(engines.request("Customer", &customer, "Register", &[("share", &share)]));
            }
        }
        for item in 1..=ITEMS {
            let amount = format!("EUR {}.00", 1 + item % 100);
            requests.push(engines.request("Item", &item.to_string(), "Introduce", &[("amount", &amount)]));
        }
        requests
    }

    fn draw(&self, engines: &Engines, turn: Turn, draws: &mut ChaCha8Rng) -> Draw<Entered> {
        // As every terminal of the benchmark, a client has its warehouse.
        let home = 1 + turn.client % WAREHOUSES;
        let district = district(home, draws.random_range(1..=DISTRICTS));
        let customer = customer(&district, nurand(MIXED_CUSTOMERS, CUSTOMERS, draws));
        let count = draws.random_range(5..=15);
        let mut lines: Vec<_> = (0..count).map(|_| Self::line(home, draws)).collect();
        let is_refused = draws.random_ratio(1, 100);
        if is_refused && let Some(last) = lines.last_mut() {
            last.item = UNKNOWN;
        }
        let arguments = [("at", &*district), ("of", &*customer), ("for_", &*text(&lines))];
        let request = engines.request("Order", &turn.to_string(), "Enter", &arguments);
        let expected = if is_refused { Expected::Refused("unknown item") } else { Expected::Done };
        Draw { request, expected, note: Entered { district, lines } }
    }

    fn acknowledged(&self, Entered { district, lines }: Entered, result: Option<&Value>) {
        let Some(&Value::Integer(number)) = result else { unreachable!("an order returns its number, not {result:?}") };
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        books.orders.entry(district).or_default().push(number);
        for line in lines {
            let taken = books.taken.entry(line.supply).or_default();
            taken.pieces += line.quantity;
            taken.lines += 1;
            taken.remote_lines += i64::from(line.is_remote);
        }
    }

    async fn verify(&self, engines: &Engines) -> Result<(), EngineError> {
        let Books { mut orders, taken } =
            std::mem::take(&mut *self.books.lock().unwrap_or_else(PoisonError::into_inner));
        for (_, district) in districts() {
            let mut numbers = orders.remove(&district).unwrap_or_default();
            numbers.sort_unstable();
            let next = engines.number("District", &district, "nextOrder").await?;
            if !numbers.iter().copied().eq(FIRST_ORDER..next) {
                return Err(EngineError::Wrong(format!("{district} goes on with {next} after {numbers:?}")));
            }
        }
        for (warehouse, item) in (1..=WAREHOUSES).flat_map(|of| (1..=ITEMS).map(move |item| (of, item))) {
            let place = stock(warehouse, item);
            let Taken { pieces, lines, remote_lines } = taken.get(&place).copied().unwrap_or_default();
            let quantity = QUANTITY_MIN + (stored(item) - pieces - QUANTITY_MIN).rem_euclid(REFILL);
            let fields =
                [("ordered", pieces), ("orders", lines), ("remoteOrders", remote_lines), ("quantity", quantity)];
            for (field, expected) in fields {
                let found = engines.number("Stock", &place, field).await?;
                if found != expected {
                    return Err(EngineError::Wrong(format!("{field} of {place} is {found}, not {expected}")));
                }
            }
        }
        Ok(())
    }
}
