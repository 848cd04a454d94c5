//! The served description of the interface describes what the interface does.

use enact_entities::{EngineOptions, Strategies, Strategy};
use enact_journal::{Fault, Memory};
use enact_server::{Issuer, IssuerOptions, Options, Readers, RoleDemand, Tokens};
use serde_json::{Value, json};

use crate::api::{DEFAULTS, basket};
use crate::bank::{Answer, Bank};

pub(crate) async fn document(bank: &Bank) -> Value {
    let answer = bank.get("/openapi.json").await;
    assert_eq!(answer.status, 200);
    answer.body
}

/// Fails unless `value` is what the component schema `reference` says.
#[track_caller]
pub(crate) fn conforms(document: &Value, schema: &Value, value: &Value) {
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::draft202012::new(&schema).expect("a valid schema");
    let errors: Vec<_> =
        validator.iter_errors(value).map(|error| format!("{} {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{value:#} is not as described: {errors:#?}");
}

/// The schema of the answer that `operation` describes for the status of `answer`.
#[track_caller]
pub(crate) fn described<'a>(document: &'a Value, path: &str, method: &str, answer: &Answer) -> &'a Value {
    let responses = &document["paths"][path][method]["responses"];
    let response = responses.get(answer.status.as_str()).or_else(|| responses.get("default"));
    let response = response.unwrap_or_else(|| panic!("{method} {path} may not answer {}", answer.status));
    let media_type = answer.headers["content-type"].to_str().expect("a text");
    response["content"].get(media_type).map_or_else(
        || panic!("{method} {path} may not answer {} with {media_type}", answer.status),
        |content| &content["schema"],
    )
}

#[tokio::test]
async fn the_document_is_openapi_with_one_path_per_exposed_event() {
    let document = document(&Bank::empty()).await;
    serde_json::from_value::<utoipa::openapi::OpenApi>(document.clone()).expect("well formed");
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.")));

    let operations: Vec<String> = document["paths"]
        .as_object()
        .expect("an object")
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().expect("an object").keys().map(move |method| format!("{method} {path}"))
        })
        .collect();
    let expected = [
        "post /-/batch",
        "get /-/changes",
        "get /Account",
        "post /Account/Open",
        "get /Account/{id}",
        "get /Account/{id}/-/history",
        "post /Account/{id}/Allow",
        "post /Account/{id}/Close",
        "post /Account/{id}/Deposit",
        "post /Account/{id}/Describe",
        "post /Account/{id}/Open",
        "post /Account/{id}/Withdraw",
        "get /Deposit",
        "get /Deposit/{id}",
        "get /Deposit/{id}/-/history",
        "post /Deposit/{id}/Ping",
        "post /Deposit/{id}/Start",
        "get /Ticket",
        "get /Ticket/{id}",
        "get /Ticket/{id}/-/history",
        "post /Ticket/{id}/Issue",
        "get /Transfer",
        "post /Transfer/Book",
        "get /Transfer/{id}",
        "get /Transfer/{id}/-/history",
        "post /Transfer/{id}/Book",
        "get /health",
        "get /health/ready",
        "get /metrics",
        "get /openapi.json",
    ];
    assert_eq!(operations, expected);
    assert_eq!(document["paths"]["/Account/{id}/Withdraw"]["post"]["description"], "Takes money out.");
    assert_eq!(document["paths"]["/Account/{id}"]["get"]["description"], "Holds money.");
}

#[tokio::test]
async fn the_document_says_which_classes_weaken_a_transaction() {
    let early = Strategies::from(Strategy::LockingEarlyRelease);
    for (strategies, words) in [
        (Strategies::default(), "Transactions are strictly serializable."),
        (early.clone().with("Ticket", Strategy::Locking), "Transactions are strictly serializable."),
        (early.with("Transfer", Strategy::Psac), "touches objects of `Transfer` is atomic and not serializable"),
        (Strategy::Psac.into(), "touches objects of `Account`, `Transfer`, `Deposit`, `Ticket` is atomic and not"),
    ] {
        let options = EngineOptions { strategies, ..EngineOptions::default() };
        let document = document(&Bank::over(Memory::new(), options)).await;
        let introduction = document["info"]["description"].as_str().expect("a text");
        assert!(introduction.contains(words), "{introduction}");
    }
}

