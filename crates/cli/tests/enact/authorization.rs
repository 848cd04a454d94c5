//! The matrix of authorisation: each kind of principal at each endpoint, by each way in, over served programs.
//!
//! The table says what is expected. A route that the server has and the table has not fails the test.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::{Client, Method, RequestBuilder};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::issuer::{self, Issuer};
use crate::served::{FREE_PORT, Served, token};
use crate::tls::{BOTH, CLIENT_CA, Place, TOKENS};

const CONTRACT: &str = r"
roles teller
class Account
  balance: Integer = 0
  initial none
    on Open() by teller: opened
  opened
    on Deposit(amount: Integer) by teller
      post: this.balance += amount
    on Touch()
    read on Balance() -> Integer
      return: balance
    read on IsRich() -> Boolean by teller
      return: balance > 1000000
class Rate
  initial none
    on Set(): set
  set
class Board
  writer: String? @personal
  initial none
    on Put(by: String? @personal): put
      post: this.writer = by
  put
";

/// Accounts are read by auditors, rates by all callers, boards by anybody.
const READERS: &[&str] = &[
    "--readers",
    "Account=auditor",
    "--readers",
    "Rate=*",
    "--readers",
    "metrics=monitor",
    "--readers",
    "openapi.json=*",
    "--erasers",
    "auditor",
    "--subject-keys",
    "keys",
];

/// What a principal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nobody that is known.
    Nobody,
    /// A caller without roles.
    Caller,
    Teller,
    Auditor,
    Monitor,
    /// What proves nothing.
    Invalid,
}

/// How a request comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Alone,
    /// As a stream of server-sent events.
    Stream,
    /// As the one command of a batch: the status is that of the command, if there is one.
    InBatch,
    /// As the one command of a batch that is one transaction.
    InAtomicBatch,
}

use Way::{Alone, InAtomicBatch, InBatch, Stream};

