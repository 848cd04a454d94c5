//! `examples/orders.rebel`: what is promised is there, and what is due is paid.

use std::collections::BTreeMap;
use std::time::Duration;

use enact_rebel::{Instance, Value};
use serde_json::json;

use crate::chance::Chance;
use crate::served::{Served, Step, number, random};

const PRODUCTS: [&str; 3] = ["pen", "ink", "paper"];
const PRICES: [&str; 3] = ["EUR 2.50", "EUR 12.00", "EUR 0.05"];

async fn shop() -> Served {
    let callers: &[(&str, &[&str])] = &[("clerk", &["shop"]), ("ann", &["customer"]), ("bob", &["customer"])];
    let mut shop = Served::open("orders", callers);
    for (product, price) in PRODUCTS.into_iter().zip(PRICES) {
        assert_eq!(
            shop.post("clerk", &format!("/Product/{product}/List"), json!({ "at": price })).await.state(),
            "listed"
        );
        shop.post("clerk", &format!("/Product/{product}/Restock"), json!({ "pieces": 10 })).await.state();
    }
    shop
}

#[tokio::test]
async fn an_order_is_placed_paid_in_parts_and_shipped() {
    let mut shop = shop().await;

    // Ann orders three pens and an ink, under an id that the service gives.
    let placed = shop.post("ann", "/Order/Place", json!({ "basket": { "pen": 3, "ink": 1 } })).await;
    assert_eq!((placed.state(), placed.result()), ("placed", &json!("EUR 19.50")));
    let order = format!("/Order/{}", placed.id());
    assert_eq!(shop.field("Product", "pen", "free"), 7);
    assert_eq!(shop.field("Product", "pen", "reserved"), 3);

    // Bob wants eight pens, and there are seven: he gets no paper either.
    let basket = json!({ "basket": { "paper": 5, "pen": 8 } });
    assert_eq!(shop.post("bob", "/Order/Place", basket).await.refusal(), "out of stock");
    assert_eq!(shop.field("Product", "paper", "free"), 10);
    assert_eq!(shop.post("bob", "/Order/Place", json!({ "basket": {} })).await.refusal(), "the basket is empty");
    shop.post("clerk", "/Order/Place", json!({ "basket": { "pen": 1 } })).await.is_forbidden();

    // What a pen costs tomorrow does not change what Ann owes today.
    shop.post("clerk", "/Product/pen/Reprice", json!({ "to": "EUR 3.00" })).await.state();

    // She pays in two parts, nobody pays too much, and it is hers to pay.
    let pay = |amount: &str| json!({ "amount": amount });
    let path = format!("{order}/Pay");
    assert_eq!(shop.post("bob", &path, pay("EUR 19.50")).await.refusal(), "another customer's order");
    let part = shop.post("ann", &path, pay("EUR 10.00")).await;
    assert_eq!((part.state(), part.result()), ("placed", &json!("EUR 9.50")));
    shop.post("ann", &path, pay("EUR 9.51")).await.refusal();
    let full = shop.post("ann", &path, pay("EUR 9.50")).await;
    assert_eq!((full.state(), full.result()), ("settled", &json!("EUR 0.00")));

    // A paid order is shipped, once, and not cancelled.
    shop.post("ann", &format!("{order}/Cancel"), json!({})).await.refusal();
    shop.post("ann", &format!("{order}/Ship"), json!({})).await.is_forbidden();
    assert_eq!(shop.post("clerk", &format!("{order}/Ship"), json!({})).await.state(), "shipped");
    shop.post("clerk", &format!("{order}/Ship"), json!({})).await.refusal();
    assert_eq!(shop.field("Product", "pen", "shipped"), 3);
    assert_eq!(shop.field("Product", "pen", "reserved"), 0);
}

#[tokio::test]
async fn who_cancels_gets_the_money_back_and_the_shop_the_pieces() {
    let mut shop = shop().await;
    let order = shop.post("bob", "/Order/Place", json!({ "basket": { "ink": 10 } })).await.id();
    assert_eq!(shop.post("ann", "/Order/Place", json!({ "basket": { "ink": 1 } })).await.refusal(), "out of stock");
    shop.post("bob", &format!("/Order/{order}/Pay"), json!({ "amount": "EUR 20.00" })).await.state();
    assert_eq!(shop.post("bob", &format!("/Order/{order}/Cancel"), json!({})).await.state(), "cancelled");
    shop.post("ann", "/Order/Place", json!({ "basket": { "ink": 1 } })).await.state();
    let refund = format!("/Order/{order}/Refund");
    assert_eq!(shop.post("clerk", &refund, json!({})).await.result(), &json!("EUR 20.00"));
    shop.post("clerk", &refund, json!({})).await.refusal();
}

