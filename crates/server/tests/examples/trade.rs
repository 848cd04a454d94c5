//! `examples/trade.rebel`: goods change hands when both have confirmed them, and none appears or disappears.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use enact_rebel::{Instance, Value};
use serde_json::{Value as Json, json};

use crate::chance::Chance;
use crate::served::{Command, Served, Step, number, random};

const PLAYERS: [&str; 3] = ["ada", "ben", "cleo"];
const ITEMS: [&str; 3] = ["sword", "potion", "map"];

/// Each has room for five items, and nothing.
async fn game() -> Served {
    let callers: &[(&str, &[&str])] =
        &[("game", &["game"]), ("ada", &["player"]), ("ben", &["player"]), ("cleo", &["player"])];
    let mut game = Served::open("trade", callers);
    for player in PLAYERS {
        let joined = game.post("game", &format!("/Player/{player}/Join"), json!({ "places": 5 })).await;
        assert_eq!(joined.state(), "playing");
    }
    game
}

/// A world in which something is there to trade.
async fn rich() -> Served {
    let mut game = game().await;
    for (player, item) in PLAYERS.into_iter().zip(ITEMS) {
        find(&mut game, player, &json!({ "items": { item: 4 }, "gold": 100 })).await;
    }
    game
}

async fn find(game: &mut Served, player: &str, goods: &Json) {
    game.post("game", &format!("/Player/{player}/Loot"), json!({ "found": goods })).await.state();
}

fn goods(items: &Json, gold: u32) -> Json {
    json!({ "items": items, "gold": gold })
}

#[tokio::test]
async fn two_full_bags_are_swapped_when_both_have_confirmed_the_same_terms() {
    let mut game = game().await;
    find(&mut game, "ada", &goods(&json!({ "sword": 5 }), 0)).await;
    find(&mut game, "ben", &goods(&json!({ "potion": 5 }), 30)).await;
    let more = json!({ "found": goods(&json!({ "map": 1 }), 0) });
    assert_eq!(game.post("game", "/Player/ben/Loot", more.clone()).await.refusal(), "the bag is full");
    game.post("ben", "/Player/ben/Loot", more).await.is_forbidden();

    // Ada offers two swords for three potions, and three potions do not fit where two swords were.
    let terms = |gift, price| json!({ "gift": gift, "price": price });
    let two = goods(&json!({ "sword": 2 }), 0);
    let propose = |other| json!({ "other": other, "gift": goods(&json!({ "sword": 2 }), 0), "price": goods(&json!({ "potion": 3 }), 10) });
    assert_eq!(game.post("ada", "/Offer/Propose", propose("ada")).await.refusal(), "a trade takes two");
    assert_eq!(game.post("ada", "/Offer/Propose", propose("dan")).await.refusal(), "who trades, plays");
    let offer = format!("/Offer/{}", game.post("ada", "/Offer/Propose", propose("ben")).await.id());
    let confirm = format!("{offer}/Confirm");
    assert_eq!(game.post("ada", &confirm, json!({ "seen": 1 })).await.state(), "open");
    assert_eq!(game.post("ada", &confirm, json!({ "seen": 1 })).await.state(), "open", "twice is not by both");
    assert_eq!(game.post("ben", &confirm, json!({ "seen": 1 })).await.refusal(), "the bag is full");
    assert_eq!(game.field("Player", "ada", "bag"), json!({ "sword": 5 }));

    // Ben wants two for two and ten gold. What Ada has confirmed was something else.
    let even = goods(&json!({ "potion": 2 }), 10);
    assert_eq!(
        game.post("cleo", &format!("{offer}/Change"), terms(&two, &even)).await.refusal(),
        "another one's offer"
    );
    game.post("ben", &format!("{offer}/Change"), terms(&two, &even)).await.state();
    assert_eq!(game.post("ben", &confirm, json!({ "seen": 2 })).await.state(), "open");
    assert_eq!(game.post("ada", &confirm, json!({ "seen": 1 })).await.refusal(), "the terms have changed");

    // Both bags are full, and more than full in between: the swap happens.
    assert_eq!(game.post("ada", &confirm, json!({ "seen": 2 })).await.state(), "traded");
    assert_eq!(game.field("Player", "ada", "bag"), json!({ "potion": 2, "sword": 3 }));
    assert_eq!(game.field("Player", "ben", "bag"), json!({ "potion": 3, "sword": 2 }));
    assert_eq!((game.field("Player", "ada", "gold"), game.field("Player", "ben", "gold")), (json!(10), json!(20)));
    game.post("ada", &confirm, json!({ "seen": 2 })).await.refusal();
}

