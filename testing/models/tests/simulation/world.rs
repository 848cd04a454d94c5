//! One run: a configuration, some transactions under faults, and then a time without any.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use enact_entities::{
    Action, Begin, Call, CoordinatorOptions, Decision, Durability, EntityKey, Idempotency, Limits, Millis, Participant,
    ParticipantOptions, Rebel, Reply, Said, Strategy, Timestamp, ToParticipant, TxId, Vote,
};
use enact_models::serial::{Committed, States, explanation};
use enact_models::{Act, Bank, COORDINATOR, Chance, Effect, Fate, Ledger, Node, NodeOptions, Packet};
use enact_rebel::EventCall;

/// More steps than it takes until all is settled.
const HEALING_STEPS_MAX: usize = 100_000;

/// What a client wants, once or several times.
struct Client {
    coordinator: EntityKey,
    calls: Vec<Call<EventCall>>,
    key: String,
    fingerprint: u8,
}

/// One run of a transaction for a client.
struct Begun {
    client: usize,
    /// Those that clients had been told of when it began.
    behind: BTreeSet<TxId>,
    replies: Vec<Reply>,
}

/// How often each kind of fault happens, in percent of the steps.
struct Weather {
    loss: usize,
    doubling: usize,
    crashes: usize,
    cuts: usize,
    refusals: usize,
    doubts: usize,
}

pub(crate) struct World<'b> {
    bank: &'b Bank,
    chance: Chance,
    weather: Weather,
    before: States<Rebel>,
    nodes: Vec<Node<Rebel>>,
    hosts: BTreeMap<EntityKey, usize>,
    /// Whether participants on the node of their coordinator share its journal.
    shares_journals: bool,
    net: Vec<(usize, Packet<EventCall>)>,
    /// From and to which node nothing arrives for the time being.
    cut: BTreeSet<(usize, usize)>,
    /// The nodes whose disks do nothing for the time being.
    slow: BTreeSet<usize>,
    clients: Vec<Client>,
    begun: BTreeMap<TxId, Begun>,
    /// The transactions whose decision is known to be durable, in this order.
    decided: Vec<TxId>,
    delayed: BTreeSet<(EntityKey, TxId)>,
    promised: BTreeSet<(EntityKey, TxId)>,
    snapshots: BTreeSet<usize>,
    marks: BTreeMap<&'static str, u64>,
}

fn key(class: &str, number: usize) -> EntityKey {
    EntityKey::new(class, &number.to_string()).expect("a key")
}

