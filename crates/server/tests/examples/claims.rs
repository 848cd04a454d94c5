//! `examples/claims.rebel`: what is granted is within the limit of who grants it, and is paid once.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use enact_rebel::{Instance, Value};
use serde_json::{Value as Json, json};

use crate::chance::Chance;
use crate::served::{Command, Served, Step, number, random};

/// Customers, and what employees may grant in euros.
const CUSTOMERS: [&str; 2] = ["carl", "hanna"];
const LIMITS: [(&str, u32); 4] = [("hanna", 500), ("henry", 0), ("susan", 2_000), ("simon", 10_000)];
const STAFF: [&str; 4] = ["hanna", "henry", "susan", "simon"];
const ENDOWED: i128 = 2_000_000;

async fn insurance() -> Served {
    let callers: &[(&str, &[&str])] = &[
        ("office", &["office"]),
        ("carl", &["customer"]),
        ("hanna", &["customer", "handler"]),
        ("henry", &["handler"]),
        ("susan", &["handler", "supervisor"]),
        ("simon", &["supervisor"]),
    ];
    let mut insurance = Served::open("claims", callers);
    insurance.post("office", "/Fund/EUR/Endow", json!({ "amount": "EUR 20000.00" })).await.state();
    for (employee, limit) in LIMITS {
        assert_eq!(
            insurance.post("office", &format!("/Employee/{employee}/Hire"), json!({})).await.state(),
            "employed"
        );
        insurance.post("office", &format!("/Employee/{employee}/Allow"), json!({ "upTo": euros(limit) })).await.state();
    }
    insurance
}

fn euros(amount: impl std::fmt::Display) -> String {
    format!("EUR {amount}.00")
}

/// A claim that `customer` files.
async fn filed(insurance: &mut Served, customer: &str, amount: u32) -> String {
    let filed = insurance.post(customer, "/Claim/File", json!({ "amount": euros(amount) })).await;
    assert_eq!(filed.state(), "filed");
    format!("/Claim/{}", filed.id())
}

fn amount(amount: u32) -> Json {
    json!({ "amount": euros(amount) })
}

#[tokio::test]
async fn a_claim_is_granted_alone_within_the_limit_and_by_two_above_it() {
    let mut insurance = insurance().await;

    // Carl files two claims. Without the role nobody handles them, and he is no employee.
    let small = filed(&mut insurance, "carl", 400).await;
    let large = filed(&mut insurance, "carl", 1_500).await;
    insurance.post("carl", &format!("{small}/Accept"), json!({})).await.is_forbidden();
    insurance.post("simon", "/Claim/File", amount(1)).await.is_forbidden();

    // Hanna grants the small one: it is within her limit, but not more than was claimed.
    assert_eq!(insurance.post("hanna", &format!("{small}/Accept"), json!({})).await.state(), "assessed");
    let grant = format!("{small}/Grant");
    assert_eq!(insurance.post("henry", &grant, amount(400)).await.refusal(), "another one's case");
    assert_eq!(insurance.post("hanna", &grant, amount(401)).await.refusal(), "not more than was claimed");
    assert_eq!(insurance.post("hanna", &grant, amount(400)).await.state(), "paid");
    assert_eq!(insurance.field("Fund", "EUR", "left"), "EUR 19600.00");

    // The large one takes a second person.
    insurance.post("susan", &format!("{large}/Accept"), json!({})).await.state();
    insurance.post("office", "/Employee/susan/Allow", json!({ "upTo": "EUR 1000.00" })).await.state();
    assert_eq!(insurance.post("susan", &format!("{large}/Grant"), amount(1_500)).await.state(), "proposed");
    let confirm = format!("{large}/Confirm");
    insurance.post("hanna", &confirm, json!({})).await.is_forbidden();
    insurance.post("office", "/Employee/susan/Allow", json!({ "upTo": "EUR 9000.00" })).await.state();
    assert_eq!(insurance.post("susan", &confirm, json!({})).await.refusal(), "it takes a second person");
    insurance.post("office", "/Employee/simon/Allow", json!({ "upTo": "EUR 1499.99" })).await.state();
    assert_eq!(insurance.post("simon", &confirm, json!({})).await.refusal(), "above your limit");
    insurance.post("office", "/Employee/simon/Allow", json!({ "upTo": "EUR 1500.00" })).await.state();
    assert_eq!(insurance.post("simon", &confirm, json!({})).await.state(), "paid");
    assert_eq!(insurance.field("Fund", "EUR", "paid"), "EUR 1900.00");
    insurance.post("simon", &confirm, json!({})).await.refusal();
}

