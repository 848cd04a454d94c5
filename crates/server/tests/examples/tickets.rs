//! `examples/tickets.rebel`: a seat is free, held or sold, and never two of them.

use std::collections::BTreeSet;
use std::time::Duration;

use enact_rebel::{Instance, Value};
use serde_json::json;

use crate::chance::Chance;
use crate::served::{Served, Step, number, random, to_json};

const SEATS: [&str; 6] = ["A1", "A2", "A3", "B1", "B2", "B3"];

async fn office() -> Served {
    let callers: &[(&str, &[&str])] = &[("hall", &["organizer"]), ("ann", &["visitor"]), ("bob", &["visitor"])];
    let mut office = Served::open("tickets", callers);
    let show = json!({ "each": "EUR 30.00", "seats": SEATS });
    assert_eq!(office.post("hall", "/Show/hamlet/Announce", show).await.state(), "selling");
    office
}

fn seats(seats: &[&str]) -> serde_json::Value {
    json!({ "of": "hamlet", "wanted": seats })
}

#[tokio::test]
async fn seats_are_held_together_and_sold_once() {
    let mut office = office().await;

    // Ann holds two seats; Bob wants one of them and another, and gets neither.
    let held = office.post("ann", "/Ticket/Hold", seats(&["A1", "A2"])).await;
    assert_eq!((held.state(), held.result()), ("held", &json!("EUR 60.00")));
    let ticket = format!("/Ticket/{}", held.id());
    assert_eq!(office.post("bob", "/Ticket/Hold", seats(&["A2", "A3"])).await.refusal(), "the seat is taken");
    assert_eq!(office.post("bob", "/Ticket/Hold", seats(&["Z9"])).await.refusal(), "the seat is taken");
    assert_eq!(office.post("bob", "/Ticket/Hold", seats(&[])).await.refusal(), "hold one to eight seats");
    assert_eq!(office.get("bob", "/Show/hamlet/Free?row=A").await.result(), &json!(["A3"]));

    // The price that Ann was told is the one she pays, exactly, in the currency of the show.
    let dearer = json!({ "each": "EUR 35.00" });
    assert_eq!(office.post("hall", "/Show/hamlet/Reprice", dearer).await.state(), "selling");
    let path = format!("{ticket}/Buy");
    for amount in ["EUR 59.99", "EUR 70.00", "USD 60.00"] {
        let refused = office.post("ann", &path, json!({ "amount": amount })).await;
        assert_eq!(refused.refusal(), "pay the exact price", "{amount}");
    }
    let price = json!({ "amount": "EUR 60.00" });
    assert_eq!(office.post("bob", &path, price.clone()).await.refusal(), "another visitor's seats");
    assert_eq!(office.post("ann", &path, price.clone()).await.state(), "sold");
    office.post("ann", &path, price).await.refusal();
    office.post("ann", &format!("{ticket}/Release"), json!({})).await.refusal();

    // What is released is free for everybody.
    let other = office.post("ann", "/Ticket/Hold", seats(&["A3"])).await;
    assert_eq!(other.result(), &json!("EUR 35.00"));
    assert_eq!(office.post("ann", &format!("/Ticket/{}/Release", other.id()), json!({})).await.state(), "released");
    assert_eq!(office.post("bob", "/Ticket/Hold", seats(&["A3"])).await.state(), "held");
}

#[tokio::test]
async fn seats_that_nobody_buys_in_a_quarter_of_an_hour_are_free_again() {
    let mut office = office().await;
    let [bought, late] = [["A1", "A2"], ["B1", "B2"]].map(|wanted| seats(&wanted));
    let bought = office.post("ann", "/Ticket/Hold", bought).await.id();
    let late = office.post("ann", "/Ticket/Hold", late).await.id();
    let price = json!({ "amount": "EUR 60.00" });

    office.pass(Duration::from_secs(15 * 60 - 1));
    office.settle().await;
    assert_eq!(office.post("ann", &format!("/Ticket/{bought}/Buy"), price.clone()).await.state(), "sold");

    office.pass(Duration::from_secs(1));
    office.settle().await;
    assert_eq!(office.get("bob", "/Show/hamlet/Free?row=").await.result(), &json!(["A3", "B1", "B2", "B3"]));
    office.post("ann", &format!("/Ticket/{late}/Buy"), price).await.refusal();
    assert_eq!(office.post("bob", "/Ticket/Hold", seats(&["B2", "B3"])).await.state(), "held");
}

#[tokio::test]
async fn a_seat_is_in_one_place_whatever_visitors_do() {
    let choose = |chance: &mut Chance, office: &Served| -> Step {
        let visitor = *chance.pick(&["ann", "bob"]);
        // Mostly those that are held.
        let is_any = chance.percent(20);
        let tickets = office.all("Ticket").filter(|(_, ticket)| is_any || &**ticket.state() == "held");
        let tickets: Vec<(String, &Instance)> = tickets.collect();
        let command = match (chance.below(14), tickets.is_empty()) {
            (10, _) => return Step::Pass(Duration::from_secs(60 * chance.below(13))),
            (11, _) => return Step::Settle,
            (0..=3, false) => (visitor, format!("/Ticket/{}/Release", chance.pick(&tickets).0), json!({})),
            (4, false) => {
                let (id, ticket) = chance.pick(&tickets);
                let exact = to_json(ticket.fields().get("due").expect("a price"));
                let amount = if chance.percent(10) { exact } else { json!("EUR 1.00") };
                (visitor, format!("/Ticket/{id}/Buy"), json!({ "amount": amount }))
            }
            (5, _) => {
                let each = format!("EUR {}.00", chance.below(40));
                ("hall", "/Show/hamlet/Reprice".to_owned(), json!({ "each": each }))
            }
            _ => {
                let wanted: BTreeSet<&str> = (0..=chance.below(3)).map(|_| *chance.pick(&SEATS)).collect();
                (visitor, "/Ticket/Hold".to_owned(), json!({ "of": "hamlet", "wanted": wanted }))
            }
        };
        command.into()
    };
    random(office, choose, conserved).await;
}

/// The seats of the hall are those that are free and those of tickets that are held or sold, each once.
fn conserved(office: &Served) {
    for (name, show) in office.all("Show") {
        let mut found: Vec<String> = texts(show, "free");
        for (_, ticket) in office.all("Ticket").filter(|(_, ticket)| matches!(&**ticket.state(), "held" | "sold")) {
            found.extend(texts(ticket, "seats"));
            assert!(number(ticket, "due") > 0);
        }
        found.sort();
        assert_eq!(found, texts(show, "hall"), "{name}");
    }
}

fn texts(instance: &Instance, field: &str) -> Vec<String> {
    let Some(Value::Set(elements)) = instance.fields().get(field) else { panic!("{field} of {instance:?}") };
    elements.iter().map(ToString::to_string).collect()
}
