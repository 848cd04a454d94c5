//! `examples/loyalty.rebel`: every point that was earned is kept, spent or expired.

use std::time::Duration;

use enact_rebel::{Instance, Value};
use serde_json::json;

use crate::chance::Chance;
use crate::served::{Served, Step, number, random};

const DAY: Duration = Duration::from_hours(24);

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

    // None expires soon, all of them in a year.
    assert_eq!(cards.get("ann", "/Card/c-1/Points").await.result(), &json!(60));
    for (time, expected) in [("2027-11-21T09:29:59Z", 0), ("2027-11-21T09:30:00Z", 60)] {
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
async fn points_that_nobody_spends_expire_a_year_after_they_were_earned() {
    let mut cards = cards().await;
    cards.post("till", "/Card/c-1/Earn", points(100)).await.result();
    cards.pass(100 * DAY);
    cards.post("till", "/Card/c-1/Earn", points(50)).await.result();
    cards.post("till", "/Card/c-1/Spend", points(30)).await.result();
    assert_eq!(cards.get("ann", "/Card/c-1/ExpiringBy?time=2027-12-01T00:00:00Z").await.result(), &json!(70));

    // A year after the first purchase the 70 points that are left of it are gone, before anybody can spend them.
    cards.pass(265 * DAY);
    assert_eq!(cards.post("till", "/Card/c-1/Spend", points(51)).await.refusal(), "not enough points");
    assert_eq!(cards.get("ann", "/Card/c-1/Points").await.result(), &json!(50));
    assert_eq!(cards.field("Card", "c-1", "expired"), 70);
    assert_eq!(cards.post("till", "/Card/c-1/Spend", points(20)).await.result(), &json!(30));

    // The others follow on the 1st of March 2028, by themselves, and the card is used up.
    cards.pass(101 * DAY);
    cards.settle().await;
    assert_eq!(cards.field("Card", "c-1", "expired"), 100);
    assert_eq!(cards.field("Card", "c-1", "lots"), json!([]));
    assert_eq!(cards.post("till", "/Card/c-1/Close", json!({})).await.state(), "closed");
}

#[tokio::test]
async fn no_point_gets_lost_in_random_purchases() {
    let choose = |chance: &mut Chance, _: &Served| -> Step {
        let card = *chance.pick(&CARDS);
        let command = match chance.below(12) {
            10 => return Step::Pass(DAY * u32::try_from(chance.below(200)).expect("some days")),
            11 => return Step::Settle,
            0..=4 => ("till", format!("/Card/{card}/Earn"), points(chance.below(20))),
            _ => ("till", format!("/Card/{card}/Spend"), points(chance.below(25))),
        };
        command.into()
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
