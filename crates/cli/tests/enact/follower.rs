//! A database that follows the changes of a server, and is killed as often as that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tokio::sync::watch;

/// What the database has: each change, and with it how far it is.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    cursor: Option<String>,
    changes: Vec<Value>,
}

/// A follower that runs until it is [caught up](Follower::caught_up).
pub(crate) struct Follower {
    http: reqwest::Client,
    kept: Arc<Mutex<Kept>>,
    following: tokio::task::JoinHandle<()>,
}

impl Follower {
    /// Follows whatever server runs; it cuts itself off at random.
    pub(crate) fn of(http: &reqwest::Client, servers: watch::Receiver<Option<String>>, seed: u64) -> Self {
        let kept = Arc::<Mutex<Kept>>::default();
        let following = tokio::spawn(follow(http.clone(), servers, Arc::clone(&kept), StdRng::seed_from_u64(seed)));
        Self { http: http.clone(), kept, following }
    }

    /// All changes, when the server at `base` has no more of them.
    pub(crate) async fn caught_up(self, base: &str) -> Vec<Value> {
        loop {
            let after = self.kept.lock().expect("no panic").cursor.clone().unwrap_or_else(|| "0.0.0".to_owned());
            let page = self.http.get(format!("{base}/-/changes?after={after}&limit=1")).send().await.expect("serving");
            let page: Value = page.json().await.expect("JSON");
            if page["changes"].as_array().is_some_and(Vec::is_empty)
                && self.kept.lock().expect("no panic").cursor.as_ref() == Some(&after)
            {
                break;
            }
            tokio::task::yield_now().await;
        }
        self.following.abort();
        std::mem::take(&mut *self.kept.lock().expect("no panic")).changes
    }
}

async fn follow(
    http: reqwest::Client,
    mut servers: watch::Receiver<Option<String>>,
    kept: Arc<Mutex<Kept>>,
    mut random: StdRng,
) {
    loop {
        let base = servers.wait_for(Option::is_some).await.expect("the test runs").clone().expect("checked");
        let cursor = kept.lock().expect("no panic").cursor.clone();
        let request = http.get(format!("{base}/-/changes")).header("accept", "text/event-stream");
        let request = cursor.into_iter().fold(request, |request, cursor| request.header("last-event-id", cursor));
        // The server may be gone by now.
        let Ok(mut response) = request.send().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let (mut read, mut lasts) = (String::new(), random.random_range(1..200_usize));
        'connected: while let Ok(Some(some)) = response.chunk().await {
            read += std::str::from_utf8(&some).expect("ASCII");
            while let Some((event, rest)) = read.split_once("\n\n") {
                keep(&kept, event);
                read = rest.to_owned();
                lasts -= 1;
                if lasts == 0 {
                    break 'connected;
                }
            }
        }
    }
}

/// Keeps a change together with its cursor, as one transaction of a database.
fn keep(kept: &Mutex<Kept>, event: &str) {
    let field = |name: &str| {
        let mut fields = event.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| *field == name).map(|(_, value)| value)
    };
    let mut kept = kept.lock().expect("no panic");
    if let Some(data) = field("data") {
        kept.changes.push(serde_json::from_str(data).expect("JSON"));
    }
    if let Some(id) = field("id") {
        kept.cursor = Some(id.to_owned());
    }
}

/// Checks that each object has its changes once, in the order of their effects: no number comes twice or behind a larger one.
pub(crate) fn check_order(changes: &[Value]) {
    let mut last: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for change in changes {
        let object = (change["class"].as_str().expect("a text"), change["id"].as_str().expect("a text"));
        let slot = change["slot"].as_u64().expect("a number");
        assert!(last.insert(object, slot).is_none_or(|earlier| earlier < slot), "{object:?} at {slot}");
    }
}