impl<'b> World<'b> {
    /// Plays one seed to its end, and says what it has reached.
    pub(crate) fn play(bank: &'b Bank, seed: u64) -> BTreeMap<&'static str, u64> {
        let mut world = Self::new(bank, seed);
        let (count, steps) = (3 + world.chance.below(6), 20 + world.chance.below(60));
        for number in 0..count {
            let client = world.client(number);
            world.clients.push(client);
            world.begin(number);
            for _ in 0..world.chance.below(steps) {
                world.step();
            }
        }
        for _ in 0..2 * steps {
            world.step();
        }
        world.heal();
        world.check();
        world.ask_again();
        world.marks
    }

    fn new(bank: &'b Bank, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let node_count = 2 + chance.below(3);
        let account_count = 3 + chance.below(4);
        let accounts: Vec<_> = (0..account_count).map(|number| key("Account", number)).collect();
        let coordinators = (0..node_count).map(|number| (key(COORDINATOR, number), number));
        let hosts = accounts.iter().map(|account| (account.clone(), chance.below(node_count)));
        let mut hosts: BTreeMap<_, _> = hosts.collect();
        hosts.extend(coordinators);
        let strategy = chance.pick(&[Strategy::Serializable, Strategy::Serializable, Strategy::Locking]);
        let mut participant = ParticipantOptions::new(strategy);
        let (open_max, overtakes_max) = (chance.pick(&[1, 2, 8]), chance.pick(&[0, 1, 16]));
        participant.limits = Limits { open_max, overtakes_max, outcomes_max: chance.pick(&[2, 16]), delayed_max: 4 };
        let coordinator = CoordinatorOptions::new(Durability::TwoPhase);
        let options = NodeOptions { participant, coordinator, is_side_by_side: chance.percent(50) };
        let shares_journals = chance.percent(50);
        let before = bank.opened(&accounts);
        let nodes = (0..node_count).map(|_| Node::new(bank.model(), options.clone(), &before));
        let nodes = nodes.collect();
        let mut often = |most: usize| if chance.percent(50) { chance.below(most + 1) } else { 0 };
        let weather = Weather {
            loss: often(20),
            doubling: often(10),
            crashes: often(4),
            cuts: often(4),
            refusals: often(10),
            doubts: often(6),
        };
        Self {
            bank,
            chance,
            weather,
            before,
            nodes,
            hosts,
            shares_journals,
            net: Vec::new(),
            cut: BTreeSet::new(),
            slow: BTreeSet::new(),
            clients: Vec::new(),
            begun: BTreeMap::new(),
            decided: Vec::new(),
            delayed: BTreeSet::new(),
            promised: BTreeSet::new(),
            snapshots: BTreeSet::new(),
            marks: BTreeMap::new(),
        }
    }

    fn mark(&mut self, mark: &'static str) {
        *self.marks.entry(mark).or_default() += 1;
    }

    /// A client that wants something of one to three accounts, the first ones more often than the others.
    fn client(&mut self, number: usize) -> Client {
        let account_count = self.before.len();
        let chance = &mut self.chance;
        let mut skewed = || chance.below(account_count).min(chance.below(account_count));
        let mut accounts = [skewed(), skewed(), skewed()].map(|number| key("Account", number)).to_vec();
        accounts.dedup();
        accounts.truncate(1 + self.chance.below(3));
        let mut calls = Vec::new();
        for (place, account) in accounts.iter().enumerate() {
            let amount = 10 + self.chance.below(80) as i64;
            let other = &accounts[(place + 1) % accounts.len()];
            let act = match self.chance.below(16) {
                5..10 => Act::Withdraw(amount),
                10 | 11 => Act::Interest(10),
                12 if other != account => Act::Share(10),
                13 => Act::Poor(2 * amount),
                14 => Act::Opened,
                15 if self.chance.percent(20) => Act::Close,
                _ => Act::Deposit(amount),
            };
            calls.push(self.bank.call(account, act, other));
        }
        let coordinator = key(COORDINATOR, self.chance.below(self.nodes.len()));
        Client { coordinator, calls, key: format!("request {number}"), fingerprint: number as u8 }
    }

    fn begin(&mut self, client: usize) -> TxId {
        let tx = TxId::from_u128(self.begun.len() as u128 + 1);
        let answers = self.begun.values().flat_map(|begun| begun.replies.iter().filter_map(answer));
        let behind = answers.filter(|(_, is_done)| *is_done).map(|(answered, _)| answered).collect();
        self.begun.insert(tx, Begun { client, behind, replies: Vec::new() });
        let Client { coordinator, calls, key, fingerprint } = &self.clients[client];
        let host = self.hosts[coordinator];
        let deadline = self.nodes[host].now() + Millis(50 + self.chance.below(3000) as u64);
        let idempotency = Some(Idempotency { key: key.clone(), principal: None, fingerprint: [*fingerprint; 32] });
        let begin = Begin { tx, calls: calls.clone(), at: Timestamp(0), deadline, idempotency };
        let effects = self.nodes[host].begin(&coordinator.clone(), begin);
        self.follow(host, effects);
        tx
    }

    fn step(&mut self) {
        let Weather { loss, doubling, crashes, cuts, refusals, doubts } = self.weather;
        let host = self.chance.below(self.nodes.len());
        match self.chance.below(100) {
            0..50 if !self.net.is_empty() => {
                let place = self.chance.below(self.net.len());
                if self.chance.percent(loss) {
                    self.net.remove(place);
                    return self.mark("a message was lost");
                }
                if self.chance.percent(doubling) {
                    self.net.push(self.net[place].clone());
                    self.mark("a message arrived twice");
                }
                self.deliver(place);
            }
            50..80 => self.write(host, refusals, doubts),
            80..86 => {
                let span = self.chance.below(150) as u64;
                for host in 0..self.nodes.len() {
                    self.pass(host, span);
                }
            }
            86 => {
                // The clocks of machines do not go alike.
                let span = self.chance.below(3000) as u64;
                self.pass(host, span);
            }
            87..90 => {
                self.nodes[host].snapshot();
                self.snapshots.insert(host);
            }
            90..94 if self.chance.percent(25 * cuts) => {
                let other = self.chance.below(self.nodes.len());
                self.cut.insert((host, other));
                self.mark("a link was cut");
            }
            90..94 => self.cut.clear(),
            94 => {
                let was_slow = self.slow.remove(&host);
                if !was_slow {
                    self.slow.insert(host);
                }
            }
            95..99 if self.chance.percent(25 * crashes) => {
                if self.chance.percent(10) {
                    (0..self.nodes.len()).for_each(|host| self.crash(host));
                    self.mark("all nodes crashed");
                } else {
                    self.crash(host);
                }
            }
            99 => {
                let client = self.chance.below(self.clients.len());
                self.begin(client);
            }
            _ => {}
        }
    }

    fn deliver(&mut self, place: usize) {
        let (from, mut packet) = self.net.remove(place);
        let host = self.hosts[packet.to()];
        if self.cut.contains(&(from, host)) {
            return self.mark("a message was lost");
        }
        if let Packet::Down(_, ToParticipant::Prepare(prepare)) = &mut packet
            && self.shares_journals
            && self.hosts[&prepare.coordinator] == host
        {
            prepare.durability = Durability::Shared;
            self.mark("a participant shared the journal of its coordinator");
        }
        let effects = self.nodes[host].deliver(packet);
        self.follow(host, effects);
        if self.nodes[host].participants().any(has_both_promises) {
            self.mark("promises of both kinds were open at one entity");
        }
    }

    fn write(&mut self, host: usize, refusals: usize, doubts: usize) {
        if self.nodes[host].appended_count() == 0 || self.slow.contains(&host) {
            return;
        }
        let fate = match self.chance.below(100) {
            n if n < refusals => Fate::Refused,
            n if n < refusals + doubts => Fate::InDoubt { is_performed: self.chance.percent(50) },
            _ => Fate::Durable,
        };
        let is_decision = self.nodes[host].pending().next().is_some_and(|(at, _)| at.class() == COORDINATOR);
        match (fate, is_decision) {
            (Fate::Durable, _) => {}
            (Fate::Refused, _) => self.mark("an append was refused"),
            (Fate::InDoubt { is_performed: true }, true) => self.mark("a decision was in doubt, and was made"),
            (Fate::InDoubt { is_performed: false }, true) => self.mark("a decision was in doubt, and was lost"),
            (Fate::InDoubt { .. }, false) => self.mark("a promise was in doubt"),
        }
        let effects = self.nodes[host].write(fate);
        self.follow(host, effects);
        if matches!(fate, Fate::InDoubt { .. }) {
            self.crash(host);
        }
    }

    fn pass(&mut self, host: usize, span: u64) {
        let now = self.nodes[host].now() + Millis(span);
        let effects = self.nodes[host].pass(now);
        self.follow(host, effects);
    }

    fn crash(&mut self, host: usize) {
        let appended = self.nodes[host].appended_count();
        let kept = self.chance.below(appended + 1);
        if kept > 0 {
            self.mark("a crash kept a part of what was appended");
        }
        if kept < appended {
            self.mark("a crash lost what was appended");
        }
        if self.shares_journals {
            // What machines of one process say to each other ends with it.
            let hosts = &self.hosts;
            self.net.retain(|(from, packet)| *from != host || hosts[packet.to()] != host);
        }
        let effects = self.nodes[host].crash(kept);
        if self.snapshots.contains(&host) {
            self.mark("a participant came back with a snapshot");
        }
        for effect in &effects {
            match effect {
                Effect::Sent(Packet::Up(up)) if matches!(up.said, Said::Ask(_)) => {
                    self.mark("a participant came back with a promise");
                }
                Effect::Sent(Packet::Down(_, ToParticipant::Decide(_))) => {
                    self.mark("a coordinator came back with a decision to tell");
                }
                _ => {}
            }
        }
        self.follow(host, effects);
    }

    /// Carries what a node has done to where it belongs.
    fn follow(&mut self, host: usize, effects: Vec<Effect<EventCall>>) {
        for effect in effects {
            match effect {
                Effect::Sent(packet) => {
                    self.note(&packet);
                    self.net.push((host, packet));
                }
                Effect::Told { tx, reply } => {
                    if let Reply::Answered { tx: answered, result: Ok(_), .. } = &reply {
                        assert!(self.is_decided(*answered), "{answered} is told done before its decision is durable");
                    }
                    if matches!(reply, Reply::TimedOut { .. }) {
                        self.mark("a deadline passed");
                    }
                    self.begun.get_mut(&tx).expect("it has begun").replies.push(reply);
                }
                Effect::ProtocolError(at, decide) => panic!("{at} is told {decide:?} against the protocol"),
                Effect::Applied(..) | Effect::Halted(_) => {}
            }
        }
        let accounts: Vec<_> = self.nodes[host].participants().map(|participant| participant.key().clone()).collect();
        for at in accounts {
            let delayed: Vec<_> = self.nodes[host].delayed(&at).collect();
            for tx in delayed {
                if self.delayed.insert((at.clone(), tx)) {
                    self.mark("a transaction was delayed");
                }
            }
        }
        let is_behind = self.nodes[host].participants().any(|at| at.admission().in_progress().any(|one| one.committed));
        if is_behind {
            self.mark("committed behind one that is open");
        }
    }

    fn note(&mut self, packet: &Packet<EventCall>) {
        match packet {
            Packet::Up(up) => match &up.said {
                Said::Vote(Vote::Yes { .. }) => {
                    self.promised.insert((up.from.clone(), up.tx));
                    if self.delayed.contains(&(up.from.clone(), up.tx)) {
                        self.mark("a yes came after a delay");
                    }
                }
                Said::Vote(Vote::OutOfOrder) => self.mark("asked out of order"),
                _ => {}
            },
            Packet::Down(to, ToParticipant::Decide(decide)) => {
                if decide.decision == Decision::Abort && self.promised.contains(&(to.clone(), decide.tx)) {
                    self.mark("a transaction was aborted after a promise");
                }
            }
            Packet::Down(..) => {}
        }
    }

    fn ledger(&self) -> Ledger<EventCall> {
        let mut ledger = Ledger::default();
        self.nodes.iter().for_each(|node| ledger.read(node.durable()));
        ledger
    }

    /// Whether the decision is durable; notes the order in which decisions are found to be.
    fn is_decided(&mut self, tx: TxId) -> bool {
        if !self.decided.contains(&tx) && self.ledger().decisions.contains_key(&tx) {
            self.decided.push(tx);
        }
        self.decided.contains(&tx)
    }

    /// Nothing goes wrong any more, until all is settled.
    fn heal(&mut self) {
        self.cut.clear();
        self.slow.clear();
        for _ in 0..HEALING_STEPS_MAX {
            if !self.net.is_empty() {
                self.deliver(0);
            } else if let Some(host) = self.nodes.iter().position(|node| node.appended_count() > 0) {
                self.write(host, 0, 0);
            } else if let Some(host) = self.nodes.iter().position(|node| !node.is_settled()) {
                assert!(self.nodes[host].halted().is_empty(), "a node that has stopped is started again");
                for host in 0..self.nodes.len() {
                    let next = self.nodes[host].next_deadline();
                    let span = next.map_or(0, |next| next.0.saturating_sub(self.nodes[host].now().0));
                    self.pass(host, span.min(10_000));
                }
            } else {
                return;
            }
        }
        panic!("it does not settle when nothing goes wrong any more");
    }

    fn states(&self) -> States<Rebel> {
        let mut states = self.before.clone();
        let participants = self.nodes.iter().flat_map(Node::participants);
        states.extend(participants.map(|at| (at.key().clone(), at.admission().base().clone())));
        states
    }

    fn check(&mut self) {
        let (ledger, states, model) = (self.ledger(), self.states(), self.bank.model());
        ledger.check(&*model, &self.before, &states).unwrap_or_else(|why| panic!("{why}"));
        for (tx, begun) in &self.begun {
            for reply in &begun.replies {
                let said = match reply {
                    Reply::Answered { tx: answered, result, .. } => (*answered, Some(result.is_ok())),
                    Reply::InDoubt | Reply::KeyInUse => (*tx, None),
                    _ => (*tx, Some(false)),
                };
                let is_true = said.1.is_none_or(|done| done == ledger.decisions.contains_key(&said.0));
                assert!(is_true, "{tx} was told {reply:?}");
            }
        }
        let mut of_clients: BTreeMap<usize, usize> = BTreeMap::new();
        for tx in ledger.decisions.keys() {
            let times = of_clients.entry(self.begun[tx].client).or_default();
            *times += 1;
            assert!(*times == 1, "the request of {tx} has happened twice");
            let calls = &self.clients[self.begun[tx].client].calls;
            let mut changing = calls.iter().filter(|call| matches!(call.action, Action::Event(_)));
            let is_whole = changing.all(|call| ledger.decisions[tx].contains_key(&call.key));
            assert!(is_whole, "{tx} has happened in part: {:?}", ledger.decisions[tx]);
        }
        // Mostly they are explained in the order in which they were decided.
        let order = self.decided.clone();
        let rest = ledger.decisions.keys().copied().filter(|tx| !order.contains(tx));
        let order: Vec<TxId> = order.iter().copied().chain(rest).collect();
        let committed: Vec<_> = order.iter().map(|tx| self.committed(*tx, &order)).collect();
        let serial = explanation(&*model, &self.before, &committed, &states);
        assert!(serial.is_some(), "no serial order of {order:?} explains {states:?}");
        let (done, refused) = (order.len() as u64, self.refused());
        for (mark, count) in [("a transaction committed", done), ("a transaction was refused", refused)] {
            if count > 0 {
                *self.marks.entry(mark).or_default() += count;
            }
        }
    }

    fn committed(&self, tx: TxId, order: &[TxId]) -> Committed<'_, EventCall> {
        let Begun { client, behind, .. } = &self.begun[&tx];
        let places = order.iter().enumerate().filter(|(_, other)| behind.contains(other));
        Committed { calls: &self.clients[*client].calls, behind: places.map(|(place, _)| place).collect() }
    }