/// The route, what is asked for there, and how it is answered to each kind of principal. `{n}` is another number for each request, `{at}` the time
/// at which the account `A` was opened.
#[rustfmt::skip]
const TABLE: &[(&str, &str, Way, [u16; 6])] = &[
    //                                                                                              nobody caller teller auditor monitor invalid
    ("GET /health",                      "/health",                                  Alone,         [200,  200,   200,   200,    200,    200]),
    ("GET /health/ready",                "/health/ready",                            Alone,         [200,  200,   200,   200,    200,    200]),
    ("GET /metrics",                     "/metrics",                                 Alone,         [401,  403,   403,   403,    200,    401]),
    ("GET /openapi.json",                "/openapi.json",                            Alone,         [401,  200,   200,   200,    200,    401]),

    ("GET /Account",                     "/Account",                                 Alone,         [401,  403,   403,   200,    403,    401]),
    ("GET /Account",                     "/Account?balance.ge=1",                    Alone,         [401,  403,   403,   200,    403,    401]),
    ("GET /Account",                     "/Account?what=1",                          Alone,         [401,  403,   403,   422,    403,    401]),
    ("GET /Account/{id}",                "/Account/A",                               Alone,         [401,  403,   403,   200,    403,    401]),
    ("GET /Account/{id}",                "/%41ccount/A",                             Alone,         [401,  403,   403,   200,    403,    401]),
    ("GET /Account/{id}",                "/Account/A?mode=range",                    Alone,         [401,  403,   403,   200,    403,    401]),
    ("GET /Account/{id}",                "/Account/A?at={at}",                       Alone,         [401,  403,   403,   200,    403,    401]),
    ("GET /Account/{id}",                "/Account/none",                            Alone,         [401,  403,   403,   404,    403,    401]),
    ("GET /Account/{id}",                "/Account/a%20b",                           Alone,         [401,  403,   403,   422,    403,    401]),
    ("HEAD /Account/{id}",               "/Account/A",                               Alone,         [401,  403,   403,   200,    403,    401]),
    ("GET /Account/{id}/-/history",      "/Account/A/-/history",                     Alone,         [401,  403,   403,   200,    403,    401]),
    ("GET /Account/{id}/Balance",        "/Account/A/Balance",                       Alone,         [401,  403,   403,   200,    403,    401]),
    ("GET /Account/{id}/IsRich",         "/Account/A/IsRich",                        Alone,         [403,  403,   200,   403,    403,    401]),
    ("POST /Account/{id}/Open",          "/Account/{n}/Open",                        Alone,         [403,  403,   200,   403,    403,    401]),
    ("POST /Account/Open",               "/Account/Open",                            Alone,         [403,  403,   200,   403,    403,    401]),
    ("POST /Account/{id}/Deposit",       "/Account/A/Deposit",                       Alone,         [403,  403,   200,   403,    403,    401]),
    ("POST /Account/{id}/Touch",         "/Account/A/Touch",                         Alone,         [200,  200,   200,   200,    200,    401]),

    ("GET /Rate",                        "/Rate",                                    Alone,         [401,  200,   200,   200,    200,    401]),
    ("GET /Rate/{id}",                   "/Rate/R",                                  Alone,         [401,  200,   200,   200,    200,    401]),
    ("GET /Rate/{id}/-/history",         "/Rate/R/-/history",                        Alone,         [401,  200,   200,   200,    200,    401]),
    ("POST /Rate/{id}/Set",              "/Rate/{n}/Set",                            Alone,         [200,  200,   200,   200,    200,    401]),
    ("POST /Rate/Set",                   "/Rate/Set",                                Alone,         [200,  200,   200,   200,    200,    401]),

    ("GET /Board",                       "/Board",                                   Alone,         [200,  200,   200,   200,    200,    401]),
    ("GET /Board/{id}",                  "/Board/B",                                 Alone,         [200,  200,   200,   200,    200,    401]),
    ("GET /Board/{id}/-/history",        "/Board/B/-/history",                       Alone,         [200,  200,   200,   200,    200,    401]),
    ("POST /Board/{id}/Put",             "/Board/{n}/Put",                           Alone,         [200,  200,   200,   200,    200,    401]),
    ("POST /Board/Put",                  "/Board/Put",                               Alone,         [200,  200,   200,   200,    200,    401]),
    ("POST /Board/{id}/-/erase",         "/Board/B/-/erase",                         Alone,         [401,  403,   403,   200,    403,    401]),
    ("POST /Board/{id}/-/erase",         "/Board/none/-/erase",                      Alone,         [401,  403,   403,   404,    403,    401]),

    ("GET /-/changes",                   "/-/changes",                               Alone,         [200,  200,   200,   200,    200,    401]),
    ("GET /-/changes",                   "/-/changes?class=Account",                 Alone,         [401,  403,   403,   200,    403,    401]),
    ("GET /-/changes",                   "/-/changes?class=Board&class=Account",     Alone,         [401,  403,   403,   200,    403,    401]),
    ("GET /-/changes",                   "/-/changes?class=Rate",                    Alone,         [401,  200,   200,   200,    200,    401]),
    ("GET /-/changes",                   "/-/changes?class=Board",                   Alone,         [200,  200,   200,   200,    200,    401]),
    ("GET /-/changes",                   "/-/changes",                               Stream,        [200,  200,   200,   200,    200,    401]),
    ("GET /-/changes",                   "/-/changes?class=Account",                 Stream,        [401,  403,   403,   200,    403,    401]),

    ("POST /-/batch",                    "/Account/A/Deposit",                       InBatch,       [403,  403,   200,   403,    403,    401]),
    ("POST /-/batch",                    "/Account/A/Deposit",                       InAtomicBatch, [403,  403,   200,   403,    403,    401]),
    ("POST /-/batch",                    "/Account/A/Touch",                         InBatch,       [200,  200,   200,   200,    200,    401]),
    ("POST /-/batch",                    "/Account/A/Touch",                         InAtomicBatch, [200,  200,   200,   200,    200,    401]),
];

/// The classes whose changes a principal is told of that names none.
const TOLD: &[(Kind, &[&str])] = &[
    (Kind::Nobody, &["Board"]),
    (Kind::Caller, &["Board", "Rate"]),
    (Kind::Teller, &["Board", "Rate"]),
    (Kind::Auditor, &["Account", "Board", "Rate"]),
    (Kind::Monitor, &["Board", "Rate"]),
];

/// Somebody who asks.
struct Principal {
    what: &'static str,
    kind: Kind,
    client: Client,
    bearer: Option<String>,
}

