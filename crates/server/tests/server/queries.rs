//! Questions about all instances of a class, over HTTP.

use enact_entities::EngineOptions;
use enact_journal::Memory;
use serde_json::{Value, json};

use crate::bank::Bank;

const STOCK: &str = r#"
class Stock
  name: String @identity
  pieces: Integer = 0
  price: Money = EUR 0.00
  after: Boolean = false

  index price
  initial empty
    on Fill(by_: Integer, at_: Money): filled
      pre: "not negative": by_ >= 0
      post: this.pieces += by_, this.price = at_
  filled
    on Take(by_: Integer)
      pre: "not enough": pieces - by_ >= 0
      post: this.pieces -= by_
    on Close(): closed
  final closed
"#;

async fn stocked() -> Bank {
    let bank = Bank::of(STOCK, Memory::new(), EngineOptions::default(), |options| options);
    for (name, pieces, price) in
        [("tea", 5, "EUR 3.00"), ("rice", 20, "EUR 1.50"), ("salt", 0, "EUR 0.75"), ("oil", 7, "USD 9.00")]
    {
        let body = format!(r#"{{"by_":{pieces},"at_":"{price}"}}"#);
        assert_eq!(bank.post(&format!("/Stock/{name}/Fill"), body).await.status, 200);
    }
    assert_eq!(bank.post("/Stock/salt/Close", "{}").await.status, 200);
    bank
}

/// The ids of an answer.
fn ids(answer: &Value) -> Vec<&str> {
    answer["instances"].as_array().expect("a list").iter().map(|found| found["id"].as_str().expect("a text")).collect()
}

#[tokio::test]
async fn instances_are_found_by_their_state_and_their_fields() {
    let bank = stocked().await;
    for (query, expected) in [
        ("", vec!["oil", "rice", "salt", "tea"]),
        ("?state=filled", vec!["oil", "rice", "tea"]),
        ("?state=closed", vec!["salt"]),
        ("?state=empty", vec![]),
        ("?pieces=5", vec!["tea"]),
        ("?pieces.ge=5&pieces.lt=20", vec!["oil", "tea"]),
        ("?price.gt=EUR%201.00", vec!["rice", "tea"]),
        ("?price.le=EUR%201.50&state=filled", vec!["rice"]),
        ("?name=oil", vec!["oil"]),
        ("?name.gt=rice", vec!["salt", "tea"]),
        ("?after.eq=false&limit=2", vec!["oil", "rice"]),
    ] {
        let answer = bank.get(&format!("/Stock{query}")).await;
        assert_eq!(answer.status, 200, "{query}: {answer:?}");
        assert_eq!(ids(&answer.body), expected, "{query}");
    }
}

#[tokio::test]
async fn an_instance_of_a_page_is_as_a_read_shows_it() {
    let bank = stocked().await;
    let found = bank.get("/Stock?pieces=5").await.body;
    assert_eq!(found, json!({ "class": "Stock", "instances": [bank.get("/Stock/tea").await.body] }));
    assert_eq!(bank.post("/Stock/tea/Take", r#"{"by_":2}"#).await.status, 200);
    assert_eq!(ids(&bank.get("/Stock?pieces=5").await.body), Vec::<&str>::new());
    assert_eq!(ids(&bank.get("/Stock?pieces=3").await.body), ["tea"], "it is found as it is now");
}

#[tokio::test]
async fn the_pages_of_a_query_follow_each_other() {
    let bank = stocked().await;
    for query in ["", "price.ge=EUR%200.00&"] {
        let mut joined = Vec::new();
        let mut path = format!("/Stock?{query}limit=1");
        loop {
            let page = bank.get(&path).await.body;
            joined.extend(ids(&page).into_iter().map(str::to_owned));
            let Some(next) = page.get("next") else { break };
            path = format!("/Stock?{query}limit=1&after={}", next.as_str().expect("a text"));
        }
        let whole = bank.get(&format!("/Stock?{query}")).await.body;
        assert_eq!(joined, ids(&whole), "{query}");
    }
}

#[tokio::test]
async fn a_query_that_makes_no_sense_is_told_which_part_does_not() {
    let bank = stocked().await;
    for (path, status, parameter) in [
        ("/Stock?limit=0", 422, Some("limit")),
        ("/Stock?limit=1001", 422, Some("limit")),
        ("/Stock?limit=1&limit=2", 422, Some("limit")),
        ("/Stock?after=xyz", 422, Some("after")),
        // No UTF-8, of another class, no place of an index.
        ("/Stock?after=ff", 422, Some("after")),
        ("/Stock?after=426f782f31", 422, Some("after")),
        ("/Stock?price.ge=EUR%200.00&after=00", 422, Some("after")),
        ("/Stock?price.ge=EUR%200.00&after=53746f636b2f746561", 422, Some("after")),
        ("/Stock?size=1", 422, Some("size")),
        ("/Stock?pieces=many", 422, Some("pieces")),
        ("/Stock?pieces.about=5", 422, Some("pieces.about")),
        ("/Stock?state=lost", 422, Some("state")),
        ("/Stack", 404, None),
        ("/Stock/", 404, None),
    ] {
        let answer = bank.get(path).await;
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        let named = answer.body.get("parameters").map(|parameters| &parameters[0]["name"]);
        assert_eq!(named, parameter.map(Value::from).as_ref(), "{path}");
    }
    let posted = bank.post("/Stock", "{}").await;
    assert_eq!((posted.status.as_u16(), &posted.headers["allow"]), (405, &"GET, HEAD".parse().expect("a value")));
    bank.journal.fail_reads(true);
    assert_eq!(bank.get("/Stock").await.status, 503);
    bank.journal.fail_reads(false);
    assert_eq!(bank.get("/Stock").await.status, 200);
}
