//! What happens by itself and what tools see: timeouts, expiry, restarts, lists.

use pelton_machine::transaction::{Command, ListTransactions, Reply, Token};
use pelton_model::ErrorCode;

use crate::harness::Bench;

const HOUR_MS: u64 = 3_600_000;
const WEEK_MS: u64 = 7 * 24 * HOUR_MS;

// Goal: a transaction past its timeout is aborted with an epoch that fences its producer, and the producer learns so from its next
// request. Method: both flows, looked at every ten seconds.
#[test]
fn timeouts_abort() {
    for version in [0, 2] {
        let mut bench = Bench::new(version);
        let owner = bench.init_with("x", 30_000, None).unwrap();
        assert_eq!(bench.add("x", owner, 0), ErrorCode::None);
        bench.pass(30_000);
        assert_eq!(
            bench.state("x"),
            "Ongoing",
            "exactly the timeout is in time"
        );
        bench.pass(10_000);
        assert_eq!(bench.state("x"), "PrepareAbort");
        bench.write_markers();
        assert_eq!(bench.state("x"), "CompleteAbort");
        let expected = match version {
            // It could be a retry of the end before, and then a commit of what was aborted.
            2 => ErrorCode::InvalidTxnState,
            _ => ErrorCode::ProducerFenced,
        };
        assert_eq!(bench.end("x", owner, true), Err(expected));
        assert_eq!(bench.add("x", owner, 0), ErrorCode::ProducerFenced);
        assert_eq!(bench.init("x"), Ok((owner.0, 2)));
        bench.check_replay();
    }
}

// Goal: a timeout that was under way survives a restart, whichever flow. Method: restart between the beginning and the timeout.
#[test]
fn timeouts_survive_restarts() {
    for version in [0, 2] {
        let mut bench = Bench::new(version);
        let owner = bench.init_with("x", 30_000, None).unwrap();
        assert_eq!(bench.add("x", owner, 0), ErrorCode::None);
        bench.pass(25_000);
        bench.restart();
        bench.pass(10_000);
        assert_eq!(bench.state("x"), "PrepareAbort", "version {version}");
    }
}

// Goal: many timeouts at once are spread over rounds, and none is forgotten. Method: ten thousand open transactions.
#[test]
fn ten_thousand_time_out() {
    let mut bench = Bench::new(2);
    for n in 0..10_000 {
        let id = format!("x{n}");
        let owner = bench.init_with(&id, 1_000, None).unwrap();
        assert_eq!(bench.add(&id, owner, n), ErrorCode::None);
    }
    assert_eq!(bench.shard.gauges().open, 10_000);
    bench.pass(10_000);
    let first = bench.markers.len();
    assert!(first < 10_000, "one round does a part: {first}");
    bench.pass(1_000);
    assert_eq!(bench.markers.len(), 10_000);
    bench.write_markers();
    let gauges = bench.shard.gauges();
    assert_eq!((gauges.ids, gauges.open, gauges.ending), (10_000, 0, 0));
    bench.check_replay();
}

// Goal: ids that nobody uses are forgotten after a week, those with a transaction under way never. Method: one of each kind.
#[test]
fn idle_ids_expire() {
    let mut bench = Bench::new(2);
    let idle = bench.init("idle").unwrap();
    let open = bench.init_with("open", 900_000, None).unwrap();
    assert_eq!(bench.add("open", open, 0), ErrorCode::None);
    bench.pass(WEEK_MS - HOUR_MS);
    // The open one was aborted; its markers are not written.
    assert_eq!(bench.state("open"), "PrepareAbort");
    let used = bench.init("used").unwrap();
    assert_eq!(bench.state("idle"), "Empty");
    bench.pass(2 * HOUR_MS);
    let not_found = ErrorCode::TransactionalIdNotFound;
    assert_eq!(bench.describe("idle"), Err(not_found));
    assert_eq!(bench.state("used"), "Empty");
    assert_eq!(bench.state("open"), "PrepareAbort");
    let mapping = ErrorCode::InvalidProducerIdMapping;
    assert_eq!(bench.add("idle", idle, 0), mapping);
    assert_eq!(bench.add("used", used, 0), ErrorCode::None);
    bench.check_replay();
    bench.restart();
    assert_eq!(bench.describe("idle"), Err(not_found));
    let reused = bench.init("idle").unwrap();
    assert_ne!(reused.0, idle.0, "a forgotten id gets another producer id");
}