impl Principal {
    fn asks(&self, server: &Served, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, server.url(path));
        match &self.bearer {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// The status of the answer for one row of the table.
    async fn status(&self, server: &Served, (route, path, way): (&str, &str, Way), number: usize, at: &str) -> u16 {
        let path = path.replace("{n}", &number.to_string()).replace("{at}", at);
        let arguments = if path.ends_with("/Deposit") { json!({ "amount": 1 }) } else { json!({}) };
        let method: Method = route.split(' ').next().expect("a method").parse().expect("a method");
        if way == Alone || way == Stream {
            let request = self.asks(server, method.clone(), &path);
            let request = match (method, way) {
                (Method::POST, _) => request.header("idempotency-key", number.to_string()).json(&arguments),
                (_, Stream) => request.header("accept", "text/event-stream"),
                _ => request,
            };
            return request.send().await.expect("serving").status().as_u16();
        }
        let [class, id, event] = path[1..].split('/').collect::<Vec<_>>()[..] else { panic!("{path} is no command") };
        let command = json!({ "class": class, "id": id, "event": event, "arguments": arguments });
        let batch = json!({ "commands": [command], "atomic": way == InAtomicBatch });
        let answer = self.asks(server, method, "/-/batch").json(&batch).send().await.expect("serving");
        let status = answer.status().as_u16();
        let answer: Value = answer.json().await.expect("JSON");
        let of_command = answer["results"][0]["status"].as_u64();
        of_command.map_or(status, |status| u16::try_from(status).expect("a status"))
    }

    /// The classes of the changes that it is told of.
    async fn told(&self, server: &Served) -> BTreeSet<String> {
        let answer = self.asks(server, Method::GET, "/-/changes?limit=1000").send().await.expect("serving");
        let answer: Value = answer.json().await.expect("JSON");
        let changes = answer["changes"].as_array().expect("a list");
        changes.iter().map(|change| change["class"].as_str().expect("a name").to_owned()).collect()
    }
}

/// Asks for each cell, and compares all of them.
async fn check(server: &Served, principals: &[Principal], first: usize, at: &str) {
    let mut wrong = Vec::new();
    let mut number = first;
    for &(route, path, way, expected) in TABLE {
        for principal in principals {
            number += 1;
            let status = principal.status(server, (route, path, way), number, at).await;
            let expected = expected[principal.kind as usize];
            if status != expected {
                wrong.push(format!("{route} {path} {way:?} of {}: {status} instead of {expected}", principal.what));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cells\n{}", wrong.len(), wrong.join("\n"));
    for principal in principals {
        let Some((_, expected)) = TOLD.iter().find(|(kind, _)| *kind == principal.kind) else { continue };
        assert_eq!(
            principal.told(server).await,
            expected.iter().map(|&class| class.to_owned()).collect(),
            "{}",
            principal.what
        );
    }
}

/// Makes something of each class; the time at which the account was opened.
async fn fill(server: &Served, teller: &Principal, auditor: &Principal) -> String {
    for (path, arguments) in
        [("/Account/A/Open", json!({})), ("/Rate/R/Set", json!({})), ("/Board/B/Put", json!({ "by": "Ada" }))]
    {
        let made = teller.asks(server, Method::POST, path).json(&arguments).send().await.expect("serving");
        assert_eq!(made.status(), 200, "{path}");
    }
    let history = auditor.asks(server, Method::GET, "/Account/A/-/history").send().await.expect("serving");
    let history: Value = history.json().await.expect("JSON");
    history["transactions"][0]["at"].as_str().expect("a time").to_owned()
}

fn of_kind(principals: &[Principal], kind: Kind) -> &Principal {
    principals.iter().find(|principal| principal.kind == kind).expect("there is one")
}

/// Every operation of the description is a row, and every row an operation; and no kind of endpoint that is counted was left out.
async fn has_all_routes(server: &Served, principals: &[Principal]) {
    let auditor = of_kind(principals, Kind::Auditor);
    let described = auditor.asks(server, Method::GET, "/openapi.json").send().await.expect("serving");
    let described: BTreeMap<String, BTreeMap<String, Value>> =
        serde_json::from_value(described.json::<Value>().await.expect("JSON")["paths"].take()).expect("paths");
    let of_path = |(path, operations): (&String, &BTreeMap<String, Value>)| -> Vec<String> {
        operations.keys().map(|method| format!("{} {path}", method.to_uppercase())).collect()
    };
    let described: BTreeSet<String> = described.iter().flat_map(of_path).collect();
    let rows = TABLE.iter().map(|(route, ..)| (*route).to_owned()).filter(|route| !route.starts_with("HEAD "));
    assert_eq!(rows.collect::<BTreeSet<_>>(), described);
    let monitor = of_kind(principals, Kind::Monitor);
    let metrics = monitor.asks(server, Method::GET, "/metrics").send().await.expect("serving");
    let metrics = metrics.text().await.expect("a text");
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for line in metrics.lines() {
        let Some(labels) = line.strip_prefix("enact_requests_total{endpoint=\"") else { continue };
        let (endpoint, rest) = labels.split_once('"').expect("a label");
        *counts.entry(endpoint).or_default() +=
            rest.rsplit(' ').next().expect("a value").parse::<u64>().expect("a count");
    }
    let left_out: Vec<_> = counts.iter().filter(|(endpoint, count)| **count == 0 && **endpoint != "other").collect();
    assert!(counts.len() > 10 && left_out.is_empty(), "{left_out:?} of {counts:?}");
}

#[tokio::test]
async fn every_kind_of_token_may_do_at_every_endpoint_what_the_table_says() {
    let place = Place::new();
    let issuer = Issuer::start(&place.authority);
    place.write("bank.rebel", CONTRACT);
    let made = |id: &str, roles: &[&str]| token(id, roles);
    let [caller, teller, auditor, monitor, revoked] = [
        made("c", &[]),
        made("t", &["teller"]),
        made("a", &["auditor"]),
        made("m", &["monitor"]),
        made("r", &["auditor", "teller"]),
    ];
    let (over, over_line) = made("o", &["auditor", "teller"]);
    let kept = [&caller.1, &teller.1, &auditor.1, &monitor.1].map(String::as_str).join("\n");
    let over_line = format!("{over_line} until=2020-01-01T00:00:00Z");
    place.write("tokens", &format!("{kept}\n{over_line}\n{}\n", revoked.1));
    let all = [TOKENS, &issuer.flags("ca.pem"), &["--oidc-roles", "realm.roles"], READERS].concat();
    let server = Served::start(place.command(FREE_PORT, &all));

    let right = json!({ "alg": "EdDSA", "kid": "k1" });
    let claims = |other: Value| {
        let mut claims = issuer.claims("x", &["auditor", "teller", "monitor"]);
        claims.as_object_mut().expect("claims").extend(other.as_object().expect("claims").clone());
        claims
    };
    let client = Client::new();
    let is =
        |what, kind, bearer: &str| Principal { what, kind, client: client.clone(), bearer: Some(bearer.to_owned()) };
    let principals = [
        Principal { what: "nobody", kind: Kind::Nobody, client: client.clone(), bearer: None },
        is("a token without roles", Kind::Caller, &caller.0),
        is("a token of a teller", Kind::Teller, &teller.0),
        is("a token of an auditor", Kind::Auditor, &auditor.0),
        is("a token of a monitor", Kind::Monitor, &monitor.0),
        is("a token whose time is over", Kind::Invalid, &over),
        is("a token that was revoked", Kind::Invalid, &revoked.0),
        is("an unknown token", Kind::Invalid, "unknown"),
        is("a signed token without roles", Kind::Caller, &issuer.token("c", &[])),
        is("a signed token of a teller", Kind::Teller, &issuer.token("t", &["teller"])),
        is("a signed token of an auditor", Kind::Auditor, &issuer.token("a", &["auditor"])),
        is("a signed token of a monitor", Kind::Monitor, &issuer.token("m", &["monitor"])),
        is(
            "a signed token that has expired",
            Kind::Invalid,
            &issuer.token_with(&right, &claims(json!({ "exp": issuer::now() - 60 }))),
        ),
        is("a signed token for others", Kind::Invalid, &issuer.token_with(&right, &claims(json!({ "aud": "shop" })))),
        is(
            "a signed token of another issuer",
            Kind::Invalid,
            &issuer.token_with(&right, &claims(json!({ "iss": "https://other" }))),
        ),
        is(
            "a token that names an unknown key",
            Kind::Invalid,
            &issuer.token_with(&json!({ "alg": "EdDSA", "kid": "k2" }), &claims(json!({}))),
        ),
        is("a token signed by a stranger", Kind::Invalid, &issuer::forged(&right, &claims(json!({})))),
        is(
            "a token of the algorithm none",
            Kind::Invalid,
            &issuer.token_with(&json!({ "alg": "none", "kid": "k1" }), &claims(json!({}))),
        ),
    ];
    let at = fill(&server, of_kind(&principals, Kind::Teller), of_kind(&principals, Kind::Auditor)).await;
    let was_known = is("before", Kind::Auditor, &revoked.0);
    assert_eq!(was_known.status(&server, ("GET", "/Account/A", Alone), 0, "").await, 200);
    place.write("tokens", &format!("{kept}\n{over_line}\n"));
    // The signal is taken up at some time.
    while was_known.status(&server, ("GET", "/Account/A", Alone), 0, "").await != 401 {
        server.signal(Signal::HUP);
    }
    check(&server, &principals, 0, &at).await;
    has_all_routes(&server, &principals).await;
}

#[tokio::test]
async fn every_kind_of_certificate_may_do_at_every_endpoint_what_the_table_says() {
    let place = Place::new();
    place.write("bank.rebel", CONTRACT);
    let mut lines = Vec::new();
    for (name, line) in [
        ("plain", "plain"),
        ("teller", "teller teller"),
        ("auditor", "auditor auditor"),
        ("monitor", "monitor monitor"),
        ("over", "over auditor,teller until=2020-01-01T00:00:00Z"),
        ("unknown", ""),
    ] {
        place.keep(name, place.authority.certificate_for(&[&format!("{name}.example")]));
        if !line.is_empty() {
            lines.push(format!("dns:{name}.example {line}"));
        }
    }
    let (teller, teller_line) = token("t", &["teller"]);
    place.write("tokens", &format!("{}\n{teller_line}\n", lines.join("\n")));
    let server = place.serve(&[TOKENS, CLIENT_CA, READERS].concat());
    let is = |what, kind, certificate: &str, bearer: Option<&str>| {
        let client = place.client("ca.pem", Some(certificate), BOTH);
        Principal { what, kind, client, bearer: bearer.map(str::to_owned) }
    };
    let principals = [
        is("an unknown certificate", Kind::Nobody, "unknown", None),
        is("a certificate without roles", Kind::Caller, "plain", None),
        is("a certificate of a teller", Kind::Teller, "teller", None),
        is("a certificate of an auditor", Kind::Auditor, "auditor", None),
        is("a certificate of a monitor", Kind::Monitor, "monitor", None),
        is("a certificate whose time is over", Kind::Invalid, "over", None),
        is("an unknown certificate with a token", Kind::Teller, "unknown", Some(&teller)),
        is("a certificate of an auditor with a token of a teller", Kind::Teller, "auditor", Some(&teller)),
        is("a certificate of an auditor with an unknown token", Kind::Invalid, "auditor", Some("unknown")),
    ];
    let at = fill(&server, of_kind(&principals, Kind::Teller), of_kind(&principals, Kind::Auditor)).await;
    check(&server, &principals, 0, &at).await;
    has_all_routes(&server, &principals).await;
}

#[test]
fn a_rule_for_nothing_or_a_second_one_ends_the_start() {
    let place = Place::new();
    place.write("bank.rebel", CONTRACT);
    for (rules, said) in [
        (
            &["Acount=auditor"][..],
            "error: --readers `Acount` is neither a class nor `metrics` or `openapi.json`; there are `Account`, `Rate`, `Board`\n",
        ),
        (
            &["health=auditor"],
            "error: --readers `health` is neither a class nor `metrics` or `openapi.json`; there are `Account`, `Rate`, `Board`\n",
        ),
        (&["Rate=*", "Rate=teller"], "error: --readers Rate=teller: `Rate` has a rule already\n"),
        (&["auditor", "*"], "error: --readers *: there is a rule for all names already\n"),
    ] {
        let flags: Vec<&str> = rules.iter().flat_map(|rule| ["--readers", rule]).collect();
        let ended = place.command(FREE_PORT, &[TOKENS, &flags].concat()).output().expect("the program starts");
        assert_eq!(ended.status.code(), Some(2), "{rules:?}");
        assert_eq!(String::from_utf8_lossy(&ended.stderr), said, "{rules:?}");
    }
}
