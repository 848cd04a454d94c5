//! `examples/hotel.rebel`: a night of a room belongs to one booking, and a booking has all its nights.

use std::collections::BTreeMap;

use enact_rebel::{Instance, Value};
use serde_json::json;

use crate::chance::Chance;
use crate::served::{Command, Served, random};

async fn hotel() -> Served {
    let callers: &[(&str, &[&str])] =
        &[("eve", &["manager"]), ("dan", &["desk"]), ("ann", &["guest"]), ("bob", &["guest"])];
    let mut hotel = Served::open("hotel", callers);
    for (room, rate) in [("101", "EUR 80.00"), ("102", "EUR 95.00")] {
        let opened = hotel.post("eve", &format!("/Room/{room}/Open"), json!({ "perNight": rate })).await;
        assert_eq!(opened.state(), "open");
    }
    hotel
}

fn stay(room: &str, from: &str, until: &str) -> serde_json::Value {
    json!({ "wanted": room, "from": from, "until": until })
}

#[tokio::test]
async fn a_stay_is_booked_as_a_whole_and_given_back_as_a_whole() {
    let mut hotel = hotel().await;
    let free = "/Room/101/Free?from=2126-07-01&until=2126-07-06";

    // Ann books three nights, from the 2nd to the 5th of July.
    let booked = hotel.post("ann", "/Booking/Book", stay("101", "2126-07-02", "2126-07-05")).await;
    assert_eq!((booked.state(), booked.result()), ("booked", &json!("EUR 240.00")));
    let booking = format!("/Booking/{}", booked.id());
    assert_eq!(hotel.get("bob", free).await.result(), &json!(["2126-07-01", "2126-07-05"]));

    // Bob cannot have the last of them, nor the night before with it. He can have the night that Ann leaves.
    let refused = hotel.post("bob", "/Booking/Book", stay("101", "2126-07-04", "2126-07-06")).await;
    assert_eq!(refused.refusal(), "the room is taken");
    let refused = hotel.post("bob", "/Booking/Book", stay("101", "2126-07-01", "2126-07-03")).await;
    assert_eq!(refused.refusal(), "the room is taken");
    assert_eq!(hotel.get("bob", free).await.result(), &json!(["2126-07-01", "2126-07-05"]), "nothing of it happened");
    hotel.post("bob", "/Booking/Book", stay("101", "2126-07-05", "2126-07-06")).await.state();

    // A stay has an end, and nobody arrives yesterday.
    let refused = hotel.post("bob", "/Booking/Book", stay("102", "2126-07-05", "2126-07-05")).await;
    assert_eq!(refused.refusal(), "a stay has one to thirty nights");
    let refused = hotel.post("bob", "/Booking/Book", stay("102", "2020-07-05", "2020-07-06")).await;
    assert_eq!(refused.refusal(), "the day of arrival is over");

    // Only Ann cancels what Ann has booked. Then all three nights are free again.
    assert_eq!(hotel.post("bob", &format!("{booking}/Cancel"), json!({})).await.refusal(), "another guest's booking");
    hotel.post("dan", &format!("{booking}/Cancel"), json!({})).await.is_forbidden();
    let early = hotel.post("dan", &format!("{booking}/CheckIn"), json!({})).await;
    assert_eq!(early.refusal(), "the guest is expected on another day");
    assert_eq!(hotel.post("ann", &format!("{booking}/Cancel"), json!({})).await.state(), "cancelled");
    let expected = json!(["2126-07-01", "2126-07-02", "2126-07-03", "2126-07-04"]);
    assert_eq!(hotel.get("bob", free).await.result(), &expected);
}

fn day(instance: &Instance, field: &str) -> i64 {
    let Some(Value::Date(date)) = instance.fields().get(field) else { panic!("{instance:?}") };
    date.days()
}

#[tokio::test]
async fn nights_and_bookings_agree_in_random_stays() {
    let choose = |chance: &mut Chance, hotel: &Served| -> Command {
        let (room, guest) = (*chance.pick(&["101", "102"]), *chance.pick(&["ann", "bob"]));
        let bookings: Vec<(String, &Instance)> = hotel.all("Booking").collect();
        match (chance.below(10), bookings.is_empty()) {
            (0..=3, false) => (guest, format!("/Booking/{}/Cancel", chance.pick(&bookings).0), json!({})),
            (4, false) => ("dan", format!("/Booking/{}/CheckIn", chance.pick(&bookings).0), json!({})),
            (5, _) => {
                let rate = format!("EUR {}.00", chance.below(100));
                ("eve", format!("/Room/{room}/Reprice"), json!({ "perNight": rate }))
            }
            _ => {
                let from = 1 + chance.below(25);
                let until = from + chance.below(5);
                let date = |day| format!("2126-07-{day:02}");
                (guest, "/Booking/Book".to_owned(), stay(room, &date(from), &date(until)))
            }
        }
    };
    random(hotel, choose, conserved).await;
}

/// The nights that rooms have given away are those that bookings have, each once.
fn conserved(hotel: &Served) {
    let mut had = BTreeMap::new();
    for (id, booking) in hotel.all("Booking").filter(|(_, booking)| matches!(&**booking.state(), "booked" | "inHouse"))
    {
        let room = booking.fields().get("room").expect("a room").to_string();
        for night in day(booking, "arrival")..day(booking, "departure") {
            assert_eq!(had.insert((room.clone(), night), id.clone()), None, "one night twice");
        }
    }
    for (room, instance) in hotel.all("Room") {
        let Some(Value::Map(nights)) = instance.fields().get("nights") else { panic!("{room}") };
        for (night, booking) in &**nights {
            let Value::Date(night) = night else { panic!("{night}") };
            assert_eq!(had.remove(&(room.clone(), night.days())), Some(booking.to_string()), "{room} on {night}");
        }
    }
    assert_eq!(had, BTreeMap::new(), "nights that no room knows of");
}
