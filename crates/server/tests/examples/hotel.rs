//! `examples/hotel.rebel`: a night of a room belongs to one booking, and a booking has all its nights.

use std::collections::BTreeMap;
use std::time::Duration;

use enact_rebel::{Date, Instance, Value};
use serde_json::json;

use crate::chance::Chance;
use crate::served::{Served, Step, random};

const DAY: Duration = Duration::from_hours(24);

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
    let free = "/Room/101/Free?from=2027-07-01&until=2027-07-06";

    // Ann books three nights, from the 2nd to the 5th of July.
    let booked = hotel.post("ann", "/Booking/Book", stay("101", "2027-07-02", "2027-07-05")).await;
    assert_eq!((booked.state(), booked.result()), ("booked", &json!("EUR 240.00")));
    let booking = format!("/Booking/{}", booked.id());
    assert_eq!(hotel.get("bob", free).await.result(), &json!(["2027-07-01", "2027-07-05"]));

    // Bob cannot have the last of them, nor the night before with it. He can have the night that Ann leaves.
    let refused = hotel.post("bob", "/Booking/Book", stay("101", "2027-07-04", "2027-07-06")).await;
    assert_eq!(refused.refusal(), "the room is taken");
    let refused = hotel.post("bob", "/Booking/Book", stay("101", "2027-07-01", "2027-07-03")).await;
    assert_eq!(refused.refusal(), "the room is taken");
    assert_eq!(hotel.get("bob", free).await.result(), &json!(["2027-07-01", "2027-07-05"]), "nothing of it happened");
    hotel.post("bob", "/Booking/Book", stay("101", "2027-07-05", "2027-07-06")).await.state();

    // A stay has an end, and nobody arrives yesterday.
    let refused = hotel.post("bob", "/Booking/Book", stay("102", "2027-07-05", "2027-07-05")).await;
    assert_eq!(refused.refusal(), "a stay has one to thirty nights");
    let refused = hotel.post("bob", "/Booking/Book", stay("102", "2020-07-05", "2020-07-06")).await;
    assert_eq!(refused.refusal(), "the day of arrival is over");

    // Only Ann cancels what Ann has booked. Then all three nights are free again.
    assert_eq!(hotel.post("bob", &format!("{booking}/Cancel"), json!({})).await.refusal(), "another guest's booking");
    hotel.post("dan", &format!("{booking}/Cancel"), json!({})).await.is_forbidden();
    let early = hotel.post("dan", &format!("{booking}/CheckIn"), json!({})).await;
    assert_eq!(early.refusal(), "the guest is expected on another day");
    assert_eq!(hotel.post("ann", &format!("{booking}/Cancel"), json!({})).await.state(), "cancelled");
    let expected = json!(["2027-07-01", "2027-07-02", "2027-07-03", "2027-07-04"]);
    assert_eq!(hotel.get("bob", free).await.result(), &expected);
}

#[tokio::test]
async fn the_nights_of_a_guest_who_does_not_come_are_free_on_the_next_day() {
    let mut hotel = hotel().await;
    // It is the 21st of November, half past nine in the morning. Both arrive on the 24th.
    let mut bookings = Vec::new();
    for (guest, room) in [("ann", "101"), ("bob", "102")] {
        let booked = hotel.post(guest, "/Booking/Book", stay(room, "2026-11-24", "2026-11-27")).await;
        bookings.push(format!("/Booking/{}", booked.id()));
    }
    let [ann, bob] = &bookings[..] else { panic!("{bookings:?}") };

    // On the 23rd it is too late to cancel.
    hotel.pass(2 * DAY);
    let late = hotel.post("bob", &format!("{bob}/Cancel"), json!({})).await;
    assert_eq!(late.refusal(), "a booking is cancelled two days before arrival, or not at all");

    // On the 24th Ann comes. At the end of the day Bob has not.
    hotel.pass(DAY);
    assert_eq!(hotel.post("dan", &format!("{ann}/CheckIn"), json!({})).await.state(), "inHouse");
    hotel.pass(Duration::from_secs(14 * 3600 + 30 * 60 - 1));
    hotel.settle().await;
    let free = |room| format!("/Room/{room}/Free?from=2026-11-24&until=2026-11-27");
    assert_eq!(hotel.get("eve", &free("102")).await.result(), &json!([]));
    hotel.pass(Duration::from_secs(1));
    hotel.settle().await;
    assert_eq!(hotel.get("eve", &free("102")).await.result(), &json!(["2026-11-24", "2026-11-25", "2026-11-26"]));
    assert_eq!(hotel.get("eve", &free("101")).await.result(), &json!([]));
    hotel.post("dan", &format!("{bob}/CheckIn"), json!({})).await.refusal();
    hotel.post("bob", "/Booking/Book", stay("102", "2026-11-25", "2026-11-26")).await.state();

    // Ann leaves a night earlier than she has booked, and nobody has to wait for it to pass.
    hotel.pass(DAY);
    hotel.settle().await;
    assert_eq!(hotel.post("dan", &format!("{ann}/CheckOut"), json!({})).await.state(), "departed");
    hotel.post("bob", "/Booking/Book", stay("101", "2026-11-26", "2026-11-27")).await.state();
}

fn day(instance: &Instance, field: &str) -> i64 {
    let Some(Value::Date(date)) = instance.fields().get(field) else { panic!("{instance:?}") };
    date.days()
}

#[tokio::test]
async fn nights_and_bookings_agree_in_random_stays() {
    let choose = |chance: &mut Chance, hotel: &Served| -> Step {
        let (room, guest) = (*chance.pick(&["101", "102"]), *chance.pick(&["ann", "bob"]));
        let bookings: Vec<(String, &Instance)> = hotel.all("Booking").collect();
        let command = match (chance.below(14), bookings.is_empty()) {
            (10, _) => return Step::Pass(DAY * u32::try_from(chance.below(3)).expect("a few")),
            (11, _) => return Step::Settle,
            (0..=2, false) => (guest, format!("/Booking/{}/Cancel", chance.pick(&bookings).0), json!({})),
            (3..=4, false) => {
                let event = chance.pick(&["CheckIn", "CheckIn", "CheckOut"]);
                ("dan", format!("/Booking/{}/{event}", chance.pick(&bookings).0), json!({}))
            }
            (5, _) => {
                let rate = format!("EUR {}.00", chance.below(100));
                ("eve", format!("/Room/{room}/Reprice"), json!({ "perNight": rate }))
            }
            _ => {
                let today = hotel.now().date().days();
                let from = today - 1 + i64::try_from(chance.below(12)).expect("a day");
                let until = from + i64::try_from(chance.below(5)).expect("some nights");
                let [from, until] = [from, until].map(|day| Date::from_days(day).expect("a day").to_string());
                (guest, "/Booking/Book".to_owned(), stay(room, &from, &until))
            }
        };
        command.into()
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
