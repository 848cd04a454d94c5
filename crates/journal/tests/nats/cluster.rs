//! The journal over three servers, of which each may be killed or frozen.

use enact_journal::nats::{Nats, Options};
use enact_journal::{Journal, Position};
use enact_journal_kit::contract::{block_on, cases, reigns};
use enact_journal_kit::link::Flow;
use enact_journal_kit::nats::{Server, program};
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Builder;

use crate::failures::{append_under_way, assert_whole};
use crate::records::record;
use crate::support::{OverNats, Processes, Raw};

pub(crate) struct Three {
    pub(crate) servers: [Server; 3],
    _directory: TempDir,
}

impl Three {
    pub(crate) fn start() -> Option<Self> {
        let (program, directory) = (program()?, tempfile::tempdir().expect("a directory"));
        let servers = Server::start_three(&program, directory.path());
        Some(Self { servers, _directory: directory })
    }

    fn options(&self) -> Options {
        let addresses: Vec<String> = self.servers.iter().map(Server::address).collect();
        Options { replicas: 3, ..Options::at(addresses.join(",")) }
    }

    /// Which server leads `stream`.
    pub(crate) fn leader(&self, stream: &str) -> usize {
        leader(&self.servers[0], stream)
    }
}

/// Which server of three leads `stream`, as one of them says.
fn leader(server: &Server, stream: &str) -> usize {
    let info = Raw::at(&server.address()).ask(&format!("STREAM.INFO.{stream}"), &json!({}));
    let name = info["cluster"]["leader"].as_str().expect("it has a leader");
    name.trim_start_matches('n').parse().expect("a server of these")
}

macro_rules! keep {
    ($three:expr; $($cases:ident :: $case:ident)*) => {{
        let mut shard = 0;
        $(
            shard += 1;
            let options = Options { shard, ..$three.options() };
            block_on($cases::$case(OverNats { options, processes: Processes::default(), _servers: () }));
        )*
    }};
}

#[test]
fn the_contract_is_kept_by_three_servers() {
    let Some(three) = Three::start() else { return };
    keep!(three;
        cases::new_journal_is_empty
        cases::records_are_read_back_as_written
        cases::positions_are_dense_and_the_feed_follows_the_calls
        cases::feed_is_read_in_pages
        cases::batch_is_refused_as_a_whole
        cases::records_of_one_entity_in_a_batch_follow_each_other
        cases::empty_batch_is_a_barrier
        cases::appends_take_effect_in_the_order_of_the_calls
        cases::refused_append_does_not_disturb_those_behind
        cases::batch_size_limit_is_inclusive
        cases::batch_record_limit_is_inclusive
        cases::an_entity_is_loaded_from_its_newest_snapshot_on
        cases::an_append_whose_answer_is_lost_is_there_once
        cases::reads_show_whole_batches_only
        cases::newest_snapshot_is_kept
        cases::close_flushes_then_refuses
        cases::durable_appends_survive_a_crash
        cases::crash_keeps_a_prefix_of_whole_batches
        cases::snapshot_after_a_crash_is_whole_or_gone
        reigns::an_earlier_writer_is_refused_everything
        reigns::a_take_over_succeeds_under_load
        reigns::a_new_writer_sees_all_of_the_reigns_before
    );
}

/// Each is killed while 64 appends are under way, so the leader of the stream is among them, and a new writer takes over in between.
#[test]
fn nothing_acknowledged_is_lost_or_doubled_when_servers_of_three_are_killed_under_load() {
    let Some(mut three) = Three::start() else { return };
    let options = three.options();
    let mut processes = Processes::default();
    let mut durable = 0;
    for victim in 0..3 {
        let journal = block_on(processes.open(options.clone())).expect("it opens");
        append_under_way(&journal, durable, 1000, |count| {
            if count % 1000 == 300 {
                three.servers[victim].kill();
            } else if count % 1000 == 600 {
                three.servers[victim].restart();
            }
        });
        durable += 1000;
        assert_whole(&journal, durable);
        drop(journal);
    }
    let journal = block_on(processes.open(options)).expect("it opens");
    assert_whole(&journal, durable);
    block_on(journal.close()).expect("closed");
}

/// A server that is cut off from the others answers its clients' pings. Some of the journals are connected to it. It leads none of their
/// streams: what it does not tell the others about would be in doubt, until the journal is opened again.
#[test]
fn appends_go_on_when_a_server_is_cut_off_from_the_others_and_not_from_its_clients() {
    let Some(program) = program() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let (servers, routes) = Server::start_three_linked(&program, directory.path());
    let addresses = servers.iter().map(Server::address).collect::<Vec<_>>().join(",");
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let options = |shard| Options { shard, replicas: 3, ..Options::at(addresses.as_str()) };
    let journals = (0..12).map(|shard| (shard, runtime.block_on(Nats::open(options(shard))).expect("it opens")));
    let journals: Vec<_> = journals.filter(|(shard, _)| leader(&servers[0], &format!("J{shard}")) != 0).collect();
    routes.set(0, Flow::Lost, Flow::Lost);
    let appends: Vec<_> = journals.iter().map(|(_, journal)| journal.append(vec![record(1, 0, b"0")])).collect();
    for append in appends {
        assert_eq!(block_on(append), Ok(Position(1)));
    }
}
