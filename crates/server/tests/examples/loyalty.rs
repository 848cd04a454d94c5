//! `examples/loyalty.rebel`: every point that was earned is kept, spent or expired.

use enact_rebel::{Instance, Value};
use serde_json::json;

use crate::chance::Chance;
use crate::served::{Command, Served, number, random};

const CARDS: [&str; 2] = ["c-1", "c-2"];

async fn cards() -> Served {
    let mut cards = Served::open("loyalty", &[("till", &["shop"]), ("ann", &[])]);
    for card in CARDS {
        cards.post("till", &format!("/Card/{card}/Issue"), json!({ "to": " Ann " })).await.state();
    }
    cards
}

fn points(points: u64) -> serde_json::Value {
    json!({ "points": points })
}

#[tokio::test]
async fn the_oldest_points_are_spent_first() {
    let mut cards = cards().await;
    assert_eq!(cards.field("Card", "c-1", "holder"), "Ann");

    // Three purchases give three lots.
    for (earned, expected) in [(100, 100), (50, 150), (30, 180)] {
        assert_eq!(cards.post("till", "/Card/c-1/Earn", points(earned)).await.result(), &json!(expected));
    }
    // 120 points take the first lot and a part of the second.
    assert_eq!(cards.post("till", "/Card/c-1/Spend", points(120)).await.result(), &json!(60));
    let lots = cards.field("Card", "c-1", "lots");
    assert_eq!([&lots[0]["upTo"], &lots[1]["upTo"], &lots[2]], [&json!(150), &json!(180), &json!(null)]);

    // Nobody spends what is not there, or less than a point, or without a till.
    assert_eq!(cards.post("till", "/Card/c-1/Spend", points(61)).await.refusal(), "not enough points");
    assert_eq!(cards.post("till", "/Card/c-1/Spend", points(0)).await.refusal(), "points are whole and more than zero");
    cards.post("ann", "/Card/c-1/Spend", points(1)).await.is_forbidden();

    // None expires soon, all of them some day.
    assert_eq!(cards.get("ann", "/Card/c-1/Points").await.result(), &json!(60));
    for (time, expected) in [("2026-01-01T00:00:00Z", 0), ("2126-01-01T00:00:00Z", 60)] {
        let path = format!("/Card/c-1/ExpiringBy?time={time}");
        assert_eq!(cards.get("ann", &path).await.result(), &json!(expected), "{time}");
    }

    // A card is closed when it is used up.
    assert_eq!(cards.post("till", "/Card/c-1/Close", json!({})).await.refusal(), "there are points left");
    assert_eq!(cards.post("till", "/Card/c-1/Spend", points(60)).await.result(), &json!(0));
    assert_eq!(cards.field("Card", "c-1", "lots"), json!([]));
    assert_eq!(cards.post("till", "/Card/c-1/Close", json!({})).await.state(), "closed");
    assert_eq!(cards.post("till", "/Card/c-9/Earn", points(1)).await.status, 404);
}

#[tokio::test]
async fn no_point_gets_lost_in_random_purchases() {
    let choose = |chance: &mut Chance, _: &Served| -> Command {
        let card = *chance.pick(&CARDS);
        match chance.below(10) {
            0..=4 => ("till", format!("/Card/{card}/Earn"), points(chance.below(20))),
            _ => ("till", format!("/Card/{card}/Spend"), points(chance.below(25))),
        }
    };
    random(cards, choose, conserved).await;
}

/// What the lots hold, what was spent and what has expired are what was earned.
fn conserved(cards: &Served) {
    for (id, card) in cards.all("Card") {
        let [earned, spent, expired] = ["earned", "spent", "expired"].map(|field| number(card, field));
        let mut kept = 0;
        let mut from = spent + expired;
        for up_to in lots(card) {
            assert!(up_to > from, "{id}: a lot without points");
            kept += up_to - from;
            from = up_to;
        }
        assert_eq!(kept + spent + expired, earned, "{id}");
        let happened = ["Earn", "Spend"].map(|event| cards.sum_of(&format!("/Card/{id}/{event}"), "points"));
        assert_eq!([earned, spent], happened, "{id}");
    }
}

/// Up to which point each lot goes.
fn lots(card: &Instance) -> Vec<i128> {
    let Some(Value::List(lots)) = card.fields().get("lots") else { return Vec::new() };
    let up_to = |lot: &Value| match lot {
        Value::Record(lot) => lot.get("upTo").and_then(Value::number).expect("a number"),
        other => panic!("{other}"),
    };
    lots.iter().map(up_to).collect()
}