    fn refused(&self) -> u64 {
        let is_refused = |begun: &&Begun| begun.replies.iter().filter_map(answer).any(|(_, is_done)| !is_done);
        self.begun.values().filter(is_refused).count() as u64
    }

    /// Every client asks once more, also after a crash of its coordinator, and hears what it has heard before.
    fn ask_again(&mut self) {
        if self.chance.percent(50) {
            (0..self.nodes.len()).for_each(|host| self.crash(host));
            self.heal();
        }
        for client in 0..self.clients.len() {
            let earlier = self.begun.values().filter(|begun| begun.client == client).flat_map(|begun| &begun.replies);
            let answers: Vec<_> = earlier.filter_map(answer).collect();
            let is_done = self.ledger().decisions.keys().any(|tx| self.begun[tx].client == client);
            let tx = self.begin(client);
            self.heal();
            let told = self.begun[&tx].replies.iter().find_map(answer);
            for answered in &answers {
                assert_eq!(Some(answered), told.as_ref(), "the client of {tx} hears something else than before");
            }
            let ran_anew = told.as_ref().is_some_and(|(answered, _)| *answered == tx);
            assert!(!(is_done && ran_anew), "the request of {tx} has happened before");
            self.mark(if ran_anew {
                "a client asked again, and it ran anew"
            } else {
                "a client asked again, and was told the same"
            });
        }
    }
}

fn has_both_promises(at: &Participant<Rebel>) -> bool {
    let open = at.snapshot().pending.into_iter().filter(|pending| !pending.committed);
    open.map(|pending| pending.prepared.durability).collect::<HashSet<_>>().len() == 2
}

/// The transaction that a reply says was answered, and whether it is done.
fn answer(reply: &Reply) -> Option<(TxId, bool)> {
    match reply {
        Reply::Answered { tx, result, .. } => Some((*tx, result.is_ok())),
        _ => None,
    }
}