#[tokio::test]
async fn an_order_that_is_not_paid_in_half_an_hour_is_cancelled() {
    let mut shop = shop().await;
    let order = shop.post("bob", "/Order/Place", json!({ "basket": { "ink": 10 } })).await.id();
    shop.pass(Duration::from_secs(30 * 60 - 1));
    shop.settle().await;
    assert_eq!(shop.post("ann", "/Order/Place", json!({ "basket": { "ink": 1 } })).await.refusal(), "out of stock");

    // The second in which the half hour is over, the pieces are free, and Bob is late.
    shop.pass(Duration::from_secs(1));
    shop.settle().await;
    assert_eq!(shop.field("Product", "ink", "free"), 10);
    shop.post("bob", &format!("/Order/{order}/Pay"), json!({ "amount": "EUR 120.00" })).await.refusal();
    assert_eq!(shop.post("clerk", &format!("/Order/{order}/Refund"), json!({})).await.refusal(), "nothing was paid");

    // He is late too if nobody has looked meanwhile: his payment finds an order that is cancelled.
    let order = shop.post("bob", "/Order/Place", json!({ "basket": { "ink": 10 } })).await.id();
    shop.pass(Duration::from_secs(30 * 60));
    shop.post("bob", &format!("/Order/{order}/Pay"), json!({ "amount": "EUR 120.00" })).await.refusal();
    assert_eq!(shop.field("Product", "ink", "free"), 10);

    // What is paid stays reserved for ever.
    let order = shop.post("bob", "/Order/Place", json!({ "basket": { "ink": 10 } })).await.id();
    shop.post("bob", &format!("/Order/{order}/Pay"), json!({ "amount": "EUR 120.00" })).await.state();
    shop.pass(Duration::from_secs(1_000_000));
    shop.settle().await;
    assert_eq!(shop.post("clerk", &format!("/Order/{order}/Ship"), json!({})).await.state(), "shipped");
}

/// Pieces by product, of the orders in the given states.
fn pieces(shop: &Served, states: &[&str]) -> BTreeMap<String, i128> {
    let mut pieces = BTreeMap::new();
    for line in
        shop.all("Order").filter(|(_, order)| states.contains(&&**order.state())).flat_map(|(_, order)| lines(order))
    {
        *pieces.entry(line.0).or_default() += line.1;
    }
    pieces
}

/// The lines of an order: product, pieces, and cents for each.
fn lines(order: &Instance) -> Vec<(String, i128, i128)> {
    let Some(Value::List(lines)) = order.fields().get("lines") else { return Vec::new() };
    let line = |line: &Value| {
        let Value::Record(line) = line else { panic!("{line}") };
        let number = |name| line.get(name).and_then(Value::number).expect("a number");
        (line.get("product").expect("a product").to_string(), number("pieces"), number("price"))
    };
    lines.iter().map(line).collect()
}

#[tokio::test]
async fn no_piece_and_no_cent_gets_lost_in_random_orders() {
    let choose = |chance: &mut Chance, shop: &Served| -> Step {
        let product = *chance.pick(&PRODUCTS);
        let customer = *chance.pick(&["ann", "bob"]);
        let orders: Vec<(String, &Instance)> = shop.all("Order").collect();
        let order = (!orders.is_empty()).then(|| chance.pick(&orders));
        let command = match (chance.below(12), order) {
            (10, _) => return Step::Pass(Duration::from_secs(60 * chance.below(25))),
            (11, _) => return Step::Settle,
            (0, _) => ("clerk", format!("/Product/{product}/Restock"), json!({ "pieces": chance.below(12) })),
            (1, _) => {
                let to = format!("EUR {}.50", chance.below(9));
                ("clerk", format!("/Product/{product}/Reprice"), json!({ "to": to }))
            }
            (2..=6, Some((id, order))) => {
                let due = number(order, "due");
                let cents = if chance.percent(70) { due } else { i128::from(chance.below(1_000)) };
                let amount = format!("EUR {}.{:02}", cents / 100, cents % 100);
                (customer, format!("/Order/{id}/Pay"), json!({ "amount": amount }))
            }
            (7, Some((id, _))) => (customer, format!("/Order/{id}/Cancel"), json!({})),
            (8, Some((id, order))) => {
                let event = if &**order.state() == "cancelled" { "Refund" } else { "Ship" };
                ("clerk", format!("/Order/{id}/{event}"), json!({}))
            }
            _ => {
                let mut basket = serde_json::Map::new();
                for product in PRODUCTS {
                    if chance.percent(60) {
                        basket.insert(product.to_owned(), json!(chance.below(6)));
                    }
                }
                (customer, "/Order/Place".to_owned(), json!({ "basket": basket }))
            }
        };
        command.into()
    };
    random(shop, choose, conserved).await;
}

/// A piece that came in is free, reserved for an order, or shipped with one; what an order costs is due or paid.
fn conserved(shop: &Served) {
    let (reserved, shipped) = (pieces(shop, &["placed", "settled"]), pieces(shop, &["shipped"]));
    for (product, instance) in shop.all("Product") {
        let expected = [&reserved, &shipped].map(|pieces| pieces.get(&product).copied().unwrap_or_default());
        assert_eq!(["reserved", "shipped"].map(|field| number(instance, field)), expected, "{product}");
        let came_in = shop.sum_of(&format!("/Product/{product}/Restock"), "pieces");
        let there: i128 = ["free", "reserved", "shipped"].map(|field| number(instance, field)).iter().sum();
        assert_eq!(there, came_in, "{product}");
    }
    for (id, order) in shop.all("Order") {
        let total: i128 = lines(order).iter().map(|(_, pieces, cents)| pieces * cents).sum();
        assert_eq!(number(order, "due") + number(order, "paid"), total, "{id}");
    }
}
