//! Which entities have something from before this reign, so that nothing is asked for one that is new.
//!
//! # How it is known
//! A server lists the subjects of a stream with how many messages each has, page by page. It may be behind, or not know yet that
//! it leads no more, and pages are not of one moment. So a list counts only if it has every message up to this reign's own owner
//! record: the numbers of all subjects add up to the epoch. What this reign has appended since is left out of them, as an entity is
//! appended to only when it is known where it ended before. What a later reign has appended is not among them, because all pages
//! are by one server, to which messages are only added, and the last page, which has the owner records, has none of a later one.
//!
//! Entities with a snapshot are on the list as well, also those without a record: they have lost theirs, which is damage. Here
//! nothing proves that none is missing; one that is makes damage look like an entity that is new.
//!
//! # What it takes
//! Eight bytes an entity. Until the list is there each entity is asked for, so opening does not wait for it. While a server makes a
//! page it takes no messages, the longer the more subjects the stream has, so a stream with too many is not listed.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, Message};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::direct::Unanswered;
use super::reign::Reign;
use super::wire::Names;
use crate::remote::Fingerprints;

/// How long a server may take for a page.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// The most subjects of a stream that is listed.
const LISTED_MAX: usize = 300_000;
/// How long after a list of no use the next is asked for; doubled each time.
const PAUSE: Duration = Duration::from_millis(50);

/// Lists the entities for `reign`, however often it takes.
pub(super) async fn find_out(client: Client, names: Names, reign: Arc<Reign>) {
    let mut pause = PAUSE;
    loop {
        match list(&client, &names, &reign).await {
            Ok(Some(earlier)) => {
                tracing::debug!(entities = earlier.len(), "nothing is asked for new entities from now on");
                return reign.know(earlier);
            }
            Ok(None) => {
                let stream = names.stream();
                return tracing::info!(stream, "there are too many entities to list them; each is asked for");
            }
            Err(cause) => tracing::debug!(%cause, "it is not known which entities there are; asking again"),
        }
        sleep(pause).await;
        pause *= 2;
    }
}

/// The subjects of entities that may have records or a snapshot, unless there are too many.
async fn list(client: &Client, names: &Names, reign: &Arc<Reign>) -> Result<Option<Fingerprints>, Unanswered> {
    for stream in [names.stream(), names.snapshots()] {
        let page = Page::decode(&ask(client, &stream, &json!({})).await?.payload)?;
        if page.state.num_subjects > LISTED_MAX {
            return Ok(None);
        }
    }
    let listing = Listing::new(names.clone(), Arc::clone(reign));
    let mut listing = read(client, &names.stream(), &names.all(), listing, Listing::take_records).await?;
    listing.check()?;
    let listing = read(client, &names.snapshots(), &names.all_snapshots(), listing, Listing::take_snapshots).await?;
    spawn_blocking(|| Some(listing.into_earlier())).await.map_err(Unanswered::because)
}

/// What a server says of a stream.
async fn ask(client: &Client, stream: &str, question: &Value) -> Result<Message, Unanswered> {
    let asked = client.request(format!("$JS.API.STREAM.INFO.{stream}"), question.to_string().into());
    timeout(ANSWER_MAX, asked).await.map_err(Unanswered::late(ANSWER_MAX))?.map_err(Unanswered::because)
}

/// Has `listing` take all pages of the subjects of a stream that match `filter`.
async fn read(
    client: &Client,
    stream: &str,
    filter: &str,
    mut listing: Listing,
    take: fn(&mut Listing, Page) -> Result<(), Unanswered>,
) -> Result<Listing, Unanswered> {
    let mut taken = 0;
    loop {
        let answer = ask(client, stream, &json!({ "subjects_filter": filter, "offset": taken })).await?;
        let taking = spawn_blocking(move || {
            let page = Page::decode(&answer.payload)?;
            let (count, total) = (page.state.subjects.len(), page.total);
            take(&mut listing, page).map(|()| (listing, count, total))
        });
        let (taken_by, count, total) = taking.await.map_err(Unanswered::because)??;
        (listing, taken) = (taken_by, taken + count);
        if taken >= total {
            return Ok(listing);
        }
        if count == 0 {
            return Err(Unanswered::because(format!("{taken} of {total} subjects are on all pages")));
        }
    }
}