#[tokio::test]
async fn nobody_decides_an_own_claim_and_a_limit_is_of_one_currency() {
    let mut insurance = insurance().await;
    let own = filed(&mut insurance, "hanna", 100).await;
    let accept = format!("{own}/Accept");
    assert_eq!(insurance.post("hanna", &accept, json!({})).await.refusal(), "nobody handles an own claim");
    assert_eq!(insurance.post("carl", &format!("{own}/Withdraw"), json!({})).await.refusal(), "another one's claim");
    assert_eq!(insurance.post("hanna", &format!("{own}/Withdraw"), json!({})).await.state(), "withdrawn");

    // An employee who has left handles nothing.
    let claim = filed(&mut insurance, "carl", 100).await;
    insurance.post("office", "/Employee/henry/Dismiss", json!({})).await.state();
    let refused = insurance.post("henry", &format!("{claim}/Accept"), json!({})).await;
    assert_eq!(refused.refusal(), "only employees handle claims, and it is in state dismissed");

    // What Hanna may grant in euros says nothing of dollars.
    assert_eq!(insurance.get("carl", "/Employee/hanna/MayGrant?amount=EUR+500.00").await.result(), &json!(true));
    assert_eq!(insurance.get("carl", "/Employee/hanna/MayGrant?amount=USD+0.01").await.result(), &json!(false));
}

#[tokio::test]
async fn what_the_fund_has_paid_is_what_was_granted_in_random_claims() {
    let command = |chance: &mut Chance, insurance: &Served| -> Command {
        let claims: Vec<(String, &Instance)> = insurance.all("Claim").collect();
        let staff = *chance.pick(&STAFF);
        let customer = *chance.pick(&CUSTOMERS);
        // Of those that are decided some.
        let open: Vec<&(String, &Instance)> = claims
            .iter()
            .filter(|(_, claim)| ["filed", "assessed", "proposed"].contains(&&**claim.state()) || chance.percent(5))
            .collect();
        if open.is_empty() || chance.percent(15) {
            return (customer, "/Claim/File".to_owned(), amount(1 + small(chance, 3_000)));
        }
        let (id, claim) = *chance.pick(&open);
        let path = |event| format!("/Claim/{id}/{event}");
        // More often the handler of the claim than somebody else.
        let handler = STAFF.into_iter().find(|name| insurance.field("Claim", id, "handler") == *name);
        let handler = if chance.percent(80) { handler.unwrap_or(staff) } else { staff };
        match (chance.below(20), &**claim.state()) {
            (0, _) => ("office", format!("/Employee/{staff}/Allow"), json!({ "upTo": euros(chance.below(2_000)) })),
            (1 | 2, _) => (customer, path("Withdraw"), json!({})),
            (3, _) => (staff, path("Release"), json!({})),
            (4, _) => (staff, path("Return"), json!({})),
            (5 | 6, _) => (handler, path("Reject"), json!({})),
            (_, "filed") => (staff, path("Accept"), json!({})),
            (7..=10, "assessed") => (handler, path("Grant"), amount(small(chance, 3_000))),
            (_, "assessed") => (handler, path("Grant"), json!({ "amount": insurance.field("Claim", id, "claimed") })),
            _ => (staff, path("Confirm"), json!({})),
        }
    };
    let reached = RefCell::new(BTreeSet::new());
    let conserved = |insurance: &Served| {
        reached.borrow_mut().extend(insurance.all("Claim").map(|(_, it)| it.state().to_string()));
        let (_, fund) = insurance.all("Fund").next().expect("a fund");
        assert_eq!(number(fund, "left") + number(fund, "paid"), ENDOWED);
        let mut paid = 0;
        for (id, claim) in insurance.all("Claim").filter(|(_, claim)| claim.state().as_ref() == "paid") {
            let granted = claim.fields().get("granted").and_then(Value::number).expect("an amount");
            assert!(granted > 0 && granted <= number(claim, "claimed"), "{id}");
            assert_ne!(insurance.field("Claim", &id, "handler"), insurance.field("Claim", &id, "filedBy"), "{id}");
            paid += granted;
        }
        assert_eq!(number(fund, "paid"), paid);
    };
    let choose = |chance: &mut Chance, insurance: &Served| match chance.below(30) {
        0 | 1 => Step::Pass(Duration::from_hours(24 * chance.below(40))),
        2 => Step::Settle,
        _ => command(chance, insurance).into(),
    };
    random(insurance, choose, conserved).await;
    assert_eq!(
        reached.into_inner(),
        ["assessed", "filed", "paid", "proposed", "rejected", "withdrawn"].map(str::to_owned).into()
    );
}

/// A number below `n`, more often a small one.
fn small(chance: &mut Chance, n: u64) -> u32 {
    let most = 1 + chance.below(n);
    u32::try_from(chance.below(most)).expect("small")
}