#[tokio::test]
async fn every_schema_is_valid_and_refers_only_to_what_is_there() {
    let document = document(&Bank::empty()).await;
    let schemas = document["components"]["schemas"].as_object().expect("an object");
    for name in schemas.keys() {
        let schema = json!({ "$ref": format!("#/components/schemas/{name}"), "components": document["components"] });
        jsonschema::draft202012::new(&schema).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let text = document.to_string();
    for (at, _) in text.match_indices("#/components/schemas/") {
        let name = text[at + "#/components/schemas/".len()..].split('"').next().expect("quoted");
        assert!(schemas.contains_key(name), "{name} is not described");
    }
}

#[tokio::test]
async fn answers_are_as_described() {
    let bank = Bank::open().await;
    let document = document(&bank).await;
    let describe =
        r#"{"hue":"green","count":1,"interest":"-2.5%","bright":true,"day":"2026-11-21","known":["A"],"text":"x"}"#;
    let commands = [
        ("Account", "A", "Withdraw", r#"{"amount":"EUR 1.00"}"#, 200),
        ("Account", "A", "Describe", describe, 200),
        ("Account", "A", "Withdraw", r#"{"amount":"EUR 1000.00"}"#, 409),
        ("Account", "A", "Withdraw", r#"{"amount":1}"#, 422),
        ("Account", "A", "Withdraw", "{", 422),
        ("Account", "nobody", "Close", "{}", 404),
        ("Transfer", "t", "Book", r#"{"amount":"EUR 1.00","from":"A","to":"B"}"#, 200),
        ("Transfer", "t2", "Book", r#"{"amount":"EUR 1.00","from":"A","to":"nobody"}"#, 409),
    ];
    for (class, id, event, body, status) in commands {
        let answer = bank.post(&format!("/{class}/{id}/{event}"), body).await;
        assert_eq!(answer.status, status, "{class} {event} {body}: {answer:#?}");
        let path = format!("/{class}/{{id}}/{event}");
        conforms(&document, described(&document, &path, "post", &answer), &answer.body);
        // What is described as a body is taken, what is not is refused.
        let described = &document["paths"][&path]["post"]["requestBody"]["content"]["application/json"]["schema"];
        if status != 422 {
            conforms(&document, described, &serde_json::from_str(body).expect("JSON"));
        }
    }
    for (key, status) in [("k", 200), ("a b", 422)] {
        let body = r#"{"amount":"EUR 1.00","from":"A","to":"B"}"#;
        let answer = bank.post_with("/Transfer/Book", &[("idempotency-key", key)], body).await;
        assert_eq!(answer.status, status, "{key}: {answer:#?}");
        conforms(&document, described(&document, "/Transfer/Book", "post", &answer), &answer.body);
    }
    for (path, target, status) in [
        ("/Account/{id}", "/Account/A", 200),
        ("/Account/{id}", "/Account/A?mode=range", 200),
        ("/Transfer/{id}", "/Transfer/t", 200),
        ("/Account/{id}", "/Account/nobody", 404),
        ("/Account/{id}", "/Account/A?mode=x", 422),
        ("/health", "/health", 200),
        ("/health/ready", "/health/ready", 200),
        ("/openapi.json", "/openapi.json", 200),
    ] {
        let answer = bank.get(target).await;
        assert_eq!(answer.status, status, "{target}");
        conforms(&document, described(&document, path, "get", &answer), &answer.body);
    }
    let history = bank.get("/Account/A/-/history").await;
    conforms(&document, described(&document, "/Account/{id}/-/history", "get", &history), &history.body);
    let opened = history.body["transactions"][0]["at"].as_str().expect("a time");
    let past = bank.get(&format!("/Account/A?at={opened}")).await;
    assert_eq!(past.status, 200, "{past:#?}");
    conforms(&document, described(&document, "/Account/{id}", "get", &past), &past.body);
    let body = r#"{"commands":[
        {"class":"Account","id":"A","event":"Withdraw","arguments":{"amount":"EUR 1.00"},"idempotency_key":"w"},
        {"class":"Account","id":"A","event":"Withdraw","arguments":{"amount":"EUR 1000.00"}}]}"#;
    for path in ["/Account", "/Transfer"] {
        let found = bank.get(path).await;
        conforms(&document, described(&document, path, "get", &found), &found.body);
    }
    let changes = bank.get("/-/changes").await;
    conforms(&document, described(&document, "/-/changes", "get", &changes), &changes.body);
    let batch = bank.post("/-/batch", body).await;
    conforms(&document, described(&document, "/-/batch", "post", &batch), &batch.body);
    let taken = &document["paths"]["/-/batch"]["post"]["requestBody"]["content"]["application/json"]["schema"];
    conforms(&document, taken, &serde_json::from_str(body).expect("JSON"));
    bank.journal.fail_next(Fault::Refused);
    assert_eq!(bank.post("/Account/A/Withdraw", r#"{"amount":"EUR 1.00"}"#).await.status, 507);
    let full = bank.get("/health/ready").await;
    assert_eq!(full.status, 503);
    conforms(&document, described(&document, "/health/ready", "get", &full), &full.body);
}

#[tokio::test]
async fn the_document_says_where_a_certificate_is_needed_and_what_it_stands_in_for() {
    let (certificate, token) = (json!({ "mutualTLS": [] }), json!({ "bearer": [] }));
    let both = json!({ "bearer": [], "mutualTLS": [] });
    let bank = |demands_certificates: bool, has_tokens: bool, has_issuer: bool| {
        let tokens = has_tokens.then(|| Tokens::parse(b"").expect("well formed"));
        let issuer = has_issuer.then(|| {
            let (audience, roles_claim) = ("bank".to_owned(), "roles".to_owned());
            let options = IssuerOptions { url: "https://issuer.example".to_owned(), audience, roles_claim };
            Issuer::new(options).expect("an address")
        });
        let readers = Readers::default().with("Account", RoleDemand::Caller);
        let options = |options| Options { tokens, issuer, demands_certificates, readers, ..options };
        Bank::served(Memory::new(), EngineOptions::default(), options)
    };
    for (bank, of_account, of_ticket, of_health) in [
        (bank(false, true, true), json!([token]), json!([{}, token]), json!(null)),
        (bank(true, true, true), json!([certificate, both]), json!([certificate, both]), json!([certificate])),
        (bank(true, false, true), json!([both]), json!([certificate, both]), json!([certificate])),
    ] {
        let document = document(&bank).await;
        serde_json::from_value::<utoipa::openapi::OpenApi>(document.clone()).expect("well formed");
        let schemes = &document["components"]["securitySchemes"];
        let scheme = &schemes["mutualTLS"]["type"];
        assert_eq!(*scheme, if of_health.is_null() { json!(null) } else { json!("mutualTLS") });
        assert_eq!(schemes["bearer"]["type"], "http");
        for (path, expected) in [("/Account/{id}", &of_account), ("/Ticket/{id}", &of_ticket), ("/health", &of_health)]
        {
            assert_eq!(document["paths"][path]["get"]["security"], *expected, "{path}");
        }
    }
    let document = document(&Bank::served(Memory::new(), EngineOptions::default(), |options| Options {
        demands_certificates: true,
        ..options
    }))
    .await;
    assert_eq!(document["components"]["securitySchemes"].as_object().expect("schemes").len(), 1);
    assert_eq!(document["paths"]["/Account/{id}/Withdraw"]["post"]["security"], json!([certificate]));
}

#[tokio::test]
async fn what_has_a_default_is_not_required() {
    let bank = basket(DEFAULTS, Memory::new());
    let document = document(&bank).await;
    let body = |event: &str| {
        document["paths"][format!("/Basket/{{id}}/{event}")]["post"]["requestBody"]["content"]["application/json"]["schema"]
            .clone()
    };
    let resolved = |mut schema: Value| {
        while let Some(reference) = schema["$ref"].as_str() {
            schema = document.pointer(&reference[1..]).expect("it is described").clone();
        }
        schema
    };
    let put = resolved(body("Put"));
    assert_eq!(put["required"], json!(["line"]));
    let default = |name: &str| put["properties"][name]["default"].clone();
    assert_eq!([default("times"), default("tip"), default("tags")], [json!(3), json!("EUR 0.50"), json!(["new"])]);
    let line = &put["properties"]["line"];
    assert_eq!(line["required"], json!(["product"]));
    assert_eq!(line["properties"]["price"]["default"], "EUR 1.50");
    assert_eq!(line["properties"]["note"]["default"], "none yet");
    assert_eq!(line.get("default"), None);
    assert_eq!(resolved(body("Start"))["properties"]["until_"]["default"], "2026-11-21");

    let parameters = &document["paths"]["/Basket/{id}/Above"]["get"]["parameters"];
    let parameter = |name: &str| {
        let all = parameters.as_array().expect("a list");
        all.iter().find(|parameter| parameter["name"] == name).unwrap_or_else(|| panic!("{name} is described"))
    };
    let limit = parameter("limit");
    assert_eq!((&limit["required"], &limit["schema"]["default"]), (&json!(false), &json!("EUR 5.00")));
    let text = "Line(product: \"pen\", quantity: 2, price: EUR 1.50, note: \"none yet\")";
    assert_eq!(parameter("but")["schema"]["default"], text);

    assert_eq!(bank.post("/Basket/b/Start", "{}").await.status, 200);
    for sent in [r#"{"line":{"product":"pen"}}"#, r#"{"line":{"product":"pen","note":null},"times":2,"tags":["a"]}"#] {
        conforms(&document, &body("Put"), &serde_json::from_str(sent).expect("JSON"));
        assert_eq!(bank.post("/Basket/b/Put", sent).await.status, 200, "{sent}");
    }
    let read = bank.get("/Basket/b").await;
    conforms(&document, described(&document, "/Basket/{id}", "get", &read), &read.body);
    // What is given has all of it.
    let given = &document["components"]["schemas"]["Basket"]["properties"]["fields"]["properties"]["lines"]["items"];
    assert_eq!(given["properties"]["price"].get("default"), None);
    assert_eq!(given["required"], json!(["product", "quantity", "price"]));
}