#[tokio::test]
async fn what_has_been_traded_away_is_not_given_twice() {
    let mut game = game().await;
    find(&mut game, "ada", &goods(&json!({ "sword": 1 }), 0)).await;
    find(&mut game, "cleo", &json!({ "gold": 9 })).await;
    let mut offers = Vec::new();
    for other in ["ben", "cleo"] {
        let gift = goods(&json!({ "sword": 1 }), 0);
        let price = if other == "cleo" { json!({ "gold": 10 }) } else { json!({}) };
        let offer = game.post("ada", "/Offer/Propose", json!({ "other": other, "gift": gift, "price": price })).await;
        offers.push(format!("/Offer/{}/Confirm", offer.id()));
        game.post("ada", &offers[offers.len() - 1], json!({ "seen": 1 })).await.state();
    }
    assert_eq!(game.post("cleo", &offers[1], json!({ "seen": 1 })).await.refusal(), "not enough gold");
    assert_eq!(game.post("ben", &offers[0], json!({ "seen": 1 })).await.state(), "traded");
    find(&mut game, "cleo", &json!({ "gold": 1 })).await;
    assert_eq!(game.post("cleo", &offers[1], json!({ "seen": 1 })).await.refusal(), "not in the bag");
    assert_eq!(game.field("Player", "ada", "bag"), json!({}));
    assert_eq!(game.post("game", "/Player/dan/Join", json!({})).await.state(), "playing");
    assert_eq!(game.field("Player", "dan", "capacity"), json!(20), "the places of those who ask for none");
}

/// What a player has of each item.
fn bag(player: &Instance) -> BTreeMap<String, i128> {
    let Some(Value::Map(bag)) = player.fields().get("bag") else { panic!("{player:?}") };
    bag.iter().map(|(item, count)| (item.to_string(), count.number().expect("a number"))).collect()
}

#[tokio::test]
async fn no_item_and_no_gold_gets_lost_in_random_trades() {
    let some = |chance: &mut Chance| {
        let mut items = serde_json::Map::new();
        for item in ITEMS {
            if chance.percent(80) {
                continue;
            }
            // Sometimes what cannot be given.
            items.insert(item.to_owned(), json!(if chance.percent(95) { 1 + chance.below(2) } else { 0 }));
        }
        let mut goods = json!({ "items": items });
        if chance.percent(50) {
            goods["gold"] = json!(chance.below(30));
        }
        goods
    };
    let command = |chance: &mut Chance, game: &Served| -> Command {
        let player = *chance.pick(&PLAYERS);
        // Of those that are done some.
        let offers: Vec<(String, &Instance)> =
            game.all("Offer").filter(|(_, offer)| offer.state().as_ref() == "open" || chance.percent(5)).collect();
        if offers.is_empty() || chance.percent(15) {
            let other = *chance.pick(&PLAYERS);
            let body = json!({ "other": other, "gift": some(chance), "price": some(chance) });
            return (player, "/Offer/Propose".to_owned(), body);
        }
        let (id, offer) = chance.pick(&offers);
        let path = |event| format!("/Offer/{id}/{event}");
        // More often one of the two than the third.
        let party = game.field("Offer", id, chance.pick::<&str>(&["by", "to"]));
        let party = PLAYERS.into_iter().find(|name| party == *name);
        let player = if chance.percent(80) { party.unwrap_or(player) } else { player };
        match chance.below(20) {
            0 => (player, path("Cancel"), json!({})),
            1 | 2 => (player, path("Change"), json!({ "gift": some(chance), "price": some(chance) })),
            _ => {
                let terms = number(offer, "terms") - i128::from(chance.percent(5));
                (player, path("Confirm"), json!({ "seen": i64::try_from(terms).expect("small") }))
            }
        }
    };
    let reached = RefCell::new(BTreeSet::new());
    let conserved = |game: &Served| {
        reached.borrow_mut().extend(game.all("Offer").map(|(_, it)| it.state().to_string()));
        let (mut items, mut gold) = (BTreeMap::<_, i128>::new(), 0);
        for (name, player) in game.all("Player") {
            let bag = bag(player);
            assert!(bag.values().all(|count| *count > 0) && bag.values().sum::<i128>() <= 5, "{name}: {bag:?}");
            bag.into_iter().for_each(|(item, count)| *items.entry(item).or_default() += count);
            gold += number(player, "gold");
            assert!(number(player, "gold") >= 0, "{name}");
        }
        assert_eq!(items, ITEMS.map(|item| (item.to_owned(), 4)).into(), "items");
        assert_eq!(gold, 300, "gold");
    };
    let choose = |chance: &mut Chance, game: &Served| match chance.below(30) {
        0 => Step::Pass(Duration::from_secs(60 * chance.below(10))),
        1 => Step::Settle,
        _ => command(chance, game).into(),
    };
    random(rich, choose, conserved).await;
    assert_eq!(reached.into_inner(), ["cancelled", "expired", "open", "traded"].map(str::to_owned).into());
}