/// What a server says of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Page {
    error: Option<Value>,
    cluster: Cluster,
    state: State,
    /// How many subjects there are on all pages.
    total: usize,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cluster {
    /// The server that answers; empty if it is alone.
    leader: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct State {
    num_subjects: usize,
    /// How many messages each has.
    subjects: HashMap<String, u64>,
}

impl Page {
    fn decode(answer: &[u8]) -> Result<Self, Unanswered> {
        let mut page: Self = serde_json::from_slice(answer).map_err(Unanswered::because)?;
        page.error.take().map_or(Ok(page), |error| Err(Unanswered::because(error)))
    }
}

/// A list that is being read.
struct Listing {
    names: Names,
    reign: Arc<Reign>,
    hashing: RandomState,
    /// The server whose pages they are.
    leader: Option<String>,
    /// Fingerprints of subjects, with how many messages up to the epoch each has; those on two pages are there twice.
    counts: Vec<(u64, u64)>,
    /// How many owner records there are.
    owners: u64,
}

impl Listing {
    fn new(names: Names, reign: Arc<Reign>) -> Self {
        Self { names, reign, hashing: RandomState::new(), leader: None, counts: Vec::new(), owners: 0 }
    }

    fn take_records(&mut self, page: Page) -> Result<(), Unanswered> {
        let leader = page.cluster.leader;
        if self.leader.get_or_insert_with(|| leader.clone()) != &leader {
            return Err(Unanswered::because("the pages are by several servers"));
        }
        let owner = self.names.owner();
        for (subject, count) in page.state.subjects {
            if subject == owner {
                self.owners = count;
            }
            let before = self.names.entity_of(&subject).and_then(|entity| self.reign.records_before(&entity));
            self.counts.push((self.hashing.hash_one(&subject), before.map_or(count, |before| count.min(before))));
        }
        Ok(())
    }

    /// Whether all is on the list that the stream has up to the epoch.
    fn check(&mut self) -> Result<(), Unanswered> {
        self.counts.sort_unstable();
        self.counts.dedup_by_key(|(fingerprint, _)| *fingerprint);
        let count: u64 = self.counts.iter().map(|(_, count)| count).sum();
        let (epoch, owners) = (self.reign.epoch, self.reign.owners());
        if (count, self.owners) == (epoch, owners) {
            return Ok(());
        }
        let found = self.owners;
        Err(Unanswered::because(format!(
            "{count} of {epoch} messages are listed, and {found} of {owners} owner records"
        )))
    }

    fn take_snapshots(&mut self, page: Page) -> Result<(), Unanswered> {
        let subjects = page.state.subjects.into_keys().filter_map(|subject| self.names.snapshotted(&subject));
        self.counts.extend(subjects.map(|subject| (self.hashing.hash_one(&subject), 0)));
        Ok(())
    }

    fn into_earlier(self) -> Fingerprints {
        Fingerprints::of(self.hashing, self.counts.into_iter().map(|(fingerprint, _)| fingerprint).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::record::{EntityKey, Seq};
    use crate::remote::Place;

    /// What a message of a small stream is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Sent {
        Record(u8),
        Owner,
        /// Of nobody knows whom.
        Stray,
    }

    fn entity(number: u8) -> EntityKey {
        EntityKey::new("A", &number.to_string()).expect("a valid id")
    }

    fn subject(sent: Sent) -> String {
        let names = Names::of(0);
        match sent {
            Sent::Record(number) => names.entity(&entity(number)),
            Sent::Owner => names.owner(),
            Sent::Stray => "j.0.a".to_owned(),
        }
    }

    fn sent() -> impl Strategy<Value = Sent> {
        prop_oneof![6 => (0..6_u8).prop_map(Sent::Record), 1 => Just(Sent::Owner), 1 => Just(Sent::Stray)]
    }

    /// A page as a server has it that is at `end`.
    fn page(stream: &[Sent], (server, end): (usize, usize), offset: usize, length: usize) -> Page {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for &sent in &stream[..end] {
            *counts.entry(subject(sent)).or_default() += 1;
        }
        let total = counts.len();
        let subjects = counts.into_iter().skip(offset).take(length).collect();
        Page {
            error: None,
            cluster: Cluster { leader: format!("n{server}") },
            state: State { num_subjects: total, subjects },
            total,
        }
    }

    #[derive(Clone, Debug)]
    struct Scenario {
        /// What was there before the reign, what it has appended, and what a later reign has, if there is one.
        before: Vec<Sent>,
        own: Vec<u8>,
        later: Option<Vec<u8>>,
        /// Who answers, and how much further it is than with the answer before.
        answers: Vec<(usize, usize)>,
        /// How far the two servers are at first.
        first: [usize; 2],
        page: usize,
    }

    fn scenario() -> impl Strategy<Value = Scenario> {
        let records = |most: usize| prop::collection::vec(0..6_u8, 0..most);
        let server = prop_oneof![9 => Just(0), 1 => Just(1_usize)];
        let answers = prop::collection::vec((server, prop_oneof![Just(0), 0..6_usize]), 24);
        (
            prop::collection::vec(sent(), 0..12),
            records(6),
            prop::option::of(records(4)),
            answers,
            any::<[u8; 2]>(),
            1..4_usize,
        )
            .prop_map(|(before, own, later, answers, first, page)| {
                let first = first.map(|first| usize::from(first) % (before.len() + 4));
                Scenario { before, own, later, answers, first, page }
            })
    }

    impl Scenario {
        /// The list that comes of it, and whether each answer was by a server that has what it has to.
        fn play(&self) -> (Result<Fingerprints, Unanswered>, bool) {
            let (epoch, ours) = (self.before.len() + 1, self.before.len() + 1 + self.own.len());
            let mut stream = self.before.clone();
            stream.push(Sent::Owner);
            stream.extend(self.own.iter().map(|&number| Sent::Record(number)));
            if let Some(later) = &self.later {
                stream.push(Sent::Owner);
                stream.extend(later.iter().map(|&number| Sent::Record(number)));
            }
            let owners = (1..=epoch as u64).filter(|&at| stream[at as usize - 1] == Sent::Owner).collect();
            let reign = Arc::new(Reign::of(Names::of(0), owners));
            let mut listing = Listing::new(Names::of(0), Arc::clone(&reign));
            let (mut ends, mut taken, mut is_sound) = (self.first, 0, true);
            for &(server, further) in &self.answers {
                let end = (ends[server] + further).min(stream.len());
                ends[server] = end;
                is_sound &= server == self.answers[0].0 && (epoch..=ours).contains(&end);
                // Whatever the reign has appended it had looked for.
                for &number in &self.own[..end.clamp(epoch, ours) - epoch] {
                    let earlier = self.before.iter().filter(|&&sent| sent == Sent::Record(number)).count() as u64;
                    reign.learn(&entity(number), Place { seq: Seq(earlier), sequence: earlier });
                }
                let page = page(&stream, (server, end), taken, self.page);
                let (count, total) = (page.state.subjects.len(), page.total);
                taken += count;
                if let Err(cause) = listing.take_records(page) {
                    return (Err(cause), is_sound);
                }
                if taken >= total {
                    break;
                }
            }
            (listing.check().map(|()| listing.into_earlier()), is_sound)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

        /// Servers are behind, change while pages are read, and have what this reign and a later one append meanwhile.
        #[test]
        fn no_list_is_believed_that_lacks_an_entity(scenario in scenario()) {
            let (listed, is_sound) = scenario.play();
            let has = |number| scenario.before.contains(&Sent::Record(number));
            match listed {
                Ok(earlier) => for number in 0..6 {
                    let may_have = earlier.may_have(&subject(Sent::Record(number)));
                    prop_assert!(may_have || !has(number), "{number} is lacking");
                    prop_assert!(!may_have || has(number) || scenario.own.contains(&number), "{number} is not there");
                },
                Err(cause) => prop_assert!(!is_sound, "{cause}"),
            }
        }
    }

    #[test]
    fn a_page_is_read_as_a_server_writes_it() {
        let alone = br#"{"type":"io.nats.jetstream.api.v1.stream_info_response","total":2,"offset":0,"limit":100000,
            "config":{"name":"J0"},"state":{"messages":3,"last_seq":3,"subjects":{"j.0.e.A.1":2,"j.0.o":1}}}"#;
        let page = Page::decode(alone).expect("a page");
        assert_eq!((page.total, page.state.subjects["j.0.e.A.1"], &*page.cluster.leader), (2, 2, ""));
        let empty = br#"{"total":0,"cluster":{"name":"test","leader":"n1"},"state":{"messages":0}}"#;
        let page = Page::decode(empty).expect("a page");
        assert_eq!((page.total, page.state.subjects.len(), &*page.cluster.leader), (0, 0, "n1"));
        let refused = br#"{"error":{"code":503,"err_code":10008,"description":"unavailable"}}"#;
        assert!(Page::decode(refused).is_err());
        let unlisted = br#"{"state":{"messages":9,"num_subjects":7}}"#;
        assert_eq!(Page::decode(unlisted).expect("a page").state.num_subjects, 7);
    }
}
