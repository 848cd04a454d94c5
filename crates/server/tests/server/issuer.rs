//! Callers whose tokens an issuer has signed: which tokens prove what, and from where the keys come.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::http::Request;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use enact_entities::EngineOptions;
use enact_journal::Memory;
use enact_server::{
    Issuer, IssuerOptions, KEYS_FETCH_EVERY, KEYS_FETCH_PAUSE, KEYS_KEPT, Options, Readers, RoleDemand,
    SUBJECT_BYTES_MAX, TOKEN_LEEWAY, Tokens,
};
use parking_lot::Mutex;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SigningKey};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, advance};

use crate::bank::{Answer, Bank};

const ISSUER: &str = "https://id.example.com/bank";
const CONTRACT: &str = "roles teller\nclass Lamp\n  by: String = \"\"\n  initial off\n    on Light() by teller: lit\n      post: this.by = caller.id\n  lit\n";

/// A key of an issuer.
struct Key {
    id: &'static str,
    algorithm: &'static str,
    pair: KeyPair,
}

impl Key {
    fn new(id: &'static str, algorithm: &'static str) -> Self {
        let kind = match algorithm {
            "ES256" => &PKCS_ECDSA_P256_SHA256,
            "ES384" => &PKCS_ECDSA_P384_SHA384,
            _ => &PKCS_ED25519,
        };
        Self { id, algorithm, pair: KeyPair::generate_for(kind).expect("a key") }
    }

    fn published(&self) -> Value {
        let key = self.pair.public_key_raw();
        let mut published = match self.algorithm {
            "EdDSA" => json!({ "kty": "OKP", "crv": "Ed25519", "x": BASE64.encode(key) }),
            curve => {
                let (x, y) = key[1..].split_at(key.len() / 2);
                let curve = if curve == "ES256" { "P-256" } else { "P-384" };
                json!({ "kty": "EC", "crv": curve, "x": BASE64.encode(x), "y": BASE64.encode(y) })
            }
        };
        published["kid"] = json!(self.id);
        published["use"] = json!("sig");
        published
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let kind = match self.algorithm {
            "ES256" => &ECDSA_P256_SHA256_FIXED_SIGNING,
            "ES384" => &ECDSA_P384_SHA384_FIXED_SIGNING,
            _ => return self.pair.sign(message).expect("signed"),
        };
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(kind, &self.pair.serialize_der(), &random).expect("its own form");
        pair.sign(&random, message).expect("signed").as_ref().to_vec()
    }

    fn token(&self, claims: &Value) -> String {
        self.token_with(&json!({ "alg": self.algorithm, "kid": self.id }), claims)
    }

    fn token_with(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        format!("{message}.{}", BASE64.encode(self.sign(message.as_bytes())))
    }
}

fn message(header: &Value, claims: &Value) -> String {
    format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()))
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_secs()).expect("near")
}