// Goal: whatever was decided is carried out after a crash, and nothing else. Method: a crash after each record of a whole life.
#[test]
fn every_record_is_a_place_to_die() {
    for (version, commit) in [(0, true), (0, false), (2, true), (2, false)] {
        let mut bench = Bench::new(version);
        let owner = bench.init("x").unwrap();
        assert_eq!(bench.add("x", owner, 0), ErrorCode::None);
        assert_eq!(bench.add("x", owner, 1), ErrorCode::None);
        bench.end("x", owner, commit).unwrap();
        let whole = bench.log.clone();
        assert_eq!(whole.len(), 5, "empty, two adds, prepared, complete");
        for died_at in 1..=whole.len() {
            bench.log.clone_from(&whole);
            bench.restart_at(died_at);
            let ended = if commit {
                "CompleteCommit"
            } else {
                "CompleteAbort"
            };
            match died_at {
                1 => assert_eq!(bench.state("x"), "Empty"),
                2 | 3 => {
                    assert_eq!(bench.state("x"), "Ongoing");
                    bench.pass(71_000);
                    assert_eq!(bench.markers.len(), 1, "its timeout aborts it");
                    assert!(!bench.markers[0].commit);
                }
                4 => {
                    let [markers] = &bench.markers[..] else {
                        panic!("{:?}", bench.markers);
                    };
                    assert_eq!(markers.commit, commit);
                    assert_eq!(markers.partitions, [("t".into(), vec![0, 1])]);
                    let token = bench.send_end("x", owner, commit);
                    let later = Err(ErrorCode::ConcurrentTransactions);
                    assert_eq!(bench.ended(token), Some(later));
                    bench.write_markers();
                    assert_eq!(bench.state("x"), ended);
                    assert!(bench.end("x", owner, commit).is_ok(), "the retry is told");
                }
                _ => {
                    assert_eq!(bench.markers, []);
                    assert_eq!(bench.state("x"), ended);
                    assert!(bench.end("x", owner, commit).is_ok(), "the retry is told");
                }
            }
            bench.check_replay();
        }
    }
}

// Goal: whoever waits when the coordinator is given up is sent to look for it. Method: an end whose markers are under way.
#[test]
fn giving_up_answers_who_waits() {
    let mut bench = Bench::new(2);
    let owner = bench.init("x").unwrap();
    assert_eq!(bench.add("x", owner, 0), ErrorCode::None);
    let token = bench.send_end("x", owner, true);
    let shard = std::mem::replace(&mut bench.shard, Bench::new(2).shard);
    let replies: Vec<(Token, Reply)> = shard.resign();
    let refused = Reply::EndTxn(Err(ErrorCode::NotCoordinator));
    assert_eq!(replies, [(token, refused)]);
}

// Goal: lists show what passes every filter. Method: three ids, filters one by one.
#[test]
fn lists_filter() {
    fn check(bench: &mut Bench, filter: ListTransactions, expected: &[&str]) {
        let token = bench.send(Command::List(filter.clone()));
        let Some(Reply::List(Ok(listed))) = bench.answer(token) else {
            panic!("{filter:?}");
        };
        let ids: Vec<&str> = listed
            .iter()
            .map(|one| one.transactional_id.as_str())
            .collect();
        assert_eq!(ids, expected, "{filter:?}");
    }
    let all = ListTransactions {
        longer_than_ms: -1,
        ..ListTransactions::default()
    };
    let mut bench = Bench::new(2);
    let old = bench.init("old").unwrap();
    assert_eq!(bench.add("old", old, 0), ErrorCode::None);
    bench.pass(5_000);
    let new = bench.init("new").unwrap();
    assert_eq!(bench.add("new", new, 0), ErrorCode::None);
    bench.init("empty").unwrap();
    check(&mut bench, all.clone(), &["empty", "new", "old"]);
    let ongoing = ListTransactions {
        states: vec!["Ongoing".into()],
        ..all.clone()
    };
    check(&mut bench, ongoing.clone(), &["new", "old"]);
    let unknown = ListTransactions {
        states: vec!["ongoing".into()],
        ..all
    };
    check(&mut bench, unknown, &[]);
    let lasting = ListTransactions {
        longer_than_ms: 4_999,
        ..ongoing
    };
    check(&mut bench, lasting, &["old"]);
}