/// The claims of alice, a teller, with these instead of or beside them; null takes one away.
fn claims(other: &Value) -> Value {
    let mut claims = json!({ "iss": ISSUER, "aud": "bank", "sub": "alice", "exp": now() + 600, "roles": ["teller"] });
    for (name, value) in other.as_object().expect("claims") {
        match value {
            Value::Null => drop(claims.as_object_mut().expect("claims").remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}

/// What an issuer answers, and how often it was asked for its keys; nothing while it is away.
#[derive(Clone)]
struct Site {
    answers: Arc<Mutex<Option<(Value, Value)>>>,
    count: Arc<AtomicUsize>,
}

impl Site {
    fn of(keys: &[Value]) -> Self {
        let site = Self { answers: Arc::default(), count: Arc::default() };
        site.publish(keys);
        site
    }

    fn publish(&self, keys: &[Value]) {
        let description = json!({ "issuer": ISSUER, "jwks_uri": format!("{ISSUER}/keys"), "other": 1 });
        *self.answers.lock() = Some((description, json!({ "keys": keys })));
    }

    fn fetch(&self, url: &str) -> io::Result<Vec<u8>> {
        let (description, keys) = self.answers.lock().clone().ok_or(io::ErrorKind::ConnectionRefused)?;
        if url == format!("{ISSUER}/.well-known/openid-configuration") {
            return Ok(description.to_string().into_bytes());
        }
        assert_eq!(url, format!("{ISSUER}/keys"));
        self.count.fetch_add(1, Ordering::Relaxed);
        Ok(keys.to_string().into_bytes())
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

/// A bank that takes tokens of the issuer, and one opaque token.
fn bank(site: &Site) -> Bank {
    let options =
        IssuerOptions { url: ISSUER.to_owned(), audience: "bank".to_owned(), roles_claim: "roles".to_owned() };
    let issuer = Issuer::new(options).expect("an address");
    let (kept, site) = (issuer.clone(), site.clone());
    tokio::spawn(async move {
        kept.keep_current(&Notify::new(), |url| std::future::ready(site.fetch(&url))).await;
    });
    // The digest of `123456`.
    let line = b"8d969eef6ecad3c29a3a629280e686cf0c3f5d5a86aff3ca12020c923adc6c92 bob teller";
    let tokens = Tokens::parse(line).expect("well formed");
    let readers = Readers::default().with_others(RoleDemand::Caller);
    let options = |options| Options { issuer: Some(issuer), tokens: Some(tokens), readers, ..options };
    Bank::of(CONTRACT, Memory::new(), EngineOptions::default(), options)
}

async fn ask(bank: &Bank, path: &str, token: &str) -> Answer {
    let is_read = path.split('/').count() < 4;
    let request = if is_read { Request::get(path) } else { Request::post(path) };
    let request = request.header("host", "localhost").header("content-type", "application/json");
    let request = request.header("authorization", format!("Bearer {token}"));
    bank.ask(request.body(Body::from("{}")).expect("a request")).await
}

/// The status of a read, for which any caller will do.
async fn status(bank: &Bank, token: &str) -> u16 {
    match ask(bank, "/Lamp/none", token).await.status.as_u16() {
        404 => 200,
        status => status,
    }
}

#[tokio::test]
async fn a_token_of_the_issuer_proves_its_subject_with_an_id_of_its_own_and_roles_that_could_be_named() {
    let keys = [Key::new("a", "ES256"), Key::new("b", "ES384"), Key::new("c", "EdDSA")];
    let bank = bank(&Site::of(&keys.each_ref().map(Key::published)));
    let many: Vec<String> = (0..64).map(|number| format!("r{number}")).chain(["not-a-role".to_owned()]).collect();
    let mut lamps = 0..;
    for (key, other, expected) in [
        (&keys[0], json!({}), Ok("alice")),
        (&keys[1], json!({ "sub": "auth0|alice", "aud": ["other", "bank"] }), Ok("auth0|alice")),
        (&keys[2], json!({ "roles": ["teller", "default-roles-bank", "system", "teller"] }), Ok("alice")),
        (&keys[0], json!({ "roles": "openid teller" }), Ok("alice")),
        (&keys[0], json!({ "sub": "s".repeat(SUBJECT_BYTES_MAX) }), Ok(&*"s".repeat(SUBJECT_BYTES_MAX))),
        (&keys[0], json!({ "nbf": now() - 5 }), Ok("alice")),
        (&keys[0], json!({ "sub": "system" }), Ok("system")),
        (&keys[0], json!({ "roles": null }), Err(403)),
        (&keys[0], json!({ "roles": many }), Err(403)),
        (&keys[0], json!({ "roles": ["Teller"] }), Err(403)),
    ] {
        let lamp = lamps.next().expect("there is no end");
        let token = key.token(&claims(&other));
        let answer = ask(&bank, &format!("/Lamp/{lamp}/Light"), &token).await;
        match expected {
            Ok(subject) => {
                assert_eq!(answer.status, 200, "{other}: {answer:?}");
                let by = ask(&bank, &format!("/Lamp/{lamp}"), &token).await.body["fields"]["by"].take();
                assert_eq!(by, format!("{ISSUER}#{subject}"));
            }
            Err(status) => assert_eq!(answer.status, status, "{other}: {answer:?}"),
        }
    }
    assert_eq!(ask(&bank, "/Lamp/opaque/Light", "123456").await.status, 200, "a token of the file");
    assert_eq!(ask(&bank, "/Lamp/opaque", "123456").await.body["fields"]["by"], "bob");
}

#[tokio::test]
async fn a_token_that_is_not_wholly_right_is_refused() {
    let [key, other] = [Key::new("a", "ES256"), Key::new("b", "ES256")];
    let stranger = Key::new("a", "ES256");
    let mut encrypting = Key::new("c", "ES256").published();
    encrypting["use"] = json!("enc");
    let bank = bank(&Site::of(&[key.published(), other.published(), encrypting]));
    let leeway = i64::try_from(TOKEN_LEEWAY.as_secs()).expect("small");
    let right = key.token(&claims(&json!({})));
    assert_eq!(status(&bank, &right).await, 200);
    let with = |other: Value| key.token(&claims(&other));
    let header = |header: Value| key.token_with(&header, &claims(&json!({})));
    let (start, signature) = right.rsplit_once('.').expect("parts");
    let hs256 = message(&json!({ "alg": "HS256", "kid": "a" }), &claims(&json!({})));
    let public = hmac::Key::new(hmac::HMAC_SHA256, key.pair.public_key_raw());
    let roles: Vec<String> = (0..65).map(|number| format!("r{number}")).collect();
    for (what, token) in [
        ("expired", with(json!({ "exp": now() - leeway - 5 }))),
        ("no end", with(json!({ "exp": null }))),
        ("an end that is no number", with(json!({ "exp": "2099-01-01" }))),
        ("not valid yet", with(json!({ "nbf": now() + leeway + 60 }))),
        ("other audience", with(json!({ "aud": "shop" }))),
        ("other audiences", with(json!({ "aud": ["shop", "bank2"] }))),
        ("no audience", with(json!({ "aud": null }))),
        ("other issuer", with(json!({ "iss": "https://id.example.com/shop" }))),
        ("no issuer", with(json!({ "iss": null }))),
        ("no subject", with(json!({ "sub": null }))),
        ("empty subject", with(json!({ "sub": "" }))),
        ("subject with a zero byte", with(json!({ "sub": "a\u{0}b" }))),
        ("subject with a letter of no ASCII", with(json!({ "sub": "é" }))),
        ("long subject", with(json!({ "sub": "s".repeat(SUBJECT_BYTES_MAX + 1) }))),
        ("too many roles", with(json!({ "roles": roles }))),
        ("signed by another key of the id", stranger.token(&claims(&json!({})))),
        (
            "signed by another key of the issuer",
            other.token_with(&json!({ "alg": "ES256", "kid": "a" }), &claims(&json!({}))),
        ),
        ("unknown key", header(json!({ "alg": "ES256", "kid": "d" }))),
        ("key for encryption", header(json!({ "alg": "ES256", "kid": "c" }))),
        ("no key named, of two", header(json!({ "alg": "ES256" }))),
        ("other algorithm", header(json!({ "alg": "ES384", "kid": "a" }))),
        ("algorithm of another kind of key", header(json!({ "alg": "RS256", "kid": "a" }))),
        (
            "a key in the token",
            stranger.token_with(&json!({ "alg": "ES256", "jwk": stranger.published() }), &claims(&json!({}))),
        ),
        ("an extension that is critical", header(json!({ "alg": "ES256", "kid": "a", "crit": ["x"], "x": 1 }))),
        ("none", format!("{}.x", message(&json!({ "alg": "none", "kid": "a" }), &claims(&json!({}))))),
        ("none without a key", format!("{}.x", message(&json!({ "alg": "None" }), &claims(&json!({}))))),
        ("no signature", format!("{start}.")),
        (
            "the signature of another",
            format!(
                "{}.{signature}",
                message(&json!({ "alg": "ES256", "kid": "a" }), &claims(&json!({ "sub": "bob" })))
            ),
        ),
        ("the public key as a secret", format!("{hs256}.{}", BASE64.encode(hmac::sign(&public, hs256.as_bytes())))),
        ("no JSON", "a.b.c".to_owned()),
        ("more parts", format!("{right}.{signature}")),
    ] {
        let answer = ask(&bank, "/Lamp/none", &token).await;
        assert_eq!(answer.status, 401, "{what}: {answer:?}");
        assert!(answer.headers.contains_key("www-authenticate"), "{what}");
        assert!(!answer.body.to_string().contains(&token), "{what}");
    }
    assert_eq!(status(&bank, &with(json!({ "exp": now() - 5 }))).await, 200, "within the leeway");
}

#[tokio::test]
async fn a_token_of_which_one_letter_is_another_is_refused() {
    let key = Key::new("a", "EdDSA");
    let bank = bank(&Site::of(&[key.published()]));
    let right = key.token(&claims(&json!({})));
    assert_eq!(status(&bank, &right).await, 200);
    for place in 0..right.len() {
        for letter in ["A", "_", "."] {
            let altered = format!("{}{letter}{}", &right[..place], &right[place + 1..]);
            let expected = if altered == right { 200 } else { 401 };
            assert_eq!(status(&bank, &altered).await, expected, "{letter} at {place}");
        }
    }
}

#[tokio::test]
async fn a_token_may_leave_out_the_name_of_the_only_key() {
    let key = Key::new("a", "ES256");
    let mut nameless = key.published();
    nameless.as_object_mut().expect("a key").remove("kid");
    let unnamed = key.token_with(&json!({ "alg": "ES256" }), &claims(&json!({})));
    for (published, token, expected) in [
        (nameless.clone(), &unnamed, 200),
        (key.published(), &unnamed, 200),
        (nameless, &key.token(&claims(&json!({}))), 401),
    ] {
        assert_eq!(status(&bank(&Site::of(&[published])), token).await, expected);
    }
}

/// The time moves on only when everybody waits for it.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_not_known_is_fetched_once_a_while_and_waited_for() {
    let [old, new] = [Key::new("old", "ES256"), Key::new("new", "ES256")];
    let site = Site::of(&[old.published()]);
    let bank = bank(&site);
    let alice = claims(&json!({}));
    let (old, new_token) = (old.token(&alice), new.token(&alice));
    assert_eq!((status(&bank, &old).await, site.count()), (200, 1), "the first request waits for the first keys");
    advance(KEYS_FETCH_PAUSE).await;
    site.publish(&[new.published()]);
    assert_eq!((status(&bank, &old).await, site.count()), (200, 1), "what is known is not asked for");
    assert_eq!((status(&bank, &new_token).await, site.count()), (200, 2), "it waits for the key");
    assert_eq!(status(&bank, &old).await, 401, "a key that is not published any more");
    let begun = Instant::now();
    for _ in 0..100 {
        assert_eq!(status(&bank, &old).await, 401);
    }
    assert_eq!((site.count(), begun.elapsed()), (2, Duration::ZERO), "nobody waits, and nobody is asked again so soon");
    advance(KEYS_FETCH_PAUSE).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(site.count(), 3, "it is asked when that may be, as the keys were wanted");
    tokio::time::sleep(KEYS_FETCH_EVERY).await;
    assert_eq!(site.count(), 4, "and time and again");
}

#[tokio::test(start_paused = true)]
async fn keys_of_an_issuer_that_is_away_are_known_for_a_day_and_come_back_with_it() {
    let key = Key::new("a", "ES256");
    let site = Site::of(&[key.published()]);
    let bank = bank(&site);
    let alice = key.token(&claims(&json!({})));
    assert_eq!(status(&bank, &alice).await, 200);
    *site.answers.lock() = None;
    tokio::time::sleep(KEYS_KEPT - Duration::from_secs(1)).await;
    assert_eq!(status(&bank, &alice).await, 200);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let refused = ask(&bank, "/Lamp/none", &alice).await;
    assert_eq!((refused.status.as_u16(), refused.headers.contains_key("retry-after")), (503, true), "{refused:?}");
    assert_eq!(ask(&bank, "/Lamp/none", "123456").await.status, 404, "tokens of the file are taken");
    site.publish(&[key.published()]);
    tokio::time::sleep(2 * KEYS_FETCH_PAUSE).await;
    assert_eq!(status(&bank, &alice).await, 200);
}

/// Whatever is wrong with what an issuer publishes, no token of it is taken.
#[tokio::test(start_paused = true)]
async fn an_issuer_that_is_another_one_or_has_no_keys_vouches_for_nobody() {
    let key = Key::new("a", "ES256");
    let alice = key.token(&claims(&json!({})));
    let description = |issuer: &str, keys: &str| json!({ "issuer": issuer, "jwks_uri": keys });
    let (right, keys) = (description(ISSUER, &format!("{ISSUER}/keys")), json!({ "keys": [key.published()] }));
    let unencrypted = format!("http{}/keys", ISSUER.strip_prefix("https").expect("it is"));
    for (what, description, keys, expected) in [
        ("right", right.clone(), keys.clone(), 200),
        ("another issuer", description("https://id.example.com/shop", &format!("{ISSUER}/keys")), keys.clone(), 503),
        ("one with a slash", description(&format!("{ISSUER}/"), &format!("{ISSUER}/keys")), keys.clone(), 503),
        ("unencrypted keys", description(ISSUER, &unencrypted), keys, 503),
        ("no description", json!([]), json!({}), 503),
        ("no keys", right.clone(), json!({ "keys": [] }), 503),
        ("a secret", right.clone(), json!({ "keys": [{ "kty": "oct", "kid": "a", "k": "AAAA" }] }), 503),
        ("too many", right.clone(), json!({ "keys": vec![key.published(); 101] }), 503),
        ("no list", right, json!({ "keys": "none" }), 503),
    ] {
        let site = Site::of(&[]);
        *site.answers.lock() = Some((description, keys));
        assert_eq!(status(&bank(&site), &alice).await, expected, "{what}");
    }
}

#[test]
fn the_address_of_an_issuer_cannot_be_part_of_an_id_of_the_file() {
    for (url, is_taken) in [
        (ISSUER, true),
        ("https://id.example.com", true),
        ("https://id.example.com:8443/realms/bank/", true),
        ("http://id.example.com", false),
        ("https://", false),
        ("https://id.example.com/#bank", false),
        ("https://id.example.com/?realm=bank", false),
        ("https://id.example.com/a b", false),
        ("id.example.com", false),
        ("", false),
        (&format!("https://{}", "a".repeat(SUBJECT_BYTES_MAX - 8)), true),
        (&format!("https://{}", "a".repeat(SUBJECT_BYTES_MAX - 7)), false),
    ] {
        let options =
            IssuerOptions { url: url.to_owned(), audience: "bank".to_owned(), roles_claim: "roles".to_owned() };
        assert_eq!(Issuer::new(options).is_ok(), is_taken, "{url}");
    }
}
